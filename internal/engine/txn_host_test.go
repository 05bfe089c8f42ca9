package engine

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/txn"
	"godwit/internal/meta"
	"godwit/internal/shard"
	"godwit/internal/vfs"
)

var transfer = txn.Key{Namespace: base.DefaultNamespace, ID: "transfer"}

// txnProducer is the producer that has the transactional ID now.
type txnProducer struct {
	*rig
	id    int64
	epoch int16
}

func (r *rig) initTxn(id int64) *txnProducer {
	r.t.Helper()
	var out txn.InitResult
	r.must(r.TxnDecide(ctx, transfer, func(c *txn.Coordinator, now int64) {
		out = c.InitProducerID(now, &txn.InitRequest{Key: transfer, TimeoutMs: 60_000, ProducerID: -1, Epoch: -1, Fresh: &id})
	}))
	if out.Err != nil || out.NeedsID {
		r.t.Fatalf("InitProducerID: %+v", out)
	}
	return &txnProducer{r, out.ProducerID, out.Epoch}
}

// writes adds the first partition of a stream to the transaction and writes a record there.
func (p *txnProducer) writes(s *meta.Stream, sequence int32, value string) {
	p.t.Helper()
	var errs []error
	p.must(p.TxnDecide(ctx, transfer, func(c *txn.Coordinator, now int64) {
		errs = c.AddPartitions(now, &txn.AddPartitionsRequest{Key: transfer, ProducerID: p.id, Epoch: p.epoch, Joining: txn.Implicit,
			Partitions: []txn.Partition{{Stream: s.ID}}})
	}))
	p.must(errs[0])
	_, err := p.inTxn(s, p.id, p.epoch, sequence, kv{"k", value})
	p.must(err)
}

// commits adds a group to the transaction and keeps a position of it aside.
func (p *txnProducer) commits(s *meta.Stream, name string, offset int64) {
	p.t.Helper()
	k := group.Key{Namespace: base.DefaultNamespace, Group: name}
	req := group.TxnCommitRequest{ProducerID: p.id, Epoch: p.epoch, CommitRequest: group.CommitRequest{Key: k, Generation: -1,
		Offsets: []group.CommitOffset{{Partition: group.Partition{Stream: s.ID}, Offset: offset, Epoch: -1}}}}
	p.must(p.GroupDecide(ctx, k, func(c *group.Coordinator, now int64) []group.Command {
		var err *base.Error
		if req.Guard, _, err = c.TxnGuard(now, k, p.id, p.epoch); err != nil {
			p.t.Error(err)
		}
		return nil
	}))
	var refused *base.Error
	p.must(p.TxnDecide(ctx, transfer, func(c *txn.Coordinator, now int64) {
		refused = c.AddOffsets(now, &txn.AddOffsetsRequest{Key: transfer, ProducerID: p.id, Epoch: p.epoch, Group: name, Joining: txn.Implicit})
	}))
	if refused != nil {
		p.t.Fatal(refused)
	}
	p.must(p.GroupDecide(ctx, k, func(c *group.Coordinator, now int64) []group.Command {
		cmd, out := c.CommitTxn(now, &req)
		if cmd == nil {
			p.t.Errorf("CommitTxn: %+v", out)
			return nil
		}
		return []group.Command{cmd}
	}))
}

// ends decides on the transaction and does not wait until it has ended everywhere.
func (p *txnProducer) ends(commit bool) {
	p.t.Helper()
	var out txn.EndResult
	p.must(p.TxnDecide(ctx, transfer, func(c *txn.Coordinator, now int64) {
		out = c.End(now, &txn.EndRequest{Key: transfer, ProducerID: p.id, Epoch: p.epoch, Commit: commit, Version: txn.Version2})
	}))
	if out.Err != nil {
		p.t.Fatal(out.Err)
	}
	p.id, p.epoch = out.ProducerID, out.Epoch
}

func (r *rig) describeTxn() (d txn.Description) {
	r.t.Helper()
	r.must(r.TxnDecide(ctx, transfer, func(c *txn.Coordinator, _ int64) { d = c.Describe(transfer) }))
	return d
}

func (r *rig) wantTxn(want txn.Status) {
	r.t.Helper()
	if d := r.describeTxn(); d.Status != want {
		r.t.Fatalf("the transaction is %v, want %v", d.Status, want)
	}
}

// position is the committed offset of a group in the first partition of a stream; -1 if there is none.
func (r *rig) position(s *meta.Stream, name string) int64 {
	r.t.Helper()
	k := group.Key{Namespace: base.DefaultNamespace, Group: name}
	out := r.loop(r.View().GroupShard(k.Namespace, k.Group)).m.Offsets.Fetch(
		&group.FetchOffsetsRequest{Key: k, Partitions: []group.Partition{{Stream: s.ID}}, Stable: true})
	if out.Err != nil || len(out.Offsets) != 1 || out.Errs != nil {
		r.t.Fatalf("OffsetFetch: %+v", out)
	}
	return out.Offsets[0].Offset
}

func (r *rig) wantCommitted(s *meta.Stream, want ...string) {
	r.t.Helper()
	records, _ := r.committed(s, 0, 1<<20)
	var got []string
	for _, rec := range records {
		got = append(got, rec.value)
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s: committed %q, want %q", s.Name, got, want)
	}
}

func TestTransactionEndsEverywhere(t *testing.T) {
	r := newRig(t, nil)
	in, a, b := r.create("in", 1, nil), r.create("a", 1, nil), r.create("b", 1, nil)
	p := r.initTxn(7)
	p.writes(a, 0, "a1")
	p.writes(b, 0, "b1")
	p.commits(in, "readers", 5)
	p.ends(true)
	r.must(r.TxnEnded(ctx, transfer))
	r.wantTxn(txn.CompleteCommit)
	r.wantCommitted(a, "a1")
	r.wantCommitted(b, "b1")
	if at := r.position(in, "readers"); at != 5 {
		t.Fatalf("the group is at %d, want 5", at)
	}

	p.writes(a, 0, "a2")
	p.commits(in, "readers", 9)
	p.ends(false)
	r.must(r.TxnEnded(ctx, transfer))
	r.wantTxn(txn.CompleteAbort)
	r.wantCommitted(a, "a1")
	if at := r.position(in, "readers"); at != 5 {
		t.Fatalf("the group is at %d after an abort, want 5", at)
	}
}

// TestDecidedTransactionOutlivesTheBroker: the power fails when the decision is durable and nothing else is.
func TestDecidedTransactionOutlivesTheBroker(t *testing.T) {
	for _, commit := range []bool{true, false} {
		for _, checkpointed := range []bool{false, true} {
			r := newRig(t, nil)
			in, a := r.create("in", 1, nil), r.create("a", 1, nil)
			p := r.initTxn(7)
			p.writes(a, 0, "a1")
			p.commits(in, "readers", 5)
			if checkpointed {
				r.must(r.Checkpoint(ctx))
			}
			p.ends(commit) // stops as soon as the decision is committed
			r.must(r.powerLoss(0))
			r.Drain()
			r.must(r.TxnEnded(ctx, transfer))
			at := r.position(in, "readers")
			if commit {
				r.wantTxn(txn.CompleteCommit)
				r.wantCommitted(a, "a1")
			} else {
				r.wantTxn(txn.CompleteAbort)
				r.wantCommitted(a)
			}
			if want := map[bool]int64{true: 5, false: -1}[commit]; at != want {
				t.Fatalf("commit %v: the group is at %d, want %d", commit, at, want)
			}
			next := &txnProducer{r, p.id, p.epoch}
			next.writes(a, 0, "a2")
			next.ends(true)
			r.must(r.TxnEnded(ctx, transfer))
			if commit {
				r.wantCommitted(a, "a1", "a2")
			} else {
				r.wantCommitted(a, "a2")
			}
		}
	}
}

// TestMarkersAreSentAgain: a shard refuses its marker at first.
func TestMarkersAreSentAgain(t *testing.T) {
	r := newRig(t, nil)
	a := r.create("a", 1, nil)
	p := r.initTxn(7)
	p.writes(a, 0, "a1")
	home := r.loop(r.View().GroupShard(transfer.Namespace, transfer.ID))
	l := r.loop(a.Partitions[0].Shard)
	if l == home {
		t.Fatal("the test wants two shards: rename the topic")
	}
	term, why := l.term, base.Errorf(base.CodeDiskFull, "the disk is full")
	l.term, l.why = 0, why
	p.ends(true)
	r.Drain()
	r.wantTxn(txn.PrepareCommit)
	l.term, l.why = term, nil
	r.pass(2 * minBackoff * time.Millisecond)
	r.wantTxn(txn.CompleteCommit)
	r.wantCommitted(a, "a1")
}

func TestTransactionTimesOut(t *testing.T) {
	r := newRig(t, nil)
	in, a := r.create("in", 1, nil), r.create("a", 1, nil)
	p := r.initTxn(7)
	p.writes(a, 0, "a1")
	p.commits(in, "readers", 5)
	r.must(r.powerLoss(0)) // the time goes on
	r.pass(61 * time.Second)
	r.wantTxn(txn.CompleteAbort)
	r.wantCommitted(a)
	st, _ := r.State(a.Partitions[0].Log)
	r.wantStable(a, st.HighWatermark, st.HighWatermark)
	if at := r.position(in, "readers"); at != -1 {
		t.Fatalf("the group is at %d, want none", at)
	}
	if _, err := r.inTxn(a, p.id, p.epoch, 1, kv{"k", "late"}); base.CodeOf(err) != base.CodeFencedProducer {
		t.Fatalf("a producer whose transaction timed out wrote: %v", err)
	}
}

func TestDeletedTopicEndsItsPartOfATransaction(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.create("a", 1, nil), r.create("b", 1, nil)
	p := r.initTxn(7)
	p.writes(a, 0, "a1")
	p.writes(b, 0, "b1")
	_, err := r.DecideMeta(ctx, func(m *meta.State, _ int64) (*meta.Command, error) { return m.DecideDelete(b.ID) })
	r.must(err)
	r.Drain()
	p.ends(true)
	r.must(r.TxnEnded(ctx, transfer))
	r.wantTxn(txn.CompleteCommit)
	r.wantCommitted(a, "a1")
}

func TestTransactionDecisionsThatAreLost(t *testing.T) {
	r := newRig(t, nil)
	a := r.create("a", 1, nil)
	p := r.initTxn(7)
	p.writes(a, 0, "a1")
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	var out txn.EndResult
	err := r.TxnDecide(ctx, transfer, func(c *txn.Coordinator, now int64) {
		out = c.End(now, &txn.EndRequest{Key: transfer, ProducerID: p.id, Epoch: p.epoch, Commit: true, Version: txn.Version2})
	})
	if !base.CodeOf(err).Retriable() {
		t.Fatalf("a decision that is not durable was answered with %+v, %v", out, err)
	}
	r.Drain()
	r.wantTxn(txn.Ongoing)
	p.ends(true)
	r.must(r.TxnEnded(ctx, transfer))
	r.wantCommitted(a, "a1")
}

// TestEndingThatOvertakesARound: the deletion of a topic completes a transaction whose markers are still under way, and the next one
// ends before they are answered.
func TestEndingThatOvertakesARound(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.create("a", 1, nil), r.create("b", 1, nil)
	home, away := r.loop(r.View().GroupShard(transfer.Namespace, transfer.ID)), r.loop(b.Partitions[0].Shard)
	if home == away {
		t.Fatal("the test wants two shards: rename the topic")
	}
	p := r.initTxn(7)
	p.writes(b, 0, "b1")
	p.ends(true)
	if !away.pending() {
		t.Fatal("the marker is not under way")
	}
	alone := func(fn func(*loop)) { // everything but the shard with the marker goes on
		home.post(message{call: fn})
		for home.pending() || r.writer.Pending() {
			home.step()
			r.writer.Step()
		}
	}
	alone(func(l *loop) {
		l.command(&shard.Command{Forget: &b.ID}, func(_ *shard.Applied, err error) { r.must(err) })
	})
	decide := func(fn func(c *txn.Coordinator, now int64)) { alone(func(l *loop) { l.txns.decide(l, fn, r.must) }) }
	decide(func(c *txn.Coordinator, now int64) {
		errs := c.AddPartitions(now, &txn.AddPartitionsRequest{Key: transfer, ProducerID: p.id, Epoch: p.epoch, Joining: txn.Implicit,
			Partitions: []txn.Partition{{Stream: a.ID}}})
		if errs[0] != nil {
			t.Error(errs[0])
		}
	})
	decide(func(c *txn.Coordinator, now int64) {
		if out := c.End(now, &txn.EndRequest{Key: transfer, ProducerID: p.id, Epoch: p.epoch, Commit: true, Version: txn.Version2}); out.Err != nil {
			t.Error(out.Err)
		}
	})
	r.Drain()
	r.wantTxn(txn.CompleteCommit)
}
