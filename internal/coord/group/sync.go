package group

import (
	"slices"

	"godwit/internal/base"
)

// Sync asks for the member's assignment; the leader's request brings all of them and makes the group
// stable. A follower's reply waits for the leader. token is not 0 and not waiting already.
func (c *Coordinator) Sync(now int64, token uint64, req *SyncRequest) []Reply {
	c.advance(now)
	if g := c.consumers[req.Key]; g != nil {
		c.reply(token, c.syncConsumers(g, req))
		return c.take()
	}
	m, err := c.checkSync(req)
	if err != nil {
		c.reply(token, &SyncResponse{Err: err})
		return c.take()
	}
	g := m.group
	g.setLate(m, false)
	if g.late == 0 {
		c.timers.stop(&g.syncTimer)
	}
	if g.state == Stable {
		c.reply(token, g.syncResult(m))
		return c.take()
	}
	if m.syncToken != 0 {
		c.failSync(m, base.Errorf(base.CodeRebalanceInProgress, "member %q asked again by another request", m.id))
	}
	m.syncToken = token
	c.await(token, m)
	if g.leader == m {
		c.assign(g, req.Assignments)
	}
	return c.take()
}

// checkSync finds the member and checks that it is in the generation it names.
func (c *Coordinator) checkSync(req *SyncRequest) (*member, *base.Error) {
	m, err := c.current(req.Key, req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return nil, err
	}
	g := m.group
	switch {
	case req.ProtocolType != "" && req.ProtocolType != g.protocolType:
		return nil, base.Errorf(base.CodeInconsistentProtocol, "group %q has protocol type %q, not %q", g.key.Group, g.protocolType, req.ProtocolType)
	case req.Protocol != "" && req.Protocol != g.protocol:
		return nil, base.Errorf(base.CodeInconsistentProtocol, "group %q chose protocol %q, not %q", g.key.Group, g.protocol, req.Protocol)
	case g.state == PreparingRebalance:
		return nil, rebalancing(g)
	}
	return m, nil
}

// current finds a member of the generation.
func (c *Coordinator) current(k Key, id, instance string, generation int32) (*member, *base.Error) {
	if err := checkName(k); err != nil {
		return nil, err
	}
	g := c.group(k)
	if g == nil {
		return nil, unknownMember(k, id)
	}
	m, err := g.find(id, instance)
	if err != nil {
		return nil, err
	}
	if generation != g.generation {
		return nil, base.Errorf(base.CodeIllegalGeneration, "group %q is in generation %d, not %d", k.Group, g.generation, generation)
	}
	return m, nil
}

func rebalancing(g *group) *base.Error {
	return base.Errorf(base.CodeRebalanceInProgress, "group %q is rebalancing", g.key.Group)
}

// assign gives each member its part, nothing to those the leader left out, and answers who waits.
func (c *Coordinator) assign(g *group, parts []Assignment) {
	of := make(map[string][]byte, len(parts))
	for _, p := range parts {
		of[p.MemberID] = p.Data
	}
	g.move(Stable, c.now)
	for _, m := range g.order {
		m.assignment = slices.Clone(of[m.id])
		if c.answerSync(m, g.syncResult(m)) {
			c.touch(m)
		}
	}
	c.save(g)
}

func (g *group) syncResult(m *member) *SyncResponse {
	return &SyncResponse{ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.assignment}
}

// Heartbeat keeps the member's session and tells it to join again while its group gathers.
func (c *Coordinator) Heartbeat(now int64, req *HeartbeatRequest) HeartbeatResponse {
	c.advance(now)
	if g := c.consumers[req.Key]; g != nil {
		return c.heartbeatConsumers(g, req)
	}
	m, err := c.current(req.Key, req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return HeartbeatResponse{Err: err}
	}
	c.touch(m)
	if m.group.state == PreparingRebalance {
		return HeartbeatResponse{Err: rebalancing(m.group)}
	}
	return HeartbeatResponse{}
}

// Leave ends memberships; the replies are of other requests. A static member can be named by its
// instance alone, as an operator does (KIP-345).
func (c *Coordinator) Leave(now int64, req *LeaveRequest) (LeaveResponse, []Reply) {
	c.advance(now)
	if err := checkName(req.Key); err != nil {
		return LeaveResponse{Err: err}, nil
	}
	if g := c.consumers[req.Key]; g != nil {
		return c.leaveConsumers(g, req), c.take()
	}
	out := LeaveResponse{Members: make([]LeftMember, 0, len(req.Members))}
	g, gone := c.group(req.Key), false
	for _, l := range req.Members {
		result := LeftMember{LeavingMember: l}
		if g == nil {
			result.Err = unknownMember(req.Key, l.MemberID)
		} else if result.Err = c.leave(g, l); result.Err == nil {
			gone = true
		}
		out.Members = append(out.Members, result)
	}
	if gone {
		c.afterLeave(g)
		c.forgetUnused(g)
	}
	return out, c.take()
}

func (c *Coordinator) leave(g *group, l LeavingMember) *base.Error {
	if t := g.pending[l.MemberID]; t != nil {
		delete(g.pending, l.MemberID)
		c.timers.stop(t)
		return nil
	}
	id := l.MemberID
	if m := g.statics[l.InstanceID]; id == "" && m != nil {
		id = m.id
	}
	m, err := g.find(id, l.InstanceID)
	if err != nil {
		return err
	}
	c.removeMember(m)
	return nil
}
