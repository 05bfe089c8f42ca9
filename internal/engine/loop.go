package engine

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"godwit/internal/base"
	"godwit/internal/journal"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
	"godwit/internal/shard"
	"godwit/internal/storage/segment"
	"godwit/internal/storage/wal"
)

// maxEntry bounds the payload of one append entry, in bytes; a single larger batch gets its own.
const maxEntry = 8 << 20

// message is what a loop's mailbox holds; one field is set.
type message struct {
	part    part
	settled *entry
	call    func(*loop)
	leading uint64
}

// entry is a proposal of the loop, from its making until it is settled.
type entry struct {
	rec   journal.Proposal
	cmd   *shard.Command
	parts []delivery
	bytes int
	reply func(*shard.Applied, error)
	at    wal.Placement
	err   error
}

// delivery is an item that waits for an entry.
type delivery struct {
	req  *Append
	item int32
}

// loop runs one shard. Everything but the mailbox belongs to whoever runs it, one goroutine at a time.
type loop struct {
	e  *Engine
	id base.ShardID
	m  *shard.Machine

	mu   sync.Mutex
	box  []message
	busy bool // somebody runs it

	timer *time.Timer
	armed int64 // Unix ms for which the timer is set

	term   uint64   // under which it may propose; 0: it may not
	why    error    // why it may not
	gen    uint32   // rises when what is in flight is lost
	next   uint64   // index of the next proposal
	flight []*entry // proposed and not settled, in order
	open   *entry   // append entry being gathered

	spare []message

	groups  groupHost
	shares  shareHost
	streams streamsHost
	queues  queueHost
	txns    txnHost
	effects effectHost // shard 0 only
}

func newLoop(e *Engine, m *shard.Machine) *loop {
	l := &loop{e: e, id: m.ID, m: m, gen: 1,
		why: base.Errorf(base.CodeNotReady, "the shard has no leader yet")}
	return l
}

// post brings the loop a message. If nobody runs the loop, the caller does, until its mailbox is empty: that saves waking a
// goroutine for each message and each answer. Nothing in a loop blocks, so neither does post.
func (l *loop) post(m message) {
	l.mu.Lock()
	l.box = append(l.box, m)
	run := !l.busy && !l.e.opts.Stepped
	l.busy = l.busy || run
	l.mu.Unlock()
	if run {
		l.run()
	}
}

// maxTurns bounds how long a caller of post is kept running the loop for others.
const maxTurns = 16

// run steps the loop until its mailbox is empty. The caller has set busy.
func (l *loop) run() {
	defer crashOnPanic()
	for turns := 1; ; turns++ {
		l.step()
		l.arm()
		l.mu.Lock()
		if len(l.box) == 0 {
			l.busy = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		if turns == maxTurns {
			go l.run()
			return
		}
	}
}

// crashOnPanic ends the process on a broken invariant: whoever happens to run the loop, a connection say, must not catch it and
// go on.
func crashOnPanic() {
	if v := recover(); v != nil {
		stack := debug.Stack()
		go func() { panic(fmt.Sprintf("%v\n\n%s", v, stack)) }()
		select {}
	}
}

// arm sets the timer for the next thing that time alone brings about.
func (l *loop) arm() {
	at := min(l.groups.deadline(), l.shares.deadline(), l.streams.deadline(), l.queues.deadline(), l.txns.deadline())
	if at == math.MaxInt64 || at == l.armed || l.e.closed.Load() {
		return
	}
	l.armed = at
	wait := max(time.UnixMilli(at).Sub(l.e.opts.Clock.Now()), 0)
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, func() { l.post(message{call: (*loop).tick}) })
		return
	}
	l.timer.Reset(wait)
}

// tick does what time alone brings about.
func (l *loop) tick() {
	l.armed = 0
	l.groups.tick(l)
	l.shares.tick(l)
	l.streams.tick(l)
	l.queues.tick(l)
	l.txns.tick(l)
}

// stop ends the timer.
func (l *loop) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// pending reports whether the mailbox has messages.
func (l *loop) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.box) > 0
}

// step handles all messages that are in the mailbox now.
func (l *loop) step() {
	l.mu.Lock()
	box := l.box
	l.box = l.spare[:0]
	l.mu.Unlock()
	for i := range box {
		m := &box[i]
		switch {
		case m.settled != nil:
			l.settle(m.settled)
		case m.part.req != nil:
			l.propose(m.part)
		case m.call != nil:
			l.flush() // keep the order of proposals
			m.call(l)
		case m.leading != 0:
			l.lead(m.leading)
		}
	}
	l.flush()
	clear(box)
	l.spare = box
}

// now is the shard's time: the clock, but never back.
func (l *loop) now() int64 { return max(l.e.opts.Clock.Now().UnixMilli(), l.m.Time) }

// lead begins a term: whatever was in flight is lost.
func (l *loop) lead(term uint64) {
	l.abandon()
	l.term, l.why = term, nil
	l.groups.lead(l)
	l.shares.lead(l)
	l.streams.lead(l)
	l.queues.lead(l)
	l.txns.lead(l)
	if l.id == base.MetaShard {
		l.effects.resend(l)
	}
}

// abandon drops what was guessed on entries that will not be applied.
func (l *loop) abandon() {
	l.m.Abandon()
	l.gen++
	l.next = l.m.Index + 1
	l.queues.lead(l)
	if en := l.open; en != nil {
		l.open = nil
		l.fail(en, base.Errorf(base.CodeStorage, "an earlier write of this shard was refused: try again"))
	}
}

// propose decides on the items of one request.
func (l *loop) propose(p part) {
	now := l.now()
	for _, i := range p.items {
		it := &p.req.Items[i]
		if err := l.accept(p.req, i, it, now); err != nil {
			it.Err = err
			p.req.settle(1)
		}
	}
}

// accept enters one item into the open entry, or attaches a duplicate to the entry it waits for. It
// returns an error if the item is refused; else the item is settled later.
func (l *loop) accept(req *Append, i int32, it *AppendItem, now int64) error {
	if l.term == 0 {
		return l.why
	}
	log, ok := l.m.Writable(it.Log)
	if !ok {
		return base.Errorf(base.CodeUnknownPartition, "this server does not host this topic-partition")
	}
	it.LogStart = log.Start()
	if it.marker != nil {
		return l.acceptMarker(req, i, it, log, now)
	}
	if len(it.Data)+entryOverhead > l.e.journal.MaxEntry() {
		return base.Errorf(base.CodeMessageTooLarge, "%d bytes exceed the %d that a log file holds", len(it.Data), l.e.journal.MaxEntry()-entryOverhead)
	}
	st := l.e.logs.get(it.Log)
	epoch := int32(l.term)
	data := it.Data
	for k := range it.Batches {
		info := &it.Batches[k]
		b := batchOf(info, epoch)
		verdict, err := log.Propose(&b, it.Guard, now, l.e.opts.ProducerExpiry.Milliseconds())
		switch {
		case verdict == partlog.Unverified:
			it.Guard = log.Guard(&b, req.BumpsEpoch, now)
			return err
		case err != nil:
			return err
		case verdict == partlog.Duplicate:
			it.BaseOffset = b.Base
			return l.attach(req, i, it, b.Base < st.hw.Load())
		}
		if k == 0 {
			it.BaseOffset = b.Base
		}
		recordbatch.SetBaseOffset(data, b.Base)
		recordbatch.SetLeaderEpoch(data, epoch)
		l.add(it, data[:info.Size], b)
		data = data[info.Size:]
	}
	l.open.parts = append(l.open.parts, delivery{req, i})
	return nil
}

// entryOverhead is room for the head of an entry with a single batch.
const entryOverhead = 1024

func batchOf(info *recordbatch.Info, epoch int32) partlog.Batch {
	return partlog.Batch{Records: info.LastOffsetDelta + 1, Epoch: epoch, ProducerID: info.ProducerID,
		ProducerEpoch: info.ProducerEpoch, FirstSequence: info.BaseSequence, MaxTimestamp: info.MaxTimestamp,
		Transactional: info.IsTransactional()}
}

// attach settles a duplicate: now if the first delivery is committed, else with the entry that holds it; the
// last one in flight will do, since they are settled in order and fail together.
func (l *loop) attach(req *Append, i int32, it *AppendItem, committed bool) error {
	switch {
	case committed:
		req.settle(1)
	case l.open != nil:
		l.open.parts = append(l.open.parts, delivery{req, i})
	default:
		last := l.flight[len(l.flight)-1]
		last.parts = append(last.parts, delivery{req, i})
	}
	return nil
}

// add enters one accepted batch into the open entry, which is begun or changed when full.
func (l *loop) add(it *AppendItem, data []byte, b partlog.Batch) {
	if l.open != nil && l.open.bytes+len(data) > min(maxEntry, l.e.journal.MaxEntry()/2) {
		l.flush()
	}
	if l.open == nil {
		l.open = &entry{cmd: &shard.Command{}}
	}
	en := l.open
	en.bytes += len(data)
	en.cmd.Append = append(en.cmd.Append, shard.Appended{Log: it.Log, Batch: b})
	en.rec.Payload = append(en.rec.Payload, data)
}

// flush proposes the open entry.
func (l *loop) flush() {
	en := l.open
	if en == nil {
		return
	}
	l.open = nil
	if len(en.cmd.Append) > 0 {
		sortByLog(en)
		en.rec.Frame.Extents = extentsOf(en)
	}
	l.submit(en)
}

// sortByLog sorts the batches of an entry by log, keeping the order within each, so that a log's
// batches are contiguous.
func sortByLog(en *entry) {
	sorted := slices.IsSortedFunc(en.cmd.Append, func(a, b shard.Appended) int { return int(int64(a.Log) - int64(b.Log)) })
	if sorted {
		return
	}
	order := make([]int, len(en.cmd.Append))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return int(int64(en.cmd.Append[i].Log) - int64(en.cmd.Append[j].Log))
	})
	batches, payload := make([]shard.Appended, len(order)), make([][]byte, len(order))
	for k, i := range order {
		batches[k], payload[k] = en.cmd.Append[i], en.rec.Payload[i]
	}
	en.cmd.Append, en.rec.Payload = batches, payload
}

// extentsOf makes one extent for each log of a grouped entry.
func extentsOf(en *entry) []segment.LogExtent {
	out := make([]segment.LogExtent, 0, 4)
	for i := range en.cmd.Append {
		a := &en.cmd.Append[i]
		n := uint32(len(en.rec.Payload[i]))
		if k := len(out) - 1; k >= 0 && out[k].Log == a.Log {
			e := &out[k]
			e.Last, e.Len, e.MaxTimestamp = a.Last(), e.Len+n, max(e.MaxTimestamp, a.MaxTimestamp)
			continue
		}
		out = append(out, segment.LogExtent{Log: a.Log, Base: a.Base, Last: a.Last(), MaxTimestamp: a.MaxTimestamp, Len: n})
	}
	return out
}

// command proposes anything but an append. reply gets what applying it answered.
func (l *loop) command(c *shard.Command, reply func(*shard.Applied, error)) {
	if l.term == 0 {
		reply(nil, l.why)
		return
	}
	l.flush()
	l.m.Doom(c.Drop)
	l.submit(&entry{cmd: c, reply: reply, rec: journal.Proposal{Control: true}})
}

// submit gives an entry its place in the journal and proposes it.
func (l *loop) submit(en *entry) {
	f := &en.rec.Frame
	f.Shard, f.Term, f.Index, f.Time = l.id, l.term, l.next, l.now()
	f.Command = en.cmd.Encode(nil)
	en.rec.Gen = l.gen
	en.rec.Done = func(at wal.Placement, err error) {
		en.at, en.err = at, err
		l.post(message{settled: en})
	}
	l.next++
	l.flight = append(l.flight, en)
	l.e.journal.Propose(&en.rec)
}

// settle takes the journal's answer for the oldest entry in flight.
func (l *loop) settle(en *entry) {
	l.flight[0] = nil
	if l.flight = l.flight[1:]; len(l.flight) == 0 {
		l.flight = nil
	}
	if en.err != nil {
		if en.rec.Gen == l.gen {
			if base.CodeOf(en.err) == base.CodeStorage {
				l.term, l.why = 0, en.err // until the journal leads under a new term
				l.groups.resign(l, en.err)
				l.shares.resign(en.err)
				l.streams.resign()
				l.txns.resign(en.err)
			}
			l.abandon()
		}
		l.fail(en, en.err)
		return
	}
	f := &en.rec.Frame
	applied, err := l.m.Apply(f.Index, f.Term, f.Time, en.cmd)
	if err != nil {
		panic(err) // the command was made by this process
	}
	if len(f.Extents) > 0 {
		l.e.store.Add(en.at.File, en.at.Pos, f.Extents)
	}
	l.e.publish(l, applied)
	l.shares.applied(l, en.cmd)
	l.queues.applied(l, en.cmd, applied)
	l.txns.applied(l, en.cmd)
	for _, d := range en.parts {
		d.req.settle(1)
	}
	if en.reply != nil {
		en.reply(applied, nil)
	}
}

// fail answers everyone who waits for an entry that will not be applied.
func (l *loop) fail(en *entry, err error) {
	for _, d := range en.parts {
		d.req.Items[d.item].Err = err
		d.req.settle(1)
	}
	if en.reply != nil {
		en.reply(nil, err)
	}
}
