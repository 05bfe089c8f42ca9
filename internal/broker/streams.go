package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/streams"
	"godwit/internal/meta"
)

// StreamsHeartbeat joins a streams group, keeps a member's session, or leaves, and makes the internal topics that the group lacks. It
// returns when what it says is committed.
func (b *Broker) StreamsHeartbeat(ctx context.Context, req streams.HeartbeatRequest) (out streams.HeartbeatResponse) {
	err := b.engine.StreamsDecide(ctx, req.Key, func(c *streams.Coordinator, now int64, taken bool) {
		if taken {
			out = streams.HeartbeatResponse{Err: streams.NotStreams(req.Key)}
			return
		}
		out = c.Heartbeat(now, &req)
	})
	if err != nil {
		return streams.HeartbeatResponse{Err: asError(err)}
	}
	if len(out.Create) > 0 {
		b.createInternalTopics(ctx, req.Namespace, &out)
	}
	return out
}

// createInternalTopics makes topics for a streams group; what fails is told to the member, with the status that names the topics. They are
// used from the group's next heartbeat on, as in Kafka.
func (b *Broker) createInternalTopics(ctx context.Context, namespace string, out *streams.HeartbeatResponse) {
	ctx, cancel := context.WithTimeout(ctx, internalTopicWait)
	defer cancel()
	var failed []string
	for i, t := range out.Create {
		if i > 0 && ctx.Err() != nil || len(failed) == maxFailures {
			failed = append(failed, fmt.Sprintf("and %d more", len(out.Create)-i))
			break
		}
		overrides := make(map[string]string, len(t.Configs))
		for _, c := range t.Configs {
			overrides[c.Key] = c.Value
		}
		err := meta.ValidName(t.Name)
		if err == nil {
			_, err = b.CreateStream(ctx, meta.CreateStream{
				Namespace: namespace, Name: t.Name, Partitions: int(t.Partitions), Replicas: t.Replicas, Overrides: overrides,
			})
		}
		if err != nil && base.CodeOf(err) != base.CodeStreamExists {
			failed = append(failed, fmt.Sprintf("%s (%v)", t.Name, err))
		}
	}
	if len(failed) == 0 {
		return
	}
	i := slices.IndexFunc(out.Statuses, func(s streams.MemberStatus) bool { return s.Code == streams.MissingInternalTopics })
	out.Statuses[i].Detail += "; Creation failed: " + strings.Join(failed, ", ") + "."
}

// maxFailures is of how many internal topics that cannot be made a member is told; the heartbeats that follow try again.
const maxFailures = 3

// internalTopicWait is for how long a heartbeat waits for internal topics.
const internalTopicWait = 5 * time.Second

// DescribeStreamsGroups shows streams groups, one entry each in the order asked for.
func (b *Broker) DescribeStreamsGroups(ctx context.Context, namespace string, groups []string) []streams.Description {
	out := make([]streams.Description, 0, len(groups))
	for _, name := range groups {
		k := streams.Key{Namespace: namespace, Group: name}
		var d streams.Description
		err := b.engine.StreamsDecide(ctx, k, func(c *streams.Coordinator, _ int64, taken bool) {
			if d = c.Describe(k); taken {
				d.Err = streams.NotStreams(k)
			}
		})
		if err != nil {
			d = streams.Description{Group: name, State: streams.GroupDead, Err: asError(err)}
		}
		out = append(out, d)
	}
	return out
}

// ListStreamsGroups lists the streams groups of a namespace by name. states filters them, without regard to case; none: all.
func (b *Broker) ListStreamsGroups(ctx context.Context, namespace string, states []string) (out []streams.Listing, err error) {
	err = b.engine.EachStreamsShard(ctx, func(c *streams.Coordinator) { out = append(out, c.List(namespace, states)...) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b streams.Listing) int { return strings.Compare(a.Group, b.Group) })
	return out, nil
}

// DeleteStreamsGroup deletes a streams group without members, with its offsets.
func (b *Broker) DeleteStreamsGroup(ctx context.Context, k streams.Key) error {
	return b.engine.DeleteStreamsGroup(ctx, k)
}

// streamsMembers is a streams group with what its members read.
func streamsMembers(d *streams.Description) *GroupLag {
	out := &GroupLag{Group: d.Group, Type: streams.Type, State: group.State(d.State), ProtocolType: streams.Type, Protocol: streams.Assignor}
	for i := range d.Members {
		m := &d.Members[i]
		gm := GroupMember{MemberID: m.ID, InstanceID: m.Instance, ClientID: m.ClientID, ClientHost: m.ClientHost}
		for _, t := range m.Reads {
			for _, p := range t.Partitions {
				gm.Assigned = append(gm.Assigned, TopicPartition{t.Topic, p})
			}
		}
		slices.SortFunc(gm.Assigned, comparePartitions)
		out.Members = append(out.Members, gm)
	}
	return out
}
