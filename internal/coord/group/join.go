package group

import (
	"slices"

	"godwit/internal/base"
)

// Join takes a member into the group's next generation; the reply comes when the join phase ends. token is not 0
// and not waiting already. unique is random text that makes a new member's ID its own.
func (c *Coordinator) Join(now int64, token uint64, req *JoinRequest, unique string) []Reply {
	c.advance(now)
	if err := c.checkJoin(req); err != nil {
		c.reply(token, joinFailed(req.MemberID, err))
		return c.take()
	}
	if g := c.consumers[req.Key]; g != nil {
		if len(g.members) > 0 {
			c.joinConsumers(g, token, req, unique)
			return c.take()
		}
		if req.MemberID == "" {
			c.makeClassic(g)
		}
	}
	protocols := ownProtocols(req.Protocols)
	g := c.group(req.Key)
	if g == nil && req.MemberID != "" {
		c.reply(token, joinFailed(req.MemberID, unknownMember(req.Key, req.MemberID)))
		return c.take()
	}
	g = c.create(req.Key)
	switch {
	case !c.accepts(g, req):
		if m := g.members[req.MemberID]; m != nil {
			c.removeMember(m)
			c.afterLeave(g)
		}
		c.reply(token, joinFailed("", base.Errorf(base.CodeGroupFull, "group %q has its maximum of %d members", g.key.Group, c.opts.MaxSize)))
	case !g.supports(req.ProtocolType, protocols):
		c.reply(token, joinFailed(req.MemberID, inconsistent(g, req)))
	case req.MemberID != "":
		c.joinKnown(g, token, req, protocols)
	case req.InstanceID != "":
		id := req.InstanceID + "-" + unique
		if m := g.statics[req.InstanceID]; m != nil {
			c.replaceStatic(m, id, token, req, protocols)
		} else {
			c.addMember(g, id, token, req, protocols)
		}
	default:
		c.joinNew(g, req.ClientID+"-"+unique, token, req, protocols)
	}
	c.forgetUnused(g)
	return c.take()
}

func (c *Coordinator) checkJoin(req *JoinRequest) *base.Error {
	if err := checkName(req.Key); err != nil {
		return err
	}
	if c.taken(req.Key) {
		return base.Errorf(base.CodeInconsistentProtocol, "group %q is of another type", req.Group)
	}
	if req.SessionTimeout < c.opts.MinSession || req.SessionTimeout > c.opts.MaxSession {
		return base.Errorf(base.CodeInvalidSession, "session time-out of %d ms: it must be between %d and %d ms",
			req.SessionTimeout, c.opts.MinSession, c.opts.MaxSession)
	}
	return nil
}

// inconsistent says why the member does not fit into the group.
func inconsistent(g *group, req *JoinRequest) *base.Error {
	switch {
	case req.ProtocolType == "" || len(req.Protocols) == 0:
		return base.Errorf(base.CodeInconsistentProtocol, "a member of group %q must name a protocol type and at least one protocol", g.key.Group)
	case req.ProtocolType != g.protocolType:
		return base.Errorf(base.CodeInconsistentProtocol, "group %q has protocol type %q, not %q", g.key.Group, g.protocolType, req.ProtocolType)
	}
	return base.Errorf(base.CodeInconsistentProtocol, "none of the protocols offered is supported by all members of group %q", g.key.Group)
}

// ownProtocols copies what the member offers, which outlives the request; of several with one name the first
// counts.
func ownProtocols(in []Protocol) []Protocol {
	out := make([]Protocol, 0, len(in))
	for _, p := range in {
		if !slices.ContainsFunc(out, func(o Protocol) bool { return o.Name == p.Name }) {
			out = append(out, Protocol{Name: p.Name, Metadata: slices.Clone(p.Metadata)})
		}
	}
	return out
}

// accepts applies group.max.size. While members gather, those who have joined count, so that a group that is
// above the limit loses its last members. A static member that comes back takes its own place.
func (c *Coordinator) accepts(g *group, req *JoinRequest) bool {
	m := g.members[req.MemberID]
	if req.MemberID == "" && req.InstanceID != "" {
		m = g.statics[req.InstanceID]
	}
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.joined || g.joining < c.opts.MaxSize
	case CompletingRebalance, Stable:
		return m != nil || len(g.members) < c.opts.MaxSize
	}
	return true
}

// joinNew takes in a dynamic member without an ID, or only hands one out (KIP-394).
func (c *Coordinator) joinNew(g *group, id string, token uint64, req *JoinRequest, protocols []Protocol) {
	if !req.RequireKnownID {
		c.addMember(g, id, token, req, protocols)
		return
	}
	t := &timer{kind: pendingTimer, group: g, pending: id}
	g.pending[id] = t
	c.timers.set(t, c.now+req.SessionTimeout)
	c.reply(token, joinFailed(id, base.Errorf(base.CodeMemberIDRequired, "join again with the member ID of this answer")))
}

// joinKnown takes in a member that has an ID already.
func (c *Coordinator) joinKnown(g *group, token uint64, req *JoinRequest, protocols []Protocol) {
	if t := g.pending[req.MemberID]; t != nil && req.InstanceID == "" {
		delete(g.pending, req.MemberID)
		c.timers.stop(t)
		c.addMember(g, req.MemberID, token, req, protocols)
		return
	}
	m, err := g.find(req.MemberID, req.InstanceID)
	if err != nil {
		c.reply(token, joinFailed(req.MemberID, err))
		return
	}
	// A member that comes with what it had, and does not lead a stable group, may only have missed
	// its answer. The leader asks for a rebalance this way, as when a topic gets more partitions.
	same := m.matches(protocols)
	if same && (g.state == CompletingRebalance || g.state == Stable && g.leader != m) {
		c.reply(token, g.joinResult(m))
		return
	}
	g.update(m, protocols, req.SessionTimeout, rebalanceOf(req))
	c.enter(m, token)
	c.rebalanceOrComplete(g)
}

// enter makes the member take part in the join phase, answered at the token.
func (c *Coordinator) enter(m *member, token uint64) {
	if m.joinToken != 0 {
		c.failJoin(m, m.id, base.Errorf(base.CodeRebalanceInProgress, "member %q joined again by another request", m.id))
	}
	m.group.setJoined(m, true)
	m.joinToken = token
	c.await(token, m)
}

// rebalanceOf is the request's rebalance time-out; version 0 of JoinGroup has none of its own.
func rebalanceOf(req *JoinRequest) int64 {
	if req.RebalanceTimeout < 0 {
		return req.SessionTimeout
	}
	return req.RebalanceTimeout
}

// joinResult is the answer for a member of the current generation.
func (g *group) joinResult(m *member) *JoinResponse {
	out := &JoinResponse{
		MemberID: m.id, Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader.id,
	}
	if g.leader == m {
		out.Members = g.roster()
	}
	return out
}

// addMember makes a new member wait for the join phase, which its coming starts. It has no session until
// it was answered: its client may not know its ID. So its wait has a limit of its own.
func (c *Coordinator) addMember(g *group, id string, token uint64, req *JoinRequest, protocols []Protocol) {
	m := &member{
		group: g, id: id, instance: req.InstanceID, clientID: req.ClientID, clientHost: req.ClientHost,
		session: req.SessionTimeout, rebalance: rebalanceOf(req), protocols: protocols,
		isNew: true, knowsID: req.MemberID != "" || req.InstanceID != "",
	}
	m.timer = timer{kind: sessionTimer, group: g, member: m}
	if len(g.members) == 0 {
		g.protocolType = req.ProtocolType
	}
	if g.state == PreparingRebalance && g.initial {
		g.grown = true
	}
	g.add(m)
	c.enter(m, token)
	c.timers.set(&m.timer, c.now+c.opts.NewMemberWait)
	c.rebalanceOrComplete(g)
}

// replaceStatic gives the place of a static member to its next incarnation (KIP-345). A stable group goes on
// without a rebalance unless the choice of the protocol changes.
func (c *Coordinator) replaceStatic(m *member, id string, token uint64, req *JoinRequest, protocols []Protocol) {
	g := m.group
	oldLeader := g.leader.id
	fenced := base.Errorf(base.CodeFencedInstance, "static member %q joined again as %q", m.instance, id)
	c.failJoin(m, m.id, fenced)
	c.failSync(m, fenced)
	g.rename(m, id)
	m.clientID, m.clientHost = req.ClientID, req.ClientHost
	g.update(m, protocols, req.SessionTimeout, rebalanceOf(req))
	c.enter(m, token)
	c.timers.set(&m.timer, c.now+m.session)
	switch {
	case g.state == PreparingRebalance:
		c.maybeCompleteJoin(g)
	case g.state == Stable && g.elect() == g.protocol:
		out := g.joinResult(m)
		if req.CanSkip {
			out.SkipAssignment = g.leader == m
		} else {
			// Under its old ID as leader, the member does not think it has to assign (KIP-814).
			out.Leader, out.Members = oldLeader, nil
		}
		c.answerJoin(m, out)
		c.save(g)
	default:
		// The leader may be about to assign to the old ID.
		c.prepareRebalance(g)
	}
}
