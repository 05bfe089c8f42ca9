package group

import (
	"bytes"
	"slices"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// consumerType is the protocol type of Kafka's consumers; only their metadata can be read here.
const consumerType = "consumer"

// member is one member of a group.
type member struct {
	group      *group
	id         string
	instance   string // empty: dynamic
	clientID   string
	clientHost string
	session    int64 // ms
	rebalance  int64 // ms
	protocols  []Protocol
	assignment []byte

	isNew     bool   // has not been through a join phase
	knowsID   bool   // its client was told the ID
	joined    bool   // takes part in the join phase under way; changed by group.setJoined
	late      bool   // has not asked for its assignment in this generation; changed by group.setLate
	joinToken uint64 // waits for the end of the join phase; 0: nobody waits
	syncToken uint64 // waits for the leader's assignment; 0: nobody waits
	timer     timer
}

// group is the membership of one group.
type group struct {
	key          Key
	state        State
	since        int64 // Unix ms at which state was reached
	generation   int32
	protocolType string // empty until the first member came
	protocol     string // empty while there is no generation with members
	leader       *member
	members      map[string]*member
	order        []*member // the members, first come first
	statics      map[string]*member
	pending      map[string]*timer // IDs handed out and not yet used (KIP-394)
	supported    map[string]int    // members that support the protocol
	joining      int               // members that have joined
	late         int               // members that are late
	topics       map[string]bool   // what the members read; nil: not known
	deleted      bool              // by an operator, and not yet forgotten here

	initial   bool  // the join phase under way began from Empty, so it waits for company
	grown     bool  // since its delay began, a member came
	delay     int64 // ms, the delay running
	delayLeft int64 // ms by which it may be extended
	joinTimer timer
	syncTimer timer
}

func newGroup(k Key) *group {
	g := &group{
		key: k, state: Empty,
		members: map[string]*member{}, statics: map[string]*member{}, pending: map[string]*timer{}, supported: map[string]int{},
	}
	g.joinTimer = timer{kind: joinTimer, group: g}
	g.syncTimer = timer{kind: syncTimer, group: g}
	return g
}

// memberFrom makes the member that was saved.
func memberFrom(g *group, r *MemberRecord) *member {
	m := &member{
		group: g, id: r.MemberID, instance: r.InstanceID, clientID: r.ClientID, clientHost: r.ClientHost,
		session: r.SessionTimeout, rebalance: r.RebalanceTimeout, protocols: r.Protocols, assignment: r.Assignment,
		knowsID: true,
	}
	m.timer = timer{kind: sessionTimer, group: g, member: m}
	return m
}

// record is what is saved of the group: its members only when all have their assignment.
func (g *group) record() Record {
	r := Record{Time: g.since, Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol}
	if g.state != Stable {
		return r
	}
	r.Leader = g.leader.id
	for _, m := range g.order {
		r.Members = append(r.Members, MemberRecord{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			SessionTimeout: m.session, RebalanceTimeout: m.rebalance, Protocols: m.protocols, Assignment: m.assignment,
		})
	}
	return r
}

func (g *group) move(s State, now int64) { g.state, g.since = s, now }

// add makes m a member; the first one leads.
func (g *group) add(m *member) {
	g.members[m.id] = m
	g.order = append(g.order, m)
	if m.instance != "" {
		g.statics[m.instance] = m
	}
	if g.leader == nil {
		g.leader = m
	}
	g.count(m, 1)
}

// remove ends the membership; the one who has been there longest leads next.
func (g *group) remove(m *member) {
	delete(g.members, m.id)
	g.order = slices.DeleteFunc(g.order, func(o *member) bool { return o == m })
	if g.statics[m.instance] == m {
		delete(g.statics, m.instance)
	}
	g.count(m, -1)
	g.setJoined(m, false)
	g.setLate(m, false)
	if g.leader == m {
		g.leader = nil
		if len(g.order) > 0 {
			g.leader = g.order[0]
		}
	}
}

// rename gives a static member's place, with all it has, to its next incarnation.
func (g *group) rename(m *member, id string) {
	delete(g.members, m.id)
	m.id = id
	g.members[id] = m
}

func (g *group) count(m *member, by int) {
	for _, p := range m.protocols {
		if g.supported[p.Name] += by; g.supported[p.Name] == 0 {
			delete(g.supported, p.Name)
		}
	}
}

// update replaces what the member offers.
func (g *group) update(m *member, protocols []Protocol, session, rebalance int64) {
	g.count(m, -1)
	m.protocols, m.session, m.rebalance = protocols, session, rebalance
	g.count(m, 1)
}

// supports reports whether a member with these protocols fits with those who are there.
func (g *group) supports(protocolType string, protocols []Protocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	return protocolType == g.protocolType && slices.ContainsFunc(protocols, func(p Protocol) bool {
		return g.supported[p.Name] == len(g.members)
	})
}

// elect lets every member vote for the first of its protocols that all support, and takes the one with the
// most votes; of several, the one that the leader likes best.
func (g *group) elect() string {
	votes := map[string]int{}
	for _, m := range g.order {
		for _, p := range m.protocols {
			if g.supported[p.Name] == len(g.members) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, p := range g.leader.protocols {
		if votes[p.Name] > votes[best] {
			best = p.Name
		}
	}
	invariants.Check(best != "", "group %v: %d members have no protocol in common", g.key, len(g.members))
	return best
}

// allJoined reports whether nobody is missing in the join phase.
func (g *group) allJoined() bool { return len(g.pending) == 0 && g.joining == len(g.members) }

func (g *group) setJoined(m *member, joined bool) {
	g.joining += step(m.joined, joined)
	m.joined = joined
}

func (g *group) setLate(m *member, late bool) {
	g.late += step(m.late, late)
	m.late = late
}

// step is by how much a count of members changes.
func step(was, is bool) int {
	switch {
	case is && !was:
		return 1
	case was && !is:
		return -1
	}
	return 0
}

// rebalanceTimeout is the longest that any member asks for, ms.
func (g *group) rebalanceTimeout() (longest int64) {
	for _, m := range g.order {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// find checks that the request comes from the member it names, as one that was not replaced.
func (g *group) find(id, instance string) (*member, *base.Error) {
	if instance != "" {
		switch m := g.statics[instance]; {
		case m == nil:
			return nil, base.Errorf(base.CodeUnknownMember, "group %q has no static member %q", g.key.Group, instance)
		case m.id != id:
			return nil, base.Errorf(base.CodeFencedInstance, "group %q: static member %q is %q by now, not %q", g.key.Group, instance, m.id, id)
		}
	}
	m := g.members[id]
	if m == nil {
		return nil, unknownMember(g.key, id)
	}
	return m, nil
}

// matches reports whether the member joins with what it had before.
func (m *member) matches(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// metadata is what the member offers for the protocol.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// roster is what the leader gets to divide the work.
func (g *group) roster() []JoinedMember {
	out := make([]JoinedMember, 0, len(g.order))
	for _, m := range g.order {
		out = append(out, JoinedMember{MemberID: m.id, InstanceID: m.instance, Metadata: m.metadata(g.protocol)})
	}
	return out
}

// check verifies what can be seen from inside the group.
func (g *group) check() {
	invariants.Check(len(g.members) == len(g.order), "group %v: %d members, %d in order", g.key, len(g.members), len(g.order))
	invariants.Check((g.leader == nil) == (len(g.members) == 0), "group %v: %d members, leader %v", g.key, len(g.members), g.leader)
	invariants.Check(g.leader == nil || g.members[g.leader.id] == g.leader, "group %v: the leader is not a member", g.key)
	invariants.Check(g.state != Empty || len(g.members) == 0, "group %v: empty with %d members", g.key, len(g.members))
	statics, joining, late := 0, 0, 0
	for id, m := range g.members {
		invariants.Check(m.id == id && m.group == g, "group %v: member %s is filed under %s", g.key, m.id, id)
		invariants.Check(g.pending[id] == nil, "group %v: member %s is also pending", g.key, id)
		joining += step(false, m.joined)
		late += step(false, m.late)
		invariants.Check(m.joinToken == 0 || m.joined, "group %v: member %s waits to join and has not joined", g.key, m.id)
		if m.instance != "" {
			statics++
			invariants.Check(g.statics[m.instance] == m, "group %v: static member %s is lost", g.key, m.instance)
		}
		if g.state == Stable || g.state == CompletingRebalance {
			invariants.Check(slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == g.protocol }),
				"group %v: member %s does not support %s", g.key, m.id, g.protocol)
		}
	}
	invariants.Check(statics == len(g.statics), "group %v: %d static members, %d known", g.key, statics, len(g.statics))
	invariants.Check(joining == g.joining && late == g.late, "group %v: %d joined and %d late, counted %d and %d", g.key, joining, late, g.joining, g.late)
	invariants.Check(g.state == PreparingRebalance || joining == 0, "group %v: state %s with %d members joining", g.key, g.state, joining)
	invariants.Check(g.key.Group != "", "a group without a name")
}
