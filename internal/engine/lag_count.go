package engine

import (
	"context"
	"math"
	"slices"
	"sort"
	"sync"

	"godwit/internal/base"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
	"godwit/internal/storage/segment"
)

// Lag is how far a position is behind the end of a log.
type Lag struct {
	Start, End int64 // of what can be read: from the log start to the high watermark, or the last stable offset
	Records    int64 // data records that exist at or above the position: no markers, nothing that was compacted away
	Bytes      int64 // of the batches that hold them; a batch that was read in part counts with its share
	Age        int64 // ms since the timestamp of the first of them; 0 without any, -1 if it has no timestamp
}

// LagFromEnd is a position that is never behind.
const LagFromEnd = math.MaxInt64

// LagCounter counts lags, and remembers what it read to count them. Its memory is bounded. It is safe for
// concurrent use.
type LagCounter struct {
	e *Engine

	mu      sync.Mutex
	entries map[lagKey]*lagEntry
	newest  *lagEntry // of a ring, by last use
	weight  int
	most    int // weight
}

// lagKey tells the two ends of a log apart: what is below the last stable offset is counted without aborted transactions.
type lagKey struct {
	log       base.LogID
	committed bool
}

// lagEntry is what is remembered of one log.
type lagEntry struct {
	key        lagKey
	prev, next *lagEntry // in the ring; guarded by LagCounter.mu
	weight     int       // as counted in LagCounter.weight

	turn   chan struct{} // holds a token while nobody uses what follows
	index  lagIndex
	merged []lagPiece
}

// lagPiece is a piece of a merged file, which stands where other pieces stood before.
type lagPiece struct {
	number     uint32
	base, last int64
}

// maxLagWeight bounds what is remembered of all logs: this many chunks, pieces and positions of 64 bytes at most.
const maxLagWeight = 128 << 10

// NewLagCounter makes a counter that remembers nothing yet.
func NewLagCounter(e *Engine) *LagCounter {
	return &LagCounter{e: e, entries: map[lagKey]*lagEntry{}, most: maxLagWeight}
}

// Lags counts how far positions are behind the end of one log. A position below the log's start counts from there; one
// at or above the end is not behind. With committed the end is the last stable offset, and records of aborted
// transactions do not count. When ctx ends before the counting does, the error is CodeTimeout; what was counted until then is remembered.
func (c *LagCounter) Lags(ctx context.Context, log base.LogID, positions []int64, committed bool) ([]Lag, error) {
	for tries := 1; ; tries++ {
		st, ok := c.e.State(log)
		if !ok {
			return nil, base.Errorf(base.CodeUnknownPartition, "this server does not host this topic-partition")
		}
		end, src := c.e.lagLimits(log, st, committed)
		out, stale, err := c.lags(ctx, lagKey{log, committed}, src, positions, st.Start, end)
		src.close()
		if !stale || err != nil || tries == maxLagTries {
			return out, err
		}
	}
}

// maxLagTries bounds how often a count begins anew because records were removed meanwhile.
const maxLagTries = 5

// lags counts in [start, end). It reports stale if what it read may be in part from before, in part from after a
// removal of records.
func (c *LagCounter) lags(ctx context.Context, k lagKey, src *lagReader, positions []int64, start, end int64) (out []Lag, stale bool, err error) {
	out = make([]Lag, len(positions))
	var entry *lagEntry
	for i, at := range positions {
		out[i] = Lag{Start: start, End: end}
		if at = max(at, start); at >= end {
			continue
		}
		if entry == nil {
			if entry, err = c.acquire(ctx, k, start); err != nil {
				return nil, false, err
			}
			defer c.release(entry)
		}
		t, first, err := entry.index.behind(ctx, src, at, end)
		if err != nil {
			return nil, false, err
		}
		out[i].Records, out[i].Bytes = t.records, t.bytes
		if t.records > 0 {
			out[i].Age = -1
			if first >= 0 {
				out[i].Age = max(0, c.e.opts.Clock.Now().UnixMilli()-first)
			}
		}
	}
	if src.head != nil {
		st, ok := c.e.State(k.log)
		stale = !ok || st.Start != start || !slices.Equal(entry.merged, c.e.mergedPieces(k.log))
	}
	return out, stale, nil
}

// lagLimits is where the readers of a log end, and what is to be counted up to there.
func (e *Engine) lagLimits(log base.LogID, st LogState, committed bool) (end int64, src *lagReader) {
	src = &lagReader{store: e.store, log: log}
	if !committed {
		return st.HighWatermark, src
	}
	// The list comes before the files: a transaction leaves it only when no file has its records.
	src.aborted = e.Aborted(log)
	return st.LastStable, src
}

// acquire finds what is remembered of a log, waits for its turn, and drops what is no longer true.
func (c *LagCounter) acquire(ctx context.Context, k lagKey, start int64) (*lagEntry, error) {
	c.mu.Lock()
	e := c.entries[k]
	if e == nil {
		e = &lagEntry{key: k, turn: make(chan struct{}, 1)}
		e.turn <- struct{}{}
		c.entries[k] = e
	} else {
		c.unlink(e)
	}
	c.link(e)
	c.mu.Unlock()
	select {
	case <-e.turn:
	case <-ctx.Done():
		return nil, lagTimeout(ctx)
	}
	// The pieces are listed before anything is read: what is merged later shows up as new the next time.
	merged := c.e.mergedPieces(k.log)
	known := map[lagPiece]bool{}
	for _, p := range e.merged {
		known[p] = true
	}
	for _, p := range merged {
		if !known[p] {
			e.index.rewritten(p.base, p.last)
		}
	}
	e.merged = merged
	e.index.trim(start)
	return e, nil
}

func lagTimeout(ctx context.Context) error {
	return base.Errorf(base.CodeTimeout, "the lag was not counted in time (%v): what was read is remembered, ask again", ctx.Err())
}

// release lets others use the entry, and forgets the logs that were not asked for longest when there is too much.
func (c *LagCounter) release(e *lagEntry) {
	weight := 4 + len(e.index.chunks) + len(e.index.firsts) + len(e.merged)
	e.turn <- struct{}{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[e.key] != e {
		return // forgotten meanwhile
	}
	c.weight += weight - e.weight
	e.weight = weight
	for c.weight > c.most && c.newest.prev != c.newest {
		old := c.newest.prev
		c.unlink(old)
		delete(c.entries, old.key)
		c.weight -= old.weight
	}
}

// link makes an entry the newest of the ring.
func (c *LagCounter) link(e *lagEntry) {
	if c.newest == nil {
		e.prev, e.next = e, e
	} else {
		e.prev, e.next = c.newest.prev, c.newest
		e.prev.next, e.next.prev = e, e
	}
	c.newest = e
}

func (c *LagCounter) unlink(e *lagEntry) {
	if e.next == e {
		c.newest = nil
		return
	}
	e.prev.next, e.next.prev = e.next, e.prev
	if c.newest == e {
		c.newest = e.next
	}
}

// mergedPieces lists the pieces of a log that lie in merged files.
func (e *Engine) mergedPieces(log base.LogID) (out []lagPiece) {
	for _, p := range e.store.Pieces(log) {
		if p.File.Kind == segment.KindMerged {
			out = append(out, lagPiece{p.File.Number, p.Base, p.Last})
		}
	}
	return out
}

// lagReader counts from the headers of batches. Only a batch that has holes and is cut by a position is read whole.
type lagReader struct {
	store   *segment.Store
	log     base.LogID
	aborted []partlog.Aborted // what does not count

	void   map[int64][]partlog.Aborted // by producer, in the stretch that is read; ascending by both ends
	head   *[]byte                     // from lagHeads, once something was read
	window int64                       // bytes to read at a header
	body   []byte
	rd     recordbatch.Reader
}

// How a log is read for counting.
const (
	lagFirst    = 16 << 10 // bytes found at first
	lagStride   = 4 << 20  // bytes found at a time, after more and more
	lagStep     = 1024     // batches in a step
	lagWindow   = 64 << 10 // bytes read at once where batches are small
	lagSmall    = 4 << 10  // bytes of a batch behind which reading on is cheaper than reading again
	lagTimeless = -1       // timestamp of a record without one
)

// lagHeads has buffers for headers.
var lagHeads = sync.Pool{New: func() any { b := make([]byte, lagWindow); return &b }}

func (r *lagReader) close() {
	r.rd.Close()
	if r.head != nil {
		lagHeads.Put(r.head)
		r.head = nil
	}
}

// count implements lagSource.
func (r *lagReader) count(ctx context.Context, from, to int64, step func(to int64, t tally)) error {
	var t tally
	err := r.headers(ctx, from, to, func(f *segment.File, pos int64, h *recordbatch.Info) (bool, error) {
		t.batches++
		if err := r.tally(f, pos, h, from, to, &t); err != nil {
			return false, err
		}
		if next := h.LastOffset() + 1; t.batches >= lagStep && next < to {
			step(next, t)
			t = tally{}
		}
		return true, nil
	})
	if err == nil {
		step(to, t)
	}
	return err
}

// counts says whether the records of a batch are data that a consumer gets.
func (r *lagReader) counts(h *recordbatch.Info) bool {
	if h.Records == 0 || h.IsControl() {
		return false
	}
	if !h.IsTransactional() || len(r.void) == 0 {
		return true
	}
	mine := r.void[h.ProducerID]
	i := sort.Search(len(mine), func(i int) bool { return mine[i].Last >= h.BaseOffset })
	return i == len(mine) || mine[i].First > h.BaseOffset
}

// enter makes the aborted transactions of a stretch known to counts.
func (r *lagReader) enter(from, to int64) {
	r.void = nil
	for _, a := range partlog.AbortedWithin(r.aborted, from, to) {
		if r.void == nil {
			r.void = map[int64][]partlog.Aborted{}
		}
		r.void[a.ProducerID] = append(r.void[a.ProducerID], a)
	}
}

// tally adds what a batch has in [from, to).
func (r *lagReader) tally(f *segment.File, pos int64, h *recordbatch.Info, from, to int64, t *tally) error {
	if !r.counts(h) {
		return nil
	}
	below, size, all := int64(0), int64(h.Size), int64(h.Records)
	upTo := all
	if h.BaseOffset < from || h.LastOffset() >= to {
		var err error
		if below, upTo, err = r.cut(f, pos, h, from, to); err != nil {
			return err
		}
	}
	t.records += upTo - below
	t.bytes += size*upTo/all - size*below/all
	return nil
}

// cut counts the records of a batch below two offsets.
func (r *lagReader) cut(f *segment.File, pos int64, h *recordbatch.Info, from, to int64) (below, upTo int64, err error) {
	if int64(h.Records) == int64(h.LastOffsetDelta)+1 {
		within := func(offset int64) int64 { return min(max(offset-h.BaseOffset, 0), int64(h.Records)) }
		return within(from), within(to), nil
	}
	err = r.records(f, pos, h, func(rec *recordbatch.Record) bool {
		if rec.Offset < from {
			below++
		}
		if rec.Offset < to {
			upTo++
		}
		return true
	})
	return below, upTo, err
}

// records reads a batch.
func (r *lagReader) records(f *segment.File, pos int64, h *recordbatch.Info, fn func(*recordbatch.Record) bool) error {
	var err error
	if r.body, err = readBatch(r.body, &segment.BatchRef{File: f, Pos: pos, Size: int64(h.Size)}); err != nil {
		return err
	}
	if err := r.rd.Reset(r.body, maxRecordBytes); err != nil {
		return err
	}
	for r.rd.Next() {
		if !fn(&r.rd.Record) {
			return nil
		}
	}
	return r.rd.Err()
}

// first implements lagSource. Where a batch begins with the record the header tells its timestamp.
func (r *lagReader) first(ctx context.Context, from, to int64) (at int64, err error) {
	at = lagTimeless
	err = r.headers(ctx, from, to, func(f *segment.File, pos int64, h *recordbatch.Info) (more bool, err error) {
		if !r.counts(h) {
			return true, nil
		}
		_, horizon := h.DeleteHorizon()
		switch dense := int64(h.Records) == int64(h.LastOffsetDelta)+1; {
		case dense && h.IsLogAppendTime():
			at = h.MaxTimestamp
			return false, nil
		case dense && h.BaseOffset >= from && !horizon:
			at = h.BaseTimestamp
			return false, nil
		}
		more = true
		err = r.records(f, pos, h, func(rec *recordbatch.Record) bool {
			if rec.Offset >= from && rec.Offset < to {
				at, more = rec.Timestamp, false
			}
			return more
		})
		return more, err
	})
	return at, err
}

// headers goes through the batches that have offsets in [from, to), until fn returns false.
func (r *lagReader) headers(ctx context.Context, from, to int64, fn func(f *segment.File, pos int64, h *recordbatch.Info) (bool, error)) error {
	r.enter(from, to)
	if r.window = recordbatch.HeaderSize; r.head == nil {
		r.head = lagHeads.Get().(*[]byte)
	}
	for stride := lagFirst; from < to; stride = min(4*stride, lagStride) {
		if ctx.Err() != nil {
			return lagTimeout(ctx)
		}
		spans, err := r.store.Find(r.log, from, to, stride, true)
		if err != nil {
			return err
		}
		next, more := from, len(spans) > 0
		for i := 0; i < len(spans) && more && err == nil; i++ {
			f := spans[i].File
			err = r.walk(&spans[i], func(pos int64, h *recordbatch.Info) (bool, error) {
				next = max(next, h.LastOffset()+1)
				if more = h.BaseOffset < to; !more || h.LastOffset() < from {
					return more, nil
				}
				var err error
				more, err = fn(f, pos, h)
				return more, err
			})
		}
		segment.ReleaseAll(spans)
		if err != nil || !more {
			return err
		}
		from = next
	}
	return nil
}

// walk reads the headers of a run of whole batches.
func (r *lagReader) walk(s *segment.Span, fn func(pos int64, h *recordbatch.Info) (bool, error)) error {
	var have []byte
	for pos, end := s.Pos, s.Pos+s.Len; pos < end; {
		if len(have) < recordbatch.HeaderSize {
			have = (*r.head)[:min(r.window, end-pos)]
			if err := s.File.ReadAt(have, pos); err != nil {
				return err
			}
		}
		h, err := recordbatch.ParseHeader(have)
		if err != nil {
			return base.Errorf(base.CodeCorruption, "%s: damaged batch header at %d: %v", s.File.Path, pos, err)
		}
		if more, err := fn(pos, &h); err != nil || !more {
			return err
		}
		pos += int64(h.Size)
		have = have[min(h.Size, len(have)):]
		if h.Size < lagSmall {
			r.window = min(8*r.window, lagWindow)
		} else {
			r.window = recordbatch.HeaderSize
		}
	}
	return nil
}
