package engine

import (
	"context"
	"slices"
	"sort"
)

// tally is what a stretch of a log holds for a consumer: data records that exist, and the bytes of their batches.
// Control batches count for nothing. A part of a batch has its share of the batch's bytes, so that adjoining stretches
// add up exactly.
type tally struct{ records, bytes, batches int64 }

func (t *tally) add(o tally) {
	t.records, t.bytes, t.batches = t.records+o.records, t.bytes+o.bytes, t.batches+o.batches
}

func (t tally) minus(o tally) tally {
	return tally{t.records - o.records, t.bytes - o.bytes, t.batches - o.batches}
}

// lagSource reads one log.
type lagSource interface {
	// count goes through [from, to) and tells in steps, in order, what it found up to an offset; the last
	// step ends at to. After an error the steps so far hold.
	count(ctx context.Context, from, to int64, step func(to int64, t tally)) error
	// first is the timestamp of the first record that counts in [from, to), Unix ms; -1 if there is none, or it has none.
	first(ctx context.Context, from, to int64) (int64, error)
}

// lagChunk is the offsets [from, to); its tally holds once it is known.
type lagChunk struct {
	from, to int64
	tally
	known bool
}

// The limits of what is remembered of one log.
const (
	maxLagChunks = 1024
	maxLagFirsts = 64
)

// lagIndex remembers what stretches of one log hold, so that a position that is asked for again, or one near it, costs
// only what lies between. Every position asked for becomes a border between chunks; when there are too many,
// small neighbours become one. It is pure but for its source, and for one goroutine.
//
//  1. Chunks are sorted and adjoin: each begins where the one before ends, and none is empty.
//  2. A known chunk has the tally that its source would count.
type lagIndex struct {
	chunks []lagChunk
	firsts map[int64]int64 // position -> timestamp of the first record from there on
}

// behind counts [from, to), and finds the timestamp of its first record.
func (x *lagIndex) behind(ctx context.Context, src lagSource, from, to int64) (t tally, first int64, err error) {
	if from >= to {
		return tally{}, -1, nil
	}
	x.cover(from, to)
	for _, at := range []int64{from, to} {
		if err := x.split(ctx, src, at); err != nil {
			return tally{}, -1, err
		}
	}
	for i := x.at(from); i < len(x.chunks) && x.chunks[i].from < to; i++ {
		for !x.chunks[i].known {
			if err := x.fill(ctx, src, i); err != nil {
				return tally{}, -1, err
			}
		}
		t.add(x.chunks[i].tally)
	}
	x.coarsen()
	if t.records == 0 {
		return t, -1, nil
	}
	first, ok := x.firsts[from]
	if !ok {
		if first, err = src.first(ctx, from, to); err != nil {
			return tally{}, -1, err
		}
		if x.firsts == nil || len(x.firsts) >= maxLagFirsts {
			x.firsts = map[int64]int64{}
		}
		x.firsts[from] = first
	}
	return t, first, nil
}

// at is the chunk that holds the offset; len(chunks) if none does.
func (x *lagIndex) at(offset int64) int {
	return sort.Search(len(x.chunks), func(i int) bool { return x.chunks[i].to > offset })
}

// cover makes chunks for what of [from, to) has none.
func (x *lagIndex) cover(from, to int64) {
	if len(x.chunks) == 0 {
		x.chunks = append(x.chunks, lagChunk{from: from, to: to})
		return
	}
	if begin := x.chunks[0].from; from < begin {
		x.chunks = slices.Insert(x.chunks, 0, lagChunk{from: from, to: begin})
	}
	if end := x.chunks[len(x.chunks)-1].to; to > end {
		x.chunks = append(x.chunks, lagChunk{from: end, to: to})
	}
}

// split makes the offset a border. Of a known chunk it counts the part that spans fewer offsets; the rest is the other.
func (x *lagIndex) split(ctx context.Context, src lagSource, offset int64) error {
	i := x.at(offset)
	if i == len(x.chunks) || x.chunks[i].from >= offset {
		return nil
	}
	c := x.chunks[i]
	head, tail := lagChunk{from: c.from, to: offset, known: c.known}, lagChunk{from: offset, to: c.to, known: c.known}
	if c.known {
		part, rest := &head, &tail
		if tail.to-tail.from < head.to-head.from {
			part, rest = &tail, &head
		}
		if err := src.count(ctx, part.from, part.to, func(_ int64, t tally) { part.add(t) }); err != nil {
			return err
		}
		rest.tally = c.minus(part.tally)
	}
	x.chunks = slices.Replace(x.chunks, i, i+1, head, tail)
	return nil
}

// fill counts an unknown chunk. It becomes as many chunks as the source takes steps; what was not reached
// stays unknown.
func (x *lagIndex) fill(ctx context.Context, src lagSource, i int) error {
	c := x.chunks[i]
	var found []lagChunk
	err := src.count(ctx, c.from, c.to, func(to int64, t tally) {
		if to > c.from {
			found = append(found, lagChunk{from: c.from, to: to, tally: t, known: true})
			c.from = to
		}
	})
	if c.from < c.to {
		found = append(found, c)
	}
	x.chunks = slices.Replace(x.chunks, i, i+1, found...)
	return err
}

// trim forgets what lies below the start of the log. What spans the start has to be counted anew: the part
// below it can no longer be read.
func (x *lagIndex) trim(start int64) {
	if n := x.at(start); n > 0 {
		x.chunks = slices.Delete(x.chunks, 0, n)
	}
	if len(x.chunks) > 0 && x.chunks[0].from < start {
		x.chunks[0] = lagChunk{from: start, to: x.chunks[0].to}
	}
}

// rewritten forgets what was counted of offsets from base to last: compaction may have removed records.
func (x *lagIndex) rewritten(base, last int64) {
	x.firsts = nil
	for i := x.at(base); i < len(x.chunks) && x.chunks[i].from <= last; i++ {
		x.chunks[i].known, x.chunks[i].tally = false, tally{}
	}
}

// coarsen halves the number of chunks when there are too many, by joining neighbours that have few batches.
func (x *lagIndex) coarsen() {
	if len(x.chunks) <= maxLagChunks {
		return
	}
	var all int64
	for i := range x.chunks {
		all += x.chunks[i].batches
	}
	// Any two neighbours that stay apart have more than this together: at most maxLagChunks/2 can, and one more.
	most := 4 * all / maxLagChunks
	out := x.chunks[:1]
	for _, c := range x.chunks[1:] {
		last := &out[len(out)-1]
		if last.known == c.known && last.batches+c.batches <= most {
			last.to = c.to
			last.add(c.tally)
			continue
		}
		out = append(out, c)
	}
	x.chunks = out
}
