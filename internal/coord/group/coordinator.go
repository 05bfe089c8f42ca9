package group

import (
	"maps"
	"math"
	"slices"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// Options are the broker's group settings.
type Options struct {
	MinSession    int64 // ms, group.min.session.timeout.ms
	MaxSession    int64 // ms, group.max.session.timeout.ms
	InitialDelay  int64 // ms, group.initial.rebalance.delay.ms
	NewMemberWait int64 // ms that a new member's join may wait before it is forgotten
	Retention     int64 // ms, offsets.retention.minutes
	MaxSize       int   // members of a group, group.max.size
	MaxMetadata   int   // bytes, offset.metadata.max.bytes
	Consumer      ConsumerOptions

	// Taken reports whether a name belongs to a group of a type that is decided elsewhere. nil: none does.
	Taken func(Key) bool
	// Streams has those of the groups of other types whose offsets are here; Taken reports them, too. nil: there are none.
	Streams Streams
}

// DefaultOptions are Kafka's.
func DefaultOptions() Options {
	return Options{
		MinSession:    6_000,
		MaxSession:    1_800_000,
		InitialDelay:  3_000,
		NewMemberWait: 5 * 60_000,
		Retention:     7 * 24 * 3_600_000,
		MaxSize:       math.MaxInt32,
		MaxMetadata:   4_096,
		Consumer:      ConsumerOptions{MaxSize: math.MaxInt32, Migration: MigrationBidirectional},
	}
}

// Coordinator runs the memberships of all groups of one shard, for its leader. It has one owner, the same
// as its Offsets.
type Coordinator struct {
	opts    Options
	offsets *Offsets
	now     int64          // largest time seen, Unix ms
	groups  map[Key]*group // classic groups with members, and empty ones for a while
	waiting map[uint64]*member
	timers  timers
	replies []Reply
	changes []Command
	guards  map[txnOf]*TxnGuard

	consumers map[Key]*consumerGroup // all groups of the consumer protocol
	assignors []assignor
	topics    Topics
	view      uint64 // rises with each new view of the topics, from 1
}

// NewCoordinator takes over the groups as they were last saved: members have one session from now to
// show themselves.
func NewCoordinator(opts Options, offsets *Offsets, now int64) *Coordinator {
	if opts.Streams == nil {
		opts.Streams = noStreams{}
	}
	c := &Coordinator{
		opts: opts, offsets: offsets, now: now,
		groups:  map[Key]*group{},
		waiting: map[uint64]*member{},
		guards:  map[txnOf]*TxnGuard{},

		consumers: map[Key]*consumerGroup{}, topics: noTopics{}, view: 1,
		assignors: assignorsOf(opts.Consumer.Assignors),
	}
	for _, k := range slices.SortedFunc(maps.Keys(offsets.groups), Key.Compare) {
		if s := offsets.saved(k); s != nil {
			c.takeOverConsumers(k, s)
		}
		if r := offsets.record(k); r != nil && len(r.Members) > 0 {
			c.takeOver(k, r)
		}
	}
	return c
}

// takeOver makes a saved group with members live.
func (c *Coordinator) takeOver(k Key, r *Record) {
	g := c.stored(k)
	for i := range r.Members {
		m := memberFrom(g, &r.Members[i])
		g.add(m)
		c.touch(m)
	}
	if m := g.members[r.Leader]; m != nil {
		g.leader = m
	}
	g.state = Stable
	g.subscribe()
	c.groups[k] = g
	if len(g.members) > c.opts.MaxSize {
		c.prepareRebalance(g)
	}
}

// advance moves the coordinator's time, which never goes back.
func (c *Coordinator) advance(now int64) { c.now = max(c.now, now) }

// group finds a group, live or stored; nil if there is none. One that is not live is a copy for reading.
func (c *Coordinator) group(k Key) *group {
	if g := c.groups[k]; g != nil {
		if g.deleted {
			return nil
		}
		return g
	}
	return c.stored(k)
}

// stored makes an empty group of what is saved; nil if nothing is. Members that are saved count when
// the coordinator begins; later, they are out of date if the group is not live.
func (c *Coordinator) stored(k Key) *group {
	r := c.offsets.record(k)
	if r == nil {
		return nil
	}
	g := newGroup(k)
	g.generation, g.protocolType, g.protocol, g.since = r.Generation, r.ProtocolType, r.Protocol, r.Time
	return g
}

// exists reports whether an operator would find the group, whatever its type.
func (c *Coordinator) exists(k Key) bool {
	if c.consumers[k] != nil {
		return true
	}
	if g := c.groups[k]; g != nil {
		return !g.deleted
	}
	return c.offsets.exists(k)
}

// taken reports whether the name belongs to a group of a type that is decided elsewhere.
func (c *Coordinator) taken(k Key) bool { return c.opts.Taken != nil && c.opts.Taken(k) }

// create makes the group live if it is not.
func (c *Coordinator) create(k Key) *group {
	g := c.group(k)
	if g == nil {
		g = newGroup(k)
		g.since = c.now
	}
	c.groups[k] = g
	return g
}

// forgetUnused drops a live group of which there is nothing to remember: it never had a generation.
func (c *Coordinator) forgetUnused(g *group) {
	if g.state == Empty && g.generation == 0 && len(g.pending) == 0 && !g.deleted {
		delete(c.groups, g.key)
	}
}

// take hands out the replies that became due.
func (c *Coordinator) take() []Reply {
	out := c.replies
	c.replies = nil
	if invariants.Expensive {
		c.Check()
	}
	return out
}

func (c *Coordinator) reply(token uint64, response any) {
	c.replies = append(c.replies, Reply{token, response})
}

// Changes hands out the commands that came up since the last call, in order. They keep memberships over a
// change of the leader. When they are lost, members find their generation unknown and join again.
func (c *Coordinator) Changes() []Command {
	out := c.changes
	c.changes = nil
	return out
}

// save asks for the group to be journaled as it stands.
func (c *Coordinator) save(g *group) {
	c.changes = append(c.changes, &SaveGroup{Key: g.key, Record: g.record()})
}

// NextDeadline is the Unix ms at which Tick has something to do; math.MaxInt64 if never.
func (c *Coordinator) NextDeadline() int64 {
	if t := c.timers.first(); t != nil {
		return t.at
	}
	return math.MaxInt64
}

// Tick ends what has run out: sessions, join and sync phases.
func (c *Coordinator) Tick(now int64) []Reply {
	c.advance(now)
	for t := c.timers.first(); t != nil && t.at <= c.now; t = c.timers.first() {
		c.timers.stop(t)
		switch t.kind {
		case sessionTimer:
			c.sessionExpired(t.member)
		case pendingTimer:
			delete(t.group.pending, t.pending)
			c.afterExpiry(t.group)
			c.forgetUnused(t.group)
		case joinTimer:
			c.joinPhaseExpired(t.group)
		case syncTimer:
			c.syncPhaseExpired(t.group)
		case consumerSession, consumerRevoke, consumerJoin, consumerSync:
			c.fenceConsumers(t.consumer.group, t.consumer)
		}
	}
	return c.take()
}

// Cancel says that nobody waits for the token any more; it will not be answered. A member whose client
// knows its ID stays as if its answer had been sent: it has a session to come back.
func (c *Coordinator) Cancel(now int64, token uint64) []Reply {
	c.advance(now)
	m := c.waiting[token]
	if m == nil {
		return nil
	}
	delete(c.waiting, token)
	anonymous := m.isNew && !m.knowsID
	if m.joinToken == token {
		m.joinToken = 0
	} else {
		m.syncToken, anonymous = 0, false
	}
	if anonymous {
		c.removeMember(m)
		c.afterLeave(m.group)
	} else {
		c.timers.set(&m.timer, c.now+m.session)
	}
	return c.take()
}

// Resign answers all that wait with the error, in the order of groups and of joining: the shard has another
// leader, or stops. The coordinator is of no use afterwards.
func (c *Coordinator) Resign(err *base.Error) []Reply {
	for _, k := range slices.SortedFunc(maps.Keys(c.groups), Key.Compare) {
		for _, m := range c.groups[k].order {
			c.failJoin(m, m.id, err)
			c.failSync(m, err)
			c.touch(m)
		}
	}
	return c.take()
}

// await notes that the token waits for the member's answer.
func (c *Coordinator) await(token uint64, m *member) {
	invariants.Check(token != 0 && c.waiting[token] == nil, "group %v: token %d waits twice", m.group.key, token)
	c.waiting[token] = m
}

// answerJoin answers the member's waiting join, if there is one.
func (c *Coordinator) answerJoin(m *member, response *JoinResponse) {
	if m.joinToken != 0 {
		delete(c.waiting, m.joinToken)
		c.reply(m.joinToken, response)
	}
	m.joinToken = 0
	m.group.setJoined(m, false)
}

// answerSync answers the member's waiting sync and reports whether there was one.
func (c *Coordinator) answerSync(m *member, response *SyncResponse) bool {
	if m.syncToken == 0 {
		return false
	}
	delete(c.waiting, m.syncToken)
	c.reply(m.syncToken, response)
	m.syncToken = 0
	return true
}

func (c *Coordinator) failJoin(m *member, id string, err *base.Error) {
	c.answerJoin(m, joinFailed(id, err))
}

func (c *Coordinator) failSync(m *member, err *base.Error) bool {
	return c.answerSync(m, &SyncResponse{Err: err})
}

func joinFailed(id string, err *base.Error) *JoinResponse {
	return &JoinResponse{Err: err, MemberID: id, Generation: -1}
}

// Check verifies guarantees 1, 3 and 4 and that every wait has an end, and panics where they do not hold.
func (c *Coordinator) Check() {
	tokens := 0
	for k, g := range c.groups {
		invariants.Check(g.key == k, "group %v is filed under %v", g.key, k)
		g.check()
		for _, m := range g.order {
			invariants.Check(m.joinToken == 0 || m.syncToken == 0, "group %v: member %s waits twice", k, m.id)
			for _, token := range []uint64{m.joinToken, m.syncToken} {
				if token != 0 {
					tokens++
					invariants.Check(c.waiting[token] == m, "group %v: token %d of %s is lost", k, token, m.id)
				}
			}
			waits := m.joinToken != 0 && !m.isNew || m.syncToken != 0
			invariants.Check(waits || m.timer.running(), "group %v: member %s has no deadline", k, m.id)
		}
		for id, p := range g.pending {
			invariants.Check(p.running() && p.pending == id, "group %v: pending member %s has no deadline", k, id)
		}
		invariants.Check((g.state == PreparingRebalance) == g.joinTimer.running(), "group %v: state %s, join timer at %d", k, g.state, g.joinTimer.at)
	}
	for k, g := range c.consumers {
		invariants.Check(g.key == k, "group %v is filed under %v", g.key, k)
		invariants.Check(c.groups[k] == nil, "group %v is both classic and not", k)
		g.check()
	}
	invariants.Check(tokens == len(c.waiting), "%d members wait, %d tokens are known", tokens, len(c.waiting))
	c.timers.check()
}

// unknownMember is the answer to a member the group does not have.
func unknownMember(k Key, id string) *base.Error {
	return base.Errorf(base.CodeUnknownMember, "group %q has no member %q", k.Group, id)
}

// checkName refuses what cannot be a group's name.
func checkName(k Key) *base.Error { return k.Check() }
