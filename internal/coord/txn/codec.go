package txn

import (
	"encoding/binary"
	"math"

	"godwit/internal/base"
	"godwit/internal/varint"
)

// commandVersion is the format of commands; the byte stands first.
const commandVersion = 1

// The kinds of commands, the byte behind the version.
const (
	kindUpdate = 1 + iota
	kindConfirm
	kindStreamDeleted
	kindForget
)

// AppendCommand writes a command behind dst: version, kind, then the fields in the order of the struct. Integers are zig-zag
// varints, lengths and counts unsigned varints, strings follow their length, stream IDs are 16 bytes. Partitions are grouped by stream, as far as those
// of one follow each other; the indexes of a run are differences to the one before.
func AppendCommand(dst []byte, c Command) []byte {
	return c.appendTo(append(dst, commandVersion))
}

func (c *Update) appendTo(dst []byte) []byte {
	dst = c.Head.appendTo(appendKey(append(dst, kindUpdate), c.Key))
	return varint.AppendTexts(appendPartitions(dst, c.Partitions), c.Groups)
}

func (h *Head) appendTo(dst []byte) []byte {
	dst = append(dst, byte(h.Status))
	dst = binary.AppendVarint(dst, h.ProducerID)
	dst = binary.AppendVarint(dst, int64(h.Epoch))
	dst = binary.AppendVarint(dst, h.LastProducerID)
	dst = binary.AppendVarint(dst, int64(h.LastEpoch))
	dst = binary.AppendVarint(dst, h.NextProducerID)
	dst = binary.AppendVarint(dst, int64(h.TimeoutMs))
	dst = binary.AppendVarint(dst, int64(h.Version))
	dst = binary.AppendVarint(dst, h.Serial)
	dst = binary.AppendVarint(dst, h.Started)
	return binary.AppendVarint(dst, h.Updated)
}

func (c *Confirm) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(appendKey(append(dst, kindConfirm), c.Key), c.Serial)
	dst = binary.AppendVarint(dst, c.At)
	return varint.AppendTexts(appendPartitions(dst, c.Partitions), c.Groups)
}

func (c *StreamDeleted) appendTo(dst []byte) []byte {
	return append(append(dst, kindStreamDeleted), c.Stream[:]...)
}

func (c *Forget) appendTo(dst []byte) []byte { return appendKey(append(dst, kindForget), c.Key) }

func appendKey(dst []byte, k Key) []byte {
	return varint.AppendText(varint.AppendText(dst, k.Namespace), k.ID)
}

func appendPartitions(dst []byte, list []Partition) []byte {
	runs := 0
	for i := range list {
		if i == 0 || list[i].Stream != list[i-1].Stream {
			runs++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(runs))
	for rest := list; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Stream == rest[0].Stream {
			n++
		}
		dst = append(dst, rest[0].Stream[:]...)
		dst = binary.AppendUvarint(dst, uint64(n))
		last := int64(0)
		for _, p := range rest[:n] {
			dst = binary.AppendVarint(dst, int64(p.Index)-last)
			last = int64(p.Index)
		}
		rest = rest[n:]
	}
	return dst
}

// DecodeCommand reads what AppendCommand wrote. Anything else is a CodeCorruption error. The result shares
// no memory with b.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) < 2 || b[0] != commandVersion {
		return nil, base.Errorf(base.CodeCorruption, "transaction command of %d bytes has an unknown version", len(b))
	}
	r := newReader(b[2:])
	var c Command
	switch b[1] {
	case kindUpdate:
		c = &Update{Key: r.key(), Head: r.head(), Partitions: r.partitions(), Groups: r.Texts()}
	case kindConfirm:
		c = &Confirm{Key: r.key(), Serial: r.Int(), At: r.Int(), Partitions: r.partitions(), Groups: r.Texts()}
	case kindStreamDeleted:
		c = &StreamDeleted{Stream: r.stream()}
	case kindForget:
		c = &Forget{Key: r.key()}
	default:
		return nil, base.Errorf(base.CodeCorruption, "transaction command has unknown kind %d", b[1])
	}
	if !r.Whole() {
		return nil, base.Errorf(base.CodeCorruption, "damaged transaction command of kind %d, %d bytes", b[1], len(b))
	}
	return c, nil
}

// reader takes fields off a slice; see varint.Reader for what damage does.
type reader struct{ varint.Reader }

func newReader(b []byte) *reader { return &reader{varint.Reader{B: b}} }

func (r *reader) head() Head {
	h := Head{
		Status: Status(r.Byte()), ProducerID: r.Int(), Epoch: r.int16(), LastProducerID: r.Int(), LastEpoch: r.int16(), NextProducerID: r.Int(),
		TimeoutMs: r.Int32(), Version: r.int16(), Serial: r.Int(), Started: r.Int(), Updated: r.Int(),
	}
	if h.Status > CompleteAbort {
		r.Fail()
	}
	return h
}

func (r *reader) int16() int16 {
	v := r.Int32()
	if v < math.MinInt16 || v > math.MaxInt16 {
		r.Fail()
	}
	return int16(v)
}

func (r *reader) partitions() (out []Partition) {
	for range r.Count(len(base.StreamID{}) + 1) {
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

func (r *reader) key() Key {
	k := Key{r.Text(), r.Text()}
	if k.ID == "" {
		r.Fail()
	}
	return k
}
