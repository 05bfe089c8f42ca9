package queue

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

// world is a queue with a follower, a journal between them, and the twins of what is applied and of what is decided.
type world struct {
	t        *rapid.T
	share    bool // reads in the order of offsets, plain records; otherwise records with all there is
	much     int  // kind of record that most have
	opts     Options
	now      int64
	q        *Queue
	stored   store
	follower *Queue
	copied   store     // of the follower
	since    []Command // applied since stored was saved
	sinceF   []Command // applied since copied was saved
	journal  []Command
	applied  *twin
	guess    *twin
	log      []Meta // offsets not in it have no record
	logEnd   int64
	open     map[lost]int // effects that were not confirmed
}

var consumers = []string{"a", "b", "c"}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, share: rapid.Bool().Draw(t, "share"), now: 1000, stored: store{}, copied: store{}, applied: newTwin(), guess: newTwin(), open: map[lost]int{}}
	of := func(name string, v ...int64) int64 { return rapid.SampledFrom(v).Draw(t, name) }
	w.opts = Options{
		Lock: of("lock", 20, 0), MaxInFlight: of("in flight", 0, 0, 5), MaxDeliveries: int32(of("deliveries", 0, 2, 5)),
		Isolate: rapid.Bool().Draw(t, "isolate"), MaxLength: of("length", 0, 0, 9), Horizon: 10,
	}
	w.much = rapid.IntRange(0, 9).Draw(t, "much")
	if w.share {
		w.opts.MaxWindow = of("window", 0, 8)
	} else {
		w.opts.MaxRuns = int(of("runs", 0, 6))
	}
	w.q, w.follower = New(w.opts, w.stored), New(w.opts, w.copied)
	return w
}

// append writes records to the log.
func (w *world) append() {
	for range rapid.IntRange(1, 6).Draw(w.t, "records") {
		m := Meta{Offset: w.logEnd}
		kind := rapid.SampledFrom([]int{w.much, w.much, w.much, 1, 2, 3, 4, 5, 6, 7}).Draw(w.t, "record")
		w.logEnd++
		if w.share {
			if kind > 1 {
				w.log = append(w.log, m)
			}
			continue
		}
		if kind == 1 || kind == 2 {
			m.Lane = rapid.SampledFrom([]string{"x", "y"}).Draw(w.t, "lane")
		}
		if kind == 2 || kind == 3 {
			m.Priority = uint8(rapid.IntRange(1, 2).Draw(w.t, "priority"))
		}
		if kind == 4 || kind == 5 {
			m.NotBefore = w.now + rapid.Int64Range(-5, 40).Draw(w.t, "delay")
		}
		if kind == 5 || kind == 6 {
			m.Expires = w.now + rapid.Int64Range(1, 50).Draw(w.t, "life")
		}
		w.log = append(w.log, m)
	}
}

// batches reads the log, as batches of up to three records without holes.
func (w *world) batches(from, to int64) (out []Span) {
	for _, m := range w.log {
		if m.Offset < from || m.Offset >= to {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Last+1 == m.Offset && m.Offset%3 != 0 {
			out[n-1].Last = m.Offset
		} else {
			out = append(out, Span{m.Offset, m.Offset})
		}
	}
	return out
}

// decided enters what the leader decided into its journal.
func (w *world) decided(cmd Command) {
	if cmd == nil {
		return
	}
	w.allowed(cmd)
	w.journal = append(w.journal, cmd)
	w.guess.apply(cmd)
	w.guess.compare(w.t, "guess", w.q.guess())
}

// allowed looks at a decision before it is entered: what records were must allow what they become.
func (w *world) allowed(cmd Command) {
	switch cmd := cmd.(type) {
	case *Acquire:
		for _, g := range cmd.Gaps {
			for at := g.First; at <= g.Last; at++ {
				if w.exists(at) {
					w.t.Fatalf("%d is called a gap", at)
				}
			}
		}
	case *Settle:
		for _, ch := range cmd.Changes {
			for at := ch.First; at <= ch.Last; at++ {
				r := w.guess.recs[at]
				most := w.q.Options.MaxDeliveries
				often := most > 0 && r.count >= most
				bad := ch.Op == OpDefer && (r.meta.Lane != "" || ch.Until <= w.now || w.opts.MaxRuns == 0 && ch.Until <= w.now+w.opts.Horizon)
				if bad || often && (ch.Op == OpRelease || ch.Op == OpDefer) || !often && ch.Op == OpArchive && ch.Cause == CauseLimit {
					w.t.Fatalf("%+v of %d, which is %+v", ch, at, r)
				}
			}
		}
	}
}

func (w *world) exists(offset int64) bool {
	_, ok := slices.BinarySearchFunc(w.log, offset, func(m Meta, at int64) int { return int(m.Offset - at) })
	return ok
}

func (w *world) acquire(consumer string, records int) {
	want := &Want{Consumer: consumer, Records: records, Strict: rapid.Bool().Draw(w.t, "strict"), Batch: rapid.IntRange(0, 3).Draw(w.t, "batch")}
	may := w.guess.takable(w.now)
	inFlight, window := w.q.guess().count[Acquired], w.guess.end-w.guess.start
	end := w.guess.end
	if w.share {
		from, _ := w.q.Next(w.now)
		if len(may) > 0 && from != may[0] {
			w.t.Fatalf("next read from %d, but %d may be taken", from, may[0])
		}
		if rapid.IntRange(0, 5).Draw(w.t, "elsewhere") == 0 {
			from = rapid.Int64Range(0, w.logEnd).Draw(w.t, "from") // decided on what is not so any more
			may = slices.DeleteFunc(may, func(at int64) bool { return at < from })
		}
		to := min(w.logEnd, from+rapid.Int64Range(1, 9).Draw(w.t, "read"))
		want.Read = &Read{From: from, To: to, Batches: w.batches(from, to)}
		for at := w.guess.end; from <= w.guess.end && at < to; at++ {
			may = append(may, at)
		}
		may = slices.DeleteFunc(may, func(at int64) bool { return at >= to || !w.exists(at) })
	}
	cmd, got := w.q.Acquire(w.now, want)
	var taken []int64
	for _, g := range got {
		for at := g.First; at <= g.Last; at++ {
			taken = append(taken, at)
			if r := w.guess.recs[at]; !slices.Contains(may, at) || r.count+1 != g.Deliveries {
				w.t.Fatalf("%d is given to %s as delivery %d, but it is %+v; may be taken: %v", at, consumer, g.Deliveries, r, may)
			}
		}
	}
	n := len(taken)
	if want.Strict && n > records || w.opts.MaxInFlight > 0 && inFlight+int64(n) > w.opts.MaxInFlight {
		w.t.Fatalf("%d records for %+v with %d in flight", n, *want, inFlight)
	}
	if n == 0 && len(may) > 0 && (w.opts.MaxInFlight == 0 || inFlight < w.opts.MaxInFlight) && (w.opts.MaxWindow == 0 || window < w.opts.MaxWindow) {
		w.t.Fatalf("nothing is given, but %v may be taken", may)
	}
	w.inOrder(taken)
	if most := w.opts.MaxWindow; most > 0 && n > 0 {
		if taken[n-1] >= end && (window >= most || want.Strict && fresh(taken, end) > most-window) {
			w.t.Fatalf("%v are given with a window of %d of at most %d", taken, window, most)
		}
	}
	for _, g := range got {
		if most := w.opts.MaxDeliveries; w.opts.Isolate && most > 2 && g.Deliveries == most && n > 1 {
			w.t.Fatalf("%v are given, with the last delivery of %d", taken, g.First)
		}
	}
	if often := max(2, (w.opts.MaxDeliveries+1)/2); !w.opts.Isolate || w.opts.MaxDeliveries <= 2 || !slices.ContainsFunc(may, func(at int64) bool { return w.guess.recs[at].count >= often }) {
		if n < len(may) && n < records && w.opts.MaxInFlight == 0 && w.opts.MaxWindow == 0 {
			w.t.Fatalf("%v are given of %v, %d were wanted", taken, may, records)
		}
	}
	w.decided(cmd)
}

// fresh counts the offsets from end on.
func fresh(taken []int64, end int64) (n int64) {
	for _, at := range taken {
		if at >= end {
			n++
		}
	}
	return n
}

// inOrder wants each lane in the order of offsets, and what is not in lanes in the order of priorities, then offsets.
func (w *world) inOrder(taken []int64) {
	last := map[string]int64{}
	var before *Meta
	for _, at := range taken {
		m := w.guess.recs[at].meta
		m.Offset = at
		if m.Lane != "" {
			if l, ok := last[m.Lane]; ok && l > at {
				w.t.Fatalf("lane %s: %d is given before %d", m.Lane, l, at)
			}
			last[m.Lane] = at
			continue
		}
		if before != nil && (before.Priority < m.Priority || before.Priority == m.Priority && before.Offset > at) {
			w.t.Fatalf("%+v is given before %+v", *before, m)
		}
		before = &m
	}
}

func (w *world) acknowledge() {
	consumer := rapid.SampledFrom(consumers).Draw(w.t, "consumer")
	atomic := rapid.Bool().Draw(w.t, "atomic")
	var acks []Ack
	for range rapid.IntRange(1, 3).Draw(w.t, "ranges") {
		a := Ack{Type: AckType(rapid.IntRange(0, int(AckReturn)).Draw(w.t, "type"))}
		held := slices.DeleteFunc(w.guess.sorted(), func(at int64) bool { return w.guess.recs[at].owner != consumer })
		if len(held) > 0 && rapid.IntRange(0, 4).Draw(w.t, "right") > 0 {
			a.First = rapid.SampledFrom(held).Draw(w.t, "first")
		} else {
			a.First = rapid.Int64Range(0, w.logEnd+1).Draw(w.t, "any")
		}
		a.Last = a.First + rapid.Int64Range(0, 2).Draw(w.t, "more")
		a.Delay = rapid.SampledFrom([]int64{0, 0, 5, 30}).Draw(w.t, "delay")
		acks = append(acks, a)
	}
	seen := map[int64]bool{}
	var want []bool
	for _, a := range acks {
		ok := true
		for at := max(a.First, w.guess.start); at <= a.Last; at++ {
			r, in := w.guess.recs[at]
			ok = ok && in && r.state == Acquired && r.owner == consumer && !seen[at]
		}
		for at := a.First; ok && at <= a.Last; at++ {
			seen[at] = true
		}
		want = append(want, ok)
		if !ok && atomic {
			break
		}
	}
	cmd, errs := w.q.Acknowledge(w.now, consumer, acks, atomic)
	for i, ok := range want {
		if ok != (errs[i] == nil) {
			w.t.Fatalf("%+v of %s: %v, want ok %t", acks[i], consumer, errs[i], ok)
		}
		if c := base.CodeInvalidRecordState; !ok && errs[i].Code != c && errs[i].Code != base.CodeInvalidRequest {
			w.t.Fatalf("%+v of %s: code %d", acks[i], consumer, errs[i].Code)
		}
	}
	if atomic && slices.Contains(want, false) && cmd != nil {
		w.t.Fatalf("%+v: some are settled although one is bad", acks)
	}
	w.decided(cmd)
}

// tick lets time work, and looks that it did.
func (w *world) tick() {
	for range 100 {
		cmds, err := w.q.Tick(w.now)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range cmds {
			w.journal = append(w.journal, c)
			w.guess.apply(c)
		}
		w.guess.compare(w.t, "guess", w.q.guess())
		if w.q.NextDeadline() > w.now {
			break
		}
	}
	if at := w.q.NextDeadline(); at <= w.now {
		w.t.Fatalf("after a tick at %d the deadline is %d", w.now, at)
	}
	for at, r := range w.guess.recs {
		if r.state == Acquired && r.until > 0 && r.until <= w.now || r.state == Available && r.meta.Expires > 0 && r.meta.Expires <= w.now {
			w.t.Fatalf("%d is %+v after a tick at %d", at, r, w.now)
		}
		if r.state == Waiting && r.until <= w.now && w.opts.MaxRuns == 0 {
			w.t.Fatalf("%d still waits at %d: %+v", at, w.now, r)
		}
	}
}

// commit applies the oldest command in flight everywhere.
func (w *world) commit() {
	if len(w.journal) == 0 {
		return
	}
	encoded := AppendCommand(nil, w.journal[0])
	w.journal = w.journal[1:]
	cmd, err := DecodeCommand(encoded)
	if err != nil || !bytes.Equal(AppendCommand(nil, cmd), encoded) {
		w.t.Fatalf("%x came back as %+v, %v", encoded, cmd, err)
	}
	effects := w.q.Apply(cmd)
	w.follower.Apply(cmd)
	w.since, w.sinceF = append(w.since, cmd), append(w.sinceF, cmd)
	w.applied.apply(cmd)
	w.applied.compare(w.t, "applied", &w.q.applied)
	w.q.Check()
	w.applied.compare(w.t, "follower", &w.follower.applied)
	var got []lost
	for _, e := range effects {
		for at := e.First; at <= e.Last; at++ {
			got = append(got, lost{at, e.Cause, e.Deliveries})
		}
	}
	if !slices.Equal(got, w.applied.effects) {
		w.t.Fatalf("effects of %+v are %v, want %v", cmd, got, w.applied.effects)
	}
	for _, l := range got {
		w.open[l]++
	}
	if c, ok := cmd.(*Confirm); ok && len(c.IDs) > 0 {
		w.open = map[lost]int{}
		for _, e := range w.q.Effects() {
			for at := e.First; at <= e.Last; at++ {
				w.open[lost{at, e.Cause, e.Deliveries}]++
			}
		}
	}
}

// abandon loses what is in flight.
func (w *world) abandon() {
	w.q.Abandon()
	w.journal, w.guess = nil, w.applied.clone()
}

func (w *world) step() {
	t := w.t
	switch rapid.IntRange(0, 19).Draw(t, "step") {
	case 0, 1:
		w.append()
	case 2, 3:
		if !w.share && w.logEnd > w.q.NextAdmit() {
			w.admit()
		}
	case 4, 5, 6:
		w.acquire(rapid.SampledFrom(consumers).Draw(t, "consumer"), rapid.IntRange(1, 6).Draw(t, "want"))
	case 7, 8, 9:
		w.acknowledge()
	case 10:
		w.now += rapid.Int64Range(0, 15).Draw(t, "time")
	case 11:
		w.tick()
	case 12, 13, 14:
		w.commit()
	case 15:
		w.abandon()
	case 16:
		w.restart()
	case 17:
		w.decided(w.q.Release(w.now, rapid.SampledFrom(consumers).Draw(t, "consumer"), rapid.Bool().Draw(t, "unused")))
	case 18:
		w.seldom()
	case 19:
		w.save()
		w.follower.NextDeadline() // a follower may be asked
	}
}

func (w *world) admit() {
	var metas []Meta
	for _, m := range w.log {
		if m.Offset >= w.q.NextAdmit() {
			metas = append(metas, m)
		} else if len(metas) == 0 && m.Offset%2 == 0 {
			metas = append(metas, m) // admitted before
		}
	}
	w.decided(w.q.Admit(w.now, w.logEnd, metas))
}

// save takes a checkpoint of the leader.
func (w *world) save() {
	w.stored.save(w.q)
	w.since = nil
}

// restart goes on with the follower, or with what was saved and the journal behind it.
func (w *world) restart() {
	old := w.q
	if rapid.Bool().Draw(w.t, "follower") {
		w.follower, w.q = w.q, w.follower
		w.stored, w.copied = w.copied, w.stored
		w.since, w.sinceF = w.sinceF, w.since
	} else {
		w.q = w.stored.load(w.t, w.opts)
		for _, cmd := range w.since {
			w.q.Apply(cmd)
		}
	}
	if !sameImage(w.q, old) {
		w.t.Fatalf("the state changed over a restart: %x, was %x", image(w.q), image(old))
	}
	w.follower.Abandon()
	w.journal, w.guess = nil, w.applied.clone()
}

func (w *world) seldom() {
	t := w.t
	switch rapid.IntRange(0, 4).Draw(t, "seldom") {
	case 0:
		w.decided(w.q.Trim(w.now, rapid.Int64Range(0, w.logEnd).Draw(t, "log start")))
	case 1:
		w.decided(w.q.Reset(w.now, rapid.Int64Range(0, w.logEnd).Draw(t, "start")))
	case 2:
		before := w.q.Length(w.logEnd)
		w.decided(w.q.Shorten(w.now, w.logEnd))
		if n := w.q.Length(w.logEnd); w.opts.MaxLength > 0 && n != min(before, w.opts.MaxLength) {
			t.Fatalf("%d records after shortening %d", n, before)
		}
	case 3:
		var ids []uint64
		for _, e := range w.q.Effects() {
			if rapid.Bool().Draw(t, "confirm") {
				ids = append(ids, e.ID)
			}
		}
		w.decided(w.q.Confirm(w.now, ids))
	case 4:
		w.decided(w.q.ReleaseAbsent(w.now, func(name string) bool { return name == "a" }))
	}
}

// drain commits everything, then consumes until nothing is left: whatever was not settled must come.
func (w *world) drain() {
	for len(w.journal) > 0 {
		w.commit()
	}
	w.opts.MaxDeliveries, w.q.Options.MaxDeliveries = 0, 0
	for round := 0; w.applied.start < w.logEnd; round++ {
		if round > 200 {
			w.t.Fatalf("the window stays [%d, %d) of %d: %v", w.applied.start, w.applied.end, w.logEnd, w.applied.recs)
		}
		if !w.share && w.logEnd > w.q.NextAdmit() {
			w.admit()
		}
		w.tick()
		w.acquire("a", 5)
		for _, name := range consumers {
			var acks []Ack
			for _, at := range w.guess.sorted() {
				if w.guess.recs[at].owner == name {
					acks = append(acks, Ack{Span: Span{at, at}, Type: AckAccept})
				}
			}
			cmd, _ := w.q.Acknowledge(w.now, name, acks, true)
			w.decided(cmd)
		}
		for len(w.journal) > 0 {
			w.commit()
		}
		w.now += 7
	}
	open := map[lost]int{}
	for _, e := range w.q.Effects() {
		for at := e.First; at <= e.Last; at++ {
			open[lost{at, e.Cause, e.Deliveries}]++
		}
	}
	if !maps.Equal(open, w.open) {
		w.t.Fatalf("outstanding effects are %v, want %v", open, w.open)
	}
}

// TestAgreesWithTwin runs random histories of a leader, with a journal, a follower and restarts, beside a map
// of records.
func TestAgreesWithTwin(t *testing.T) {
	for range 20 { // of a hundred histories each
		rapid.Check(t, func(rt *rapid.T) {
			w := newWorld(rt)
			for range rapid.IntRange(1, 120).Draw(rt, "steps") {
				w.step()
			}
			w.drain()
		})
	}
}
