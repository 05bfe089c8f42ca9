package engine

import (
	"syscall"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
	"godwit/internal/vfs"
)

var app = streams.Key{Namespace: base.DefaultNamespace, Group: "app"}

// runs sends a heartbeat of a member of the application, which reads topic jobs.
func (r *rig) runs(member string, epoch int32) (out streams.HeartbeatResponse, err error) {
	r.t.Helper()
	req := &streams.HeartbeatRequest{Key: app, MemberID: member, Epoch: epoch, Rebalance: -1}
	if epoch == streams.EpochJoin {
		req.Process, req.Rebalance, req.Owned = &member, 60_000, &streams.Owned{}
		req.Topology = &streams.Topology{Subtopologies: []streams.Subtopology{{ID: "0", Sources: []string{"jobs"}}}}
	}
	err = r.StreamsDecide(ctx, app, func(c *streams.Coordinator, now int64, taken bool) {
		if taken {
			r.t.Error("the name is taken")
		}
		out = c.Heartbeat(now, req)
	})
	return out, err
}

func (r *rig) describeApp() (d streams.Description) {
	r.t.Helper()
	r.must(r.StreamsDecide(ctx, app, func(c *streams.Coordinator, _ int64, _ bool) { d = c.Describe(app) }))
	return d
}

func TestStreamsGroupOutlivesTheBroker(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("jobs", 3, nil)
	if out, err := r.runs("m", 0); err != nil || out.Err != nil || out.Epoch != 1 {
		t.Fatalf("joined: %+v, %v", out, err)
	}
	r.clock.Advance(3 * time.Second)
	if out, err := r.runs("m", 1); err != nil || out.Epoch != 2 || len(out.Tasks.Active) != 3 {
		t.Fatalf("assigned: %+v, %v", out, err)
	}
	for _, checkpointed := range []bool{false, true} {
		if checkpointed {
			r.must(r.Checkpoint(ctx))
		}
		r.must(r.powerLoss(0))
		if out, err := r.runs("m", 2); err != nil || out.Err != nil || out.Epoch != 2 || out.Assigned {
			t.Fatalf("after a power loss: %+v, %v", out, err)
		}
		if d := r.describeApp(); d.State != streams.GroupStable || len(d.Members) != 1 || len(d.Members[0].Assigned.Active) != 3 {
			t.Fatalf("after a power loss: %+v", d)
		}
	}
	// Offsets are for its members only.
	commit := func(member string, epoch int32) (out group.CommitResponse) {
		at := group.CommitOffset{Partition: group.Partition{Stream: s.ID}, Offset: 1, Epoch: -1}
		r.must(r.GroupDecide(ctx, app, func(c *group.Coordinator, now int64) []group.Command {
			var cmd *group.CommitOffsets
			if cmd, out = c.Commit(now, &group.CommitRequest{Key: app, MemberID: member, Generation: epoch, Retention: -1, Offsets: []group.CommitOffset{at}}); cmd != nil {
				return []group.Command{cmd}
			}
			return nil
		}))
		return out
	}
	if out := commit("n", 2); out.Err == nil || out.Err.Code != base.CodeUnknownMember {
		t.Errorf("committed by a stranger: %+v", out)
	}
	if out := commit("m", 2); out.Err != nil {
		t.Errorf("committed: %+v", out)
	}
	_, err := r.runs("m", streams.EpochLeave)
	r.must(err)
	r.must(r.DeleteStreamsGroup(ctx, app))
	r.must(r.powerLoss(0))
	if d := r.describeApp(); d.Err == nil {
		t.Errorf("deleted, and after a power loss there is %+v", d)
	}
	r.must(r.GroupDecide(ctx, app, func(c *group.Coordinator, _ int64) []group.Command {
		if c.Exists(app) {
			t.Error("the offsets of a group that was deleted are a group")
		}
		return nil
	}))
}

func TestStreamsGroupDecisionsThatAreLost(t *testing.T) {
	r := newRig(t, nil)
	r.create("jobs", 1, nil)
	_, err := r.runs("m", 0)
	r.must(err)
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	if out, err := r.runs("n", 0); !base.CodeOf(err).Retriable() {
		t.Fatalf("joined while the disk failed: %+v, %v", out, err)
	}
	r.Drain()
	if d := r.describeApp(); len(d.Members) != 1 || d.Members[0].ID != "m" || d.Epoch != 2 {
		t.Fatalf("described %+v", d)
	}
	if out, err := r.runs("n", 0); err != nil || out.Err != nil {
		t.Fatalf("joined: %+v, %v", out, err)
	}
	if d := r.describeApp(); len(d.Members) != 2 {
		t.Fatalf("described %+v", d)
	}
}

func TestStreamsGroupNames(t *testing.T) {
	r := newRig(t, nil)
	r.create("jobs", 1, nil)
	r.beats("m", 0, "jobs")
	var taken bool
	r.must(r.StreamsDecide(ctx, workers, func(_ *streams.Coordinator, _ int64, is bool) { taken = is }))
	if !taken {
		t.Error("the name of a share group is free")
	}
	_, err := r.runs("m", 0)
	r.must(err)
	r.must(r.ShareDecide(ctx, app, func(_ *share.Coordinator, _ int64, is bool) { taken = is }))
	if !taken {
		t.Error("the name of a streams group is free")
	}
}
