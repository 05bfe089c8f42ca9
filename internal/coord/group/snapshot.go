package group

import (
	"bytes"
	"encoding/binary"
	"slices"

	"godwit/internal/base"
	"godwit/internal/varint"
)

// valueVersion is the format of checkpointed values; the byte stands first.
const valueVersion = 1

// The kinds of checkpointed keys, their first byte. A key goes on with namespace and group, each behind its
// length as an unsigned varint; that of an offset ends with the stream's 16 bytes and the partition, big-endian.
const (
	keyRecord    = 'g'
	keyOffset    = 'o'
	keyConsumers = 'c' // head of a group of the consumer protocol
	keyConsumer  = 'm' // + member ID, not behind its length
	keyPending   = 'p' // + what encodePending says
)

// Checkpoint hands out what changed since the last checkpoint, ordered by key; a nil value deletes the
// key. The slices are the receiver's. What was handed out counts as stored: the caller keeps it until it is.
func (o *Offsets) Checkpoint(emit func(key, value []byte)) {
	type item struct{ key, value []byte }
	items := make([]item, 0, len(o.dirty))
	for d := range o.dirty {
		items = append(items, item{d.encode(), o.value(d)})
	}
	clear(o.dirty)
	slices.SortFunc(items, func(a, b item) int { return bytes.Compare(a.key, b.key) })
	for _, it := range items {
		emit(it.key, it.value)
	}
}

func (d *dirtyKey) encode() []byte {
	dst := make([]byte, 0, 1+2*binary.MaxVarintLen16+len(d.Namespace)+len(d.Group)+28)
	switch {
	case d.record:
		return appendKey(append(dst, keyRecord), d.Key)
	case d.consumers && d.member == "":
		return appendKey(append(dst, keyConsumers), d.Key)
	case d.consumers:
		return append(appendKey(append(dst, keyConsumer), d.Key), d.member...)
	case d.pending:
		return d.encodePending(dst)
	}
	dst = appendKey(append(dst, keyOffset), d.Key)
	dst = append(dst, d.Stream[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(d.Index))
}

// value encodes what is stored under the key, nil if nothing is any more.
func (o *Offsets) value(d dirtyKey) []byte {
	h := o.groups[d.Key]
	if h == nil {
		return nil
	}
	if d.record {
		if h.record == nil {
			return nil
		}
		return h.record.appendTo([]byte{valueVersion})
	}
	if d.consumers {
		return h.consumers.value(d.member)
	}
	if d.pending {
		return h.pending.value(d.producer, d.Partition)
	}
	e := h.offsets[d.Partition]
	if e == nil {
		return nil
	}
	dst := []byte{valueVersion}
	for _, v := range []int64{e.offset, int64(e.epoch), e.time, e.expires} {
		dst = binary.AppendVarint(dst, v)
	}
	return varint.AppendText(dst, e.metadata)
}

// Restore enters one pair that Checkpoint handed out, in any order and before the first Apply. What is not such a
// pair is a CodeCorruption error.
func (o *Offsets) Restore(key, value []byte) error {
	if len(key) == 0 || len(value) == 0 || value[0] != valueVersion {
		return base.Errorf(base.CodeCorruption, "group state: a value of %d bytes has an unknown version", len(value))
	}
	k, v := newReader(key[1:]), newReader(value[1:])
	name := k.key()
	switch key[0] {
	case keyRecord:
		record := v.record()
		if k.Whole() && v.Whole() {
			o.Apply(&SaveGroup{Key: name, Record: record})
			delete(o.dirty, dirtyKey{Key: name, record: true})
			return nil
		}
	case keyConsumers:
		head := v.consumerHead()
		if k.Whole() && v.Whole() {
			o.restoreConsumers(name).head = head
			return nil
		}
	case keyConsumer:
		m := v.consumer(string(k.Take(len(k.B))))
		if k.Whole() && v.Whole() && m.MemberID != "" {
			o.restoreConsumers(name).members[m.MemberID] = m
			return nil
		}
	case keyPending:
		if o.restorePending(name, k, v) {
			return nil
		}
	case keyOffset:
		p := Partition{Stream: k.stream()}
		if index := k.Take(4); index != nil {
			p.Index = int32(binary.BigEndian.Uint32(index))
		}
		at := position{offset: v.Int(), epoch: v.Int32(), time: v.Int(), expires: v.Int(), metadata: v.Text()}
		if k.Whole() && v.Whole() {
			o.put(name, p, at)
			return nil
		}
	}
	return base.Errorf(base.CodeCorruption, "group state: damaged pair of %d and %d bytes", len(key), len(value))
}

// value encodes a member, or the head if id is empty; nil if there is none any more.
func (c *consumers) value(id string) []byte {
	if c == nil {
		return nil
	}
	if id == "" {
		return c.head.appendTo([]byte{valueVersion})
	}
	m, ok := c.members[id]
	if !ok {
		return nil
	}
	return m.appendTo([]byte{valueVersion})
}

// restoreConsumers finds what is restored of a group of the consumer protocol.
func (o *Offsets) restoreConsumers(k Key) *consumers {
	h := o.hold(k)
	if h.consumers == nil {
		h.consumers = &consumers{members: map[string]Consumer{}}
	}
	return h.consumers
}
