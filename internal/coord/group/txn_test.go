package group

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

// txnWorld drives one group with producers, a coordinator of their transactions that knows which are open, and a journal that is
// behind, or loses what was written.
type txnWorld struct {
	t         *rapid.T
	offsets   *Offsets
	c         *Coordinator
	now       int64
	journal   []written
	producers []*txnClient
	counted   int64 // what the group's position should be, once no transaction is open
	order     int64 // offset of the last commit that was journaled: commits are made in ascending order
}

// written is a command with what is to be told when it is applied or lost.
type written struct {
	cmd  Command
	done func(lost bool)
}

// txnClient is a producer as its coordinator sees it.
type txnClient struct {
	id      int64
	version int16 // of its transactions
	epoch   int16
	open    bool
	ending  *EndTxnOffsets // that is not known to be applied
	late    []late         // requests that are under way
	last    int64          // offset of the last commit of the open transaction that is applied; 0: none
}

// late is a commit whose guard was taken, and that the coordinator has confirmed if so.
type late struct {
	epoch    int16
	guard    *TxnGuard
	verified bool
}

var txnGroup = Key{Namespace: "default", Group: "g"}

func (w *txnWorld) pick() *txnClient { return rapid.SampledFrom(w.producers).Draw(w.t, "producer") }

// begin is a client's request: it takes a guard under the epoch that the client has.
func (w *txnWorld) begin() {
	p := w.pick()
	if p.ending != nil {
		return // the coordinator would say that it is concurrent
	}
	p.open = true
	g, verified, err := w.c.TxnGuard(w.now, txnGroup, p.id, p.epoch)
	if err != nil {
		w.t.Fatalf("producer %d, epoch %d: %v", p.id, p.epoch, err)
	}
	p.late = append(p.late, late{p.epoch, g, verified})
}

// verify lets the coordinator confirm the requests that are of the open transaction; the others are refused.
func (w *txnWorld) verify() {
	p := w.pick()
	p.late = slices.DeleteFunc(p.late, func(l late) bool { return !p.open || p.ending != nil || l.epoch != p.epoch })
	for i := range p.late {
		p.late[i].verified = true
	}
}

func (w *txnWorld) commit() {
	p := w.pick()
	if len(p.late) == 0 || !p.late[0].verified {
		return
	}
	l := p.late[0]
	p.late = p.late[1:]
	at := w.order + 1
	cmd, out := w.c.CommitTxn(w.now, &TxnCommitRequest{
		ProducerID: p.id, Epoch: l.epoch, Guard: l.guard,
		CommitRequest: CommitRequest{Key: txnGroup, Generation: -1, Offsets: []CommitOffset{{Partition: Partition{Index: 1}, Offset: at}}},
	})
	if cmd == nil {
		if out.Err == nil || out.Err.Code != base.CodeNotReady {
			w.t.Fatalf("a commit was refused: %+v", out)
		}
		return
	}
	w.order = at
	w.journal = append(w.journal, written{cmd, func(lost bool) {
		if !lost {
			if !p.open && p.ending == nil || l.epoch != p.epoch {
				w.t.Fatalf("producer %d: a commit of epoch %d came after its transaction; the producer has epoch %d", p.id, l.epoch, p.epoch)
			}
			p.last = at
		}
	}})
}

// end decides the open transaction, or sends the decision again.
func (w *txnWorld) end() {
	p := w.pick()
	if !p.open && p.ending == nil {
		return
	}
	if p.ending == nil {
		epoch := p.epoch
		if p.version >= 2 {
			epoch++
		}
		p.open = false
		p.ending = &EndTxnOffsets{Key: txnGroup, ProducerID: p.id, Epoch: epoch, Version: p.version, Commit: rapid.Bool().Draw(w.t, "commit")}
	}
	w.send(p, p.ending)
}

func (w *txnWorld) send(p *txnClient, cmd *EndTxnOffsets) {
	w.c.EndTxn(cmd)
	w.journal = append(w.journal, written{cmd, func(lost bool) {
		if lost || p.ending != cmd {
			return
		}
		if cmd.Commit {
			w.counted = max(w.counted, p.last)
		}
		p.ending, p.last, p.epoch = nil, 0, cmd.Epoch
	}})
}

func (w *txnWorld) plain() {
	cmd, out := w.c.Commit(w.now, &CommitRequest{Key: txnGroup, Generation: -1, Retention: -1, Offsets: []CommitOffset{{Partition: Partition{Index: 1}, Offset: w.order + 1}}})
	if cmd == nil {
		w.t.Fatalf("a plain commit was refused: %+v", out)
	}
	w.order++
	at := w.order
	w.journal = append(w.journal, written{cmd, func(lost bool) {
		if !lost {
			w.counted = max(w.counted, at)
		}
	}})
}

func (w *txnWorld) apply() { w.settle(rapid.IntRange(0, len(w.journal)).Draw(w.t, "entries")) }

func (w *txnWorld) settle(n int) {
	for _, e := range w.journal[:n] {
		w.offsets.Apply(e.cmd)
		e.done(false)
	}
	w.journal = w.journal[n:]
	w.offsets.Check()
}

// restart loses the leader, and a part of what was written.
func (w *txnWorld) restart() {
	w.apply()
	for _, e := range w.journal {
		e.done(true)
	}
	w.journal = nil
	stored := map[string][]byte{}
	o := NewOffsets()
	store(w.offsets, stored)
	for k := range w.offsets.groups {
		for _, d := range w.offsets.all(k) {
			stored[string(d.encode())] = w.offsets.value(d)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(stored)) {
		if err := o.Restore([]byte(k), stored[k]); err != nil {
			w.t.Fatal(err)
		}
	}
	w.offsets = o
	w.c = NewCoordinator(DefaultOptions(), o, w.now)
}

// all names what is stored of a group.
func (o *Offsets) all(k Key) (out []dirtyKey) {
	h := o.groups[k]
	for p := range h.offsets {
		out = append(out, dirtyKey{Key: k, Partition: p})
	}
	for p, list := range h.pending.at {
		for _, e := range list {
			out = append(out, pendingKey(k, p, e.producer))
		}
	}
	return out
}

// TestTxnModel lets transactions race with late requests, lost writes and new leaders. Of a transaction that has ended nothing
// is kept aside, whatever comes late, and what counts is the last commit that took effect.
func TestTxnModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &txnWorld{t: rt, offsets: NewOffsets()}
		w.c = NewCoordinator(DefaultOptions(), w.offsets, 0)
		w.producers = []*txnClient{{id: 1, version: 2}, {id: 2, version: 2}, {id: 3, version: 1}}
		actions := []func(){w.begin, w.begin, w.verify, w.verify, w.commit, w.commit, w.end, w.plain, w.apply, w.apply, w.restart}
		for range rapid.IntRange(50, 200).Draw(rt, "steps") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(rt, "action")]()
		}
		w.settle(len(w.journal))
		for _, p := range w.producers {
			if p.open || p.ending != nil {
				for p.ending == nil {
					p.open, p.ending = false, &EndTxnOffsets{Key: txnGroup, ProducerID: p.id, Epoch: p.epoch + 1, Version: p.version}
				}
				w.send(p, p.ending)
			}
		}
		w.settle(len(w.journal))
		got := w.offsets.Fetch(&FetchOffsetsRequest{Key: txnGroup, Stable: true, Partitions: []Partition{{Index: 1}}})
		want := w.counted
		if want == 0 {
			want = -1
		}
		if got.Errs != nil || got.Offsets[0].Offset != want {
			rt.Fatalf("the group is at %d (%v), want %d", got.Offsets[0].Offset, got.Errs, want)
		}
	})
}
