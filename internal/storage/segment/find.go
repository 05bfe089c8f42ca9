package segment

import (
	"encoding/binary"
	"sort"
	"sync"

	"godwit/internal/base"
)

// Span is a run of bytes in a file; it holds a reference to the file.
type Span struct {
	File *File
	Pos  int64
	Len  int64
	Last int64 // last offset of the log in it
}

// ReleaseAll releases the files of all spans.
func ReleaseAll(spans []Span) {
	for i := range spans {
		spans[i].File.Release()
	}
}

// cursor walks the extents of a log from an offset on, piece by piece. The pieces are copied under the
// lock and pinned, so nothing is locked while files are read.
type cursor struct {
	pieces  []piece
	i       int
	extents []Extent // of the current piece, from the wanted offset on
	scratch []byte
	buf     []Extent
}

var cursors = sync.Pool{New: func() any { return new(cursor) }}

// open pins the pieces from offset on whose data may be wanted: as many as bytes need, at least one.
func (s *Store) open(log base.LogID, offset, limit, bytes int64) *cursor {
	c := cursors.Get().(*cursor)
	c.pieces, c.i, c.extents = c.pieces[:0], 0, nil
	st := s.stripe(log)
	st.mu.RLock()
	defer st.mu.RUnlock()
	li := st.logs[log]
	if li == nil {
		return c
	}
	i := sort.Search(len(li.pieces), func(i int) bool { return li.pieces[i].last >= offset })
	for first := true; i < len(li.pieces) && li.pieces[i].base < limit; i++ {
		p := li.pieces[i]
		if !p.file.Acquire() {
			break
		}
		if p.extents != nil && first {
			k := sort.Search(len(p.extents), func(i int) bool { return p.extents[i].Last >= offset })
			p.extents = p.extents[k:]
		}
		c.pieces = append(c.pieces, p)
		// The first piece may be used in part only, so it does not count.
		if !first {
			if bytes -= p.bytes; bytes <= 0 {
				break
			}
		}
		first = false
	}
	return c
}

func (c *cursor) close() {
	for i := range c.pieces {
		c.pieces[i].file.Release()
		c.pieces[i] = piece{}
	}
	cursors.Put(c)
}

// next returns the next extent that reaches to offset or beyond.
func (c *cursor) next(offset int64) (f *File, e Extent, ok bool, err error) {
	for c.i < len(c.pieces) {
		p := &c.pieces[c.i]
		if c.extents == nil {
			if err := c.load(p, offset); err != nil {
				return nil, e, false, err
			}
		}
		if len(c.extents) > 0 {
			e, c.extents = c.extents[0], c.extents[1:]
			return p.file, e, true, nil
		}
		c.i, c.extents = c.i+1, nil
	}
	return nil, e, false, nil
}

// maxRun bounds the extents that are read from a footer at once: 64 KiB of them.
const maxRun = 2048

// load fills extents with those of p that reach to offset. In a long footer run it first halves its
// way to the offset.
func (c *cursor) load(p *piece, offset int64) error {
	if p.extents != nil {
		c.extents = p.extents
		return nil
	}
	c.extents = []Extent{}
	if p.count == 0 {
		return nil
	}
	first, count := p.first, p.count
	var err error
	for count > maxRun {
		half := count / 2
		c.buf, c.scratch, err = p.file.ReadExtents(c.buf[:0], first+half, 1, c.scratch)
		if err != nil {
			return err
		}
		if c.buf[0].Base <= offset {
			first, count = first+half, count-half
		} else if count = half; count <= maxRun {
			// What follows the run may be wanted too.
			count = min(maxRun, p.first+p.count-first)
		}
	}
	c.buf, c.scratch, err = p.file.ReadExtents(c.buf[:0], first, count, c.scratch)
	if err != nil {
		return err
	}
	k := sort.Search(len(c.buf), func(i int) bool { return c.buf[i].Last >= offset })
	c.extents = c.buf[k:]
	// A run cut short goes on where it ended.
	if end := first + count; end < p.first+p.count {
		p.first, p.count = end, p.first+p.count-end
		rest := *p
		if rest.file.Acquire() {
			c.pieces = append(c.pieces[:c.i+1], append([]piece{rest}, c.pieces[c.i+1:]...)...)
		}
	}
	return nil
}

// Find returns the whole batches of a log from the one that holds offset on, below limit, of at most maxBytes
// together; if minOne, at least one batch whatever its size. Spans that touch are merged. The
// caller releases them.
func (s *Store) Find(log base.LogID, offset, limit int64, maxBytes int, minOne bool) ([]Span, error) {
	if offset >= limit {
		return nil, nil
	}
	c := s.open(log, offset, limit, int64(maxBytes))
	defer c.close()
	var spans []Span
	left := int64(maxBytes)
	for {
		f, e, ok, err := c.next(offset)
		if err != nil {
			ReleaseAll(spans)
			return nil, err
		}
		if !ok || e.Base >= limit {
			return spans, nil
		}
		if n := int64(e.Len); e.Base >= offset && n <= left && e.Last < limit {
			spans = appendSpan(spans, Span{f, int64(e.Pos), n, e.Last})
			if left -= n; left <= 0 {
				return spans, nil
			}
			continue
		}
		if len(spans) > 0 && int64(e.Len) > left {
			return spans, nil
		}
		part, whole, err := f.cut(&e, offset, limit, left, minOne && len(spans) == 0)
		if err != nil {
			ReleaseAll(spans)
			return nil, err
		}
		if part.Len > 0 {
			spans = appendSpan(spans, part)
		}
		if left -= part.Len; !whole || left <= 0 {
			return spans, nil
		}
	}
}

func appendSpan(spans []Span, s Span) []Span {
	if k := len(spans) - 1; k >= 0 && spans[k].File == s.File && spans[k].Pos+spans[k].Len == s.Pos {
		spans[k].Len += s.Len
		spans[k].Last = s.Last
		return spans
	}
	s.File.refs.Add(1) // the cursor holds one, so it is open
	return append(spans, s)
}

// cut narrows an extent to the batches from the one that holds offset on, below limit, that fit into left. whole says
// that it reaches to the end of the extent.
func (f *File) cut(e *Extent, offset, limit, left int64, minOne bool) (s Span, whole bool, err error) {
	start, end := int64(-1), int64(0)
	last := e.Last
	err = f.walk(e, func(at int64, b *batch) bool {
		if b.last < offset {
			return true
		}
		if start < 0 {
			start, end = at, at
		}
		if n := at + b.size - start; b.base >= limit || n > left && !(minOne && end == start) {
			return false
		}
		end, last = at+b.size, b.last
		return end-start < left
	})
	if start < 0 {
		return Span{}, true, err
	}
	return Span{f, start, end - start, last}, end == int64(e.Pos)+int64(e.Len), err
}

// batch is what a walk needs of a v2 batch header.
type batch struct {
	base, last, maxTimestamp int64
	epoch, records           int32
	size                     int64 // with the 12 bytes before its length field's scope
}

const batchHead = 61

var walkBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// walk calls fn for each batch of an extent, with its position in the file, until fn returns false.
func (f *File) walk(e *Extent, fn func(at int64, b *batch) bool) error {
	buf := walkBuffers.Get().(*[]byte)
	defer walkBuffers.Put(buf)
	at, end := int64(e.Pos), int64(e.Pos)+int64(e.Len)
	var have []byte // bytes of the file from at on
	for at < end {
		if len(have) < batchHead {
			n := min(int64(len(*buf)), end-at)
			if n < batchHead {
				return base.Errorf(base.CodeCorruption, "%s: %d bytes at %d are no batch", f.Path, n, at)
			}
			// Most extents have few, large batches: read no more than a header at first.
			if at == int64(e.Pos) {
				n = min(n, 1024)
			}
			if err := f.ReadAt((*buf)[:n], at); err != nil {
				return err
			}
			have = (*buf)[:n]
		}
		b := batch{
			base:         int64(binary.BigEndian.Uint64(have)),
			size:         int64(int32(binary.BigEndian.Uint32(have[8:]))) + 12,
			epoch:        int32(binary.BigEndian.Uint32(have[12:])),
			maxTimestamp: int64(binary.BigEndian.Uint64(have[35:])),
			records:      int32(binary.BigEndian.Uint32(have[57:])),
		}
		b.last = b.base + int64(int32(binary.BigEndian.Uint32(have[23:])))
		if b.size < batchHead || at+b.size > end || b.base < e.Base || b.last > e.Last {
			return base.Errorf(base.CodeCorruption, "%s: damaged batch header at %d (offset %d, size %d)", f.Path, at, b.base, b.size)
		}
		if !fn(at, &b) {
			return nil
		}
		at += b.size
		have = have[min(b.size, int64(len(have))):]
	}
	return nil
}
