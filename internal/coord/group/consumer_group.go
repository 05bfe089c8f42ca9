package group

import (
	"maps"
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// consumer is a member as the coordinator has it.
type consumer struct {
	Consumer
	group *consumerGroup

	session timer
	revoke  timer
	join    timer
	sync    timer
}

// consumerGroup is a group of the consumer protocol as the coordinator has it: what is saved, and what is in flight.
type consumerGroup struct {
	key Key
	ConsumerHead
	members map[string]*consumer
	statics map[string]*consumer
	owners  map[Partition]*consumer // who has a partition, or has yet to give it up

	names   map[string]int         // topics subscribed by name: by so many members
	regexes map[string]*expression // subscribed expressions
	scan    scan
	looked  uint64 // the view in which the subscribed topics were last looked at

	dirty   map[string]struct{} // IDs of members that are not saved as they stand
	removed map[string]struct{} // IDs of members that are saved and gone
	unsaved bool                // the head is not saved as it stands
}

// newConsumerGroup begins a group in epoch 1, so that its first member brings epoch 2, as in Kafka.
func newConsumerGroup(k Key) *consumerGroup {
	return &consumerGroup{
		key: k, ConsumerHead: ConsumerHead{Epoch: 1, AssignmentEpoch: 1}, members: map[string]*consumer{}, statics: map[string]*consumer{}, owners: map[Partition]*consumer{},
		names: map[string]int{}, regexes: map[string]*expression{},
		dirty: map[string]struct{}{}, removed: map[string]struct{}{},
	}
}

// newConsumer makes a member that is not in its group yet.
func newConsumer(g *consumerGroup, m Consumer) *consumer {
	c := &consumer{Consumer: m, group: g}
	c.session = timer{kind: consumerSession, consumer: c}
	c.revoke = timer{kind: consumerRevoke, consumer: c}
	c.join = timer{kind: consumerJoin, consumer: c}
	c.sync = timer{kind: consumerSync, consumer: c}
	return c
}

// add makes m a member.
func (g *consumerGroup) add(m *consumer) {
	g.members[m.MemberID] = m
	if m.InstanceID != "" {
		g.statics[m.InstanceID] = m
	}
	g.own(m)
	g.subscribe(m, 1)
	g.dirty[m.MemberID] = struct{}{}
	delete(g.removed, m.MemberID)
}

// remove ends the membership.
func (g *consumerGroup) remove(m *consumer) {
	g.disown(m)
	g.subscribe(m, -1)
	delete(g.members, m.MemberID)
	if g.statics[m.InstanceID] == m {
		delete(g.statics, m.InstanceID)
	}
	delete(g.dirty, m.MemberID)
	g.removed[m.MemberID] = struct{}{}
}

func (g *consumerGroup) own(m *consumer) {
	for _, list := range [][]Owned{m.Assigned, m.Revoking} {
		for _, o := range list {
			g.owners[o.Partition] = m
		}
	}
}

func (g *consumerGroup) disown(m *consumer) {
	for _, list := range [][]Owned{m.Assigned, m.Revoking} {
		for _, o := range list {
			if g.owners[o.Partition] == m {
				delete(g.owners, o.Partition)
			}
		}
	}
}

// subscribe counts the member's topics in or out.
func (g *consumerGroup) subscribe(m *consumer, by int) {
	for _, name := range m.Topics {
		if g.names[name] += by; g.names[name] == 0 {
			delete(g.names, name)
		}
	}
	if m.Regex == "" {
		return
	}
	x := g.regexes[m.Regex]
	if x == nil {
		x = &expression{}
		g.regexes[m.Regex] = x
	}
	if x.members += by; x.members == 0 {
		delete(g.regexes, m.Regex)
	}
}

// update replaces what the member says of itself, and reports which of its subscriptions changed.
func (g *consumerGroup) update(m *consumer, next Consumer) (names, regex bool) {
	if m.Consumer.equal(&next) {
		return false, false
	}
	names, regex = !slices.Equal(m.Topics, next.Topics), m.Regex != next.Regex
	if names || regex {
		g.subscribe(m, -1)
		defer g.subscribe(m, 1)
	}
	if g.statics[m.InstanceID] == m {
		delete(g.statics, m.InstanceID)
	}
	m.Consumer = next
	if m.InstanceID != "" {
		g.statics[m.InstanceID] = m
	}
	g.dirty[m.MemberID] = struct{}{}
	return names, regex
}

// bump asks for a new assignment.
func (g *consumerGroup) bump() {
	g.Epoch++
	g.unsaved = true
}

// list is the members by ID.
func (g *consumerGroup) list() []*consumer {
	out := make([]*consumer, 0, len(g.members))
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		out = append(out, g.members[id])
	}
	return out
}

// settled reports whether the member has what the last assignment says.
func (g *consumerGroup) settled(m *consumer) bool {
	return m.State == Settled && m.Epoch == g.AssignmentEpoch
}

func (g *consumerGroup) state() State {
	switch {
	case len(g.members) == 0:
		return Empty
	case g.Epoch > g.AssignmentEpoch:
		return Assigning
	}
	for _, m := range g.members {
		if !g.settled(m) {
			return Reconciling
		}
	}
	return Stable
}

// assignor is the one that most members prefer; of several, the one that comes first in the list of assignors.
func (c *Coordinator) assignor(g *consumerGroup) assignor {
	votes := map[string]int{}
	for _, m := range g.members {
		if m.Assignor != "" {
			votes[m.Assignor]++
		}
	}
	best := c.assignors[0]
	for _, a := range c.assignors {
		if votes[a.name] > votes[best.name] {
			best = a
		}
	}
	return best
}

// find checks that the request comes from the member that it names.
func (g *consumerGroup) find(id, instance string) (*consumer, *base.Error) {
	if instance == "" {
		if m := g.members[id]; m != nil {
			return m, nil
		}
		return nil, base.Errorf(base.CodeUnknownMember, "Member %s is not a member of group %s.", id, g.key.Group)
	}
	switch m := g.statics[instance]; {
	case m == nil:
		return nil, base.Errorf(base.CodeUnknownMember, "Instance id %s is unknown.", instance)
	case m.MemberID != id:
		return nil, base.Errorf(base.CodeFencedInstance, "Static member %s with instance id %s was fenced by member %s.", id, instance, m.MemberID)
	default:
		return m, nil
	}
}

// classics counts the members that speak the classic protocol.
func (g *consumerGroup) classics() (n int) {
	for _, m := range g.members {
		if m.Classic != nil {
			n++
		}
	}
	return n
}

// command is what is to be saved; nil if nothing is.
func (g *consumerGroup) command() *SaveConsumers {
	if !g.unsaved && len(g.dirty) == 0 && len(g.removed) == 0 {
		return nil
	}
	cmd := &SaveConsumers{Key: g.key, Head: g.ConsumerHead, Removed: slices.Sorted(maps.Keys(g.removed))}
	for _, id := range slices.Sorted(maps.Keys(g.dirty)) {
		cmd.Members = append(cmd.Members, g.members[id].Consumer)
	}
	clear(g.dirty)
	clear(g.removed)
	g.unsaved = false
	return cmd
}

// check verifies guarantees 10 to 13, but for what only an assignor knows, and panics where they do not hold.
func (g *consumerGroup) check() {
	invariants.Check(g.key.Group != "", "a group without a name")
	invariants.Check(0 <= g.AssignmentEpoch && g.AssignmentEpoch <= g.Epoch, "group %v: assignment epoch %d above %d", g.key, g.AssignmentEpoch, g.Epoch)
	invariants.Check(len(g.dirty) == 0 && len(g.removed) == 0 && !g.unsaved, "group %v: changes are not saved", g.key)
	owned, statics := 0, 0
	targets := map[Partition]string{}
	for id, m := range g.members {
		invariants.Check(m.MemberID == id && id != "" && m.group == g, "group %v: member %q is filed under %q", g.key, m.MemberID, id)
		invariants.Check(m.session.running(), "group %v: member %s has no session", g.key, id)
		invariants.Check(m.Epoch <= g.AssignmentEpoch, "group %v: member %s at epoch %d above %d", g.key, id, m.Epoch, g.AssignmentEpoch)
		invariants.Check(len(m.Revoking) == 0 || m.State == Unrevoked, "group %v: member %s has %d partitions to give up in state %d", g.key, id, len(m.Revoking), m.State)
		for _, list := range [][]Owned{m.Assigned, m.Revoking} {
			invariants.Check(slices.IsSortedFunc(list, func(a, b Owned) int { return a.Partition.Compare(b.Partition) }),
				"group %v: partitions of %s are out of order", g.key, id)
			owned += len(list)
			for _, o := range list {
				invariants.Check(g.owners[o.Partition] == m, "group %v: %v is of member %s and filed under another", g.key, o.Partition, id)
			}
		}
		invariants.Check(slices.IsSortedFunc(m.Target, Partition.Compare), "group %v: target of %s is out of order", g.key, id)
		for _, p := range m.Target {
			invariants.Check(targets[p] == "", "group %v: %v is meant for %s and %s", g.key, p, targets[p], id)
			targets[p] = id
		}
		if m.InstanceID != "" {
			statics++
			invariants.Check(g.statics[m.InstanceID] == m, "group %v: static member %s is lost", g.key, m.InstanceID)
		}
	}
	invariants.Check(owned == len(g.owners), "group %v: %d partitions are owned, %d known", g.key, owned, len(g.owners))
	invariants.Check(statics == len(g.statics), "group %v: %d static members, %d known", g.key, statics, len(g.statics))
	g.checkSubscriptions()
}

func (g *consumerGroup) checkSubscriptions() {
	names, regexes := map[string]int{}, map[string]int{}
	for _, m := range g.members {
		invariants.Check(slices.IsSorted(m.Topics), "group %v: topics of %s are out of order", g.key, m.MemberID)
		for _, name := range m.Topics {
			names[name]++
		}
		if m.Regex != "" {
			regexes[m.Regex]++
		}
	}
	invariants.Check(maps.Equal(names, g.names), "group %v: subscriptions are counted wrong", g.key)
	invariants.Check(len(regexes) == len(g.regexes), "group %v: %d expressions, %d known", g.key, len(regexes), len(g.regexes))
	for text, x := range g.regexes {
		invariants.Check(regexes[text] == x.members, "group %v: %q is subscribed by %d members, counted %d", g.key, text, regexes[text], x.members)
	}
}

// names puts a list of topics in order, each once.
func orderedNames(list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, strings.Clone(s))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// takeOverConsumers makes a saved group live: its members have one session from now to show themselves.
func (c *Coordinator) takeOverConsumers(k Key, s *consumers) {
	g := newConsumerGroup(k)
	g.ConsumerHead = s.head
	session := c.settings(k).Session
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		m := newConsumer(g, s.members[id])
		g.add(m)
		if m.Classic != nil {
			c.timers.set(&m.session, c.now+m.Classic.Session)
			continue
		}
		c.timers.set(&m.session, c.now+session)
		if m.State == Unrevoked && m.Epoch != EpochPause {
			c.timers.set(&m.revoke, c.now+max(m.Rebalance, 1))
		}
	}
	clear(g.dirty)
	c.consumers[k] = g
}
