package txn

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

// world drives a coordinator with producers that know only what they were answered, over a journal that lags and loses its end; over
// a network that delays and repeats; and with partitions and groups that are told late, in any order, and from two terms at once.
//
// Whatever is written belongs to a run: one transaction as its producer sees it. The audit is that all that was written in
// a run gets the same outcome, and the one that the producer was told.
type world struct {
	t       *rapid.T
	opts    Options
	now     int64
	fresh   int64
	term    int
	state   *State
	c       *Coordinator
	journal []step // written, not yet applied
	clients []*client
	network []request // delayed, or copies
	places  map[place]*written
	sent    []effect
	known   map[effect]bool // sent in this term and not failed
	done    []effect        // confirmed in this term at least once
	runs    int
	told    map[int]bool // what the producer of a run was answered: commit or not
	outcome map[int]bool // of what was written in a run
	liveRun map[Key]int  // whose transaction is open, counting what is in flight
	openRun map[Key]int  // the same in the journaled state
	issued  map[Key]map[identity]bool
	fenced  map[Key]map[identity]bool // those of before another producer came
	highest map[Key]map[int64]int16
	reborn  byte // incarnation of stream a
}

// step is one call's decisions, and what is answered when they are committed.
type step struct {
	commands []Command
	commit   func()
}

type identity struct {
	id    int64
	epoch int16
}

// place is a partition, or a group.
type place struct {
	p     Partition
	group string
}

// written is what a place holds of the producers that wrote to it.
type written struct {
	epoch map[int64]int16
	term  map[int64]int
	open  map[int64][]int // runs of what has no outcome yet
}

// effect is one thing that a place is told.
type effect struct {
	Key
	term   int
	serial int64
	identity
	commit  bool
	version int16
	at      place
}

type kind uint8

const (
	initialize kind = iota
	add
	end
)

type request struct {
	kind
	c      *client
	number int
	run    int
	said   bool // initialize with what it has
	identity
	at     place
	commit bool
}

// client is one producer as it sees itself.
type client struct {
	key     Key
	version int16
	identity
	run    int
	open   bool     // something was added in this run
	lost   bool     // has to initialize
	next   *request // not answered yet, or to be tried again
	waits  bool
	number int
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, opts: DefaultOptions(), now: 1_000, fresh: 1_000, state: NewState(), places: map[place]*written{}, known: map[effect]bool{},
		told: map[int]bool{}, outcome: map[int]bool{}, liveRun: map[Key]int{}, openRun: map[Key]int{},
		issued: map[Key]map[identity]bool{}, fenced: map[Key]map[identity]bool{}, highest: map[Key]map[int64]int16{},
	}
	w.opts.Expiry = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(t, "expiry")
	for i := range 3 {
		k := Key{"default", fmt.Sprintf("tx%d", i)}
		w.issued[k], w.fenced[k], w.highest[k] = map[identity]bool{}, map[identity]bool{}, map[int64]int16{}
		version := rapid.SampledFrom([]int16{Version1, Version2, Version2}).Draw(t, "version")
		if rapid.Bool().Draw(t, "exhausted") {
			h := Head{ProducerID: int64(i), Epoch: highestEpoch - 3, LastProducerID: -1, LastEpoch: -1, NextProducerID: -1, TimeoutMs: 1, Started: -1, Updated: w.now}
			w.state.Apply(&Update{Key: k, Head: h})
		}
		for range 3 {
			w.clients = append(w.clients, &client{key: k, version: version, lost: true, identity: identity{-1, -1}})
		}
	}
	w.c = NewCoordinator(w.opts, w.state, w.now)
	return w
}

// wrote takes what the last call decided.
func (w *world) wrote(commit func()) {
	w.c.Check()
	w.journal = append(w.journal, step{w.c.Changes(), commit})
}

// apply commits a part of what was written.
func (w *world) apply() { w.settle(rapid.IntRange(0, len(w.journal)).Draw(w.t, "entries")) }

func (w *world) settle(n int) {
	steps := w.journal[:n]
	w.journal = w.journal[n:]
	for _, s := range steps {
		for _, cmd := range s.commands {
			back, err := DecodeCommand(AppendCommand(nil, cmd))
			if err != nil {
				w.t.Fatal(err)
			}
			w.state.Apply(back)
			w.auditEpochs()
		}
		s.commit()
	}
	w.state.Check()
}

// auditEpochs checks guarantee 1.
func (w *world) auditEpochs() {
	for k, t := range w.state.txns {
		h, known := w.highest[k][t.ProducerID]
		if known && t.Epoch < h {
			w.t.Fatalf("%v: producer %d has epoch %d after %d", k, t.ProducerID, t.Epoch, h)
		}
		w.highest[k][t.ProducerID] = t.Epoch
		for id := range w.highest[k] {
			if id != t.ProducerID {
				w.highest[k][id] = math.MaxInt16 // given up
			}
		}
	}
}

// restart loses the leader, and what was not committed. Half of the time it comes from a checkpoint.
func (w *world) restart() {
	w.apply()
	w.journal = nil
	if rapid.Bool().Draw(w.t, "checkpoint") {
		back := NewState()
		for k := range w.state.txns {
			w.state.dirty[k] = struct{}{}
		}
		w.state.Checkpoint(func(k, v []byte) {
			if v == nil {
				return
			}
			if err := back.Restore(k, v); err != nil {
				w.t.Fatal(err)
			}
		})
		if !back.equal(w.state) {
			w.t.Fatal("the state came back otherwise")
		}
		w.state = back
	}
	w.term++
	w.liveRun = maps.Clone(w.openRun)
	w.known, w.done = map[effect]bool{}, nil
	w.c = NewCoordinator(w.opts, w.state, w.now)
}

// act has a producer do something: what it has to, or what it wants.
func (w *world) act() {
	c := rapid.SampledFrom(w.clients).Draw(w.t, "client")
	switch {
	case c.waits && !w.oneIn(4, "impatient"), c.id < 0 && w.active(c.key) && !w.oneIn(12, "intrudes"):
		return
	case w.oneIn(40, "crashes"):
		*c = client{key: c.key, version: c.version, lost: true, number: c.number, identity: identity{-1, -1}}
		return
	case c.next == nil, c.next.kind != initialize && w.oneIn(15, "gives up"):
		if c.next != nil {
			c.lost = true
		}
		c.number++
		c.next = w.choose(c)
	}
	c.waits = true
	w.send(*c.next)
}

// oneIn draws true about once in n times.
func (w *world) oneIn(n int, what string) bool { return rapid.IntRange(1, n).Draw(w.t, what) == n }

// active reports whether a transactional ID has a producer.
func (w *world) active(k Key) bool {
	return slices.ContainsFunc(w.clients, func(c *client) bool { return c.key == k && c.id >= 0 })
}

func (w *world) choose(c *client) *request {
	r := &request{c: c, number: c.number, run: c.run, identity: c.identity}
	if c.lost {
		r.said = c.id >= 0 && rapid.Bool().Draw(w.t, "said")
		return r
	}
	if r.kind = end; c.open && w.oneIn(4, "ends") || c.version >= Version2 && w.oneIn(30, "ends early") {
		r.commit = c.open && !w.oneIn(4, "aborts")
		return r
	}
	r.kind = add
	switch i := rapid.IntRange(0, 3).Draw(w.t, "place"); i {
	case 0:
		r.at.group = "readers"
	case 1:
		r.at.p = Partition{Stream: base.StreamID{'b'}, Index: 0}
	default:
		r.at.p = Partition{Stream: base.StreamID{'a', w.reborn}, Index: int32(i)}
	}
	return r
}

// send loses, delays or repeats a request of version 2; version 1 cannot stand that.
func (w *world) send(r request) {
	way := 0
	if r.c.version >= Version2 {
		way = rapid.IntRange(0, 4).Draw(w.t, "way")
	}
	if way >= 3 {
		w.network = append(w.network, r)
	}
	if way < 4 {
		w.handle(r)
	}
}

// deliver hands over what was delayed, now and then twice.
func (w *world) deliver() {
	if len(w.network) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.network)-1).Draw(w.t, "request")
	r := w.network[i]
	if rapid.IntRange(0, 3).Draw(w.t, "again") > 0 {
		w.network = slices.Delete(w.network, i, i+1)
	}
	w.handle(r)
}

// handle has the coordinator decide, and checks what the decision may be.
func (w *world) handle(r request) {
	switch k := r.c.key; r.kind {
	case initialize:
		w.handleInit(k, r)
	case add:
		w.handleAdd(k, r)
	case end:
		w.handleEnd(k, r)
	}
}

func (w *world) head(k Key) Head {
	if t := w.c.Live().txns[k]; t != nil {
		return t.Head
	}
	return Head{}
}

func (w *world) handleInit(k Key, r request) {
	req := &InitRequest{Key: k, TimeoutMs: rapid.SampledFrom([]int32{60_000, 2_000}).Draw(w.t, "timeout"), ProducerID: -1, Epoch: -1}
	if r.said {
		req.ProducerID, req.Epoch = r.id, r.epoch
	}
	before, fenced := w.head(k), r.said && w.fenced[k][r.identity] && w.c.Exists(k)
	out := w.c.InitProducerID(w.now, req)
	if out.NeedsID {
		if len(w.c.changes) > 0 {
			w.t.Fatalf("%v: decided without a producer ID", k)
		}
		w.fresh++
		id := w.fresh
		req.Fresh = &id
		out = w.c.InitProducerID(w.now, req)
	}
	if fenced && (out.Err == nil || w.head(k) != before) {
		w.t.Fatalf("%v: %v is fenced and initializes: %+v", k, r.identity, out)
	}
	w.wrote(func() {
		if out.Err == nil {
			got := identity{out.ProducerID, out.Epoch}
			if !r.said {
				maps.Copy(w.fenced[k], w.issued[k])
				delete(w.fenced[k], got)
			}
			w.issue(k, got)
		}
		w.answerInit(r, out)
	})
}

func (w *world) issue(k Key, who identity) {
	if who.epoch > highestEpoch || w.fenced[k][who] {
		w.t.Fatalf("%v: %v is given out", k, who)
	}
	w.issued[k][who] = true
}

func (w *world) answerInit(r request, out InitResult) {
	c := r.c
	if r.number != c.number {
		return
	}
	c.waits = false
	if out.Err == nil {
		w.runs++
		*c = client{key: c.key, version: c.version, number: c.number + 1, identity: identity{out.ProducerID, out.Epoch}, run: w.runs}
		return
	}
	switch out.Err.Code {
	case base.CodeConcurrentTxn:
	case base.CodeProducerFenced:
		c.identity, c.next = identity{-1, -1}, nil
	default:
		w.t.Fatalf("%v: %v", c.key, out.Err)
	}
}

func (w *world) handleAdd(k Key, r request) {
	how := Add
	if r.c.version >= Version2 {
		how = Implicit
	}
	before := w.head(k)
	var err error
	if r.at.group != "" {
		if e := w.c.AddOffsets(w.now, &AddOffsetsRequest{k, r.id, r.epoch, r.at.group, how}); e != nil {
			err = e
		}
	} else {
		err = w.c.AddPartitions(w.now, &AddPartitionsRequest{k, r.id, r.epoch, []Partition{r.at.p}, how})[0]
	}
	switch {
	case err != nil && w.head(k) != before:
		w.t.Fatalf("%v: refused with %v and changed", k, err)
	case err != nil:
	case w.fenced[k][r.identity]:
		w.t.Fatalf("%v: %v is fenced and adds", k, r.identity)
	case before.Status != Ongoing:
		w.liveRun[k] = r.run
	case w.liveRun[k] != r.run:
		w.t.Fatalf("%v: run %d adds to the transaction of run %d", k, r.run, w.liveRun[k])
	}
	w.wrote(func() {
		if err == nil {
			w.openRun[k] = r.run
		}
		w.answerAdd(k, r, err)
	})
}

func (w *world) answerAdd(k Key, r request, err error) {
	c := r.c
	if r.number != c.number {
		return
	}
	c.waits = false
	if err == nil {
		c.next, c.open = nil, true
		c.number++
		w.write(k, r)
		return
	}
	switch base.CodeOf(err) {
	case base.CodeConcurrentTxn:
	case base.CodeProducerFenced, base.CodeUnknownMapping:
		c.next, c.lost = nil, true
	default:
		w.t.Fatalf("%v: %v", k, err)
	}
}

// write puts something into a place, which asks the coordinator first.
func (w *world) write(k Key, r request) {
	t := w.state.txns[k]
	if t == nil || t.Status != Ongoing || (identity{t.ProducerID, t.Epoch}) != r.identity {
		return
	}
	_, isPartition := t.partitions[r.at.p]
	if _, isGroup := t.groups[r.at.group]; !isPartition && !isGroup {
		return
	}
	at := w.places[r.at]
	if at == nil {
		at = &written{map[int64]int16{}, map[int64]int{}, map[int64][]int{}}
		w.places[r.at] = at
	}
	if at.epoch[r.id] > r.epoch {
		return
	}
	at.epoch[r.id] = r.epoch
	at.open[r.id] = append(at.open[r.id], r.run)
}

func (w *world) handleEnd(k Key, r request) {
	before := w.head(k)
	req := &EndRequest{Key: k, ProducerID: r.id, Epoch: r.epoch, Commit: r.commit, Version: r.c.version}
	out := w.c.End(w.now, req)
	if out.NeedsID {
		w.fresh++
		id := w.fresh
		req.Fresh = &id
		out = w.c.End(w.now, req)
	}
	switch after := w.head(k); {
	case out.Err != nil && after != before:
		w.t.Fatalf("%v: refused with %v and changed", k, out.Err)
	case after.Serial == before.Serial:
	case w.fenced[k][r.identity]:
		w.t.Fatalf("%v: %v is fenced and ends a transaction", k, r.identity)
	case before.Status == Ongoing && w.liveRun[k] != r.run:
		w.t.Fatalf("%v: run %d ends the transaction of run %d", k, r.run, w.liveRun[k])
	}
	w.wrote(func() {
		if out.Err == nil && r.c.version >= Version2 && !w.fenced[k][identity{out.ProducerID, out.Epoch}] {
			w.issue(k, identity{out.ProducerID, out.Epoch})
		}
		w.answerEnd(r, out)
	})
}

func (w *world) answerEnd(r request, out EndResult) {
	c := r.c
	if r.number != c.number {
		return
	}
	c.waits = false
	if out.Err == nil {
		w.told[r.run] = r.commit
		w.runs++
		*c = client{key: c.key, version: c.version, number: c.number + 1, identity: identity{out.ProducerID, out.Epoch}, run: w.runs}
		return
	}
	switch out.Err.Code {
	case base.CodeConcurrentTxn:
	case base.CodeProducerFenced, base.CodeUnknownMapping, base.CodeInvalidTxnState:
		c.next, c.lost = nil, true
	default:
		w.t.Fatalf("%v: %v", c.key, out.Err)
	}
}

// dispatch has places told what is outstanding. Within a term nothing is sent again before it has failed.
func (w *world) dispatch() {
	for _, k := range w.state.Outstanding() {
		e, _ := w.state.Ending(k)
		f := effect{Key: k, term: w.term, serial: e.Serial, identity: identity{e.ProducerID, e.Epoch}, commit: e.Commit, version: e.Version}
		for _, f.at.p = range e.Partitions {
			w.tell(f)
		}
		f.at.p = Partition{}
		for _, f.at.group = range e.Groups {
			w.tell(f)
		}
	}
}

func (w *world) tell(f effect) {
	if !w.known[f] {
		w.known[f] = true
		w.sent = append(w.sent, f)
	}
}

// carryOut has a place do one of the things that it was told, or fail.
func (w *world) carryOut() {
	if len(w.sent) > 0 {
		w.carry(rapid.IntRange(0, len(w.sent)-1).Draw(w.t, "effect"), w.oneIn(6, "fails"))
	}
}

func (w *world) carry(i int, fails bool) {
	f := w.sent[i]
	w.sent = slices.Delete(w.sent, i, i+1)
	if at := w.places[f.at]; at != nil && !fails {
		if f.term < at.term[f.id] {
			return // the marker of an older coordinator
		}
		if f.epoch < at.epoch[f.id] || f.epoch == at.epoch[f.id] && f.version >= Version2 && len(at.open[f.id]) > 0 {
			w.t.Fatalf("%+v comes to a place where the producer has epoch %d and writes of runs %v", f, at.epoch[f.id], at.open[f.id])
		}
		at.epoch[f.id], at.term[f.id] = f.epoch, f.term
		for _, run := range at.open[f.id] {
			if was, ok := w.outcome[run]; ok && was != f.commit {
				w.t.Fatalf("run %d has two outcomes; %+v", run, f)
			}
			w.outcome[run] = f.commit
		}
		delete(at.open, f.id)
	}
	switch {
	case f.term != w.term:
	case fails:
		delete(w.known, f)
	default:
		w.confirm(f)
		w.done = append(w.done, f)
	}
}

func (w *world) confirm(f effect) {
	if f.at.group != "" {
		w.c.Confirm(w.now, f.Key, f.serial, nil, []string{f.at.group})
	} else {
		w.c.Confirm(w.now, f.Key, f.serial, []Partition{f.at.p}, nil)
	}
	w.wrote(func() {})
}

// confirmAgain confirms what was confirmed before in this term.
func (w *world) confirmAgain() {
	if len(w.done) > 0 {
		w.confirm(rapid.SampledFrom(w.done).Draw(w.t, "done"))
	}
}

func (w *world) tick() {
	w.now += rapid.SampledFrom([]int64{1, 1, 1, 10, 10, 100, 100, 400, 400, 2_000, 30_000}).Draw(w.t, "ms")
	if w.c.NextDeadline() <= w.now {
		w.c.Tick(w.now)
		w.wrote(func() {})
	}
	for k, t := range w.c.Live().txns {
		if t.Status == Ongoing && w.now >= t.Started+int64(t.TimeoutMs) {
			w.t.Fatalf("%v is open for too long: %+v", k, t.Head)
		}
	}
}

// rarely does what would otherwise end too many transactions.
func (w *world) rarely() {
	switch {
	case w.oneIn(2, "deletes"):
		w.deleteTopic()
	default:
		w.confirmAgain()
	}
}

// deleteTopic deletes stream a and makes it anew. The state learns of it at its place in the journal.
func (w *world) deleteTopic() {
	w.settle(len(w.journal))
	id := base.StreamID{'a', w.reborn}
	w.reborn++
	w.state.Apply(&StreamDeleted{id})
	w.c.StreamDeleted(id)
	maps.DeleteFunc(w.places, func(p place, _ *written) bool { return p.p.Stream == id })
	w.sent = slices.DeleteFunc(w.sent, func(f effect) bool { return f.at.p.Stream == id })
}

// end lets everything come to rest: no producer is heard any more, time passes, everything outstanding is carried out.
func (w *world) end() {
	w.settle(len(w.journal))
	w.now += 900_000
	w.c.Tick(w.now)
	w.wrote(func() {})
	for range 2 {
		w.settle(len(w.journal))
		for w.dispatch(); len(w.sent) > 0; {
			w.carry(0, false)
		}
	}
	w.settle(len(w.journal))
	if len(w.state.busy) > 0 || len(w.state.Outstanding()) > 0 {
		w.t.Fatalf("not ended: %v", w.state.busy)
	}
	for at, p := range w.places {
		for id, runs := range p.open {
			w.t.Fatalf("%v: runs %v of producer %d have no outcome", at, runs, id)
		}
	}
	for run, commit := range w.told {
		if was, ok := w.outcome[run]; ok && was != commit {
			w.t.Fatalf("run %d: told commit %v, is %v", run, commit, was)
		}
	}
	w.now += w.opts.Expiry.Milliseconds()
	w.c.Tick(w.now)
	w.wrote(func() {})
	w.settle(len(w.journal))
	if len(w.state.txns) > 0 || w.c.NextDeadline() != math.MaxInt64 {
		w.t.Fatalf("%d transactional IDs are kept", len(w.state.txns))
	}
}

func TestTransactionModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		actions := []func(){
			w.act, w.act, w.act, w.act, w.act, w.act, w.act, w.act, w.dispatch, w.dispatch, w.carryOut, w.carryOut, w.carryOut, w.carryOut,
			w.apply, w.apply, w.apply, w.apply, w.deliver, w.deliver, w.tick, w.tick, w.restart, w.rarely,
		}
		for range rapid.IntRange(400, 1_200).Draw(rt, "steps") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(rt, "action")]()
			w.c.Check()
		}
		w.end()
	})
}
