package group

import (
	"encoding/binary"

	"godwit/internal/base"
	"godwit/internal/varint"
)

func (c *SaveConsumers) appendTo(dst []byte) []byte {
	dst = c.Head.appendTo(appendKey(append(dst, kindSaveConsumers), c.Key))
	dst = binary.AppendUvarint(dst, uint64(len(c.Members)))
	for i := range c.Members {
		dst = c.Members[i].appendTo(varint.AppendText(dst, c.Members[i].MemberID))
	}
	return varint.AppendTexts(dst, c.Removed)
}

func (c *DropConsumers) appendTo(dst []byte) []byte {
	return appendKey(append(dst, kindDropConsumers), c.Key)
}

func (h *ConsumerHead) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(h.Epoch))
	dst = binary.AppendVarint(dst, int64(h.AssignmentEpoch))
	dst = binary.AppendVarint(dst, h.AssignedAt)
	return binary.AppendUvarint(dst, h.Hash)
}

// appendTo writes all but the member's ID.
func (m *Consumer) appendTo(dst []byte) []byte {
	for _, s := range []string{m.InstanceID, m.Rack, m.ClientID, m.ClientHost, m.Regex, m.Assignor} {
		dst = varint.AppendText(dst, s)
	}
	dst = varint.AppendTexts(dst, m.Topics)
	dst = binary.AppendVarint(dst, m.Rebalance)
	dst = binary.AppendVarint(dst, int64(m.Epoch))
	dst = binary.AppendVarint(dst, int64(m.Previous))
	dst = append(dst, byte(m.State))
	dst = appendOwned(appendOwned(dst, m.Assigned), m.Revoking)
	dst = appendTarget(dst, m.Target)
	if m.Classic == nil {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(append(dst, 1), m.Classic.Session)
	return appendProtocols(dst, m.Classic.Protocols)
}

func appendProtocols(dst []byte, list []Protocol) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, p := range list {
		dst = varint.AppendText(varint.AppendText(dst, p.Name), p.Metadata)
	}
	return dst
}

// appendOwned writes an ordered list: the number of streams, and for each its ID, the number of partitions, and
// index and epoch of each of them.
func appendOwned(dst []byte, list []Owned) []byte {
	return appendByStream(dst, list, func(o Owned) Partition { return o.Partition }, func(dst []byte, o Owned) []byte {
		return binary.AppendVarint(dst, int64(o.Epoch))
	})
}

// appendTarget is appendOwned without epochs.
func appendTarget(dst []byte, list []Partition) []byte {
	return appendByStream(dst, list, func(p Partition) Partition { return p }, func(dst []byte, _ Partition) []byte { return dst })
}

func appendByStream[T any](dst []byte, list []T, partition func(T) Partition, rest func([]byte, T) []byte) []byte {
	streams := 0
	for i := range list {
		if i == 0 || partition(list[i]).Stream != partition(list[i-1]).Stream {
			streams++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(streams))
	for len(list) > 0 {
		id, n := partition(list[0]).Stream, 0
		for n < len(list) && partition(list[n]).Stream == id {
			n++
		}
		dst = binary.AppendUvarint(append(dst, id[:]...), uint64(n))
		for _, v := range list[:n] {
			dst = rest(binary.AppendVarint(dst, int64(partition(v).Index)), v)
		}
		list = list[n:]
	}
	return dst
}

func (r *reader) saveConsumers() *SaveConsumers {
	c := &SaveConsumers{Key: r.key(), Head: r.consumerHead()}
	for range r.Count(16) {
		id := r.Text()
		if id == "" {
			r.Fail()
		}
		c.Members = append(c.Members, r.consumer(id))
	}
	c.Removed = r.Texts()
	return c
}

func (r *reader) consumerHead() ConsumerHead {
	return ConsumerHead{Epoch: r.Int32(), AssignmentEpoch: r.Int32(), AssignedAt: r.Int(), Hash: r.Uint()}
}

func (r *reader) consumer(id string) Consumer {
	m := Consumer{MemberID: id}
	for _, s := range []*string{&m.InstanceID, &m.Rack, &m.ClientID, &m.ClientHost, &m.Regex, &m.Assignor} {
		*s = r.Text()
	}
	m.Topics = r.Texts()
	m.Rebalance, m.Epoch, m.Previous = r.Int(), r.Int32(), r.Int32()
	if m.State = MemberState(r.Byte()); m.State > Unreleased {
		r.Fail()
	}
	m.Assigned, m.Revoking, m.Target = r.owned(), r.owned(), r.target()
	if r.Bool() {
		m.Classic = &ClassicClient{Session: r.Int(), Protocols: r.protocols()}
	}
	return m
}

func (r *reader) protocols() (out []Protocol) {
	for range r.Count(2) {
		out = append(out, Protocol{Name: r.Text(), Metadata: r.bytes()})
	}
	return out
}

func (r *reader) owned() (out []Owned) {
	r.byStream(2, func(p Partition) { out = append(out, Owned{p, r.Int32()}) })
	return out
}

func (r *reader) target() (out []Partition) {
	r.byStream(1, func(p Partition) { out = append(out, p) })
	return out
}

// byStream reads what appendByStream wrote; size is the least that a partition takes. A list out of order is damage.
func (r *reader) byStream(size int, add func(Partition)) {
	var last Partition
	first := true
	for range r.Count(len(base.StreamID{}) + 1) {
		id := r.stream()
		for range r.Count(size) {
			p := Partition{Stream: id, Index: r.Int32()}
			if !first && last.Compare(p) >= 0 {
				r.Fail()
				return
			}
			last, first = p, false
			add(p)
		}
	}
}
