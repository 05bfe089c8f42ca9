package share

import (
	"slices"
	"strings"

	"godwit/internal/base"
)

// Heartbeat answers ShareGroupHeartbeat at once: it joins, keeps or ends a membership, and tells a member its epoch and
// what it is assigned.
//
// A group's epoch rises when a member comes or goes, or changes its subscription, when the topics it reads change, and when a queue
// has become ready. The first heartbeat after that assigns the group anew, but not sooner than
// share.assignment.interval.ms after the assignment before. Each member learns of it, with its new epoch, at its own next heartbeat. Since
// several members may have a partition, none of them waits for another.
func (c *Coordinator) Heartbeat(now int64, req *HeartbeatRequest) HeartbeatResponse {
	c.advance(now)
	if err := checkHeartbeat(req); err != nil {
		return HeartbeatResponse{Err: err}
	}
	if req.Epoch == EpochLeave {
		return c.leave(req)
	}
	g := c.live.groups[req.Key]
	if g == nil {
		if req.Epoch != EpochJoin {
			return HeartbeatResponse{Err: base.Errorf(base.CodeUnknownGroup, "Share group %s not found.", req.Group)}
		}
		g = &group{Head: newHead}
	}
	m, known := g.members[req.MemberID]
	switch {
	case !known && len(g.members) >= c.opts.MaxSize:
		return HeartbeatResponse{Err: base.Errorf(base.CodeGroupFull, "The share group has reached its maximum capacity of %d members.", c.opts.MaxSize)}
	case !known && req.Epoch != EpochJoin:
		return HeartbeatResponse{Err: unknownMember(req)}
	}
	if err := checkEpoch(&m, req.Epoch); err != nil {
		return HeartbeatResponse{Err: err}
	}
	return c.beat(g, m, known, req)
}

func unknownMember(req *HeartbeatRequest) *base.Error {
	return base.Errorf(base.CodeUnknownMember, "Member %s is not a member of group %s.", req.MemberID, req.Group)
}

// checkHeartbeat checks a request by itself.
func checkHeartbeat(req *HeartbeatRequest) *base.Error {
	invalid := func(msg string) *base.Error { return base.Errorf(base.CodeInvalidRequest, "%s", msg) }
	switch {
	case strings.TrimSpace(req.MemberID) == "":
		return invalid("MemberId can't be empty.")
	case strings.TrimSpace(req.Group) == "":
		return invalid("GroupId can't be empty.")
	case req.Rack != nil && strings.TrimSpace(*req.Rack) == "":
		return invalid("RackId can't be empty.")
	case req.Epoch == EpochJoin && len(req.Topics) == 0:
		return invalid("SubscribedTopicNames must be set in first request.")
	case req.Epoch < EpochLeave:
		return invalid("MemberEpoch is invalid.")
	}
	if err := req.Key.Check(); err != nil {
		return err
	}
	return nil
}

// checkEpoch fences a member whose epoch is neither its current one nor the one before, which it has if an answer was lost.
func checkEpoch(m *Member, epoch int32) *base.Error {
	switch {
	case epoch == EpochJoin:
		return nil
	case epoch > m.Epoch:
		return base.Errorf(base.CodeFencedMember, "The share group member has a greater member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.",
			epoch, m.Epoch)
	case epoch < m.Epoch && epoch != m.Previous:
		return base.Errorf(base.CodeFencedMember, "The share group member has a smaller member epoch (%d) than the one known by the group coordinator (%d), and it does not match the previous member epoch (%d). The member must abandon all its partitions and rejoin.",
			epoch, m.Epoch, m.Previous)
	}
	return nil
}

func (c *Coordinator) leave(req *HeartbeatRequest) HeartbeatResponse {
	g := c.live.groups[req.Key]
	if g == nil {
		return HeartbeatResponse{Err: unknownGroup(req.Key)}
	}
	if _, ok := g.members[req.MemberID]; !ok {
		return HeartbeatResponse{Err: unknownMember(req)}
	}
	c.remove(req.Key, []string{req.MemberID})
	return HeartbeatResponse{MemberID: req.MemberID, Epoch: EpochLeave}
}

// beat is the heartbeat of a member that may go on, or of a new one.
func (c *Coordinator) beat(g *group, old Member, known bool, req *HeartbeatRequest) HeartbeatResponse {
	k, conf := req.Key, c.settings(req.Key)
	m := old
	resubscribed := m.update(req)
	u := &Update{Key: k, Head: g.Head}
	bump := resubscribed || c.pending(k, g)
	var topics []Topic
	if bump || c.checked[k] != c.view {
		topics = c.subscribed(k, g.with(&m))
		if hash := hashTopics(topics); bump || hash != g.Hash {
			bump = true
			u.Epoch, u.Hash = g.Epoch+1, hash
		}
		c.checked[k] = c.view
	}
	if u.AssignmentEpoch < u.Epoch && (u.AssignedAt == 0 || c.now >= u.AssignedAt+conf.AssignmentInterval) {
		c.assign(u, g, &m)
	}
	m.reconcile(u.AssignmentEpoch, bump, c.ids(k, m.Topics))
	if !known || !sameMember(old, m) {
		u.Members = append(u.Members, m)
	}
	if topics != nil {
		u.Queues = c.missing(k, topics, conf.Reset)
	}
	if len(u.Members) > 0 || len(u.Queues) > 0 || u.Head != g.Head {
		c.decide(u)
	}
	c.sessions.touch(memberKey{k, m.ID}, c.now+conf.Session)
	out := HeartbeatResponse{MemberID: m.ID, Epoch: m.Epoch, Interval: conf.HeartbeatInterval}
	// An epoch that is not the current one comes from a member that did not get the last answer.
	if req.Epoch == EpochJoin || req.Subscribed || req.Epoch != old.Epoch || !slices.Equal(old.Assigned, m.Assigned) {
		out.Assigned, out.Assignment = true, m.Assigned
	}
	return out
}

// update takes over what the request says, and reports whether the subscription changed.
func (m *Member) update(req *HeartbeatRequest) (resubscribed bool) {
	m.ID, m.ClientID, m.ClientHost = req.MemberID, req.ClientID, req.ClientHost
	if req.Rack != nil {
		m.Rack = *req.Rack
	}
	if !req.Subscribed {
		return false
	}
	topics := slices.Clone(req.Topics)
	slices.Sort(topics)
	topics = slices.Compact(topics)
	resubscribed = !slices.Equal(topics, m.Topics)
	m.Topics = topics
	return resubscribed
}

// reconcile brings the member to an assignment epoch, of which its target is; resubscribed also has what it no longer
// subscribes to taken away.
func (m *Member) reconcile(epoch int32, resubscribed bool, subscribed map[base.StreamID]struct{}) {
	if m.Epoch == epoch && !resubscribed {
		return
	}
	if m.Epoch != epoch {
		m.Previous, m.Epoch = m.Epoch, epoch
	}
	m.Assigned = slices.DeleteFunc(slices.Clone(m.Target), func(p Partition) bool {
		_, ok := subscribed[p.Stream]
		return !ok
	})
}

// ids are the topics of these names.
func (c *Coordinator) ids(k Key, names []string) map[base.StreamID]struct{} {
	out := make(map[base.StreamID]struct{}, len(names))
	for _, name := range names {
		if t, ok := c.topics.ByName(k.Namespace, name); ok {
			out[t.ID] = struct{}{}
		}
	}
	return out
}

// pending reports whether a queue has become ready that nobody is assigned. An assignment that is still to come will have it.
func (c *Coordinator) pending(k Key, g *group) bool {
	if _, ok := c.unsettled[k]; !ok || g.AssignmentEpoch < g.Epoch || len(g.members) == 0 {
		return false
	}
	delete(c.unsettled, k)
	assigned, names := map[Partition]struct{}{}, map[string]struct{}{}
	for _, m := range g.members {
		for _, p := range m.Target {
			assigned[p] = struct{}{}
		}
		for _, t := range m.Topics {
			names[t] = struct{}{}
		}
	}
	for name := range names {
		t, ok := c.topics.ByName(k.Namespace, name)
		if !ok {
			continue
		}
		for i, q := range c.live.queues[k][t.ID] {
			if q.Status == Ready && int(i) < t.Partitions {
				if _, ok := assigned[Partition{Stream: t.ID, Index: i}]; !ok {
					return true
				}
			}
		}
	}
	return false
}

// with lists a group's members by ID, with updated in the place of the member of its ID.
func (g *group) with(updated *Member) []Member {
	members := g.list()
	i, ok := slices.BinarySearchFunc(members, updated.ID, func(m Member, id string) int { return strings.Compare(m.ID, id) })
	if ok {
		members[i] = *updated
		return members
	}
	return slices.Insert(members, i, *updated)
}

// assign computes the targets of all members, updated being one of them, as of the epoch of u.
func (c *Coordinator) assign(u *Update, g *group, updated *Member) {
	members := g.with(updated)
	seats := make([]*seat, len(members))
	for i, m := range members {
		seats[i] = &seat{id: m.ID, topics: m.Topics, old: m.Target}
	}
	assign(seats, func(topic string) []Partition { return c.assignable(u.Key, topic) })
	for i, m := range members {
		switch {
		case m.ID == updated.ID:
			updated.Target = seats[i].parts
		case !slices.Equal(m.Target, seats[i].parts):
			m.Target = seats[i].parts
			u.Members = append(u.Members, m)
		}
	}
	u.AssignmentEpoch, u.AssignedAt = u.Epoch, c.now
}

// assignable lists the partitions of a topic in which the group has a queue that is ready, in order.
func (c *Coordinator) assignable(k Key, topic string) (out []Partition) {
	t, ok := c.topics.ByName(k.Namespace, topic)
	if !ok {
		return nil
	}
	queues := c.live.queues[k][t.ID]
	for i := range int32(t.Partitions) {
		if queues[i].Status == Ready {
			out = append(out, Partition{Stream: t.ID, Index: i})
		}
	}
	return out
}
