package engine

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/meta"
	"godwit/internal/queue"
	"godwit/internal/shard"
	"godwit/internal/vfs"
)

// configureWorkers sets the configuration of the workers: pairs of name and value.
func (r *rig) configureWorkers(pairs ...string) {
	r.t.Helper()
	values := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	r.must(r.ShareDecide(ctx, workers, func(c *share.Coordinator, _ int64, _ bool) { c.SetConfig(workers, values) }))
}

// subscribed makes a topic in which the workers have queues that begin at its start.
func (r *rig) subscribed(partitions int, overrides map[string]string, config ...string) *meta.Stream {
	r.t.Helper()
	s := r.create("jobs", partitions, overrides)
	r.configureWorkers(append([]string{"share.auto.offset.reset", "earliest"}, config...)...)
	r.beats("m", 0, "jobs")
	r.must(r.ShareSettled(ctx, workers))
	return s
}

func jobs(s *meta.Stream, partition int32) ShareQueue {
	return ShareQueue{Key: workers, Stream: s.ID, Index: partition}
}

// fill writes n records, each in a batch of its own.
func (r *rig) fill(s *meta.Stream, n int) {
	r.t.Helper()
	for i := range n {
		r.must(r.write(s, 0, kv{fmt.Sprint("k", i), "v"}))
	}
}

// acquire takes at most n records of partition 0 for a member: "first-last*deliveries ...".
func (r *rig) acquire(member string, s *meta.Stream, n int) string {
	r.t.Helper()
	out := r.ShareAcquire(ctx, &ShareAcquire{Member: member, Queues: []ShareQueue{jobs(s, 0)}, Records: n, Strict: true, Bytes: 1 << 20})[0]
	r.must(out.Err)
	return r.show(&out)
}

// show releases an answer and says what is in it.
func (r *rig) show(out *ShareAcquired) string {
	r.t.Helper()
	var texts []string
	for _, t := range out.Ranges {
		text := fmt.Sprintf("%d-%d", t.First, t.Last)
		if t.Deliveries != 1 {
			text += fmt.Sprintf("*%d", t.Deliveries)
		}
		texts = append(texts, text)
	}
	if (out.Records == nil) != (texts == nil) {
		r.t.Fatalf("ranges %v with records %v", texts, out.Records)
	}
	if out.Records != nil {
		out.Records.Release()
	}
	return strings.Join(texts, " ")
}

func (r *rig) ack(member string, s *meta.Stream, typ queue.AckType, first, last int64) error {
	r.t.Helper()
	return r.ShareAcknowledge(ctx, []ShareAcks{{jobs(s, 0), member, []queue.Ack{{Span: queue.Span{First: first, Last: last}, Type: typ}}}})[0]
}

func (r *rig) stands(s *meta.Stream) ShareOffset {
	r.t.Helper()
	o := r.ShareOffsets(ctx, workers, []share.Partition{{Stream: s.ID, Index: 0}})[0]
	r.must(o.Err)
	return o
}

// pass lets time go by and the loops notice.
func (r *rig) pass(d time.Duration) {
	r.clock.Advance(d)
	for _, l := range r.loops {
		l.post(message{call: (*loop).tick})
	}
	r.Drain()
}

func (r *rig) want(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func TestQueueGivesEachRecordToOneMember(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, nil)
	r.fill(s, 10)
	r.want("a", r.acquire("a", s, 3), "0-2")
	r.want("b", r.acquire("b", s, 4), "3-6")
	r.want("a again", r.acquire("a", s, 100), "7-9")
	r.want("nothing is left", r.acquire("b", s, 1), "")
	if err := r.ack("b", s, queue.AckAccept, 2, 4); base.CodeOf(err) != base.CodeInvalidRecordState {
		t.Fatalf("acknowledged what another holds: %v", err)
	}
	r.must(r.ack("b", s, queue.AckAccept, 3, 5))
	r.must(r.ack("b", s, queue.AckRelease, 6, 6))
	r.must(r.ack("a", s, queue.AckReject, 7, 7))
	r.want("released", r.acquire("a", s, 5), "6-6*2")
	if err := r.ack("b", s, queue.AckAccept, 3, 3); base.CodeOf(err) != base.CodeInvalidRecordState {
		t.Fatalf("acknowledged twice: %v", err)
	}
	if o := r.stands(s); o.Start != 0 || o.End != 10 || o.Done != 4 || o.InFlight != 6 || o.Lag != 6 {
		t.Fatalf("stands %+v", o.Description)
	}
}

func TestQueueTakesWholeBatchesUnlessStrict(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, nil)
	for range 3 {
		r.must(r.write(s, 0, kv{"a", "1"}, kv{"b", "2"}, kv{"c", "3"}))
	}
	req := &ShareAcquire{Member: "a", Queues: []ShareQueue{jobs(s, 0)}, Records: 4, Batch: 2, Bytes: 1 << 20}
	out := r.ShareAcquire(ctx, req)[0]
	r.must(out.Err)
	b, err := out.Records.AppendTo(nil)
	r.must(err)
	if whole := 2 * len(b) / 2; whole == 0 || out.Lock != 30_000 {
		t.Fatalf("%d bytes, lock %d", len(b), out.Lock)
	}
	r.want("whole batches", r.show(&out), "0-2 3-5")
	r.want("one record", r.acquire("a", s, 1), "6-6")
	req.Records = 1
	out = r.ShareAcquire(ctx, req)[0]
	r.want("the rest of a batch", r.show(&out), "7-8")
}

func TestQueueLimitsBytes(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(2, nil)
	for range 3 {
		r.must(r.write(s, 0, kv{"a", strings.Repeat("x", 1000)}))
		r.must(r.write(s, 1, kv{"a", strings.Repeat("x", 1000)}))
	}
	req := &ShareAcquire{Member: "a", Queues: []ShareQueue{jobs(s, 0), jobs(s, 1)}, Records: 100, Bytes: 2500}
	out := r.ShareAcquire(ctx, req)
	r.want("two fit", r.show(&out[0])+"|"+r.show(&out[1]), "0-1|")
	req.Bytes = 10
	out = r.ShareAcquire(ctx, req)
	r.want("one at least", r.show(&out[0])+"|"+r.show(&out[1]), "2-2|")
	req.Bytes, req.Records = 1<<20, 2
	out = r.ShareAcquire(ctx, req)
	r.want("of the other", r.show(&out[0])+"|"+r.show(&out[1]), "|0-1")
	req.Queues[0].Index = 7
	req.Queues[1].Key.Group = "strangers"
	for i, o := range r.ShareAcquire(ctx, req) {
		if base.CodeOf(o.Err) != base.CodeUnknownPartition {
			t.Errorf("queue %d that is not there: %+v", i, o)
		}
	}
}

func TestQueueLocksExpire(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, nil, "share.delivery.count.limit", "2")
	r.fill(s, 2)
	r.want("a", r.acquire("a", s, 2), "0-1")
	r.pass(20 * time.Second)
	r.must(r.ack("a", s, queue.AckRenew, 1, 1))
	r.pass(11 * time.Second)
	w := r.NewShareWatch()
	defer w.Close()
	w.Add(jobs(s, 0))
	r.want("the first lock is over", r.acquire("b", s, 2), "0-0*2")
	r.pass(20 * time.Second)
	select {
	case <-w.C():
	default:
		t.Fatal("a lock expired and nobody was told")
	}
	if got := w.Take(); len(got) != 1 || got[0] != jobs(s, 0) {
		t.Fatalf("watch told of %v", got)
	}
	r.want("the renewed lock is over", r.acquire("b", s, 2), "1-1*2")
	r.pass(31 * time.Second)
	r.want("delivered as often as allowed", r.acquire("b", s, 2), "")
	if o := r.stands(s); o.Start != 2 || o.Totals.Archived[queue.CauseLimit] != 2 || o.Effects != 0 {
		t.Fatalf("stands %+v", o.Description)
	}
}

func TestQueueSurvivesKills(t *testing.T) {
	for _, checkpointed := range []bool{false, true} {
		r := newRig(t, nil)
		s := r.subscribed(1, nil)
		r.fill(s, 6)
		r.want("a", r.acquire("a", s, 4), "0-3")
		r.must(r.ack("a", s, queue.AckAccept, 1, 1))
		r.must(r.ack("a", s, queue.AckRelease, 2, 2))
		if checkpointed {
			r.must(r.Checkpoint(ctx))
		}
		r.must(r.ack("a", s, queue.AckRelease, 3, 3))
		r.must(r.powerLoss(0))
		r.want("b", r.acquire("b", s, 10), "2-3*2 4-5")
		r.must(r.ack("a", s, queue.AckAccept, 0, 0)) // its lock goes on
		r.pass(31 * time.Second)
		if o := r.stands(s); o.Start != 2 || o.Available != 4 {
			t.Fatalf("stands %+v", o.Description)
		}
		r.must(r.powerLoss(0))
		r.want("counts", r.acquire("b", s, 10), "2-3*3 4-5*2")
	}
}

func TestQueueDecisionsThatAreLost(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, nil)
	r.fill(s, 4)
	for _, failure := range []vfs.Rule{
		{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO},
		{Ops: vfs.OpWrite, Path: "wal-*", Count: 1, Err: syscall.ENOSPC},
	} {
		w := r.NewShareWatch()
		w.Add(jobs(s, 0))
		r.faults.Inject(failure)
		out := r.ShareAcquire(ctx, &ShareAcquire{Member: "a", Queues: []ShareQueue{jobs(s, 0)}, Records: 2, Strict: true, Bytes: 1 << 20})[0]
		if !base.CodeOf(out.Err).Retriable() || out.Ranges != nil || out.Records != nil {
			t.Fatalf("acquired while the disk failed: %+v", out)
		}
		r.Drain()
		if len(w.Take()) != 1 {
			t.Fatal("records are there again and nobody was told")
		}
		w.Close()
	}
	r.want("acquired", r.acquire("a", s, 2), "0-1")
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	if err := r.ack("a", s, queue.AckAccept, 0, 0); !base.CodeOf(err).Retriable() {
		t.Fatalf("acknowledged while the disk failed: %v", err)
	}
	r.Drain()
	if o := r.stands(s); o.Start != 0 || o.InFlight != 2 {
		t.Fatalf("stands %+v", o.Description)
	}
	r.must(r.ack("a", s, queue.AckAccept, 0, 0))
	r.want("after that", r.acquire("b", s, 5), "2-3")
}

func TestQueueReleaseAtTheEndOfASession(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, nil)
	r.fill(s, 3)
	r.want("a", r.acquire("a", s, 3), "0-2")
	w := r.NewShareWatch()
	defer w.Close()
	w.Add(jobs(s, 0))
	r.must(r.ShareRelease(ctx, "a", []ShareQueue{jobs(s, 0)}))
	if len(w.Take()) != 1 {
		t.Fatal("records were released and nobody was told")
	}
	r.want("b", r.acquire("b", s, 3), "0-2*2")
	r.fill(s, 1)
	if len(w.Take()) != 1 {
		t.Fatal("a record was written and nobody was told")
	}
}

func TestQueueConfigurationTakesEffectAtOnce(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, nil, "share.partition.max.record.locks", "100")
	for range 110 {
		r.must(r.write(s, 0, kv{"a", "1"}))
	}
	r.want("the window is full", r.acquire("a", s, 1000), "0-99")
	w := r.NewShareWatch()
	defer w.Close()
	w.Add(jobs(s, 0))
	r.configureWorkers("share.partition.max.record.locks", "200", "share.record.lock.duration.ms", "15000")
	if len(w.Take()) != 1 {
		t.Fatal("the limit rose and nobody was told")
	}
	r.want("more fits", r.acquire("b", s, 1000), "100-109")
	r.pass(16 * time.Second)
	if o := r.stands(s); o.InFlight != 100 || o.Available != 10 {
		t.Fatalf("stands %+v", o.Description)
	}
}

func TestQueuesDieWithTheirGroupAndLog(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, nil)
	r.fill(s, 3)
	r.want("a", r.acquire("a", s, 3), "0-2")
	r.must(r.Checkpoint(ctx))
	r.beats("m", share.EpochLeave)
	r.must(r.ShareDecide(ctx, workers, func(c *share.Coordinator, now int64, _ bool) {
		if err := c.Delete(now, workers); err != nil {
			t.Error(err)
		}
	}))
	r.must(r.ShareSettled(ctx, workers))
	if n := r.queues(); n != 0 {
		t.Fatalf("%d queues of a group that is gone", n)
	}
	r.beats("m", 0, "jobs")
	r.must(r.ShareSettled(ctx, workers))
	r.must(r.powerLoss(0))
	r.want("a group of the same name begins anew", r.acquire("b", s, 3), "0-2")
	r.must(r.Checkpoint(ctx))
	_, err := r.DecideMeta(ctx, func(m *meta.State, _ int64) (*meta.Command, error) { return m.DecideDelete(s.ID) })
	r.must(err)
	r.Drain()
	if n := r.queues(); n != 0 {
		t.Fatalf("%d queues of a topic that is gone", n)
	}
	r.must(r.Checkpoint(ctx))
	r.must(r.powerLoss(0))
	if n, keys := r.queues(), r.queueKeys(); n != 0 || keys != 0 {
		t.Fatalf("%d queues with %d keys of a topic that is gone", n, keys)
	}
}

// queues counts the queues of all shards.
func (r *rig) queues() (n int) {
	r.t.Helper()
	for _, l := range r.loops {
		r.must(r.Call(ctx, l.id, func(m *shard.Machine) { m.Queues(func(shard.QueueKey, *queue.Queue) { n++ }) }))
	}
	return n
}

// queueKeys counts what the state store has of queues.
func (r *rig) queueKeys() (n int) {
	r.t.Helper()
	for _, s := range r.ckpt.stores {
		r.must(s.Scan([]byte{0}, []byte{255}, func(key, _ []byte) bool {
			if shard.IsQueueKey(key) {
				n++
			}
			return true
		}))
	}
	return n
}

func TestQueueStarts(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("jobs", 1, nil)
	r.fill(s, 2)
	r.clock.Advance(time.Hour)
	r.fill(s, 3)
	alter := func(start int64) {
		r.t.Helper()
		r.must(r.ShareDecide(ctx, workers, func(c *share.Coordinator, now int64, _ bool) {
			if _, err := c.AlterOffsets(now, workers, []share.SetTopicOffsets{{Topic: "jobs", Partitions: []share.SetOffset{{Index: 0, Start: start}}}}); err != nil {
				t.Error(err)
			}
		}))
		r.must(r.ShareSettled(ctx, workers))
	}
	for _, tc := range []struct {
		reset       string
		start, want int64
	}{{"latest", -1, 5}, {"earliest", -1, 0}, {"by_duration:PT30M", -1, 2}, {"by_duration:PT0S", -1, 2}, {"latest", 3, 3}, {"latest", 99, 5}} {
		r.configureWorkers("share.auto.offset.reset", tc.reset)
		alter(tc.start)
		if o := r.stands(s); o.Start != tc.want {
			t.Errorf("%s, %d: begins at %d, want %d", tc.reset, tc.start, o.Start, tc.want)
		}
	}
	alter(1)
	r.want("from there", r.acquire("a", s, 9), "1-4")
	alter(0)
	r.want("set back", r.acquire("b", s, 9), "0-4")
	if err := r.ack("a", s, queue.AckAccept, 1, 1); base.CodeOf(err) != base.CodeInvalidRecordState {
		t.Fatalf("acknowledged what was held before: %v", err)
	}
}
