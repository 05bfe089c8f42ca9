package broker

import (
	"context"
	"maps"
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/groupconf"
)

// ShareHeartbeat joins a share group, keeps a member's session, or leaves. It returns when what it says is committed.
func (b *Broker) ShareHeartbeat(ctx context.Context, req share.HeartbeatRequest) (out share.HeartbeatResponse) {
	err := b.engine.ShareDecide(ctx, req.Key, func(c *share.Coordinator, now int64, taken bool) {
		if taken {
			out.Err = notShare(req.Key)
			return
		}
		out = c.Heartbeat(now, &req)
	})
	if err != nil {
		return share.HeartbeatResponse{Err: asError(err)}
	}
	return out
}

// notShare is the answer to who takes a group of another type for a share group.
func notShare(k share.Key) *base.Error {
	return base.Errorf(base.CodeUnknownGroup, "Group %s is not a share group.", k.Group)
}

// DescribeShareGroups shows share groups, one entry each in the order asked for.
func (b *Broker) DescribeShareGroups(ctx context.Context, namespace string, groups []string) []share.Description {
	out := make([]share.Description, 0, len(groups))
	for _, name := range groups {
		k := share.Key{Namespace: namespace, Group: name}
		var d share.Description
		err := b.engine.ShareDecide(ctx, k, func(c *share.Coordinator, _ int64, taken bool) {
			if d = c.Describe(k); taken {
				d.Err = notShare(k)
			}
		})
		if err != nil {
			d = share.Description{Group: name, State: share.Dead, Err: asError(err)}
		}
		out = append(out, d)
	}
	return out
}

// ListShareGroups lists the share groups of a namespace by name. states filters them, without regard to case; none: all.
func (b *Broker) ListShareGroups(ctx context.Context, namespace string, states []string) (out []share.Listing, err error) {
	err = b.engine.EachShareShard(ctx, func(c *share.Coordinator) { out = append(out, c.List(namespace, states)...) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b share.Listing) int { return strings.Compare(a.Group, b.Group) })
	return out, nil
}

// DeleteShareGroup deletes a share group without members. Its queues go soon after.
func (b *Broker) DeleteShareGroup(ctx context.Context, k share.Key) error {
	var refused *base.Error
	err := b.engine.ShareDecide(ctx, k, func(c *share.Coordinator, now int64, _ bool) { refused = c.Delete(now, k) })
	return either(err, refused)
}

// either is the failure to reach a coordinator, or else what the coordinator says.
func either(err error, refused *base.Error) error {
	if err == nil && refused != nil {
		return refused
	}
	return err
}

// AlterShareOffsets sets where a share group without members begins, and makes the group if there is none. It returns when the
// queues have it.
func (b *Broker) AlterShareOffsets(ctx context.Context, k share.Key, topics []share.SetTopicOffsets) (out []share.TopicResult, err error) {
	var refused *base.Error
	err = b.engine.ShareDecide(ctx, k, func(c *share.Coordinator, now int64, taken bool) {
		if taken {
			refused = notShare(k)
			return
		}
		out, refused = c.AlterOffsets(now, k, topics)
	})
	if err = either(err, refused); err == nil {
		err = b.engine.ShareSettled(ctx, k)
	}
	return out, err
}

// DeleteShareOffsets has a share group without members forget topics. It returns when the queues are gone.
func (b *Broker) DeleteShareOffsets(ctx context.Context, k share.Key, topics []string) (out []share.TopicResult, err error) {
	var refused *base.Error
	err = b.engine.ShareDecide(ctx, k, func(c *share.Coordinator, now int64, _ bool) {
		out, refused = c.DeleteOffsets(now, k, topics)
	})
	if err = either(err, refused); err == nil {
		err = b.engine.ShareSettled(ctx, k)
	}
	return out, err
}

// ShareQueues lists the partitions in which a share group has a queue, in order; none if there is no such group.
func (b *Broker) ShareQueues(ctx context.Context, k share.Key) (out []share.Partition, err error) {
	err = b.engine.ShareDecide(ctx, k, func(c *share.Coordinator, _ int64, _ bool) { out = c.Live().Ready(k) })
	return out, err
}

// GroupConfig is the explicit configuration of a group's name, whatever its type and be there such a group or not; not to
// be written to.
func (b *Broker) GroupConfig(k share.Key) map[string]string { return b.engine.GroupConfig(k) }

// ConfiguredGroups lists the names of a namespace that have a configuration, in order.
func (b *Broker) ConfiguredGroups(namespace string) (out []string) {
	b.engine.GroupConfigs(func(k share.Key, _ map[string]string) {
		if k.Namespace == namespace {
			out = append(out, k.Group)
		}
	})
	slices.Sort(out)
	return out
}

// SetGroupConfig changes the explicit configuration of a group: values to set, nil to delete. With replace, what is not
// named goes. With dryRun it only validates.
func (b *Broker) SetGroupConfig(ctx context.Context, k share.Key, values map[string]*string, replace, dryRun bool) error {
	var refused error
	err := b.engine.ShareDecide(ctx, k, func(c *share.Coordinator, _ int64, _ bool) {
		next := map[string]string{}
		if !replace {
			maps.Copy(next, c.Live().Config(k))
		}
		for name, v := range values {
			if delete(next, name); v != nil {
				next[name] = *v
			}
		}
		if refused = groupconf.Validate(next); refused == nil && !dryRun {
			refused = either(nil, c.SetConfig(k, next))
		}
	})
	if err != nil {
		return err
	}
	return refused
}
