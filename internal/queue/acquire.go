package queue

import "math"

// taking is one Acquire as it is decided. The guess follows step by step.
type taking struct {
	q    *Queue
	g    *core
	now  int64
	want *Want
	cmd  *Acquire
	out  []Taken
	left int64            // records that are still wanted
	most int64            // records that may still be taken
	mine map[string]int64 // records taken of each lane
	last bool             // what was taken is to be delivered alone
}

// Acquire gives a consumer what it may have. The command is nil if nothing changes; it may have only gaps, and then
// nothing is taken.
func (q *Queue) Acquire(now int64, want *Want) (Command, []Taken) {
	g := q.guess()
	g.watch.ripen(&g.runs, now)
	t := &taking{q: q, g: g, now: now, want: want, left: int64(want.Records), most: q.credit(want.Consumer)}
	if t.done() {
		return nil, nil
	}
	t.cmd = &Acquire{Step: q.next(now), Consumer: want.Consumer}
	if q.Options.Lock > 0 {
		t.cmd.Deadline = now + q.Options.Lock
	}
	if want.Read != nil {
		t.read(want.Read)
	} else {
		t.pick()
	}
	if len(t.cmd.Spans) == 0 && len(t.cmd.Gaps) == 0 {
		return nil, nil
	}
	g.begin(&t.cmd.Step)
	g.advance(0)
	if len(t.out) > 0 {
		q.roster.serve(want.Consumer)
	}
	return t.cmd, t.out
}

// Next is the offset from which the caller should read for a consumer, and whether anything may be acquired there.
func (q *Queue) Next(now int64) (offset int64, ok bool) {
	g := q.guess()
	g.watch.ripen(&g.runs, now)
	t := &taking{q: q, g: g, now: now}
	offset = math.MaxInt64
	if r := g.runs.ready(); r != nil {
		offset = r.first
	}
	for _, p := range g.watch.prios {
		if r, ok := t.top(p); ok {
			offset = min(offset, r.first)
		}
	}
	if offset == math.MaxInt64 {
		offset = g.end
	}
	o := &q.Options
	full := o.MaxInFlight > 0 && g.count[Acquired] >= o.MaxInFlight ||
		offset == g.end && o.MaxWindow > 0 && g.end-g.start >= o.MaxWindow
	return offset, !full
}

// take acquires the beginning of an available run, as much as the limits allow. whole: unless Strict, all of it.
func (t *taking) take(r run, whole bool) {
	n := min(r.len(), t.most)
	if !whole || t.want.Strict {
		n = min(n, t.left)
	}
	if n = t.apart(&r, n); n == 0 {
		return
	}
	s := Span{r.first, r.first + n - 1}
	t.g.acquire(s, t.want.Consumer, t.cmd.Deadline)
	t.left, t.most = t.left-n, t.most-n
	t.cmd.Spans = join(t.cmd.Spans, s)
	if k := len(t.out); k > 0 && t.out[k-1].Last+1 == s.First && t.out[k-1].Deliveries == r.count+1 {
		t.out[k-1].Last = s.Last
	} else {
		t.out = append(t.out, Taken{s, r.count + 1})
	}
	if name := r.lane(); name != "" {
		t.follow(name, n)
	}
}

// apart says how many of n records of a run go into this answer. Those that were delivered often go apart: half of the run
// each time, and the last time one alone.
func (t *taking) apart(r *run, n int64) int64 {
	most := t.q.Options.MaxDeliveries
	often := max(2, (most+1)/2)
	if !t.q.Options.Isolate || most <= 2 || r.count < often {
		return n
	}
	t.last = true
	switch {
	case len(t.out) > 0:
		return 0
	case r.count >= most-1:
		return 1
	}
	return min(n, max(1, r.len()/2))
}

// done says whether the answer is complete.
func (t *taking) done() bool { return t.left <= 0 || t.most <= 0 || t.last }

// free is how many records of the run may be taken, from its beginning.
func (t *taking) free(r *run) int64 {
	if r.state != Available || r.until > t.now || r.expires() <= t.now {
		return 0
	}
	name := r.lane()
	if name == "" {
		return r.len()
	}
	l, mine := t.g.watch.lanes[name], t.mine[name]
	if l == nil || int64(l.acquired) != mine {
		return 0
	}
	n := int64(0)
	for i := int(mine); i < len(l.pending) && n < r.len() && l.pending[i] == r.first+n; i++ {
		n++
	}
	return n
}

// follow offers what comes behind n records of a lane.
func (t *taking) follow(name string, n int64) {
	if t.mine == nil {
		t.mine = map[string]int64{}
	}
	t.mine[name] += n
	l := t.g.watch.lanes[name]
	if i := int(t.mine[name]); i < len(l.pending) {
		if r := t.g.runs.at(l.pending[i]); r.until <= t.now {
			t.g.watch.offer(r.priority(), Span{r.first, r.last})
		}
	}
}

// top finds the first record that may be taken at a priority, with what of its run goes with it. Plain records are not
// found.
func (t *taking) top(priority uint8) (found run, ok bool) {
	h := t.g.watch.levels[priority]
	for h != nil && len(h.items) > 0 {
		s := h.items[0]
		t.g.runs.each(s.First, s.Last, func(r *run) bool {
			c := *r
			c.first, c.last = max(c.first, s.First), min(c.last, s.Last)
			if c.plain() || c.priority() != priority {
				return true
			}
			if n := t.free(&c); n > 0 {
				found, ok = c, true
				found.last = c.first + n - 1
			}
			return !ok
		})
		if ok {
			return found, true
		}
		h.pop()
	}
	return run{}, false
}

// pick takes what is best of the window: by priority, then in the order of offsets.
func (t *taking) pick() {
	for !t.done() {
		r, ok := t.best()
		if !ok {
			return
		}
		t.take(r, false)
	}
}

// best finds what goes next.
func (t *taking) best() (best run, ok bool) {
	for _, p := range t.g.watch.prios {
		if best, ok = t.top(p); ok && p > 0 {
			return best, true
		}
	}
	// Priorities end with 0, if anything that is not plain has it.
	if plain := t.g.runs.ready(); plain != nil && (!ok || plain.first < best.first) {
		p := *plain
		if ok {
			p.last = min(p.last, best.first-1)
		}
		return p, true
	}
	return best, ok
}

// read takes what was read, in the order of offsets.
func (t *taking) read(rd *Read) {
	end, room := t.g.end, int64(math.MaxInt64)
	if most := t.q.Options.MaxWindow; most > 0 {
		room = most - (t.g.end - t.g.start)
	}
	at := max(rd.From, t.g.start)
	for _, b := range rd.Batches {
		t.gap(at, min(b.First, end)-1)
		t.again(Span{max(b.First, at), min(b.Last, end-1)})
		at = max(at, b.Last+1)
	}
	t.gap(at, min(rd.To, end)-1)
	if rd.From <= end {
		t.fresh(rd, end, room)
	}
}

// gap notes that there are no records between two offsets within the window. What a consumer holds there it may
// settle.
func (t *taking) gap(first, last int64) {
	if first > last {
		return
	}
	var found []Span
	t.g.runs.each(first, last, func(r *run) bool {
		if r.state == Available {
			found = append(found, Span{max(r.first, first), min(r.last, last)})
		}
		return true
	})
	for _, s := range found {
		t.void(s)
	}
}

func (t *taking) void(s Span) {
	t.g.archive(s, CauseGap, false)
	t.cmd.Gaps = join(t.cmd.Gaps, s)
}

// join appends a span, or lengthens the last one.
func join(to []Span, s Span) []Span {
	if n := len(to); n > 0 && to[n-1].Last+1 == s.First {
		to[n-1].Last = s.Last
		return to
	}
	return append(to, s)
}

// again takes what is available in a part of the window.
func (t *taking) again(s Span) {
	for at := s.First; at <= s.Last && !t.done(); {
		var c run
		n := int64(0)
		t.g.runs.each(at, s.Last, func(r *run) bool {
			c = *r
			c.first, c.last = max(c.first, at), min(c.last, s.Last)
			n = t.free(&c)
			return n == 0
		})
		if n == 0 {
			return
		}
		c.last = c.first + n - 1
		t.take(c, true)
		at = c.last + 1
	}
}

// fresh takes what was read beyond the window's end, and at most room records of it. What lies between batches is a gap.
func (t *taking) fresh(rd *Read, at, room int64) {
	cut := len(t.out) // where the answers for fresh records begin
	for _, b := range rd.Batches {
		b.First = max(b.First, at)
		if b.First > b.Last {
			continue
		}
		if t.done() || room <= 0 {
			return
		}
		if b.First > at {
			t.void(Span{at, b.First - 1})
		}
		n := min(b.Len(), t.most)
		if t.want.Strict {
			n = min(n, t.left, room)
		}
		s := Span{b.First, b.First + n - 1}
		t.g.acquire(s, t.want.Consumer, t.cmd.Deadline)
		t.cmd.Spans = join(t.cmd.Spans, s)
		t.left, t.most, room, at = t.left-n, t.most-n, room-n, s.Last+1
		if k := len(t.out); k > cut && t.out[k-1].Last+1 == s.First && (t.want.Strict || t.want.Batch <= 0 || s.First-t.out[k-1].First < int64(t.want.Batch)) {
			t.out[k-1].Last = s.Last
		} else {
			t.out = append(t.out, Taken{s, 1})
		}
		if n < b.Len() {
			return
		}
	}
	if rd.To > at {
		t.void(Span{at, rd.To - 1})
	}
}
