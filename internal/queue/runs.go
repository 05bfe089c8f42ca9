package queue

import (
	"math"
	"slices"
	"sort"
)

// chunkRuns bounds the runs of a chunk: it is split above twice as many.
const chunkRuns = 64

// never is a time that does not come.
const never = math.MaxInt64

// trait is the lasting part of a record's Meta. It is never written in place.
type trait struct {
	lane     string
	priority uint8
	expires  int64
}

// run is a range of records that are alike.
type run struct {
	first, last int64
	until       int64  // Acquired: deadline, never if none; Available: not before, 0 if at once
	owner       string // Acquired
	trait       *trait // nil: plain
	mix         *mix   // mixed
	count       int32  // deliveries
	state       State
}

func (r *run) len() int64 { return r.last - r.first + 1 }

// plain says that the run is found by its offset alone.
func (r *run) plain() bool { return r.trait == nil && r.until == 0 }

func (r *run) lane() string {
	if r.trait == nil {
		return ""
	}
	return r.trait.lane
}

func (r *run) priority() uint8 {
	if r.trait == nil {
		return 0
	}
	return r.trait.priority
}

// expires is the end of the time to live, never if there is none.
func (r *run) expires() int64 {
	if r.trait == nil || r.trait.expires == 0 {
		return never
	}
	return r.trait.expires
}

func alike(a, b *run) bool {
	return a.state == b.state && a.state != mixed && a.until == b.until && a.count == b.count && a.owner == b.owner &&
		(a.trait == b.trait || a.trait != nil && b.trait != nil && *a.trait == *b.trait)
}

// chunk is some neighbouring runs, stored under one key.
type chunk struct {
	id    uint64
	runs  []run // at least one
	ready int64 // records that are available and plain
	apart int   // runs that are available and not plain
	wake  int64 // the earliest lock deadline or expiry in it; never if there is none
	dirty bool
}

func (c *chunk) first() int64 { return c.runs[0].first }
func (c *chunk) last() int64  { return c.runs[len(c.runs)-1].last }

// touch brings the summary up to date.
func (c *chunk) touch() {
	c.dirty, c.ready, c.apart, c.wake = true, 0, 0, never
	for i := range c.runs {
		switch r := &c.runs[i]; r.state {
		case Available:
			if r.plain() {
				c.ready += r.len()
			} else {
				c.apart++
				c.wake = min(c.wake, r.expires())
			}
		case Acquired:
			c.wake = min(c.wake, r.until)
		}
	}
}

// touch brings the summaries of a chunk and of the list up to date.
func (l *runList) touch(c *chunk) {
	l.apart -= c.apart
	c.touch()
	l.apart += c.apart
}

// index finds the run that holds the offset, or the first behind it.
func (c *chunk) index(offset int64) int {
	return sort.Search(len(c.runs), func(i int) bool { return c.runs[i].last >= offset })
}

// runList is the runs of a window, in order, in chunks.
type runList struct {
	chunks []*chunk
	nextID uint64
	gone   []uint64 // stored chunks that are no more
	size   int      // runs
	apart  int      // runs that are available and not plain
}

// clone copies the list for the leader's guess.
func (l *runList) clone() runList {
	out := runList{chunks: make([]*chunk, len(l.chunks)), nextID: l.nextID, size: l.size, apart: l.apart}
	for i, c := range l.chunks {
		d := *c
		d.runs = slices.Clone(c.runs)
		out.chunks[i] = &d
	}
	return out
}

// chunkAt finds the chunk that holds the offset, or the first behind it.
func (l *runList) chunkAt(offset int64) int {
	return sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].last() >= offset })
}

// at finds the run that holds the offset, nil if none does. The result is valid until the next change.
func (l *runList) at(offset int64) *run {
	i := l.chunkAt(offset)
	if i == len(l.chunks) {
		return nil
	}
	c := l.chunks[i]
	if r := &c.runs[c.index(offset)]; r.first <= offset {
		return r
	}
	return nil
}

// each calls fn for the runs that overlap [first, last], in order, until it returns false. fn must not change the list.
func (l *runList) each(first, last int64, fn func(r *run) bool) {
	for i := l.chunkAt(first); i < len(l.chunks); i++ {
		c := l.chunks[i]
		for j := c.index(first); j < len(c.runs); j++ {
			if c.runs[j].first > last || !fn(&c.runs[j]) {
				return
			}
		}
	}
}

// push appends a run behind the last.
func (l *runList) push(r run) {
	if n := len(l.chunks); n > 0 && len(l.chunks[n-1].runs) < chunkRuns {
		c := l.chunks[n-1]
		if !fuse(&c.runs[len(c.runs)-1], &r) {
			c.runs = append(c.runs, r)
			l.size++
		}
		l.touch(c)
		return
	}
	c := l.newChunk([]run{r})
	l.size++
	l.chunks = append(l.chunks, c)
	l.border(len(l.chunks) - 1)
}

func (l *runList) newChunk(runs []run) *chunk {
	l.nextID++
	c := &chunk{id: l.nextID, runs: runs}
	l.touch(c)
	return c
}

// change replaces what lies in [first, last] by what fn makes of it. fn is given runs of one state each, in order, and
// must leave their offsets.
func (l *runList) change(first, last int64, fn func(run) run) {
	from := l.chunkAt(first)
	to := from
	for ; to < len(l.chunks) && l.chunks[to].first() <= last; to++ {
		l.changeIn(l.chunks[to], first, last, fn)
	}
	for i := min(to, len(l.chunks)-1); i >= from; i-- {
		l.border(i)
		l.fit(i)
	}
}

func (l *runList) changeIn(c *chunk, first, last int64, fn func(run) run) {
	var buf [8]run
	out := buf[:0]
	i := c.index(first)
	from := max(0, i-1) // the neighbours may become alike
	if from < i {
		out = append(out, c.runs[from])
	}
	for ; i < len(c.runs) && c.runs[i].first <= last; i++ {
		r := &c.runs[i]
		if r.first < first {
			out = with(out, r.cut(r.first, first-1))
		}
		part := r.cut(max(r.first, first), min(r.last, last))
		for part.state == mixed {
			end := part.mix.until(part.first, part.last)
			out = with(out, fn(part.cut(part.first, end)))
			part = part.cut(end+1, part.last)
		}
		out = with(out, fn(part))
		if r.last > last {
			out = with(out, r.cut(last+1, r.last))
		}
	}
	if i < len(c.runs) {
		out = with(out, c.runs[i])
		i++
	}
	l.size += len(out) - (i - from)
	c.runs = slices.Replace(c.runs, from, i, out...)
	l.touch(c)
}

// with appends a run, joined with the last if they go together.
func with(to []run, r run) []run {
	if n := len(to); n > 0 && fuse(&to[n-1], &r) {
		return to
	}
	return append(to, r)
}

// border joins the last run of the chunk before i with the first of i, if they go together.
func (l *runList) border(i int) {
	if i == 0 || i >= len(l.chunks) {
		return
	}
	a, b := l.chunks[i-1], l.chunks[i]
	if !fuse(&a.runs[len(a.runs)-1], &b.runs[0]) {
		return
	}
	b.runs = slices.Delete(b.runs, 0, 1)
	l.size--
	l.touch(a)
	if len(b.runs) == 0 {
		l.remove(i)
		return
	}
	l.touch(b)
}

// fit splits a chunk that is too large, and joins one that is small with the one before.
func (l *runList) fit(i int) {
	if i >= len(l.chunks) {
		return
	}
	c := l.chunks[i]
	if len(c.runs) > 2*chunkRuns {
		var parts []*chunk
		for rest := c.runs[chunkRuns:]; len(rest) > 0; {
			n := min(chunkRuns, len(rest))
			parts = append(parts, l.newChunk(slices.Clone(rest[:n])))
			rest = rest[n:]
		}
		c.runs = slices.Clone(c.runs[:chunkRuns])
		l.touch(c)
		l.chunks = slices.Insert(l.chunks, i+1, parts...)
		return
	}
	if i > 0 && len(c.runs)+len(l.chunks[i-1].runs) <= chunkRuns/2 {
		a := l.chunks[i-1]
		a.runs = append(a.runs, c.runs...)
		l.touch(a)
		l.remove(i)
	}
}

func (l *runList) remove(i int) {
	l.gone = append(l.gone, l.chunks[i].id)
	l.apart -= l.chunks[i].apart
	l.chunks = slices.Delete(l.chunks, i, i+1)
}

// shift drops what the list begins with that is Done, and returns how much that is.
func (l *runList) shift() int64 {
	c := l.chunks[0]
	r := c.runs[0]
	if r.stateAt(r.first) != Done {
		return 0
	}
	if r.state == mixed {
		at := r.mix.until(r.first, r.last)
		c.runs[0] = r.cut(at+1, r.last)
		l.touch(c)
		return at - r.first + 1
	}
	l.size--
	if len(c.runs) == 1 {
		l.remove(0)
		return r.len()
	}
	c.runs = slices.Delete(c.runs, 0, 1)
	l.touch(c)
	return r.len()
}

// clear drops everything.
func (l *runList) clear() {
	for _, c := range l.chunks {
		l.gone = append(l.gone, c.id)
	}
	l.chunks, l.size, l.apart = nil, 0, 0
}

// ready finds the first record that is available and plain.
func (l *runList) ready() *run {
	for _, c := range l.chunks {
		if c.ready == 0 {
			continue
		}
		for i := range c.runs {
			if r := &c.runs[i]; r.state == Available && r.plain() {
				return r
			}
		}
	}
	return nil
}

// wake is the earliest lock deadline or expiry.
func (l *runList) wake() int64 {
	at := int64(never)
	for _, c := range l.chunks {
		at = min(at, c.wake)
	}
	return at
}

// woken calls fn for the runs whose deadline or expiry is not after now, in order. fn must not change the list.
func (l *runList) woken(now int64, fn func(r *run)) {
	for _, c := range l.chunks {
		if c.wake > now {
			continue
		}
		for i := range c.runs {
			r := &c.runs[i]
			if r.state == Acquired && r.until <= now || r.state == Available && r.expires() <= now {
				fn(r)
			}
		}
	}
}
