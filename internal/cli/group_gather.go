package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// groupView is a group as --json shows it.
type groupView struct {
	Group         string           `json:"group"`
	Type          string           `json:"type"` // empty from brokers that do not tell
	ProtocolType  string           `json:"protocolType"`
	State         string           `json:"state"`
	Assignor      string           `json:"assignor"`
	Lag           *groupLag        `json:"lag"`                     // null if it is not known exactly
	OffsetsBehind *int64           `json:"offsetsBehind,omitempty"` // else: offsets, not records
	Members       []groupMember    `json:"members"`                 // null if they are not known
	Partitions    []groupPartition `json:"partitions"`
}

type groupMember struct {
	MemberID   string      `json:"memberId"`
	InstanceID string      `json:"instanceId,omitempty"`
	ClientID   string      `json:"clientId"`
	Host       string      `json:"host"`
	Assigned   []partition `json:"assigned"`
}

type partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

func comparePartitions(a, b partition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

type groupPartition struct {
	partition
	Member        string    `json:"member,omitempty"`
	Committed     *int64    `json:"committed"` // the next offset to read; null if none is committed
	LeaderEpoch   int32     `json:"leaderEpoch"`
	Metadata      string    `json:"metadata,omitempty"`
	Start         int64     `json:"start"`
	End           int64     `json:"end"`
	Lag           *groupLag `json:"lag"`
	OffsetsBehind *int64    `json:"offsetsBehind,omitempty"`
	Error         string    `json:"error,omitempty"` // why there is no lag
}

// listed is a group as list --json shows it.
func (g *groupView) listed() any {
	out := struct {
		Group         string    `json:"group"`
		Type          string    `json:"type"`
		ProtocolType  string    `json:"protocolType"`
		State         string    `json:"state"`
		Members       *int      `json:"members"`
		Lag           *groupLag `json:"lag"`
		OffsetsBehind *int64    `json:"offsetsBehind,omitempty"`
	}{Group: g.Group, Type: g.Type, ProtocolType: g.ProtocolType, State: g.State, Lag: g.Lag, OffsetsBehind: g.OffsetsBehind}
	if g.Members != nil {
		n := len(g.Members)
		out.Members = &n
	}
	return out
}

// gatherGroups describes all groups, by name, without positions.
func gatherGroups(ctx context.Context, adm *kadm.Client) ([]*groupView, error) {
	all, err := adm.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	var out []*groupView
	for _, g := range all.Sorted() {
		out = append(out, viewOf(&g))
	}
	return out, addMembers(ctx, adm, out)
}

// gatherGroup describes one group; nil if there is none.
func gatherGroup(ctx context.Context, adm *kadm.Client, name string) (*groupView, error) {
	all, err := adm.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	g, ok := all[name]
	if !ok {
		return nil, nil
	}
	out := viewOf(&g)
	return out, addMembers(ctx, adm, []*groupView{out})
}

func viewOf(g *kadm.ListedGroup) *groupView {
	return &groupView{Group: g.Group, Type: strings.ToLower(g.GroupType), ProtocolType: g.ProtocolType, State: g.State, Partitions: []groupPartition{}}
}

// Types of groups, as brokers tell them.
const (
	typeConsumer = "consumer"
	typeShare    = "share"
	typeStreams  = "streams"
)

// addMembers describes groups by the request that is for their type. A group that is gone meanwhile stays without members.
func addMembers(ctx context.Context, adm *kadm.Client, groups []*groupView) error {
	byType := map[string][]string{}
	at := map[string]*groupView{}
	for _, g := range groups {
		t := g.Type
		if t != typeConsumer && t != typeShare && t != typeStreams {
			t = ""
		}
		byType[t], at[g.Group] = append(byType[t], g.Group), g
	}
	if names := byType[""]; len(names) > 0 {
		found, err := adm.DescribeGroups(ctx, names...)
		if err != nil {
			return err
		}
		for name, d := range found {
			if g := at[name]; g != nil && d.Err == nil {
				g.classic(&d)
			}
		}
	}
	if names := byType[typeConsumer]; len(names) > 0 {
		found, err := adm.DescribeConsumerGroups(ctx, names...)
		if err != nil {
			return err
		}
		for name, d := range found {
			if g := at[name]; g != nil && d.Err == nil {
				g.consumer(&d)
			}
		}
	}
	if names := byType[typeShare]; len(names) > 0 {
		found, err := adm.DescribeShareGroups(ctx, names...)
		if err != nil {
			return err
		}
		for name, d := range found {
			if g := at[name]; g != nil && d.Err == nil {
				g.share(&d)
			}
		}
	}
	return nil
}

func (g *groupView) classic(d *kadm.DescribedGroup) {
	g.State, g.ProtocolType, g.Assignor, g.Members = d.State, d.ProtocolType, d.Protocol, []groupMember{}
	for _, m := range d.Members {
		out := groupMember{MemberID: m.MemberID, InstanceID: textOf(m.InstanceID), ClientID: m.ClientID, Host: m.ClientHost, Assigned: []partition{}}
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				for _, p := range t.Partitions {
					out.Assigned = append(out.Assigned, partition{t.Topic, p})
				}
			}
		}
		g.Members = append(g.Members, out)
	}
}

func (g *groupView) consumer(d *kadm.DescribedConsumerGroup) {
	g.State, g.Assignor, g.Members = d.State, d.AssignorName, []groupMember{}
	for _, m := range d.Members {
		g.Members = append(g.Members, groupMember{MemberID: m.MemberID, InstanceID: textOf(m.InstanceID), ClientID: m.ClientID, Host: m.ClientHost, Assigned: flat(m.Assignment)})
	}
}

func (g *groupView) share(d *kadm.DescribedShareGroup) {
	g.State, g.Assignor, g.Members = d.GroupState, d.Assignor, []groupMember{}
	for _, m := range d.Members {
		g.Members = append(g.Members, groupMember{MemberID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Assigned: flat(m.Assignment)})
	}
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func flat(s kadm.TopicsSet) []partition {
	out := []partition{}
	s.Each(func(t string, p int32) { out = append(out, partition{t, p}) })
	return out
}

// rangesText writes partitions as topic:0-3,7 for a person.
func rangesText(all []partition) string {
	all = slices.SortedFunc(slices.Values(all), comparePartitions)
	var b strings.Builder
	for i := 0; i < len(all); {
		k := i
		for k+1 < len(all) && all[k+1].Topic == all[i].Topic && all[k+1].Partition == all[k].Partition+1 {
			k++
		}
		switch {
		case i > 0 && all[i-1].Topic == all[i].Topic:
			b.WriteString(",")
		case i > 0:
			b.WriteString(" " + all[i].Topic + ":")
		default:
			b.WriteString(all[i].Topic + ":")
		}
		fmt.Fprint(&b, all[i].Partition)
		if k > i {
			fmt.Fprintf(&b, "-%d", all[k].Partition)
		}
		i = k + 1
	}
	return b.String()
}

// countOffsets adds the positions of groups, and how many offsets each is behind. Groups that share records have no
// positions.
func countOffsets(ctx context.Context, adm *kadm.Client, committed bool, groups []*groupView) error {
	var names []string
	for _, g := range groups {
		if g.Type != typeShare {
			names = append(names, g.Group)
		}
	}
	positions := adm.FetchManyOffsets(ctx, names...)
	topics := map[string]bool{}
	for _, g := range groups {
		r, ok := positions[g.Group]
		if !ok {
			continue
		}
		if r.Err != nil && !errors.Is(r.Err, kerr.GroupIDNotFound) {
			return fmt.Errorf("%s: %w", g.Group, r.Err)
		}
		if err := g.place(r.Fetched); err != nil {
			return err
		}
		for _, p := range g.Partitions {
			topics[p.Topic] = true
		}
	}
	starts, ends, err := bounds(ctx, adm, committed, slices.Sorted(maps.Keys(topics)))
	if err != nil {
		return err
	}
	for _, g := range groups {
		g.measure(starts, ends)
	}
	return nil
}

// place adds positions, and the partitions that members read.
func (g *groupView) place(positions kadm.OffsetResponses) error {
	at := map[partition]*groupPartition{}
	for t, ps := range positions {
		for p, o := range ps {
			if o.Err != nil {
				return fmt.Errorf("%s: position in %s/%d: %w", g.Group, t, p, o.Err)
			}
			if o.At >= 0 {
				at[partition{t, p}] = &groupPartition{partition: partition{t, p}, Committed: &o.At, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata}
			}
		}
	}
	for _, m := range g.Members {
		for _, p := range m.Assigned {
			if at[p] == nil {
				at[p] = &groupPartition{partition: p, LeaderEpoch: -1}
			}
			at[p].Member = m.MemberID
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(at), comparePartitions) {
		g.Partitions = append(g.Partitions, *at[k])
	}
	return nil
}

// measure adds the ends of partitions and the distance to them. Topics that are gone have none.
func (g *groupView) measure(starts, ends kadm.ListedOffsets) {
	sum := int64(0)
	for i := range g.Partitions {
		p := &g.Partitions[i]
		s, ok := starts.Lookup(p.Topic, p.Partition)
		e, ok2 := ends.Lookup(p.Topic, p.Partition)
		if !ok || !ok2 || s.Err != nil || e.Err != nil {
			p.Error = "the topic does not tell its offsets"
			continue
		}
		p.Start, p.End = s.Offset, e.Offset
		if p.Committed != nil {
			n := max(0, p.End-max(*p.Committed, p.Start))
			p.OffsetsBehind = &n
			sum += n
		}
	}
	if g.Type != typeShare {
		g.OffsetsBehind = &sum
	}
}

// bounds lists where topics start and end; nothing of none.
func bounds(ctx context.Context, adm *kadm.Client, committed bool, topics []string) (starts, ends kadm.ListedOffsets, err error) {
	if len(topics) == 0 {
		return nil, nil, nil
	}
	if starts, err = adm.ListStartOffsets(ctx, topics...); err != nil {
		return nil, nil, err
	}
	list := adm.ListEndOffsets
	if committed {
		list = adm.ListCommittedOffsets
	}
	ends, err = list(ctx, topics...)
	return starts, ends, err
}
