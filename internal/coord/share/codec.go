package share

import (
	"encoding/binary"
	"maps"
	"slices"

	"godwit/internal/base"
	"godwit/internal/varint"
)

// commandVersion is the format of commands; the byte stands first.
const commandVersion = 1

// The kinds of commands, the byte behind the version.
const (
	kindUpdate = 1 + iota
	kindConfirmQueues
	kindDeleteGroup
	kindStreamDeleted
	kindSetConfig
)

// AppendCommand writes a command behind dst: version, kind, then the fields in the order of the struct. Integers are zig-zag
// varints, lengths and counts unsigned varints, strings follow their length, stream IDs are 16 bytes, hashes 8 bytes
// big-endian. Partitions are grouped by stream; the indexes of a group are differences to the one before.
func AppendCommand(dst []byte, c Command) []byte {
	return c.appendTo(append(dst, commandVersion))
}

func (c *Update) appendTo(dst []byte) []byte {
	dst = c.Head.appendTo(appendKey(append(dst, kindUpdate), c.Key))
	dst = binary.AppendUvarint(dst, uint64(len(c.Members)))
	for i := range c.Members {
		dst = c.Members[i].appendTo(dst)
	}
	dst = varint.AppendTexts(dst, c.Removed)
	dst = binary.AppendUvarint(dst, uint64(len(c.Queues)))
	for _, q := range c.Queues {
		dst = q.Queue.appendTo(appendPartition(dst, q.Partition))
	}
	return dst
}

func (h Head) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(h.Epoch))
	dst = binary.AppendVarint(dst, int64(h.AssignmentEpoch))
	dst = binary.AppendVarint(dst, h.AssignedAt)
	return binary.BigEndian.AppendUint64(dst, h.Hash)
}

func (m *Member) appendTo(dst []byte) []byte {
	dst = varint.AppendText(dst, m.ID)
	dst = binary.AppendVarint(dst, int64(m.Epoch))
	dst = binary.AppendVarint(dst, int64(m.Previous))
	for _, s := range []string{m.Rack, m.ClientID, m.ClientHost} {
		dst = varint.AppendText(dst, s)
	}
	dst = appendPartitions(varint.AppendTexts(dst, m.Topics), m.Assigned)
	if slices.Equal(m.Assigned, m.Target) {
		return append(dst, 1)
	}
	return appendPartitions(append(dst, 0), m.Target)
}

func (q Queue) appendTo(dst []byte) []byte {
	dst = append(dst, byte(q.Status), byte(q.Start.Kind))
	dst = binary.AppendVarint(dst, q.Version)
	return binary.AppendVarint(dst, q.Start.Value)
}

func (c *ConfirmQueues) appendTo(dst []byte) []byte {
	dst = appendKey(append(dst, kindConfirmQueues), c.Key)
	dst = binary.AppendUvarint(dst, uint64(len(c.Done)))
	for _, d := range c.Done {
		dst = binary.AppendVarint(appendPartition(dst, d.Partition), d.Version)
	}
	return dst
}

func (c *DeleteGroup) appendTo(dst []byte) []byte {
	return binary.AppendVarint(appendKey(append(dst, kindDeleteGroup), c.Key), c.Version)
}

func (c *StreamDeleted) appendTo(dst []byte) []byte {
	return append(append(dst, kindStreamDeleted), c.Stream[:]...)
}

func (c *SetConfig) appendTo(dst []byte) []byte {
	return appendConfig(appendKey(append(dst, kindSetConfig), c.Key), c.Values)
}

func appendConfig(dst []byte, values map[string]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		dst = varint.AppendText(varint.AppendText(dst, name), values[name])
	}
	return dst
}

func appendKey(dst []byte, k Key) []byte {
	return varint.AppendText(varint.AppendText(dst, k.Namespace), k.Group)
}

func appendPartition(dst []byte, p Partition) []byte {
	return binary.AppendVarint(append(dst, p.Stream[:]...), int64(p.Index))
}

// appendPartitions writes an ordered list.
func appendPartitions(dst []byte, list []Partition) []byte {
	var runs [][]Partition
	for rest := list; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Stream == rest[0].Stream {
			n++
		}
		runs, rest = append(runs, rest[:n]), rest[n:]
	}
	dst = binary.AppendUvarint(dst, uint64(len(runs)))
	for _, run := range runs {
		dst = append(dst, run[0].Stream[:]...)
		dst = binary.AppendUvarint(dst, uint64(len(run)))
		last := int64(0)
		for _, p := range run {
			dst = binary.AppendVarint(dst, int64(p.Index)-last)
			last = int64(p.Index)
		}
	}
	return dst
}

// DecodeCommand reads what AppendCommand wrote. Anything else is a CodeCorruption error. The result shares
// no memory with b.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) < 2 || b[0] != commandVersion {
		return nil, base.Errorf(base.CodeCorruption, "share group command of %d bytes has an unknown version", len(b))
	}
	r := newReader(b[2:])
	var c Command
	switch b[1] {
	case kindUpdate:
		c = r.update()
	case kindConfirmQueues:
		d := &ConfirmQueues{Key: r.key()}
		for range r.Count(18) {
			d.Done = append(d.Done, QueueVersion{r.partition(), r.Int()})
		}
		c = d
	case kindDeleteGroup:
		c = &DeleteGroup{Key: r.key(), Version: r.Int()}
	case kindStreamDeleted:
		c = &StreamDeleted{Stream: r.stream()}
	case kindSetConfig:
		c = &SetConfig{Key: r.key(), Values: r.config()}
	default:
		return nil, base.Errorf(base.CodeCorruption, "share group command has unknown kind %d", b[1])
	}
	if !r.Whole() {
		return nil, base.Errorf(base.CodeCorruption, "damaged share group command of kind %d, %d bytes", b[1], len(b))
	}
	return c, nil
}

// reader takes fields off a slice; see varint.Reader for what damage does.
type reader struct{ varint.Reader }

func newReader(b []byte) *reader { return &reader{varint.Reader{B: b}} }

func (r *reader) update() *Update {
	c := &Update{Key: r.key(), Head: r.head()}
	for range r.Count(minMember) {
		c.Members = append(c.Members, r.member())
	}
	c.Removed = r.Texts()
	for range r.Count(21) {
		c.Queues = append(c.Queues, QueueChange{r.partition(), r.queue()})
	}
	return c
}

func (r *reader) head() Head {
	h := Head{Epoch: r.Int32(), AssignmentEpoch: r.Int32(), AssignedAt: r.Int()}
	if b := r.Take(8); b != nil {
		h.Hash = binary.BigEndian.Uint64(b)
	}
	return h
}

// minMember is the least that a member takes, bytes.
const minMember = 9

func (r *reader) member() Member {
	m := Member{ID: r.Text(), Epoch: r.Int32(), Previous: r.Int32(), Rack: r.Text(), ClientID: r.Text(), ClientHost: r.Text()}
	m.Topics, m.Assigned = r.Texts(), r.partitions()
	switch r.Byte() {
	case 0:
		m.Target = r.partitions()
	case 1:
		m.Target = m.Assigned
	default:
		r.Fail()
	}
	return m
}

func (r *reader) queue() Queue {
	q := Queue{Status: QueueStatus(r.Byte()), Start: Start{Kind: StartKind(r.Byte())}, Version: r.Int()}
	q.Start.Value = r.Int()
	if q.Status < Initializing || q.Status > Deleting || q.Start.Kind > StartAtOffset {
		r.Fail()
	}
	return q
}

func (r *reader) config() map[string]string {
	out := map[string]string{}
	for range r.Count(2) {
		name := r.Text()
		out[name] = r.Text()
	}
	return out
}

func (r *reader) partitions() (out []Partition) {
	for range r.Count(17) {
		id, last := r.stream(), int64(0)
		for range r.Count(1) {
			last += r.Int()
			if last != int64(int32(last)) {
				r.Fail()
			}
			out = append(out, Partition{Stream: id, Index: int32(last)})
		}
	}
	return out
}

func (r *reader) stream() (id base.StreamID) {
	copy(id[:], r.Take(len(id)))
	return id
}

func (r *reader) partition() Partition { return Partition{Stream: r.stream(), Index: r.Int32()} }

func (r *reader) key() Key { return Key{Namespace: r.Text(), Group: r.Text()} }
