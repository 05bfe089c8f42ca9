package segment

import (
	"sort"

	"godwit/internal/base"
)

// Unit is the smallest part of a log that retention looks at: a piece of a sealed file, or an extent of
// the file being written.
type Unit struct {
	Base, Last   int64
	MaxTimestamp int64
	Bytes        int64
}

// Units calls fn for each unit of a log, from the start on, until fn returns false. fn runs under
// the index lock: it must be short and not call the store.
func (s *Store) Units(log base.LogID, fn func(Unit) bool) {
	st := s.stripe(log)
	st.mu.RLock()
	defer st.mu.RUnlock()
	li := st.logs[log]
	if li == nil {
		return
	}
	for i := range li.pieces {
		p := &li.pieces[i]
		if p.extents == nil {
			if !fn(Unit{p.base, p.last, p.maxTimestamp, p.bytes}) {
				return
			}
			continue
		}
		for _, e := range p.extents {
			if !fn(Unit{e.Base, e.Last, e.MaxTimestamp, int64(e.Len)}) {
				return
			}
		}
	}
}

// BatchRef is where one batch stands.
type BatchRef struct {
	File         *File // borrowed: valid until the callback returns
	Pos, Size    int64
	Base, Last   int64
	MaxTimestamp int64
	Epoch        int32
	Records      int32
}

// Batches calls fn for each batch in [offset, limit) whose extent passes the filter want, until fn
// returns false. A nil want passes all.
func (s *Store) Batches(log base.LogID, offset, limit int64, want func(*Extent) bool, fn func(BatchRef) bool) error {
	for offset < limit {
		more := false
		c := s.open(log, offset, limit, 0)
		next := offset
		for {
			f, e, ok, err := c.next(offset)
			if err != nil {
				c.close()
				return err
			}
			if !ok {
				break
			}
			next = max(next, e.Last+1)
			if e.Base >= limit || (want != nil && !want(&e)) {
				continue
			}
			stop := false
			err = f.walk(&e, func(at int64, b *batch) bool {
				if b.last >= offset && b.base < limit {
					stop = !fn(BatchRef{f, at, b.size, b.base, b.last, b.maxTimestamp, b.epoch, b.records})
				}
				return !stop
			})
			if err != nil || stop {
				c.close()
				return err
			}
		}
		// The cursor pins a piece or two at a time; go on behind them.
		for i := range c.pieces {
			next = max(next, c.pieces[i].last+1)
		}
		more = len(c.pieces) > 0
		c.close()
		if !more {
			return nil
		}
		offset = next
	}
	return nil
}

// MaxTimestamp is the largest timestamp at or above offset by what the index knows, and the base of the unit that
// has it; ok = false for an empty log.
func (s *Store) MaxTimestamp(log base.LogID, offset int64) (ts, from int64, ok bool) {
	ts = -1
	s.Units(log, func(u Unit) bool {
		if u.Last >= offset && u.MaxTimestamp > ts {
			ts, from, ok = u.MaxTimestamp, u.Base, true
		}
		return true
	})
	return ts, from, ok
}

// PieceRef names a piece for the compactor.
type PieceRef struct {
	Log          base.LogID
	File         *File // borrowed: names the file, not to be read from
	Base, Last   int64
	MaxTimestamp int64
	Bytes        int64
	Clean        bool // compaction has seen all of it
}

// Pieces lists the pieces of a log that lie in sealed files.
func (s *Store) Pieces(log base.LogID) []PieceRef {
	st := s.stripe(log)
	st.mu.RLock()
	defer st.mu.RUnlock()
	li := st.logs[log]
	if li == nil {
		return nil
	}
	var out []PieceRef
	for i := range li.pieces {
		p := &li.pieces[i]
		if p.extents == nil {
			out = append(out, PieceRef{log, p.file, p.base, p.last, p.maxTimestamp, p.bytes, p.clean})
		}
	}
	return out
}

// replace puts the piece of a merged file, as its footer states it, in place of the run of pieces
// from base to last. It reports false, and changes nothing, if the log is gone or its pieces no
// longer lie wholly within or without the run.
func (s *Store) replace(f *File, l *LogFooter) bool {
	st := s.stripe(l.Log)
	st.mu.Lock()
	defer st.mu.Unlock()
	li := st.logs[l.Log]
	if li == nil {
		return false
	}
	i := sort.Search(len(li.pieces), func(i int) bool { return li.pieces[i].last >= l.Base })
	k := i
	for k < len(li.pieces) && li.pieces[k].base <= l.Last {
		if li.pieces[k].last > l.Last || li.pieces[k].extents != nil {
			return false
		}
		k++
	}
	if k == i {
		return false // trimmed away meanwhile
	}
	for j := i; j < k; j++ {
		li.drop(&li.pieces[j])
	}
	p := piece{file: f, base: l.Base, last: l.Last, maxTimestamp: l.MaxTimestamp, bytes: int64(l.Bytes), first: l.First, count: l.Count, clean: l.Clean}
	li.pieces = append(li.pieces[:i], append([]piece{p}, li.pieces[k:]...)...)
	li.bytes += p.bytes
	f.pieces.Add(1)
	f.live.Add(p.bytes)
	return true
}

// OldestUnsealed is the timestamp of the first extent that a log has in a file not sealed yet, Unix ms; false if
// there is none.
func (s *Store) OldestUnsealed(log base.LogID) (int64, bool) {
	st := s.stripe(log)
	st.mu.RLock()
	defer st.mu.RUnlock()
	if li := st.logs[log]; li != nil {
		for i := range li.pieces {
			if ex := li.pieces[i].extents; ex != nil {
				return ex[0].MaxTimestamp, true
			}
		}
	}
	return 0, false
}
