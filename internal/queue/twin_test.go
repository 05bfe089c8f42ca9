package queue

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// record is one record as the twin knows it.
type record struct {
	state State
	until int64 // Acquired: deadline, 0 if none; Available and Waiting: not before
	owner string
	meta  Meta
	count int32
}

// lost is one record that came out as an effect.
type lost struct {
	offset int64
	cause  Cause
	count  int32
}

// twin is the dumb implementation: a map of records, looked through.
type twin struct {
	start, end int64
	recs       map[int64]record
	totals     Totals
	effects    []lost // of the last command
}

func newTwin() *twin { return &twin{recs: map[int64]record{}} }

func (w *twin) clone() *twin {
	c := *w
	c.recs = maps.Clone(w.recs)
	return &c
}

func (w *twin) extend(end int64) {
	for ; w.end < end; w.end++ {
		w.recs[w.end] = record{}
	}
}

func (w *twin) archive(s Span, cause Cause, report bool) {
	w.extend(s.Last + 1)
	for at := max(s.First, w.start); at <= s.Last; at++ {
		if r := w.recs[at]; r.state != Done {
			w.totals.Archived[cause]++
			if r.state == Waiting {
				r.count = 0
			}
			if report {
				w.effects = append(w.effects, lost{at, cause, r.count})
			}
			w.recs[at] = record{state: Done}
		}
	}
}

func (w *twin) apply(cmd Command) {
	w.effects = nil
	switch cmd := cmd.(type) {
	case *Acquire:
		for _, g := range cmd.Gaps {
			w.archive(g, CauseGap, false)
		}
		for _, s := range cmd.Spans {
			w.extend(s.Last + 1)
			for at := s.First; at <= s.Last; at++ {
				r := w.recs[at]
				w.recs[at] = record{state: Acquired, until: cmd.Deadline, owner: cmd.Consumer, meta: r.meta, count: r.count + 1}
				w.totals.Deliveries++
			}
		}
	case *Settle:
		for _, ch := range cmd.Changes {
			w.settle(ch)
		}
	case *Admit:
		for _, a := range cmd.Records {
			w.extend(a.Offset + 1)
			r := record{until: a.NotBefore, meta: a.Meta}
			if a.Later {
				r.state = Waiting
			}
			w.recs[a.Offset] = r
		}
		w.extend(cmd.End)
	case *Promote:
		for _, p := range cmd.Records {
			r := w.recs[p.Offset]
			r.state = Available
			w.recs[p.Offset] = r
		}
	case *Trim:
		w.archive(Span{w.start, min(cmd.Start, w.end) - 1}, CauseRetention, cmd.Report)
		if cmd.Start > w.end {
			w.start, w.end = cmd.Start, cmd.Start
		}
	case *Reset:
		w.start, w.end, w.recs = cmd.Start, cmd.Start, map[int64]record{}
	}
	for w.start < w.end && w.recs[w.start].state == Done {
		delete(w.recs, w.start)
		w.start++
	}
}

func (w *twin) settle(ch Change) {
	if ch.Op == OpArchive {
		w.archive(ch.Span, ch.Cause, ch.Report)
		return
	}
	for at := ch.First; at <= ch.Last; at++ {
		r := w.recs[at]
		if r.state == Done {
			continue
		}
		switch ch.Op {
		case OpAck:
			r = record{state: Done}
			w.totals.Acked++
		case OpRelease:
			r.state, r.owner, r.until = Available, "", ch.Until
		case OpReturn:
			r.state, r.owner, r.until, r.count = Available, "", ch.Until, r.count-1
		case OpDefer:
			r.state, r.owner, r.until = Waiting, "", ch.Until
		case OpRenew:
			r.until = ch.Until
		}
		w.recs[at] = r
	}
}

// sorted lists the offsets of the window.
func (w *twin) sorted() []int64 { return slices.Sorted(maps.Keys(w.recs)) }

// takable lists what may be acquired by somebody without limits, in the order of offsets. What waits outside memory
// is not for taking, however due it is.
func (w *twin) takable(now int64) (out []int64) {
	busy := map[string]bool{}
	for _, r := range w.recs {
		if r.state == Acquired && r.meta.Lane != "" {
			busy[r.meta.Lane] = true
		}
	}
	for _, at := range w.sorted() {
		r := w.recs[at]
		if r.state != Available {
			continue
		}
		lane := r.meta.Lane
		free := r.until <= now && (r.meta.Expires == 0 || r.meta.Expires > now)
		if free && !busy[lane] {
			out = append(out, at)
		} else if lane != "" && (r.count > 0 || r.until <= now) {
			busy[lane] = true
		}
	}
	return out
}

// compare holds a queue's state against the twin, record by record.
func (w *twin) compare(t *rapid.T, who string, c *core) {
	c.check()
	if c.start != w.start || c.end != w.end {
		t.Fatalf("%s: window [%d, %d), want [%d, %d)", who, c.start, c.end, w.start, w.end)
	}
	c.runs.each(c.start, c.end-1, func(r *run) bool {
		for at := r.first; at <= r.last; at++ {
			want := w.recs[at]
			got := record{state: r.stateAt(at), owner: r.owner, count: r.count, until: r.until, meta: Meta{Lane: r.lane(), Priority: r.priority()}}
			if r.trait != nil {
				got.meta.Expires = r.trait.expires
			}
			if got.until == never {
				got.until = 0
			}
			want.meta.Offset, want.meta.NotBefore = 0, 0
			switch want.state {
			case Waiting: // its data is in the ordered view
				want = record{state: Waiting}
			case Available: // a time that has passed may be forgotten
				if got.until == 0 && want.until <= c.time {
					want.until = 0
				}
			}
			if got != want {
				t.Fatalf("%s: record %d is %+v, want %+v", who, at, got, want)
			}
		}
		return true
	})
	if c.book != nil && c.book.totals != w.totals {
		t.Fatalf("%s: totals %+v, want %+v", who, c.book.totals, w.totals)
	}
}

// fataler is what tests and rapid have in common.
type fataler interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// store is a state store with one queue's keys.
type store map[string][]byte

func (s store) Scan(from []byte, fn func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if k >= string(from) && !fn([]byte(k), s[k]) {
			return nil
		}
	}
	return nil
}

// save takes a checkpoint.
func (s store) save(q *Queue) {
	q.Checkpoint(func(k, v []byte) {
		if v == nil {
			delete(s, string(k))
		} else {
			s[string(k)] = v
		}
	})
	q.Checkpoint(func(k, _ []byte) { panic(fmt.Sprintf("%q is saved twice", k)) })
	if x := q.lead; x != nil && x.seq == q.applied.seq && len(x.watch.later.items)+len(x.watch.known)+len(x.watch.gone) > 0 {
		panic("what is saved is still held in memory")
	}
}

// load restores a queue from what was saved.
func (s store) load(t fataler, o Options) *Queue {
	q := New(o, s)
	for k, v := range s {
		if err := q.Restore([]byte(k), v); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Restored(); err != nil {
		t.Fatal(err)
	}
	q.Checkpoint(func(k, _ []byte) { t.Fatalf("a restored queue is dirty at %q", k) })
	return q
}

// image is everything that commands made of a queue, to the byte.
func image(q *Queue) []byte {
	c := &q.applied
	out := c.appendHeader(nil)
	k := chunk{}
	c.runs.each(c.start, c.end-1, func(r *run) bool {
		k.runs = append(k.runs, *r)
		return true
	})
	if len(k.runs) > 0 {
		out = k.appendTo(out)
	}
	for _, e := range c.book.effects {
		out = e.appendTo(out)
	}
	return out
}

func sameImage(a, b *Queue) bool { return bytes.Equal(image(a), image(b)) }
