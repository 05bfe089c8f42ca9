package group

import (
	"slices"

	"godwit/internal/base"
)

// What members of the classic protocol in a group of the consumer protocol send is answered here. They see a
// group in which somebody else leads: their join is answered at once, and their assignment is that of the group.

// classicMember is the member that a request of the classic protocol comes from.
func (g *consumerGroup) classicMember(id, instance string, generation int32) (*consumer, *base.Error) {
	m, err := g.find(id, instance)
	switch {
	case err != nil:
		return nil, err
	case m.Classic == nil:
		return nil, base.Errorf(base.CodeUnknownMember, "Member %s does not use the classic protocol.", id)
	case m.Epoch != generation:
		return nil, base.Errorf(base.CodeIllegalGeneration, "The request generation id %d is not equal to the member epoch %d of member %s.", generation, m.Epoch, id)
	}
	return m, nil
}

// joinConsumers takes a member of the classic protocol into the group, or on to its next assignment.
func (c *Coordinator) joinConsumers(g *consumerGroup, token uint64, req *JoinRequest, unique string) {
	out, err := c.joinedConsumers(g, req, unique)
	if err != nil {
		out = joinFailed(req.MemberID, err)
	}
	c.reply(token, out)
}

func (c *Coordinator) joinedConsumers(g *consumerGroup, req *JoinRequest, unique string) (*JoinResponse, *base.Error) {
	id := req.MemberID
	if id == "" {
		id = unique
	}
	protocols := ownProtocols(req.Protocols)
	static := g.statics[req.InstanceID]
	if err := c.checkClassicJoin(g, static, id, req, protocols); err != nil {
		return nil, err
	}
	if req.MemberID == "" && req.InstanceID == "" && req.RequireKnownID {
		return joinFailed(id, base.Errorf(base.CodeMemberIDRequired, "join again with the member ID of this answer")), nil
	}
	sub, ok := parseSubscription(protocols[0].Metadata)
	if !ok {
		return nil, base.Errorf(base.CodeInconsistentProtocol, "Malformed embedded consumer protocol in subscription deserialization.")
	}
	downgrade := static != nil && static.Classic == nil && req.MemberID == "" && g.classics() == len(g.members)-1 && c.mayDowngrade(g)
	m := c.admitClassic(g, static, id, req)
	next := m.Consumer
	next.InstanceID, next.ClientID, next.ClientHost = req.InstanceID, req.ClientID, req.ClientHost
	next.Rebalance, next.Topics, next.Regex, next.Assignor = rebalanceOf(req), sub.topics, "", ""
	if sub.rack != nil {
		next.Rack = *sub.rack
	}
	next.Classic = &ClassicClient{Session: req.SessionTimeout, Protocols: protocols}
	c.timers.stop(&m.revoke)
	changed := c.revise(g, m, next)
	owned := c.identified(g.key.Namespace, sub.owned)
	stale := g.AssignmentEpoch < g.Epoch
	if !downgrade {
		c.assignIfDue(g)
	}
	if !downgrade || !stale {
		c.reconcile(g, m, changed, owned, true)
	}
	out := &JoinResponse{MemberID: m.MemberID, Generation: m.Epoch, ProtocolType: consumerType, Protocol: protocols[0].Name}
	c.timers.stop(&m.join)
	if downgrade {
		c.downgrade(g, stale)
		return out, nil
	}
	c.timers.set(&m.session, c.now+m.Classic.Session)
	c.timers.set(&m.sync, c.now+max(m.Rebalance, 1))
	c.saveConsumers(g)
	return out, nil
}

// checkClassicJoin refuses who cannot be a member, or not as it says.
func (c *Coordinator) checkClassicJoin(g *consumerGroup, static *consumer, id string, req *JoinRequest, protocols []Protocol) *base.Error {
	switch {
	case c.opts.Consumer.Migration == MigrationDisabled:
		return base.Errorf(base.CodeInconsistentProtocol, "Cannot join the consumer group %s with the classic protocol because the group migration is disabled.", g.key.Group)
	case static == nil && g.members[id] == nil && len(g.members) >= c.opts.Consumer.MaxSize:
		return base.Errorf(base.CodeGroupFull, "The consumer group has reached its maximum capacity of %d members.", c.opts.Consumer.MaxSize)
	case req.ProtocolType != consumerType || !g.supports(protocols):
		return base.Errorf(base.CodeInconsistentProtocol, "Member %s's protocols are not supported.", id)
	case req.InstanceID != "" && req.MemberID != "":
		_, err := g.find(id, req.InstanceID)
		return err
	}
	return nil
}

// supports reports whether all members of the classic protocol support one of these.
func (g *consumerGroup) supports(protocols []Protocol) bool {
	return slices.ContainsFunc(protocols, func(p Protocol) bool {
		for _, m := range g.members {
			if m.Classic != nil && !slices.ContainsFunc(m.Classic.Protocols, func(o Protocol) bool { return o.Name == p.Name }) {
				return false
			}
		}
		return true
	})
}

// admitClassic finds the member, or makes it.
func (c *Coordinator) admitClassic(g *consumerGroup, static *consumer, id string, req *JoinRequest) *consumer {
	if static != nil {
		if req.MemberID != "" {
			return static
		}
		return c.replaceConsumer(g, static, id)
	}
	if m := g.members[id]; m != nil {
		return m
	}
	m := newConsumer(g, Consumer{MemberID: id, InstanceID: req.InstanceID, Previous: -1, State: Settled})
	g.add(m)
	return m
}

// syncConsumers answers with the member's assignment.
func (c *Coordinator) syncConsumers(g *consumerGroup, req *SyncRequest) *SyncResponse {
	m, err := g.classicMember(req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return &SyncResponse{Err: err}
	}
	first := m.Classic.Protocols[0]
	switch {
	case req.ProtocolType != "" && req.ProtocolType != consumerType:
		err = base.Errorf(base.CodeInconsistentProtocol, "group %q has protocol type %q, not %q", g.key.Group, consumerType, req.ProtocolType)
	case req.Protocol != "" && req.Protocol != first.Name:
		err = base.Errorf(base.CodeInconsistentProtocol, "member %q joined with protocol %q, not %q", m.MemberID, first.Name, req.Protocol)
	case g.AssignmentEpoch > m.Epoch && m.State != Unrevoked:
		c.expectJoin(m)
		err = base.Errorf(base.CodeRebalanceInProgress, "group %q is rebalancing", g.key.Group)
	}
	if err != nil {
		return &SyncResponse{Err: err}
	}
	c.timers.stop(&m.sync)
	c.timers.set(&m.session, c.now+m.Classic.Session)
	sub, _ := parseSubscription(first.Metadata)
	return &SyncResponse{
		ProtocolType: consumerType, Protocol: first.Name,
		Assignment: appendAssignment(nil, sub.version, c.named(partitionsOf(m.Assigned))),
	}
}

// heartbeatConsumers keeps the member's session and tells it to join again when it can get on. As with members of the consumer
// protocol, of whom there may be none, this is when the group finds out that it has to be assigned anew.
func (c *Coordinator) heartbeatConsumers(g *consumerGroup, req *HeartbeatRequest) HeartbeatResponse {
	m, err := g.classicMember(req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return HeartbeatResponse{Err: err}
	}
	c.timers.set(&m.session, c.now+m.Classic.Session)
	c.look(g)
	c.assignIfDue(g)
	c.saveConsumers(g)
	if m.Epoch < g.AssignmentEpoch || m.State == Unrevoked || m.State == Unreleased && !g.waitsForOthers(m) {
		c.expectJoin(m)
		return HeartbeatResponse{Err: base.Errorf(base.CodeRebalanceInProgress, "group %q is rebalancing", g.key.Group)}
	}
	return HeartbeatResponse{}
}

// expectJoin gives the member its rebalance time-out to join again, once.
func (c *Coordinator) expectJoin(m *consumer) {
	if !m.join.running() {
		c.timers.set(&m.join, c.now+max(m.Rebalance, 1))
	}
}

// leaveConsumers ends memberships, be they of the classic protocol or not.
func (c *Coordinator) leaveConsumers(g *consumerGroup, req *LeaveRequest) LeaveResponse {
	out := LeaveResponse{Members: make([]LeftMember, 0, len(req.Members))}
	var gone []*consumer
	for _, l := range req.Members {
		id := l.MemberID
		if m := g.statics[l.InstanceID]; l.InstanceID != "" && id == "" && m != nil {
			id = m.MemberID
		}
		m, err := g.find(id, l.InstanceID)
		if err == nil && !slices.Contains(gone, m) {
			gone = append(gone, m)
		}
		out.Members = append(out.Members, LeftMember{l, err})
	}
	c.fenceConsumers(g, gone...)
	return out
}
