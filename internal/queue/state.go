package queue

import (
	"cmp"
	"fmt"
	"slices"

	"godwit/internal/invariants"
)

// core is what commands change: the applied state, or the leader's guess of it.
type core struct {
	seq   uint64 // of the last command
	time  int64  // Unix ms; never goes back
	start int64
	end   int64
	epoch uint64 // counts resets; entries of the ordered view from before are void
	runs  runList
	count [states]int64 // records in the window

	watch *index // sees every change; nil in the applied state
	book  *book  // nil in the guess
}

// book is what the leader does not guess: what comes out, and what goes to the ordered view.
type book struct {
	totals  Totals
	effects []Effect // outstanding, by ID
	lastID  uint64   // of an effect
	later   map[LaterKey]laterEntry

	dirty        bool // header
	dirtyEffects map[uint64]struct{}
}

// laterEntry is what waits outside memory under a key.
type laterEntry struct {
	epoch uint64
	count int32
	trait *trait
	gone  bool // delete the key
}

func newCore() core {
	return core{book: &book{later: map[LaterKey]laterEntry{}, dirtyEffects: map[uint64]struct{}{}}}
}

// guess copies the state for a leader.
func (c *core) guess() *core {
	out := *c
	out.runs, out.book = c.runs.clone(), nil
	out.watch = newIndex(&out)
	for k, e := range c.book.later {
		if e.gone {
			out.watch.forgotten(k, c.seq)
		} else {
			out.watch.postponed(k, e, c.seq)
		}
	}
	return &out
}

// extend admits plain records up to and without end.
func (c *core) extend(end int64) {
	if end > c.end {
		c.add(run{first: c.end, last: end - 1})
	}
}

// add appends a run at the end of the window.
func (c *core) add(r run) {
	if r.first != c.end || r.last < r.first {
		invariants.Check(false, "queue: run [%d, %d] at end %d", r.first, r.last, c.end)
	}
	c.runs.push(r)
	c.end = r.last + 1
	c.count[r.state] += r.len()
	if c.watch != nil {
		c.watch.moved(nil, &r)
	}
}

// set changes the records in [first, last]. fn gets them in runs, in order.
func (c *core) set(first, last int64, fn func(r run) run) {
	if first < c.start || last >= c.end {
		invariants.Check(false, "queue: change of [%d, %d] in window [%d, %d)", first, last, c.start, c.end)
	}
	c.runs.change(first, last, func(old run) run {
		r := fn(old)
		if old.state != r.state {
			c.count[old.state] -= r.len()
			c.count[r.state] += r.len()
		}
		if c.watch != nil {
			c.watch.moved(&old, &r)
		}
		return r
	})
}

// advance moves start over what is Done, and a window that ends before from to there.
func (c *core) advance(from int64) {
	for c.start < c.end {
		n := c.runs.shift()
		if n == 0 {
			break
		}
		c.count[Done] -= n
		c.start += n
	}
	if from > c.end {
		c.start, c.end = from, from
	}
}

// report enters an effect, unless it goes on with the last one of the same command.
func (b *book) report(e Effect, since int) {
	if n := len(b.effects); n > since {
		if l := &b.effects[n-1]; l.Last+1 == e.First && l.Cause == e.Cause && l.Deliveries == e.Deliveries {
			l.Last = e.Last
			return
		}
	}
	b.lastID++
	e.ID = b.lastID
	b.effects = append(b.effects, e)
	b.dirtyEffects[e.ID] = struct{}{}
}

// confirm forgets effects.
func (b *book) confirm(ids []uint64) {
	for _, id := range ids {
		if i, ok := slices.BinarySearchFunc(b.effects, id, func(e Effect, id uint64) int { return cmp.Compare(e.ID, id) }); ok {
			b.effects = slices.Delete(b.effects, i, i+1)
			b.dirtyEffects[id] = struct{}{}
		}
	}
}

// check verifies guarantees 1 to 3 and panics where one does not hold.
func (c *core) check() {
	err := c.fault()
	invariants.Check(err == nil, "queue: %v", err)
}

// fault says which of guarantees 1 to 3 does not hold.
func (c *core) fault() error {
	var count [states]int64
	at, size, apart := c.start, 0, 0
	var before *run
	for _, k := range c.runs.chunks {
		if len(k.runs) == 0 || len(k.runs) > 2*chunkRuns {
			return fmt.Errorf("chunk %d has %d runs", k.id, len(k.runs))
		}
		was := *k
		if k.touch(); was.ready != k.ready || was.wake != k.wake || was.apart != k.apart {
			return fmt.Errorf("chunk %d says ready %d, wake %d, but it is %d, %d", k.id, was.ready, was.wake, k.ready, k.wake)
		}
		k.dirty = was.dirty
		apart += k.apart
		for i := range k.runs {
			r := &k.runs[i]
			if r.first != at || r.last < r.first || r.last == never {
				return fmt.Errorf("run [%d, %d] where %d is due", r.first, r.last, at)
			}
			if before != nil && alike(before, r) {
				return fmt.Errorf("runs of the same kind meet at %d", r.first)
			}
			if !r.sound() {
				return fmt.Errorf("run %+v does not fit its state", *r)
			}
			if r.state == mixed {
				count[Waiting] += r.waiting()
				count[Done] += r.len() - r.waiting()
			} else {
				count[r.state] += r.len()
			}
			at, before = r.last+1, r
			size++
		}
	}
	switch {
	case c.start < 0 || at != c.end:
		return fmt.Errorf("runs end at %d, the window is [%d, %d)", at, c.start, c.end)
	case size != c.runs.size || apart != c.runs.apart:
		return fmt.Errorf("%d runs, %d apart, counted are %d and %d", size, apart, c.runs.size, c.runs.apart)
	case count != c.count:
		return fmt.Errorf("counts are %v, runs have %v", c.count, count)
	case c.start < c.end && c.runs.chunks[0].runs[0].stateAt(c.start) == Done:
		return fmt.Errorf("start %d is done", c.start)
	}
	return nil
}

// sound says whether the fields fit the state.
func (r *run) sound() bool {
	switch r.state {
	case Acquired:
		return r.until > 0 && r.count > 0
	case Available:
		return r.owner == "" && r.count >= 0 && r.until >= 0
	case mixed:
		if n := r.waiting(); r.mix == nil || n == 0 || n == r.len() || r.len() > mixedMax {
			return false
		}
	}
	return r.state <= mixed && r.owner == "" && r.trait == nil && r.until == 0 && r.count == 0
}
