package broker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/coord/group"
	"godwit/internal/coord/streams"
	"godwit/internal/engine"
	"godwit/internal/meta"
	"godwit/internal/shard"
)

// GroupLag is a group with how far it is behind.
type GroupLag struct {
	Group        string
	Type         string // "classic", "consumer" or "streams"
	State        group.State
	ProtocolType string
	Protocol     string // the assignor, while one is chosen
	Members      []GroupMember
	Partitions   []PartitionLag // with a committed position or a member that reads them; by topic and number
}

// GroupMember is a member of a group as operators see it.
type GroupMember struct {
	MemberID, InstanceID, ClientID, ClientHost string
	Assigned                                   []TopicPartition // in order; empty where it is not known
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// PartitionLag is a group's position in a partition and what is behind it.
type PartitionLag struct {
	TopicPartition
	Stream    base.StreamID
	Member    string // ID of the member that has the partition; empty if none, or not known
	Committed int64  // the next record to read; -1: nothing is committed, and there is no lag
	Epoch     int32  // leader epoch of the last record read; -1: not known
	Metadata  string // the client's
	engine.Lag
	Err error // why the lag is not known: CodeTimeout if it was not counted in time
}

// Behind is the lag of many partitions together.
type Behind struct {
	Records, Bytes int64
	Age            int64 // ms, the largest; -1 if that of one is not known
	Whole          bool  // no partition is missing
}

// Total adds up partitions.
func Total(partitions []PartitionLag) Behind {
	out := Behind{Whole: true}
	for i := range partitions {
		p := &partitions[i]
		switch {
		case p.Err != nil:
			out.Whole = false
		case p.Age < 0 || out.Age < 0:
			out.Age = -1
		default:
			out.Age = max(out.Age, p.Age)
		}
		out.Records, out.Bytes = out.Records+p.Records, out.Bytes+p.Bytes
	}
	return out
}

// Lags tells how far groups are behind. It is safe for concurrent use.
type Lags struct {
	b       *Broker
	counter *engine.LagCounter

	clock clock.Clock

	turn  chan struct{} // holds a token while nobody lists all groups
	lists map[listKey]lagList
}

type listKey struct {
	namespace string
	committed bool
}

type lagList struct {
	at     time.Time
	groups []GroupLag
}

// lagListAge is for how long a list of all groups is given again instead of being made anew.
const lagListAge = time.Second

// NewLags makes one that remembers nothing yet.
func NewLags(b *Broker, c clock.Clock) *Lags {
	l := &Lags{b: b, counter: engine.NewLagCounter(b.engine), clock: c, turn: make(chan struct{}, 1), lists: map[listKey]lagList{}}
	l.turn <- struct{}{}
	return l
}

// Groups lists all groups of a namespace by name; what it returns may be a second old and must not be written to. With
// committed, lags end at the last stable offset, without records of aborted transactions. What is not counted when ctx ends has an
// error of its own.
func (l *Lags) Groups(ctx context.Context, namespace string, committed bool) ([]GroupLag, error) {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return nil, base.Errorf(base.CodeTimeout, "groups were not listed in time: %v", ctx.Err())
	}
	defer func() { l.turn <- struct{}{} }()
	k := listKey{namespace, committed}
	if had, ok := l.lists[k]; ok && l.clock.Now().Sub(had.at) < lagListAge {
		return had.groups, nil
	}
	list := l.b.ListGroups(ctx, group.ListRequest{Namespace: namespace})
	if list.Err != nil {
		return nil, list.Err
	}
	apps, err := l.b.ListStreamsGroups(ctx, namespace, nil)
	if err != nil {
		return nil, err
	}
	for _, g := range apps {
		list.Groups = append(list.Groups, group.Listing{Group: g.Group, Type: streams.Type})
	}
	slices.SortFunc(list.Groups, func(a, b group.Listing) int { return strings.Compare(a.Group, b.Group) })
	out := make([]GroupLag, 0, len(list.Groups))
	for _, g := range list.Groups {
		described, err := l.describe(ctx, group.Key{Namespace: namespace, Group: g.Group}, g.Type)
		switch {
		case err == nil:
			out = append(out, *described)
		case base.CodeOf(err) != base.CodeUnknownGroup: // deleted meanwhile
			return nil, err
		}
	}
	l.count(ctx, out, committed)
	if ctx.Err() == nil {
		l.lists[k] = lagList{l.clock.Now(), out}
	}
	return out, nil
}

// Group shows one group; CodeUnknownGroup if there is none.
func (l *Lags) Group(ctx context.Context, namespace, name string, committed bool) (*GroupLag, error) {
	g, err := l.describe(ctx, group.Key{Namespace: namespace, Group: name}, "")
	if err != nil {
		return nil, err
	}
	one := []GroupLag{*g}
	l.count(ctx, one, committed)
	return &one[0], nil
}

// describe tells all of a group but its lag.
func (l *Lags) describe(ctx context.Context, k group.Key, kind string) (*GroupLag, error) {
	out, err := l.b.members(ctx, k, kind)
	if err != nil {
		return nil, err
	}
	v := l.b.Meta()
	var offsets group.FetchOffsetsResponse
	if err := l.b.engine.Call(ctx, v.GroupShard(k.Namespace, k.Group), func(m *shard.Machine) {
		offsets = m.Offsets.Fetch(&group.FetchOffsetsRequest{Key: k, All: true})
	}); err != nil {
		return nil, err
	}
	at := map[TopicPartition]int{}
	for _, o := range offsets.Offsets {
		if s, ok := v.StreamByID(o.Stream); ok && int(o.Index) < len(s.Partitions) {
			p := TopicPartition{s.Name, o.Index}
			at[p] = len(out.Partitions)
			out.Partitions = append(out.Partitions, PartitionLag{TopicPartition: p, Stream: s.ID, Committed: o.Offset, Epoch: o.Epoch, Metadata: o.Metadata})
		}
	}
	for _, m := range out.Members {
		for _, p := range m.Assigned {
			if i, ok := at[p]; ok {
				out.Partitions[i].Member = m.MemberID
			} else if s, ok := v.Stream(k.Namespace, p.Topic); ok && p.Partition >= 0 && int(p.Partition) < len(s.Partitions) {
				at[p] = len(out.Partitions)
				out.Partitions = append(out.Partitions, PartitionLag{TopicPartition: p, Stream: s.ID, Member: m.MemberID, Committed: -1, Epoch: -1})
			}
		}
	}
	slices.SortFunc(out.Partitions, func(a, b PartitionLag) int { return comparePartitions(a.TopicPartition, b.TopicPartition) })
	return out, nil
}

func comparePartitions(a, b TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// members describes a group and who is in it. kind is its type, if that is known; a group may change it at any time.
func (b *Broker) members(ctx context.Context, k group.Key, kind string) (*GroupLag, error) {
	one := group.DescribeRequest{Namespace: k.Namespace, Groups: []string{k.Group}}
	look := []func() (*GroupLag, *base.Error){
		func() (*GroupLag, *base.Error) {
			d := b.DescribeGroups(ctx, one).Groups[0]
			return classicMembers(&d), d.Err
		},
		func() (*GroupLag, *base.Error) {
			d := b.DescribeConsumerGroups(ctx, one)[0]
			return b.consumerMembers(&d), d.Err
		},
		func() (*GroupLag, *base.Error) {
			d := b.DescribeStreamsGroups(ctx, k.Namespace, one.Groups)[0]
			return streamsMembers(&d), d.Err
		},
	}
	switch kind {
	case group.TypeConsumer:
		look[0], look[1] = look[1], look[0]
	case streams.Type:
		slices.Reverse(look)
	}
	var unknown *base.Error
	for _, fn := range append(look, look[0]) {
		out, err := fn()
		switch {
		case err == nil:
			return out, nil
		case err.Code != base.CodeUnknownGroup:
			return nil, err
		}
		unknown = err
	}
	return nil, unknown
}

func (b *Broker) consumerMembers(d *group.ConsumerDescription) *GroupLag {
	out := &GroupLag{Group: d.Group, Type: group.TypeConsumer, State: d.State, ProtocolType: "consumer", Protocol: d.Assignor}
	v := b.Meta()
	for i := range d.Members {
		m := &d.Members[i]
		gm := GroupMember{MemberID: m.MemberID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost}
		for _, list := range [][]group.Owned{m.Assigned, m.Revoking} {
			for _, o := range list {
				if s, ok := v.StreamByID(o.Stream); ok {
					gm.Assigned = append(gm.Assigned, TopicPartition{s.Name, o.Index})
				}
			}
		}
		slices.SortFunc(gm.Assigned, comparePartitions)
		out.Members = append(out.Members, gm)
	}
	return out
}

func classicMembers(d *group.Description) *GroupLag {
	out := &GroupLag{Group: d.Group, Type: group.TypeClassic, State: d.State, ProtocolType: d.ProtocolType, Protocol: d.Protocol}
	for _, m := range d.Members {
		gm := GroupMember{MemberID: m.MemberID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost}
		if d.ProtocolType == "consumer" {
			gm.Assigned = assignedOf(m.Assignment)
		}
		out.Members = append(out.Members, gm)
	}
	return out
}

// assignedOf lists the partitions of a member of the classic protocol, in order; none where its assignment cannot be read.
func assignedOf(assignment []byte) (out []TopicPartition) {
	group.EachAssigned(assignment, func(topic string, index int32) { out = append(out, TopicPartition{topic, index}) })
	slices.SortFunc(out, comparePartitions)
	return out
}

// count fills in the lags, log by log: groups that read the same log share what is read of it.
func (l *Lags) count(ctx context.Context, groups []GroupLag, committed bool) {
	byLog := map[base.LogID][]*PartitionLag{}
	v := l.b.Meta()
	for i := range groups {
		for j := range groups[i].Partitions {
			p := &groups[i].Partitions[j]
			if log, ok := logOf(v, p); ok {
				byLog[log] = append(byLog[log], p)
			} else {
				p.Err = base.Errorf(base.CodeUnknownPartition, "the topic was deleted meanwhile")
			}
		}
	}
	for log, of := range byLog {
		positions := make([]int64, len(of))
		for i, p := range of {
			if positions[i] = p.Committed; p.Committed < 0 {
				positions[i] = engine.LagFromEnd
			}
		}
		lags, err := l.counter.Lags(ctx, log, positions, committed)
		for i, p := range of {
			if p.Err = err; err == nil {
				p.Lag = lags[i]
			}
		}
	}
}

func logOf(v *meta.View, p *PartitionLag) (base.LogID, bool) {
	s, ok := v.StreamByID(p.Stream)
	if !ok || int(p.Partition) >= len(s.Partitions) {
		return 0, false
	}
	return s.Partitions[p.Partition].Log, true
}
