package group

import (
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/groupconf"
)

// catchUpInterval is the ms after which a member comes back that waits for partitions. Kafka lets it wait for the heartbeat
// interval.
const catchUpInterval = 1_000

// SetTopics replaces the view of the topics. Groups find out with the next heartbeat of any of their members.
func (c *Coordinator) SetTopics(t Topics) {
	c.topics = t
	c.view++
}

func (c *Coordinator) settings(k Key) groupconf.Modern {
	var explicit map[string]string
	if c.opts.Consumer.Configs != nil {
		explicit = c.opts.Consumer.Configs(k)
	}
	return groupconf.ResolveConsumer(explicit, c.opts.Consumer.Defaults)
}

// ConsumerHeartbeat joins a group of the consumer protocol, keeps a member's session, or leaves (KIP-848). unique is random text for
// the ID of a member that has none. The replies are of other requests: those of a classic group that becomes one of the consumer
// protocol.
func (c *Coordinator) ConsumerHeartbeat(now int64, req *ConsumerHeartbeatRequest, unique string) (ConsumerHeartbeatResponse, []Reply) {
	c.advance(now)
	out, err := c.consumerHeartbeat(req, unique)
	if err != nil {
		out = ConsumerHeartbeatResponse{Err: err}
	}
	return out, c.take()
}

func (c *Coordinator) consumerHeartbeat(req *ConsumerHeartbeatRequest, unique string) (out ConsumerHeartbeatResponse, err *base.Error) {
	if err := c.checkConsumerHeartbeat(req); err != nil {
		return out, err
	}
	if c.taken(req.Key) {
		return out, notConsumer(req.Key)
	}
	if req.Epoch < EpochJoin {
		return c.consumerLeave(req)
	}
	g, classic, err := c.consumerGroupFor(req)
	if err != nil {
		return out, err
	}
	id := req.MemberID
	if id == "" {
		id = unique
	}
	if err := c.checkConsumer(g, id, req); err != nil {
		return out, err
	}
	if classic != nil {
		c.upgrade(classic, g)
	} else if old := c.groups[g.key]; old != nil {
		c.forget(old)
	}
	c.consumers[g.key] = g
	m := c.admit(g, id, req)
	changed := c.refresh(g, m, req)
	c.assignIfDue(g)
	assigned := m.Assigned
	c.reconcile(g, m, changed, req.Owned, req.OwnedSaid)
	settings := c.settings(g.key)
	c.timers.set(&m.session, c.now+settings.Session)
	c.saveConsumers(g)
	out = ConsumerHeartbeatResponse{MemberID: m.MemberID, Epoch: m.Epoch, Interval: settings.HeartbeatInterval}
	if m.State == Unreleased || g.Epoch > g.AssignmentEpoch {
		out.Interval = min(out.Interval, catchUpInterval)
	}
	full := req.RebalanceTimeout >= 0 && (req.Topics != nil || req.Regex != nil) && req.OwnedSaid
	if req.Epoch == EpochJoin || full || !slices.Equal(assigned, m.Assigned) {
		out.Assigned, out.Assignment = true, partitionsOf(m.Assigned)
	}
	return out, nil
}

// checkConsumerHeartbeat refuses requests that make no sense whatever the group.
func (c *Coordinator) checkConsumerHeartbeat(req *ConsumerHeartbeatRequest) *base.Error {
	empty := func(s *string) bool { return s != nil && *s == "" }
	bad := ""
	switch {
	case req.MemberID == "" && (req.MemberIDRequired || req.Epoch > EpochJoin || req.Epoch == EpochLeave):
		bad = "MemberId can't be empty."
	case req.Group == "":
		bad = "GroupId can't be empty."
	case empty(req.InstanceID):
		bad = "InstanceId can't be empty."
	case empty(req.Rack):
		bad = "RackId can't be empty."
	case req.Epoch == EpochPause && req.InstanceID == nil:
		bad = "InstanceId can't be null."
	case req.Epoch < EpochPause:
		bad = "MemberEpoch is invalid."
	case req.Epoch != EpochJoin:
	case req.RebalanceTimeout < 0:
		bad = "RebalanceTimeoutMs must be provided in first request."
	case !req.OwnedSaid || len(req.Owned) > 0:
		bad = "TopicPartitions must be empty when (re-)joining."
	case req.Topics == nil && req.Regex == nil:
		bad = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
	}
	if bad != "" {
		return base.Errorf(base.CodeInvalidRequest, "%s", bad)
	}
	if err := req.Key.Check(); err != nil {
		return err
	}
	if req.Assignor != nil && !slices.ContainsFunc(c.assignors, func(a assignor) bool { return a.name == *req.Assignor }) {
		var names []string
		for _, a := range c.assignors {
			names = append(names, a.name)
		}
		return base.Errorf(base.CodeUnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s.",
			*req.Assignor, strings.Join(names, ", "))
	}
	return nil
}

// consumerGroupFor finds the group; a member that joins may make it, be it out of a classic group, which is the second result
// if it has members. Nothing is changed yet.
func (c *Coordinator) consumerGroupFor(req *ConsumerHeartbeatRequest) (*consumerGroup, *group, *base.Error) {
	k := req.Key
	if g := c.consumers[k]; g != nil {
		return g, nil, nil
	}
	if req.Epoch != EpochJoin {
		if c.exists(k) {
			return nil, nil, notConsumer(k)
		}
		return nil, nil, base.Errorf(base.CodeUnknownGroup, "Consumer group %s not found.", k.Group)
	}
	g := c.group(k)
	if g == nil || g.state == Empty {
		return newConsumerGroup(k), nil, nil
	}
	out, err := c.upgraded(g)
	return out, g, err
}

// checkConsumer refuses who cannot be a member, or not as it says.
func (c *Coordinator) checkConsumer(g *consumerGroup, id string, req *ConsumerHeartbeatRequest) *base.Error {
	if req.Regex != nil && *req.Regex != "" && g.regexes[*req.Regex] == nil {
		if _, err := compile(*req.Regex); err != nil {
			return err
		}
	}
	var static *consumer
	if req.InstanceID != nil {
		static = g.statics[*req.InstanceID]
	}
	if static == nil && g.members[id] == nil && len(g.members) >= c.opts.Consumer.MaxSize {
		return base.Errorf(base.CodeGroupFull, "The consumer group has reached its maximum capacity of %d members.", c.opts.Consumer.MaxSize)
	}
	if req.Epoch != EpochJoin {
		m, err := g.find(id, textOf(req.InstanceID))
		if err != nil {
			return err
		}
		return checkEpoch(m, req)
	}
	if static != nil && static.Classic == nil && static.Epoch != EpochPause {
		return base.Errorf(base.CodeUnreleasedInstance,
			"Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.", id, *req.InstanceID, static.MemberID)
	}
	return nil
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// checkEpoch fences a member that is not where its epoch says. One epoch behind is let pass if the member has not got more than
// it may have: it missed an answer.
func checkEpoch(m *consumer, req *ConsumerHeartbeatRequest) *base.Error {
	switch {
	case req.Epoch > m.Epoch:
		return fenced("greater", req.Epoch, m.Epoch)
	case req.Epoch < m.Epoch && (req.Epoch != m.Previous || !req.OwnedSaid || !within(req.Owned, m.Assigned)):
		return fenced("smaller", req.Epoch, m.Epoch)
	}
	return nil
}

func fenced(how string, got, is int32) *base.Error {
	return base.Errorf(base.CodeFencedMember, "The consumer group member has a %s member epoch (%d) than the one known by the group coordinator (%d). "+
		"The member must abandon all its partitions and rejoin.", how, got, is)
}

func within(list []Partition, assigned []Owned) bool {
	return !slices.ContainsFunc(list, func(p Partition) bool {
		_, ok := epochOf(assigned, p)
		return !ok
	})
}

// admit finds the member, or makes it: a new one, or one that takes the place of a static member.
func (c *Coordinator) admit(g *consumerGroup, id string, req *ConsumerHeartbeatRequest) *consumer {
	instance := textOf(req.InstanceID)
	if old := g.statics[instance]; instance != "" && old != nil {
		if req.Epoch != EpochJoin {
			return old
		}
		return c.replaceConsumer(g, old, id)
	}
	if m := g.members[id]; m != nil {
		return m
	}
	m := newConsumer(g, Consumer{MemberID: id, InstanceID: instance, Previous: -1, State: Settled})
	g.add(m)
	return m
}

// replaceConsumer gives all that a static member has to its next incarnation. A member of the same ID that is there for
// itself is gone by that.
func (c *Coordinator) replaceConsumer(g *consumerGroup, old *consumer, id string) *consumer {
	next := old.Consumer
	next.MemberID, next.Epoch, next.Previous = id, 0, 0
	c.dropConsumer(g, old)
	if other := g.members[id]; other != nil {
		c.dropConsumer(g, other)
	}
	m := newConsumer(g, next)
	g.add(m)
	return m
}

// dropConsumer ends a membership without asking for a new assignment.
func (c *Coordinator) dropConsumer(g *consumerGroup, m *consumer) {
	for _, t := range []*timer{&m.session, &m.revoke, &m.join, &m.sync} {
		c.timers.stop(t)
	}
	g.remove(m)
}

// refresh takes over what the request says of the member, and asks for a new assignment if that or the topics have changed. It
// reports whether the member's subscription changed. A member that spoke the classic protocol no longer does.
func (c *Coordinator) refresh(g *consumerGroup, m *consumer, req *ConsumerHeartbeatRequest) bool {
	next := m.Consumer
	set := func(to *string, said *string) {
		if said != nil {
			*to = *said
		}
	}
	set(&next.InstanceID, req.InstanceID)
	set(&next.Rack, req.Rack)
	set(&next.Assignor, req.Assignor)
	set(&next.Regex, req.Regex)
	if req.RebalanceTimeout >= 0 {
		next.Rebalance = req.RebalanceTimeout
	}
	if req.Topics != nil {
		next.Topics = orderedNames(req.Topics)
	}
	next.ClientID, next.ClientHost, next.Classic = req.ClientID, req.ClientHost, nil
	c.timers.stop(&m.join)
	c.timers.stop(&m.sync)
	return c.revise(g, m, next)
}

// revise replaces what a member says of itself, and asks for a new assignment if need be.
func (c *Coordinator) revise(g *consumerGroup, m *consumer, next Consumer) (changed bool) {
	assignor := c.assignor(g).name
	names, regex := g.update(m, next)
	if changed = names || regex; changed {
		g.looked = 0
	}
	epoch := g.Epoch
	c.look(g)
	if epoch == g.Epoch && (changed || c.assignor(g).name != assignor) {
		g.bump()
	}
	return changed
}

// consumerLeave ends a membership, or lets a static member go for a while.
func (c *Coordinator) consumerLeave(req *ConsumerHeartbeatRequest) (out ConsumerHeartbeatResponse, err *base.Error) {
	g := c.consumers[req.Key]
	if g == nil {
		if c.exists(req.Key) {
			return out, notConsumer(req.Key)
		}
		return out, base.Errorf(base.CodeUnknownGroup, "Group %s not found.", req.Group)
	}
	m, err := g.find(req.MemberID, textOf(req.InstanceID))
	if err != nil {
		return out, err
	}
	out = ConsumerHeartbeatResponse{MemberID: m.MemberID, Epoch: req.Epoch}
	if req.Epoch == EpochLeave {
		c.fenceConsumers(g, m)
		return out, nil
	}
	next := m.Consumer
	next.Epoch, next.Revoking = EpochPause, nil
	next.Assigned = slices.Clone(m.Assigned)
	for i := range next.Assigned {
		next.Assigned[i].Epoch = 0
	}
	g.disown(m)
	g.update(m, next)
	g.own(m)
	c.timers.stop(&m.revoke)
	c.saveConsumers(g)
	return out, nil
}

// fenceConsumers removes members. The rest of the group is assigned anew with the next heartbeat of any of them; if they all speak the
// classic protocol, the group becomes a classic one.
func (c *Coordinator) fenceConsumers(g *consumerGroup, gone ...*consumer) {
	if len(gone) == 0 {
		return
	}
	for _, m := range gone {
		c.dropConsumer(g, m)
	}
	if c.downgradable(g) {
		c.downgrade(g, true)
		return
	}
	g.looked = 0
	epoch := g.Epoch
	if c.look(g); g.Epoch == epoch {
		g.bump()
	}
	if len(g.members) == 0 {
		g.AssignmentEpoch, g.AssignedAt = g.Epoch, 0
	}
	c.saveConsumers(g)
}

// saveConsumers asks for what changed of the group to be journaled.
func (c *Coordinator) saveConsumers(g *consumerGroup) {
	if cmd := g.command(); cmd != nil {
		c.changes = append(c.changes, cmd)
	}
}
