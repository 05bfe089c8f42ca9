package partlog

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"godwit/internal/base"
	"godwit/internal/varint"
)

// Version 1 knew no transactions.
const snapshotVersion = 2

// AppendSnapshot writes the applied state behind dst, in varints: version, start, end, epochs, producers. Aborted
// transactions are not part of it: whoever keeps the snapshot keeps them one by one, see Aborted.
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
		for _, v := range []int64{id, int64(p.epoch), p.seen, p.stamp, p.txn, int64(p.coord), int64(p.n)} {
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

// Restore reads what AppendSnapshot wrote, in this version or an older one. Anything else is a CodeCorruption error.
func Restore(id base.LogID, b []byte) (*Log, error) {
	if len(b) == 0 || b[0] < 1 || b[0] > snapshotVersion {
		return nil, base.Errorf(base.CodeCorruption, "log %d: unknown snapshot version", id)
	}
	version := b[0]
	r := &varint.Reader{B: b[1:]}
	l := New(id)
	l.start, l.end = r.Int(), r.Int()
	l.next = l.end
	for range r.Count(2) {
		l.epochs = append(l.epochs, Epoch{int32(r.Int()), r.Int()})
	}
	if n := r.Count(5); n > 0 {
		l.producers = make(map[int64]*producer, n)
		for range n {
			pid := r.Int()
			p := restoreProducer(r, version)
			if _, twice := l.producers[pid]; twice {
				r.Fail()
			}
			l.producers[pid] = p
			if p.txn >= 0 {
				l.open = append(l.open, OpenTxn{ProducerID: pid, First: p.txn})
				if p.txn >= l.end {
					r.Fail()
				}
			}
		}
		slices.SortFunc(l.open, func(a, b OpenTxn) int { return cmp.Compare(a.First, b.First) })
	}
	if !r.Whole() || l.start < 0 || l.start > l.end || !l.distinct() {
		return nil, base.Errorf(base.CodeCorruption, "log %d: damaged snapshot of %d bytes", id, len(b))
	}
	return l, nil
}

// restoreProducer reads what of a producer follows its ID.
func restoreProducer(r *varint.Reader, version byte) *producer {
	p := newProducer()
	p.epoch, p.seen, p.stamp = int16(r.Int()), r.Int(), r.Int()
	if version >= 2 {
		p.txn, p.coord = r.Int(), int32(r.Int())
	}
	k := r.Int()
	if k < 0 || k > window {
		r.Fail()
		return p
	}
	p.n = uint8(k)
	for i := range p.recent[:p.n] {
		p.recent[i] = sent{int32(r.Int()), int32(r.Int()), r.Int(), int32(r.Int())}
	}
	return p
}

// distinct reports whether no two transactions began at one offset.
func (l *Log) distinct() bool {
	for i := 1; i < len(l.open); i++ {
		if l.open[i-1].First == l.open[i].First {
			return false
		}
	}
	return true
}
