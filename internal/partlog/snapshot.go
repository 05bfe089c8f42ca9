package partlog

import (
	"encoding/binary"
	"maps"
	"slices"

	"godwit/internal/base"
)

const snapshotVersion = 1

// AppendSnapshot writes the applied state behind dst, in varints: version, start, end, epochs, producers.
func (l *Log) AppendSnapshot(dst []byte) []byte {
	dst = append(dst, snapshotVersion)
	dst = binary.AppendVarint(dst, l.start)
	dst = binary.AppendVarint(dst, l.end)
	dst = binary.AppendUvarint(dst, uint64(len(l.epochs)))
	for _, e := range l.epochs {
		dst = binary.AppendVarint(dst, int64(e.Epoch))
		dst = binary.AppendVarint(dst, e.Start)
	}
	dst = binary.AppendUvarint(dst, uint64(len(l.producers)))
	for _, id := range slices.Sorted(maps.Keys(l.producers)) {
		p := l.producers[id]
		for _, v := range []int64{id, int64(p.epoch), p.seen, p.stamp, int64(p.n)} {
			dst = binary.AppendVarint(dst, v)
		}
		for _, s := range p.recent[:p.n] {
			for _, v := range []int64{int64(s.first), int64(s.last), s.base, int64(s.records)} {
				dst = binary.AppendVarint(dst, v)
			}
		}
	}
	return dst
}

// reader takes varints off a slice; after damage it yields zeros and stays bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a number of elements that take at least size bytes each.
func (r *reader) count(size int) int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(len(r.b)/size) {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

// Restore reads what AppendSnapshot wrote. Anything else is a CodeCorruption error.
func Restore(id base.LogID, b []byte) (*Log, error) {
	if len(b) == 0 || b[0] != snapshotVersion {
		return nil, base.Errorf(base.CodeCorruption, "log %d: unknown snapshot version", id)
	}
	r := &reader{b: b[1:]}
	l := New(id)
	l.start, l.end = r.int(), r.int()
	l.next = l.end
	for range r.count(2) {
		l.epochs = append(l.epochs, Epoch{int32(r.int()), r.int()})
	}
	if n := r.count(5); n > 0 {
		l.producers = make(map[int64]*producer, n)
		for range n {
			pid := r.int()
			p := &producer{epoch: int16(r.int()), seen: r.int(), stamp: r.int()}
			k := r.int()
			if k < 0 || k > window {
				r.bad = true
				break
			}
			p.n = uint8(k)
			for i := range p.recent[:p.n] {
				p.recent[i] = sent{int32(r.int()), int32(r.int()), r.int(), int32(r.int())}
			}
			l.producers[pid] = p
		}
	}
	if r.bad || len(r.b) > 0 || l.start < 0 || l.start > l.end {
		return nil, base.Errorf(base.CodeCorruption, "log %d: damaged snapshot of %d bytes", id, len(b))
	}
	return l, nil
}
