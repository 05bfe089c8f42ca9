package segment

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"godwit/internal/base"
	"godwit/internal/invariants"
	"godwit/internal/vfs"
)

// piece is what one file holds of one log.
type piece struct {
	file         *File
	base, last   int64 // offsets covered; compaction may have left holes, even at the ends
	maxTimestamp int64
	bytes        int64
	extents      []Extent // while the file is not sealed
	first, count uint32   // else: its extents in the footer
	clean        bool     // compaction has seen all of it
}

type logIndex struct {
	pieces []piece // sorted by base, not overlapping
	bytes  int64
}

const stripes = 64

type stripe struct {
	mu   sync.RWMutex
	logs map[base.LogID]*logIndex
}

// Store is the index over all data files of a node. It is safe for concurrent use; the extents of
// one log are added by one caller at a time, and Seal has no Add for its file beside it.
type Store struct {
	FS  vfs.FS
	Dir string

	stripes [stripes]stripe

	mu    sync.Mutex // guards files; taken before a stripe's lock, never after
	files map[string]*File

	lastMerged uint32 // number last given to a merged file
}

// NewStore makes an empty index over dir.
func NewStore(fs vfs.FS, dir string) *Store {
	s := &Store{FS: fs, Dir: dir, files: map[string]*File{}}
	for i := range s.stripes {
		s.stripes[i].logs = map[base.LogID]*logIndex{}
	}
	return s
}

func (s *Store) stripe(log base.LogID) *stripe { return &s.stripes[uint64(log)%stripes] }

// OpenAll opens every data file of the directory and indexes the sealed ones. Merged files win over
// the files they were made from, later merged files over earlier. It returns the WAL files that are
// not sealed, by number.
func (s *Store) OpenAll() (unsealed []*File, err error) {
	names, err := s.FS.List(s.Dir)
	if err != nil {
		return nil, err
	}
	var all []*File
	for _, name := range names {
		if strings.HasSuffix(name, TempSuffix) {
			if err := s.FS.Remove(s.FS.PathJoin(s.Dir, name)); err != nil {
				return nil, err
			}
		}
		if !strings.HasSuffix(name, ".seg") && !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := Open(s.FS, s.FS.PathJoin(s.Dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, f)
		s.Register(f)
	}
	slices.SortFunc(all, func(a, b *File) int {
		return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(b.Number, a.Number))
	})
	for _, f := range all {
		switch {
		case f.Sealed():
			err = s.index(f)
		case f.Kind == KindMerged: // it is published sealed
			err = base.Errorf(base.CodeCorruption, "%s: seal record missing or damaged", f.Path)
		default:
			unsealed = append(unsealed, f)
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Reverse(unsealed)
	return unsealed, nil
}

// index adds the pieces of a sealed file that no file indexed before covers.
func (s *Store) index(f *File) error {
	logs, err := f.Footer()
	if err != nil {
		return err
	}
	for i := range logs {
		l := &logs[i]
		s.insertUncovered(l.Log, piece{file: f, base: l.Base, last: l.Last, maxTimestamp: l.MaxTimestamp,
			bytes: int64(l.Bytes), first: l.First, count: l.Count, clean: l.Clean})
	}
	return nil
}

func (s *Store) insertUncovered(log base.LogID, p piece) {
	st := s.stripe(log)
	st.mu.Lock()
	defer st.mu.Unlock()
	li := st.get(log)
	i := sort.Search(len(li.pieces), func(i int) bool { return li.pieces[i].last >= p.base })
	if i < len(li.pieces) && li.pieces[i].base <= p.last {
		return
	}
	li.pieces = slices.Insert(li.pieces, i, p)
	li.bytes += p.bytes
	p.file.pieces.Add(1)
	p.file.live.Add(p.bytes)
}

func (st *stripe) get(log base.LogID) *logIndex {
	li := st.logs[log]
	if li == nil {
		li = &logIndex{}
		st.logs[log] = li
	}
	return li
}

// Register makes a file known, so that it is listed and can be removed.
func (s *Store) Register(f *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[f.Path] = f
}

// Files lists all known files, WAL files first, by number.
func (s *Store) Files() []*File {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*File, 0, len(s.files))
	for _, f := range s.files {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *File) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Number, b.Number))
	})
	return out
}

// forget removes a file from the list and from the disk. Of several callers one does it; it is told so by ours.
func (s *Store) forget(f *File) (ours bool, err error) {
	s.mu.Lock()
	ours = s.files[f.Path] == f
	if ours {
		delete(s.files, f.Path)
	}
	s.mu.Unlock()
	if !ours {
		return false, nil
	}
	return true, f.remove()
}

// RemoveDead deletes the sealed files that no piece refers to: WAL files only below number
// before, since recovery still replays the others. It returns how many bytes were freed. Several may call it at a time.
func (s *Store) RemoveDead(before uint32) (freed int64, err error) {
	for _, f := range s.Files() {
		sl := f.sealed.Load()
		if sl == nil || f.pieces.Load() > 0 || (f.Kind == KindWAL && f.Number >= before) {
			continue
		}
		ours, err := s.forget(f)
		if err != nil {
			return freed, err
		}
		if ours {
			freed += int64(sl.footerPos) + int64(sl.footerLen)
		}
	}
	return freed, nil
}

// Add indexes the extents of an applied frame; pos is where its payload begins. The extents of a log come
// in the order of their offsets.
func (s *Store) Add(f *File, pos uint32, extents []LogExtent) {
	for i := range extents {
		e := &extents[i]
		s.add(f, e.Log, Extent{Base: e.Base, Last: e.Last, MaxTimestamp: e.MaxTimestamp, Pos: pos, Len: e.Len})
		pos += e.Len
	}
}

func (s *Store) add(f *File, log base.LogID, e Extent) {
	st := s.stripe(log)
	st.mu.Lock()
	defer st.mu.Unlock()
	li := st.get(log)
	f.live.Add(int64(e.Len))
	li.bytes += int64(e.Len)
	if n := len(li.pieces); n > 0 {
		p := &li.pieces[n-1]
		invariants.Check(e.Base > p.last, "log %d: extent at %d overlaps a piece that ends at %d", log, e.Base, p.last)
		if p.file == f {
			p.extents = append(p.extents, e)
			p.last, p.bytes = e.Last, p.bytes+int64(e.Len)
			p.maxTimestamp = max(p.maxTimestamp, e.MaxTimestamp)
			return
		}
	}
	li.pieces = append(li.pieces, piece{file: f, base: e.Base, last: e.Last, maxTimestamp: e.MaxTimestamp,
		bytes: int64(e.Len), extents: []Extent{e}})
	f.pieces.Add(1)
	f.logsMu.Lock()
	f.logs = append(f.logs, log)
	f.logsMu.Unlock()
}

// Covers reports whether the pieces of a log cover all offsets from start up to end and none beyond; missing is
// the first that they do not.
func (s *Store) Covers(log base.LogID, start, end int64) (missing int64, ok bool) {
	st := s.stripe(log)
	st.mu.RLock()
	defer st.mu.RUnlock()
	next := start
	if li := st.logs[log]; li != nil {
		for i := range li.pieces {
			p := &li.pieces[i]
			if p.base > next || (i > 0 && p.base != next) {
				return next, false
			}
			next = max(next, p.last+1)
		}
	}
	return next, next == end
}

// Size is the number of batch bytes kept for a log.
func (s *Store) Size(log base.LogID) int64 {
	st := s.stripe(log)
	st.mu.RLock()
	defer st.mu.RUnlock()
	if li := st.logs[log]; li != nil {
		return li.bytes
	}
	return 0
}

// Seal writes the footer of a WAL file all of whose frames are applied; dataEnd is where its last
// frame ends. From then on the file's extents are read from disk.
func (s *Store) Seal(f *File, dataEnd uint32) error {
	f.logsMu.Lock()
	defer f.logsMu.Unlock()
	slices.Sort(f.logs)
	f.logs = slices.Compact(f.logs)
	var logs []LogFooter
	var extents []Extent
	for _, log := range f.logs {
		s.withPiece(log, f, func(p *piece) {
			logs = append(logs, LogFooter{Log: log, Base: p.base, Last: p.last, MaxTimestamp: p.maxTimestamp,
				Bytes: uint64(p.bytes), First: uint32(len(extents)), Count: uint32(len(p.extents))})
			extents = append(extents, p.extents...)
		})
	}
	if err := f.WriteSeal(dataEnd, logs, extents); err != nil {
		return fmt.Errorf("sealing %s: %w", f.Path, err) // the next try needs the list again
	}
	f.logs = nil
	for i := range logs {
		l := &logs[i]
		s.withPiece(l.Log, f, func(p *piece) {
			// A trim may have shortened the piece since the footer was made.
			cut := l.Count - uint32(len(p.extents))
			p.first, p.count, p.extents = l.First+cut, l.Count-cut, nil
		})
	}
	return nil
}

func (s *Store) withPiece(log base.LogID, f *File, fn func(*piece)) {
	st := s.stripe(log)
	st.mu.Lock()
	defer st.mu.Unlock()
	li := st.logs[log]
	if li == nil {
		return
	}
	for i := len(li.pieces) - 1; i >= 0; i-- {
		if li.pieces[i].file == f {
			fn(&li.pieces[i])
			return
		}
	}
}

// Trim forgets what lies wholly below start.
func (s *Store) Trim(log base.LogID, start int64) {
	st := s.stripe(log)
	st.mu.Lock()
	defer st.mu.Unlock()
	li := st.logs[log]
	if li == nil {
		return
	}
	n := 0
	for n < len(li.pieces) && li.pieces[n].last < start {
		li.drop(&li.pieces[n])
		n++
	}
	li.pieces = slices.Delete(li.pieces, 0, n)
	if len(li.pieces) == 0 {
		li.pieces = nil
		return
	}
	if p := &li.pieces[0]; p.extents != nil && p.base < start {
		k := sort.Search(len(p.extents), func(i int) bool { return p.extents[i].Last >= start })
		for _, e := range p.extents[:k] {
			p.bytes -= int64(e.Len)
			li.bytes -= int64(e.Len)
			p.file.live.Add(-int64(e.Len))
		}
		p.extents = p.extents[k:]
		p.base = p.extents[0].Base
	}
}

func (li *logIndex) drop(p *piece) {
	li.bytes -= p.bytes
	p.file.live.Add(-p.bytes)
	p.file.pieces.Add(-1)
}

// Drop forgets a log.
func (s *Store) Drop(log base.LogID) {
	st := s.stripe(log)
	st.mu.Lock()
	defer st.mu.Unlock()
	if li := st.logs[log]; li != nil {
		for i := range li.pieces {
			li.drop(&li.pieces[i])
		}
		delete(st.logs, log)
	}
}

// Logs lists the logs that have an index entry.
func (s *Store) Logs() []base.LogID {
	var out []base.LogID
	for i := range s.stripes {
		st := &s.stripes[i]
		st.mu.RLock()
		for log := range st.logs {
			out = append(out, log)
		}
		st.mu.RUnlock()
	}
	slices.Sort(out)
	return out
}

// Close releases every file.
func (s *Store) Close() {
	for _, f := range s.Files() {
		f.Release()
	}
}
