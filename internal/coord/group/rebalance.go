package group

import (
	"slices"

	"godwit/internal/base"
)

// rebalanceOrComplete starts a join phase, or ends the one under way if nobody is missing.
func (c *Coordinator) rebalanceOrComplete(g *group) {
	if g.state == PreparingRebalance {
		c.maybeCompleteJoin(g)
	} else {
		c.prepareRebalance(g)
	}
}

// maybeCompleteJoin ends the join phase if nobody is missing. The first one of a group waits out its delay,
// so that members that start together share the first generation (KIP-134).
func (c *Coordinator) maybeCompleteJoin(g *group) {
	if g.state == PreparingRebalance && !g.initial && g.allJoined() {
		c.completeJoin(g)
	}
}

// prepareRebalance starts a join phase. Members that wait for their assignment are told to join again.
func (c *Coordinator) prepareRebalance(g *group) {
	for _, m := range g.order {
		if g.state == CompletingRebalance {
			m.assignment = nil
		}
		g.setLate(m, false)
		if c.failSync(m, base.Errorf(base.CodeRebalanceInProgress, "group %q is rebalancing", g.key.Group)) {
			c.touch(m)
		}
	}
	c.timers.stop(&g.syncTimer)
	g.initial, g.grown = g.state == Empty, false
	g.move(PreparingRebalance, c.now)
	switch {
	case g.initial && c.opts.InitialDelay > 0:
		g.delay = c.opts.InitialDelay
		g.delayLeft = max(g.rebalanceTimeout()-g.delay, 0)
		c.timers.set(&g.joinTimer, c.now+g.delay)
	case g.initial || g.allJoined():
		c.completeJoin(g)
	default:
		c.waitForMembers(g)
	}
}

// waitForMembers gives members their rebalance time-out to join.
func (c *Coordinator) waitForMembers(g *group) {
	c.timers.set(&g.joinTimer, c.now+max(g.rebalanceTimeout(), 1))
}

// joinPhaseExpired ends the join phase, unless it is the first of the group and members are still coming.
func (c *Coordinator) joinPhaseExpired(g *group) {
	if g.initial && g.grown && g.delayLeft > 0 {
		g.grown = false
		ran := g.delay
		g.delay = min(c.opts.InitialDelay, g.delayLeft)
		g.delayLeft = max(g.delayLeft-ran, 0)
		c.timers.set(&g.joinTimer, c.now+g.delay)
		return
	}
	c.completeJoin(g)
}

// completeJoin ends the join phase: who did not join is out, except static members, and a new generation
// begins.
func (c *Coordinator) completeJoin(g *group) {
	c.timers.stop(&g.joinTimer)
	for _, m := range slices.Clone(g.order) {
		if !m.joined && m.instance == "" {
			c.timers.stop(&m.timer)
			g.remove(m)
		}
	}
	if !g.electLeader() && len(g.members) > 0 {
		// Only static members are left, none of which joined: sessions will decide.
		c.waitForMembers(g)
		return
	}
	g.generation++
	g.initial = false
	if len(g.members) == 0 {
		g.protocol = ""
		g.subscribe()
		g.move(Empty, c.now)
		c.save(g)
		return
	}
	g.protocol = g.elect()
	g.subscribe()
	g.move(CompletingRebalance, c.now)
	for _, m := range g.order {
		c.answerJoin(m, g.joinResult(m))
		c.touch(m)
		m.isNew, m.knowsID = false, true
		g.setLate(m, true)
	}
	c.timers.set(&g.syncTimer, c.now+max(g.rebalanceTimeout(), 1))
}

// electLeader keeps the leader if it joined and its client is there to assign; else the first such member
// leads, else the first that joined. It reports whether anybody joined.
func (g *group) electLeader() bool {
	present := func(m *member) bool { return m.joinToken != 0 }
	if g.leader != nil && present(g.leader) {
		return true
	}
	if i := slices.IndexFunc(g.order, present); i >= 0 {
		g.leader = g.order[i]
		return true
	}
	if g.leader != nil && g.leader.joined {
		return true
	}
	i := slices.IndexFunc(g.order, func(m *member) bool { return m.joined })
	if i >= 0 {
		g.leader = g.order[i]
	}
	return i >= 0
}

// syncPhaseExpired removes the members that never asked for their assignment.
func (c *Coordinator) syncPhaseExpired(g *group) {
	if g.late == 0 {
		return
	}
	for _, m := range slices.Clone(g.order) {
		if m.late {
			c.removeMember(m)
		}
	}
	c.prepareRebalance(g)
}

// sessionExpired removes a member that was not heard of. One that waits for an answer is alive as long as its
// connection, except a new one.
func (c *Coordinator) sessionExpired(m *member) {
	if !m.isNew && (m.joinToken != 0 || m.syncToken != 0) {
		return
	}
	c.removeMember(m)
	c.afterExpiry(m.group)
}

// touch gives the member another session from now.
func (c *Coordinator) touch(m *member) { c.timers.set(&m.timer, c.now+m.session) }

// removeMember ends a membership; what the member waits for is answered.
func (c *Coordinator) removeMember(m *member) {
	gone := base.Errorf(base.CodeUnknownMember, "member %q is no longer in group %q", m.id, m.group.key.Group)
	c.failJoin(m, "", gone)
	c.failSync(m, gone)
	c.timers.stop(&m.timer)
	m.group.remove(m)
}

// afterLeave goes on after members left of their own will.
func (c *Coordinator) afterLeave(g *group) {
	switch g.state {
	case Stable, CompletingRebalance:
		c.prepareRebalance(g)
	case PreparingRebalance:
		c.maybeCompleteJoin(g)
	}
}

// afterExpiry goes on after a member timed out. As in Kafka, even the first join phase ends then if
// nobody else is missing.
func (c *Coordinator) afterExpiry(g *group) {
	if g.state == PreparingRebalance && g.allJoined() {
		c.completeJoin(g)
	} else {
		c.afterLeave(g)
	}
}
