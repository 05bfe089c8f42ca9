package broker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/shard"
)

// asError makes any failure one that a response can carry.
func asError(err error) *base.Error {
	var e *base.Error
	if errors.As(err, &e) {
		return e
	}
	return &base.Error{Code: base.CodeUnknown, Msg: err.Error()}
}

// JoinGroup waits until the group's join phase ends, or ctx. A streams group without members gives up its name.
func (b *Broker) JoinGroup(ctx context.Context, req group.JoinRequest) group.JoinResponse {
	if err := b.engine.ReleaseStreamsName(ctx, req.Key); err != nil {
		return group.JoinResponse{Err: asError(err), MemberID: req.MemberID, Generation: -1}
	}
	unique := b.engine.NewUUID()
	res, err := b.engine.GroupCall(ctx, req.Key, func(c *group.Coordinator, now int64, token uint64) []group.Reply {
		return c.Join(now, token, &req, unique)
	})
	if err != nil {
		return group.JoinResponse{Err: asError(err), MemberID: req.MemberID, Generation: -1}
	}
	return *res.(*group.JoinResponse)
}

// SyncGroup waits until the group's leader has sent the assignment, or ctx.
func (b *Broker) SyncGroup(ctx context.Context, req group.SyncRequest) group.SyncResponse {
	res, err := b.engine.GroupCall(ctx, req.Key, func(c *group.Coordinator, now int64, token uint64) []group.Reply {
		return c.Sync(now, token, &req)
	})
	if err != nil {
		return group.SyncResponse{Err: asError(err)}
	}
	return *res.(*group.SyncResponse)
}

// HeartbeatGroup keeps a member's session.
func (b *Broker) HeartbeatGroup(ctx context.Context, req group.HeartbeatRequest) (out group.HeartbeatResponse) {
	err := b.engine.GroupDecide(ctx, req.Key, func(c *group.Coordinator, now int64) []group.Command {
		out = c.Heartbeat(now, &req)
		return nil
	})
	if err != nil {
		out.Err = asError(err)
	}
	return out
}

// LeaveGroup ends memberships.
func (b *Broker) LeaveGroup(ctx context.Context, req group.LeaveRequest) group.LeaveResponse {
	res, err := b.engine.GroupCall(ctx, req.Key, func(c *group.Coordinator, now int64, token uint64) []group.Reply {
		out, replies := c.Leave(now, &req)
		return append(replies, group.Reply{Token: token, Response: &out})
	})
	if err != nil {
		return group.LeaveResponse{Err: asError(err)}
	}
	return *res.(*group.LeaveResponse)
}

// CommitOffsets records positions and returns when they are committed.
func (b *Broker) CommitOffsets(ctx context.Context, req group.CommitRequest) (out group.CommitResponse) {
	err := b.engine.GroupDecide(ctx, req.Key, func(c *group.Coordinator, now int64) []group.Command {
		var cmd *group.CommitOffsets
		if cmd, out = c.Commit(now, &req); cmd != nil {
			return []group.Command{cmd}
		}
		return nil
	})
	if err != nil {
		out.Err = asError(err)
	}
	return out
}

// FetchOffsets reads committed positions.
func (b *Broker) FetchOffsets(ctx context.Context, req group.FetchOffsetsRequest) (out group.FetchOffsetsResponse) {
	if req.MemberID != nil || req.Epoch >= 0 {
		err := b.engine.GroupDecide(ctx, req.Key, func(c *group.Coordinator, _ int64) []group.Command {
			out.Err = c.CheckFetch(&req)
			return nil
		})
		if err != nil {
			out.Err = asError(err)
		}
		if out.Err != nil {
			return out
		}
	}
	id := b.Meta().GroupShard(req.Namespace, req.Group)
	if err := b.engine.Call(ctx, id, func(m *shard.Machine) { out = m.Offsets.Fetch(&req) }); err != nil {
		out.Err = asError(err)
	}
	return out
}

// ListGroups lists the groups of a namespace by name.
func (b *Broker) ListGroups(ctx context.Context, req group.ListRequest) (out group.ListResponse) {
	err := b.engine.EachGroupShard(ctx, func(c *group.Coordinator, _ int64) []group.Command {
		out.Groups = append(out.Groups, c.List(&req).Groups...)
		return nil
	})
	if err != nil {
		return group.ListResponse{Err: asError(err)}
	}
	slices.SortFunc(out.Groups, func(a, b group.Listing) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// DescribeGroups shows groups, one entry each in the order asked for.
func (b *Broker) DescribeGroups(ctx context.Context, req group.DescribeRequest) (out group.DescribeResponse) {
	for _, name := range req.Groups {
		k := group.Key{Namespace: req.Namespace, Group: name}
		var d group.Description
		err := b.engine.GroupDecide(ctx, k, func(c *group.Coordinator, _ int64) []group.Command {
			d = c.Describe(k)
			return nil
		})
		if err != nil {
			d = group.Description{Group: name, State: group.Dead, Err: asError(err)}
		}
		out.Groups = append(out.Groups, d)
	}
	return out
}

// DeleteGroups deletes groups without members, with their offsets.
func (b *Broker) DeleteGroups(ctx context.Context, req group.DeleteGroupsRequest) (out group.DeleteGroupsResponse) {
	for _, name := range req.Groups {
		k := group.Key{Namespace: req.Namespace, Group: name}
		var refused *base.Error
		err := b.engine.GroupDecide(ctx, k, func(c *group.Coordinator, _ int64) []group.Command {
			var cmd *group.DeleteGroup
			if cmd, refused = c.DeleteGroup(k); cmd != nil {
				return []group.Command{cmd}
			}
			return nil
		})
		if err != nil {
			refused = asError(err)
		}
		out.Errs = append(out.Errs, refused)
	}
	return out
}

// DeleteOffsets forgets positions of a group.
func (b *Broker) DeleteOffsets(ctx context.Context, req group.DeleteOffsetsRequest) (out group.DeleteOffsetsResponse) {
	err := b.engine.GroupDecide(ctx, req.Key, func(c *group.Coordinator, _ int64) []group.Command {
		var cmd *group.DeleteOffsets
		if cmd, out = c.DeleteOffsets(&req); cmd != nil {
			return []group.Command{cmd}
		}
		return nil
	})
	if err != nil {
		out.Err = asError(err)
	}
	return out
}

// ConsumerHeartbeat joins a group of the consumer protocol, keeps a member's session, or leaves. It returns when what it says is
// committed.
func (b *Broker) ConsumerHeartbeat(ctx context.Context, req group.ConsumerHeartbeatRequest) (out group.ConsumerHeartbeatResponse) {
	unique := ""
	if req.MemberID == "" {
		unique = b.engine.NewUUID()
	}
	err := b.engine.GroupHeartbeat(ctx, req.Key, func(c *group.Coordinator, now int64) (replies []group.Reply) {
		out, replies = c.ConsumerHeartbeat(now, &req, unique)
		return replies
	})
	if err != nil {
		return group.ConsumerHeartbeatResponse{Err: asError(err)}
	}
	return out
}

// DescribeConsumerGroups shows groups of the consumer protocol, one entry each in the order asked for.
func (b *Broker) DescribeConsumerGroups(ctx context.Context, req group.DescribeRequest) []group.ConsumerDescription {
	out := make([]group.ConsumerDescription, 0, len(req.Groups))
	for _, name := range req.Groups {
		k := group.Key{Namespace: req.Namespace, Group: name}
		var d group.ConsumerDescription
		err := b.engine.GroupDecide(ctx, k, func(c *group.Coordinator, _ int64) []group.Command {
			d = c.DescribeConsumers(k)
			return nil
		})
		if err != nil {
			d = group.ConsumerDescription{Group: name, State: group.Dead, Err: asError(err)}
		}
		out = append(out, d)
	}
	return out
}
