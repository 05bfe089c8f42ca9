package engine

import (
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/meta"
	"godwit/internal/vfs"
)

var workers = share.Key{Namespace: base.DefaultNamespace, Group: "workers"}

// beat sends a heartbeat of a member of the workers.
func (r *rig) beat(member string, epoch int32, topics ...string) (out share.HeartbeatResponse, err error) {
	r.t.Helper()
	err = r.ShareDecide(ctx, workers, func(c *share.Coordinator, now int64, taken bool) {
		if taken {
			r.t.Error("the name is taken")
		}
		out = c.Heartbeat(now, &share.HeartbeatRequest{Key: workers, MemberID: member, Epoch: epoch, Subscribed: topics != nil, Topics: topics})
	})
	return out, err
}

// beats is beat for a heartbeat that has to succeed.
func (r *rig) beats(member string, epoch int32, topics ...string) share.HeartbeatResponse {
	r.t.Helper()
	out, err := r.beat(member, epoch, topics...)
	if err != nil || out.Err != nil {
		r.t.Fatalf("heartbeat of %s at epoch %d: %v, %v", member, epoch, err, out.Err)
	}
	return out
}

func (r *rig) describeWorkers() (d share.Description) {
	r.t.Helper()
	r.must(r.ShareDecide(ctx, workers, func(c *share.Coordinator, _ int64, _ bool) { d = c.Describe(workers) }))
	return d
}

func (r *rig) ready() (out []share.Partition) {
	r.t.Helper()
	r.must(r.ShareDecide(ctx, workers, func(c *share.Coordinator, _ int64, _ bool) { out = c.Live().Ready(workers) }))
	return out
}

func TestShareGroupOutlivesTheBroker(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("jobs", 3, nil)
	if out := r.beats("m", 0, "jobs"); out.Epoch != 2 || len(out.Assignment) != 0 {
		t.Fatalf("joined: %+v", out)
	}
	r.must(r.ShareSettled(ctx, workers))
	r.clock.Advance(2 * time.Second)
	if out := r.beats("m", 2); out.Epoch != 3 || len(out.Assignment) != 3 {
		t.Fatalf("assigned: %+v", out)
	}
	config := map[string]string{"share.session.timeout.ms": "50000"}
	r.must(r.ShareDecide(ctx, workers, func(c *share.Coordinator, _ int64, _ bool) { c.SetConfig(workers, config) }))

	for _, checkpointed := range []bool{false, true} {
		if checkpointed {
			r.must(r.Checkpoint(ctx))
		}
		r.must(r.powerLoss(0))
		if got := r.GroupConfig(workers); !maps.Equal(got, config) {
			t.Fatalf("configured %v", got)
		}
		if out := r.beats("m", 3); out.Epoch != 3 || out.Assigned {
			t.Fatalf("after a power loss: %+v", out)
		}
		if d := r.describeWorkers(); d.State != share.Stable || len(d.Members) != 1 || len(d.Members[0].Assigned) != 3 {
			t.Fatalf("after a power loss: %+v", d)
		}
	}

	// A topic that is deleted takes its queues along.
	_, err := r.DecideMeta(ctx, func(m *meta.State, _ int64) (*meta.Command, error) { return m.DecideDelete(s.ID) })
	r.must(err)
	r.Drain()
	if got := r.ready(); len(got) != 0 {
		t.Fatalf("queues %v of a topic that is gone", got)
	}
	r.clock.Advance(2 * time.Second)
	if out := r.beats("m", 3); out.Epoch != 4 || !out.Assigned || len(out.Assignment) != 0 {
		t.Fatalf("after the topic went: %+v", out)
	}
}

func TestShareGroupDecisionsThatAreLost(t *testing.T) {
	r := newRig(t, nil)
	r.create("jobs", 1, nil)
	r.beats("m", 0, "jobs")
	r.must(r.ShareSettled(ctx, workers))
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	if out, err := r.beat("n", 0, "jobs"); !base.CodeOf(err).Retriable() {
		t.Fatalf("joined while the disk failed: %+v, %v", out, err)
	}
	r.Drain()
	if d := r.describeWorkers(); len(d.Members) != 1 || d.Members[0].ID != "m" || d.Epoch != 2 {
		t.Fatalf("described %+v", d)
	}
	if out := r.beats("n", 0, "jobs"); out.Epoch < 2 {
		t.Fatalf("joined: %+v", out)
	}
	if d := r.describeWorkers(); len(d.Members) != 2 {
		t.Fatalf("described %+v", d)
	}
}

func TestShareGroupNames(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("jobs", 1, nil)
	r.commit(s, 0, "readers", 0)
	var taken bool
	r.must(r.ShareDecide(ctx, share.Key{Namespace: base.DefaultNamespace, Group: "readers"}, func(_ *share.Coordinator, _ int64, is bool) { taken = is }))
	if !taken {
		t.Error("the name of a consumer group is free")
	}
	r.beats("m", 0, "jobs")
	l := r.loop(r.View().GroupShard(workers.Namespace, workers.Group))
	if !l.shares.exists(workers) || l.shares.exists(group.Key{Namespace: base.DefaultNamespace, Group: "readers"}) {
		t.Error("names of share groups are mistaken")
	}
	var names []string
	r.must(r.EachShareShard(ctx, func(c *share.Coordinator) {
		for _, g := range c.List(base.DefaultNamespace, nil) {
			names = append(names, g.Group)
		}
	}))
	if !slices.Equal(names, []string{"workers"}) {
		t.Errorf("listed %v", names)
	}
}

func TestShareOffsetsAreSetWhenAnswered(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("jobs", 2, nil)
	r.must(r.ShareDecide(ctx, workers, func(c *share.Coordinator, now int64, _ bool) {
		if _, err := c.AlterOffsets(now, workers, []share.SetTopicOffsets{{Topic: "jobs", Partitions: []share.SetOffset{{Index: 1, Start: 0}}}}); err != nil {
			t.Error(err)
		}
	}))
	r.must(r.ShareSettled(ctx, workers))
	if got := r.ready(); !slices.Equal(got, []share.Partition{{Stream: s.ID, Index: 1}}) {
		t.Fatalf("queues %v", got)
	}
	r.must(r.ShareDecide(ctx, workers, func(c *share.Coordinator, now int64, _ bool) {
		if err := c.Delete(now, workers); err != nil {
			t.Error(err)
		}
	}))
	r.must(r.ShareSettled(ctx, workers))
	if d := r.describeWorkers(); d.State != share.Dead {
		t.Fatalf("described %+v", d)
	}
	if got := r.ready(); len(got) != 0 {
		t.Fatalf("queues %v of a group that is gone", got)
	}
}

func TestShareGroupRefusedByAFullDisk(t *testing.T) {
	r := newRig(t, nil)
	r.create("jobs", 1, nil)
	r.beats("m", 0, "jobs")
	r.must(r.ShareSettled(ctx, workers))
	r.faults.Inject(vfs.Rule{Ops: vfs.OpWrite, Path: "wal-*", Count: 1, Err: syscall.ENOSPC})
	out, err := r.beat("n", 0, "jobs")
	if base.CodeOf(err) != base.CodeDiskFull {
		t.Fatalf("joined on a full disk: %+v, %v", out, err)
	}
	r.Drain()
	if d := r.describeWorkers(); len(d.Members) != 1 || d.Epoch != 2 {
		t.Fatalf("described %+v", d)
	}
	r.beats("n", 0, "jobs")
}
