package group

import (
	"slices"

	"godwit/internal/base"
)

// The settings of group.consumer.migration.policy: which groups with members change between the protocols.
const (
	MigrationDisabled      Migration = "disabled"
	MigrationUpgrade       Migration = "upgrade"   // from the classic protocol
	MigrationDowngrade     Migration = "downgrade" // to the classic protocol
	MigrationBidirectional Migration = "bidirectional"
)

// Migration is a setting of group.consumer.migration.policy.
type Migration string

// ConsumerOptions are the broker's settings of groups of the consumer protocol.
type ConsumerOptions struct {
	MaxSize   int // members of a group, group.consumer.max.size
	Migration Migration
	Assignors []string          // group.consumer.assignors; both of Kafka's if empty
	Defaults  map[string]string // of group configurations, by their names

	// Configs is the explicit configuration of a group: valid, and not written to. nil: no group has one.
	Configs func(Key) map[string]string
}

// upgraded makes a group of the consumer protocol out of a classic one with members. It changes nothing.
func (c *Coordinator) upgraded(g *group) (*consumerGroup, *base.Error) {
	refuse := func(why string) (*consumerGroup, *base.Error) {
		return nil, base.Errorf(base.CodeUnknownGroup, "Cannot upgrade classic group %s to consumer group because %s.", g.key.Group, why)
	}
	switch {
	case c.opts.Consumer.Migration != MigrationUpgrade && c.opts.Consumer.Migration != MigrationBidirectional:
		return refuse("online upgrade is disabled")
	case g.protocolType != consumerType:
		return refuse("the group does not use the consumer embedded protocol")
	case len(g.members) > c.opts.Consumer.MaxSize:
		return refuse("the group size exceeds the consumer group maximum size")
	}
	out := newConsumerGroup(g.key)
	out.Epoch, out.AssignmentEpoch, out.unsaved = g.generation, g.generation, true
	for _, m := range g.order {
		n := newConsumer(out, Consumer{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost, Rebalance: m.rebalance,
			Epoch: g.generation, Previous: g.generation, State: Settled,
			Classic: &ClassicClient{Session: m.session, Protocols: m.protocols},
		})
		metadata := m.metadata(g.protocol)
		if metadata == nil {
			metadata = m.protocols[0].Metadata
		}
		sub, ok := parseSubscription(metadata)
		if !ok {
			return refuse("the embedded consumer protocol is malformed")
		}
		n.Topics = sub.topics
		if sub.rack != nil {
			n.Rack = *sub.rack
		}
		if len(m.assignment) > 0 {
			list, custom, ok := parseAssignment(m.assignment)
			switch {
			case custom:
				return refuse("an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before re-attempting the upgrade")
			case !ok:
				return refuse("the embedded consumer protocol is malformed")
			}
			for _, p := range c.identified(g.key.Namespace, list) {
				if out.owners[p] != nil {
					continue // two members of the old generation: the first has it
				}
				out.owners[p] = n
				n.Assigned = append(n.Assigned, Owned{p, g.generation})
			}
			n.Target = partitionsOf(n.Assigned)
		}
		out.add(n)
	}
	out.Hash = c.hash(out)
	return out, nil
}

// upgrade puts the group of the consumer protocol in the place of the classic one. Those who wait for its next generation are told to
// join again, and find the new group.
func (c *Coordinator) upgrade(old *group, g *consumerGroup) {
	for _, m := range old.order {
		c.failJoin(m, m.id, rebalancing(old))
		c.failSync(m, rebalancing(old))
		c.timers.stop(&m.timer)
	}
	c.forget(old)
	for _, m := range g.members {
		c.timers.set(&m.session, c.now+m.Classic.Session)
	}
}

// forget drops a classic group, whose members wait for nothing any more.
func (c *Coordinator) forget(g *group) {
	for _, t := range g.pending {
		c.timers.stop(t)
	}
	c.timers.stop(&g.joinTimer)
	c.timers.stop(&g.syncTimer)
	delete(c.groups, g.key)
}

// downgradable reports whether only members of the classic protocol are left, and may have a classic group.
func (c *Coordinator) downgradable(g *consumerGroup) bool {
	return len(g.members) > 0 && g.classics() == len(g.members) && c.mayDowngrade(g)
}

func (c *Coordinator) mayDowngrade(g *consumerGroup) bool {
	p := c.opts.Consumer.Migration
	return (p == MigrationDowngrade || p == MigrationBidirectional) && len(g.members) <= c.opts.MaxSize
}

// downgrade makes the group a classic one, whose members have what they should have had, and have them join again if said so.
func (c *Coordinator) downgrade(old *consumerGroup, rebalance bool) {
	delete(c.consumers, old.key)
	g := newGroup(old.key)
	g.protocolType, g.generation = consumerType, old.AssignmentEpoch // where its members are, so they see a rebalance
	list := old.list()
	for _, m := range list {
		g.add(c.classic(g, m))
		for _, t := range []*timer{&m.session, &m.revoke, &m.join, &m.sync} {
			c.timers.stop(t)
		}
	}
	g.protocol = g.elect()
	for i, m := range g.order {
		sub, _ := parseSubscription(m.metadata(g.protocol))
		m.assignment = appendAssignment(nil, sub.version, c.named(list[i].Target))
		c.touch(m)
	}
	g.move(Stable, c.now)
	g.subscribe()
	c.groups[g.key] = g
	c.changes = append(c.changes, &DropConsumers{Key: g.key})
	c.save(g)
	if rebalance {
		c.prepareRebalance(g)
	}
}

// classic makes the member of a classic group that a member of the consumer protocol becomes.
func (c *Coordinator) classic(g *group, m *consumer) *member {
	out := &member{
		group: g, id: m.MemberID, instance: m.InstanceID, clientID: m.ClientID, clientHost: m.ClientHost,
		session: m.Classic.Session, rebalance: m.Rebalance, protocols: slices.Clone(m.Classic.Protocols), knowsID: true,
	}
	out.timer = timer{kind: sessionTimer, group: g, member: out}
	return out
}

// makeClassic makes a group without members a classic one.
func (c *Coordinator) makeClassic(old *consumerGroup) {
	delete(c.consumers, old.key)
	g := newGroup(old.key)
	g.since = c.now
	c.groups[old.key] = g
	c.changes = append(c.changes, &DropConsumers{Key: g.key})
	c.save(g)
}
