package streams

import (
	"maps"
	"slices"
	"strings"

	"godwit/internal/base"
)

// leave ends a membership, or has a static member away for its session.
func (c *Coordinator) leave(req *HeartbeatRequest) HeartbeatResponse {
	g := c.live.groups[req.Key]
	if g == nil {
		return HeartbeatResponse{Err: base.Errorf(base.CodeUnknownGroup, "Group %s not found.", req.Group)}
	}
	m, known := g.members[req.MemberID]
	if req.Instance != nil {
		static := g.static(*req.Instance)
		if err := checkStatic(static, req); err != nil {
			return HeartbeatResponse{Err: err}
		}
		m = *static
	} else if !known {
		return HeartbeatResponse{Err: unknownMember(req)}
	}
	if v := c.of(req.Key); req.Shutdown && v.shutdown == "" {
		v.shutdown = req.MemberID
	}
	if req.Epoch != EpochStatic {
		c.remove(req.Key, m.ID)
		return HeartbeatResponse{MemberID: req.MemberID, Epoch: req.Epoch}
	}
	m.Epoch, m.Revoking = EpochStatic, Tasks{}
	if m.Status == Unrevoked {
		m.Status = Unreleased // there is nothing to give up any more, but more to come
	}
	m.Assigned.Active = slices.Clone(m.Assigned.Active)
	for i := range m.Assigned.Active {
		m.Assigned.Active[i].Epoch = 0
	}
	c.decide(&Update{Key: req.Key, Head: g.Head, Members: []Member{m}})
	c.timeRevocation(req.Key, &m)
	return HeartbeatResponse{MemberID: m.ID, Epoch: EpochStatic}
}

// Describe shows one group.
func (c *Coordinator) Describe(k Key) Description {
	g := c.live.groups[k]
	if g == nil {
		return Description{Group: k.Group, State: GroupDead, Err: base.Errorf(base.CodeUnknownGroup, "Group %s not found.", k.Group)}
	}
	out := Description{Group: k.Group, State: g.state(), Epoch: g.Epoch, AssignmentEpoch: g.AssignmentEpoch}
	v := c.of(k)
	topics := v.configured
	if g.topology != nil && (topics == nil || topics.view != c.view) {
		topics, _ = configure(g.topology, func(name string) (Topic, bool) { return c.topics.ByName(k.Namespace, name) })
	}
	out.Topology = g.topology.described(topics)
	for _, m := range g.list() {
		d := MemberDescription{Member: m}
		if topics != nil {
			d.Reads = c.partitions(k, topics, m.Assigned.running())
		}
		if r := v.reported[m.ID]; r != nil {
			d.Offsets, d.EndOffsets = listOffsets(r.offsets), listOffsets(r.ends)
		}
		out.Members = append(out.Members, d)
	}
	return out
}

func listOffsets(of map[TaskID]int64) (out []TaskOffset) {
	for _, id := range slices.SortedFunc(maps.Keys(of), compareTasks) {
		out = append(out, TaskOffset{id, of[id]})
	}
	return out
}

// List lists the groups of a namespace by name. states filters them, without regard to case; none: all.
func (c *Coordinator) List(namespace string, states []string) (out []Listing) {
	for k, g := range c.live.groups {
		if k.Namespace != namespace {
			continue
		}
		l := Listing{k.Group, g.state()}
		if len(states) == 0 || slices.ContainsFunc(states, func(s string) bool {
			return strings.EqualFold(s, string(l.State)) || strings.EqualFold(s, l.State.filterName())
		}) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Listing) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// Delete deletes a group without members. Its offsets are the caller's to delete.
func (c *Coordinator) Delete(k Key) *base.Error {
	g := c.live.groups[k]
	switch {
	case g == nil:
		return base.Errorf(base.CodeUnknownGroup, "Group %s not found.", k.Group)
	case len(g.members) > 0:
		return base.Errorf(base.CodeNonEmptyGroup, "The group is not empty.")
	}
	c.Release(k)
	return nil
}
