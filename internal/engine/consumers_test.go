package engine

import (
	"syscall"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/vfs"
)

var readers = group.Key{Namespace: base.DefaultNamespace, Group: "readers"}

// consumer sends a heartbeat of a member of the readers; the first says all.
func (r *rig) consumer(member string, epoch int32, topics ...string) (out group.ConsumerHeartbeatResponse, err error) {
	r.t.Helper()
	req := &group.ConsumerHeartbeatRequest{Key: readers, MemberID: member, MemberIDRequired: true, Epoch: epoch, RebalanceTimeout: -1}
	if epoch == group.EpochJoin {
		req.Topics, req.RebalanceTimeout, req.OwnedSaid = topics, 30_000, true
	}
	err = r.GroupHeartbeat(ctx, readers, func(c *group.Coordinator, now int64) (replies []group.Reply) {
		out, replies = c.ConsumerHeartbeat(now, req, "")
		return replies
	})
	return out, err
}

// consumers is consumer for a heartbeat that has to succeed.
func (r *rig) consumers(member string, epoch int32, topics ...string) group.ConsumerHeartbeatResponse {
	r.t.Helper()
	out, err := r.consumer(member, epoch, topics...)
	if err != nil || out.Err != nil {
		r.t.Fatalf("heartbeat of %s at epoch %d: %v, %v", member, epoch, err, out.Err)
	}
	return out
}

func (r *rig) describeReaders() (d group.ConsumerDescription) {
	r.t.Helper()
	r.must(r.GroupDecide(ctx, readers, func(c *group.Coordinator, _ int64) []group.Command {
		d = c.DescribeConsumers(readers)
		return nil
	}))
	return d
}

func TestConsumerGroupOutlivesTheBroker(t *testing.T) {
	r := newRig(t, nil)
	r.create("jobs", 4, nil)
	if out := r.consumers("a", 0, "jobs"); out.Epoch != 2 || len(out.Assignment) != 4 {
		t.Fatalf("joined: %+v", out)
	}
	r.clock.Advance(2 * time.Second)
	if out := r.consumers("b", 0, "jobs"); out.Epoch != 3 || len(out.Assignment) != 0 {
		t.Fatalf("joined: %+v", out)
	}
	if out := r.consumers("a", 2); !out.Assigned || len(out.Assignment) != 2 {
		t.Fatalf("has to give up two: %+v", out)
	}
	for _, checkpointed := range []bool{false, true} {
		if checkpointed {
			r.must(r.Checkpoint(ctx))
		}
		r.must(r.powerLoss(0))
		d := r.describeReaders()
		if d.State != group.Reconciling || d.Epoch != 3 || len(d.Members) != 2 || d.Members[0].Epoch != 2 || len(d.Members[0].Revoking) != 2 || d.Members[1].Epoch != 3 {
			t.Fatalf("after a power loss: %+v", d)
		}
		// Who does not say that it gave them up keeps them, and nobody else gets them.
		if out := r.consumers("a", 2); out.Epoch != 2 || out.Assigned {
			t.Fatalf("after a power loss: %+v", out)
		}
		if out := r.consumers("b", 3); out.Epoch != 3 || out.Assigned {
			t.Fatalf("after a power loss: %+v", out)
		}
	}
}

// TestConsumerGroupChangesThatAreLost answers nothing that rests on a lost entry, nor what a later request was answered on top of it.
func TestConsumerGroupChangesThatAreLost(t *testing.T) {
	for name, cause := range map[string]vfs.Rule{
		"sync fails": {Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO},
		"disk full":  {Ops: vfs.OpWrite, Path: "wal-*", Count: 1, Err: syscall.ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.create("jobs", 2, nil)
			r.consumers("a", 0, "jobs")
			r.clock.Advance(2 * time.Second)
			r.faults.Inject(cause)
			if out, err := r.consumer("b", 0, "jobs"); err == nil {
				t.Fatalf("joined while the disk failed: %+v", out)
			}
			r.Drain()
			d := r.describeReaders()
			if d.State != group.Stable || d.Epoch != 2 || len(d.Members) != 1 || len(d.Members[0].Assigned) != 2 {
				t.Fatalf("what was lost is described: %+v", d)
			}
			// The first member goes on as if nothing had happened, and the second can come.
			if out := r.consumers("a", 2); out.Epoch != 2 || out.Assigned {
				t.Fatalf("after the loss: %+v", out)
			}
			if out := r.consumers("b", 0, "jobs"); out.Epoch != 3 {
				t.Fatalf("after the loss: %+v", out)
			}
			if out := r.consumers("a", 2); !out.Assigned || len(out.Assignment) != 1 {
				t.Fatalf("after the loss: %+v", out)
			}
		})
	}
}

// TestConsumerGroupConfig has a group's own configuration take effect with the next heartbeat.
func TestConsumerGroupConfig(t *testing.T) {
	r := newRig(t, nil)
	r.create("jobs", 1, nil)
	if out := r.consumers("a", 0, "jobs"); out.Interval != 5_000 {
		t.Fatalf("joined: %+v", out)
	}
	r.must(r.ShareDecide(ctx, readers, func(c *share.Coordinator, _ int64, _ bool) {
		c.SetConfig(readers, map[string]string{"consumer.heartbeat.interval.ms": "7000"})
	}))
	if out := r.consumers("a", 2); out.Interval != 7_000 {
		t.Fatalf("configured: %+v", out)
	}
}

// TestLostClassicMembershipIsSaid has the disk fail for the entry with a stable generation.
func TestLostClassicMembershipIsSaid(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Groups.InitialDelay = 0 })
	r.create("jobs", 1, nil)
	call := func(fn func(c *group.Coordinator, now int64, token uint64) []group.Reply) any {
		t.Helper()
		res, err := r.GroupCall(ctx, readers, fn)
		r.must(err)
		return res
	}
	join := func() *group.JoinResponse {
		return call(func(c *group.Coordinator, now int64, token uint64) []group.Reply {
			return c.Join(now, token, &group.JoinRequest{Key: readers, SessionTimeout: 10_000, RebalanceTimeout: 10_000, ProtocolType: "any",
				Protocols: []group.Protocol{{Name: "p"}}, InstanceID: "i"}, "u")
		}).(*group.JoinResponse)
	}
	joined := join()
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	synced := call(func(c *group.Coordinator, now int64, token uint64) []group.Reply {
		return c.Sync(now, token, &group.SyncRequest{Key: readers, Generation: joined.Generation, MemberID: joined.MemberID, InstanceID: "i",
			Assignments: []group.Assignment{{MemberID: joined.MemberID, Data: []byte("all")}}})
	}).(*group.SyncResponse)
	if synced.Err == nil || !synced.Err.Code.Retriable() {
		t.Fatalf("assigned, and nobody will remember: %+v", synced)
	}
}
