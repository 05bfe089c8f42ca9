package group

import "slices"

// reconcile moves the member on towards its target, as far as what it owns and what others own allows. changed says that its
// subscription did, so that it has to give up at once what it no longer reads. owned is what the member says it owns, if said.
//
// A member gives up before it gets on, and nothing is assigned that another member has not given up: so no
// partition has two members. Its epoch is that of the last assignment for which it had nothing to give up.
func (c *Coordinator) reconcile(g *consumerGroup, m *consumer, changed bool, owned []Partition, said bool) {
	if !changed && g.settled(m) {
		return
	}
	next := m.Consumer
	switch {
	case m.State == Settled && m.Epoch == g.AssignmentEpoch,
		m.State == Unrevoked && owns(m.Revoking, owned, said):
		if changed {
			c.narrow(g, &next, owned, said)
		}
	default:
		c.proceed(g, m, &next, owned, said)
	}
	if m.Consumer.equal(&next) {
		return
	}
	g.disown(m)
	m.Consumer = next
	g.own(m)
	g.dirty[m.MemberID] = struct{}{}
	if m.Classic != nil {
		return // it is told to join again, and has a time-out for that
	}
	if m.State == Unrevoked {
		c.timers.set(&m.revoke, c.now+max(m.Rebalance, 1))
	} else {
		c.timers.stop(&m.revoke)
	}
}

// owns reports whether a member may still own some of the partitions: who does not say may own all.
func owns(list []Owned, owned []Partition, said bool) bool {
	if !said {
		return true
	}
	return slices.ContainsFunc(owned, func(p Partition) bool {
		_, ok := epochOf(list, p)
		return ok
	})
}

// narrow takes from a member what it no longer subscribes to.
func (c *Coordinator) narrow(g *consumerGroup, m *Consumer, owned []Partition, said bool) {
	topics := c.subscribed(g, m)
	var keep, drop []Owned
	for _, o := range m.Assigned {
		if reads(topics, o.Partition) {
			keep = append(keep, o)
		} else {
			drop = append(drop, o)
		}
	}
	if len(drop) == 0 {
		return
	}
	drop = append(drop, m.Revoking...)
	slices.SortFunc(drop, func(a, b Owned) int { return a.Partition.Compare(b.Partition) })
	m.Previous, m.Assigned = m.Epoch, keep
	if owns(drop, owned, said) {
		m.State, m.Revoking = Unrevoked, drop
	}
}

// reads reports whether the partition is of one of the topics, which are ordered by ID.
func reads(topics []Topic, p Partition) bool {
	_, ok := slices.BinarySearchFunc(topics, p, func(t Topic, p Partition) int { return slices.Compare(t.ID[:], p.Stream[:]) })
	return ok
}

// proceed works out what the member has to give up, or else what it gets.
func (c *Coordinator) proceed(g *consumerGroup, was *consumer, m *Consumer, owned []Partition, said bool) {
	topics := c.subscribed(g, m)
	target := make([]Partition, 0, len(m.Target))
	for _, p := range m.Target {
		if reads(topics, p) {
			target = append(target, p)
		}
	}
	drop := without(m.Assigned, target)
	keep := without(m.Assigned, partitionsOf(drop))
	if len(drop) > 0 && owns(drop, owned, said) {
		m.Previous = m.Epoch
		m.State, m.Assigned, m.Revoking = Unrevoked, keep, drop
		return
	}
	m.Previous, m.Epoch = m.Epoch, g.AssignmentEpoch
	m.State, m.Revoking = Settled, nil
	for _, p := range target {
		if _, has := epochOf(m.Assigned, p); has {
			continue
		}
		if owner := g.owners[p]; owner != nil && owner != was {
			m.State = Unreleased
			continue
		}
		keep = append(keep, Owned{p, g.AssignmentEpoch})
	}
	slices.SortFunc(keep, func(a, b Owned) int { return a.Partition.Compare(b.Partition) })
	m.Assigned = keep
}

// waitsForOthers reports whether the member waits for partitions that others have not given up.
func (g *consumerGroup) waitsForOthers(m *consumer) bool {
	return m.State == Unreleased && slices.ContainsFunc(m.Target, func(p Partition) bool {
		_, has := epochOf(m.Assigned, p)
		return !has && g.owners[p] != nil
	})
}

// assignIfDue computes the target assignment if the group has changed since the last one, and that is not too recent.
func (c *Coordinator) assignIfDue(g *consumerGroup) {
	if g.AssignmentEpoch >= g.Epoch {
		return
	}
	if g.AssignedAt != 0 && c.now < g.AssignedAt+c.settings(g.key).AssignmentInterval {
		return
	}
	seats := c.seats(g)
	c.assignor(g).assign(seats)
	for _, s := range seats {
		slices.SortFunc(s.parts, Partition.Compare)
		m := g.members[s.id]
		if slices.Equal(s.parts, m.Target) {
			continue
		}
		m.Target = s.parts
		g.dirty[s.id] = struct{}{}
	}
	g.AssignmentEpoch, g.AssignedAt = g.Epoch, max(c.now, 1)
	g.unsaved = true
}

// seats shows the members to an assignor, by ID. Members that subscribe to the same topics share them.
func (c *Coordinator) seats(g *consumerGroup) []*seat {
	type subscription struct {
		topics []string
		regex  string
		shared []Topic
	}
	var known []subscription
	seats := make([]*seat, 0, len(g.members))
	for _, m := range g.list() {
		i := slices.IndexFunc(known, func(s subscription) bool { return s.regex == m.Regex && slices.Equal(s.topics, m.Topics) })
		if i < 0 {
			i = len(known)
			known = append(known, subscription{m.Topics, m.Regex, c.subscribed(g, &m.Consumer)})
		}
		seats = append(seats, &seat{id: m.MemberID, instance: m.InstanceID, topics: known[i].shared, old: m.Target})
	}
	return seats
}
