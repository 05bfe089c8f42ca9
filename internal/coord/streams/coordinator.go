package streams

import (
	"maps"
	"math"
	"slices"

	"godwit/internal/groupconf"
	"godwit/internal/invariants"
)

// Options are the broker's settings of streams groups.
type Options struct {
	MaxSize  int               // members of a group, group.streams.max.size
	Defaults map[string]string // of group configurations, by their names

	// Configs gives the explicit configuration of a group, which is not written to. nil: there is none.
	Configs func(Key) map[string]string
}

// DefaultOptions are Kafka's.
func DefaultOptions() Options { return Options{MaxSize: math.MaxInt32} }

// Coordinator runs the memberships of all streams groups of one shard, for its leader. It has one owner.
type Coordinator struct {
	opts      Options
	now       int64 // largest time seen, Unix ms
	topics    Topics
	view      uint64 // rises with each new view of the topics, from 1
	live      *State // the journaled state and what is in flight
	volatile  map[Key]*volatile
	deadlines deadlines
	changes   []Command
}

// volatile is what is known of a group that ends with the coordinator.
type volatile struct {
	configured *configured // nil: not looked at yet
	endpoints  int32       // rises when an endpoint changes, or the tasks of a member with one
	shutdown   string      // member that asked for the end of the application; empty: none
	reported   map[string]*reported
}

// reported is what a member said of its changelogs.
type reported struct {
	offsets map[TaskID]int64
	ends    map[TaskID]int64
}

// NewCoordinator takes over the groups of a state: members have one session from now to show themselves.
func NewCoordinator(opts Options, s *State, topics Topics, now int64) *Coordinator {
	c := &Coordinator{
		opts: opts, now: now, topics: topics, view: 1, live: s.clone(), volatile: map[Key]*volatile{},
		deadlines: deadlines{set: map[deadlineKey]*deadline{}},
	}
	for k, g := range c.live.groups {
		session := c.settings(k).Session
		for id, m := range g.members {
			c.deadlines.touch(deadlineKey{k, id, sessionEnd}, now+session)
			c.timeRevocation(k, &m)
		}
	}
	return c
}

// SetTopics replaces the view of the topics. Groups find out with the next heartbeat of any of their members.
func (c *Coordinator) SetTopics(t Topics) {
	c.topics = t
	c.view++
}

// Live is the state with what is in flight; not to be changed, nor kept over the next call.
func (c *Coordinator) Live() *State { return c.live }

// Exists reports whether there is a streams group of the name, or is about to be.
func (c *Coordinator) Exists(k Key) bool { return c.live.Exists(k) }

// Empty reports whether the group is there and has no members.
func (c *Coordinator) Empty(k Key) bool {
	g := c.live.groups[k]
	return g != nil && len(g.members) == 0
}

// Changes hands out the commands that came up since the last call, in order.
func (c *Coordinator) Changes() []Command {
	out := c.changes
	c.changes = nil
	if invariants.Expensive {
		c.Check()
	}
	return out
}

// decide enters a decision.
func (c *Coordinator) decide(cmd Command) {
	c.live.Apply(cmd)
	clear(c.live.dirty) // it is never checkpointed
	c.changes = append(c.changes, cmd)
}

// advance moves the coordinator's time, which never goes back.
func (c *Coordinator) advance(now int64) { c.now = max(c.now, now) }

func (c *Coordinator) settings(k Key) groupconf.Streams {
	var values map[string]string
	if c.opts.Configs != nil {
		values = c.opts.Configs(k)
	}
	return groupconf.ResolveStreams(values, c.opts.Defaults)
}

// of gives what is known of a group beside its state.
func (c *Coordinator) of(k Key) *volatile {
	v := c.volatile[k]
	if v == nil {
		v = &volatile{reported: map[string]*reported{}}
		c.volatile[k] = v
	}
	return v
}

// NextDeadline is the Unix ms at which Tick may have something to do; math.MaxInt64 for never.
func (c *Coordinator) NextDeadline() int64 { return c.deadlines.next() }

// Tick removes members whose sessions have ended or who have not given up tasks in time, and makes first assignments.
func (c *Coordinator) Tick(now int64) {
	c.advance(now)
	for d, ok := c.deadlines.due(c.now); ok; d, ok = c.deadlines.due(c.now) {
		g := c.live.groups[d.Key]
		if g == nil {
			continue
		}
		m, member := g.members[d.member]
		switch d.kind {
		case delayEnd:
			c.assignDelayed(d.Key, g)
		case sessionEnd:
			if member {
				c.remove(d.Key, d.member)
			}
		case revokeEnd:
			if member && m.Status == Unrevoked {
				c.remove(d.Key, d.member)
			}
		}
	}
}

// assignDelayed makes the first assignment of a group that waited for more members. If topics have changed since a member came, its internal
// topics have been made say, that is left to the next heartbeat.
func (c *Coordinator) assignDelayed(k Key, g *group) {
	v := c.volatile[k]
	if len(g.members) == 0 || g.Epoch <= g.AssignmentEpoch || v == nil || v.configured == nil || v.configured.view != c.view || !c.intervalOver(k, g.Head) {
		return
	}
	u := &Update{Key: k, Head: g.Head}
	u.Members = c.assign(u, v, g.list())
	c.decide(u)
}

// intervalOver reports whether enough time has passed since the last assignment.
func (c *Coordinator) intervalOver(k Key, h Head) bool {
	return h.AssignedAt == 0 || c.now >= h.AssignedAt+c.settings(k).AssignmentInterval
}

// remove ends a membership; the group is assigned anew with the next heartbeat of a member that stays.
func (c *Coordinator) remove(k Key, id string) {
	g := c.live.groups[k]
	u := &Update{Key: k, Head: g.Head, Removed: []string{id}}
	u.Epoch++
	if len(g.members) == 1 {
		u.AssignmentEpoch, u.AssignedAt = u.Epoch, 0
	}
	c.decide(u)
	c.forget(k, id)
	if v := c.volatile[k]; v != nil && len(g.members) == 0 {
		v.shutdown = ""
	}
}

// forget drops what is known of a member that is gone.
func (c *Coordinator) forget(k Key, id string) {
	c.deadlines.drop(deadlineKey{k, id, sessionEnd})
	c.deadlines.drop(deadlineKey{k, id, revokeEnd})
	if v := c.volatile[k]; v != nil {
		delete(v.reported, id)
	}
}

// timeRevocation gives a member the time to give up tasks, if it has to.
func (c *Coordinator) timeRevocation(k Key, m *Member) {
	d := deadlineKey{k, m.ID, revokeEnd}
	if m.Status == Unrevoked {
		c.deadlines.touch(d, c.now+int64(m.Rebalance))
	} else {
		c.deadlines.drop(d)
	}
}

// Expire deletes groups without members of which no offsets are kept.
func (c *Coordinator) Expire(hasOffsets func(Key) bool) {
	for _, k := range slices.SortedFunc(maps.Keys(c.live.groups), Key.Compare) {
		if c.Empty(k) && !hasOffsets(k) {
			c.Release(k)
		}
	}
}

// Release deletes a group if it has no members, so that its name can be that of a group of another type. Its offsets stay.
func (c *Coordinator) Release(k Key) {
	if !c.Empty(k) {
		return
	}
	c.decide(&DeleteGroup{k})
	c.deadlines.drop(deadlineKey{Key: k, kind: delayEnd})
	delete(c.volatile, k)
}

// Check verifies the state and that every member has an end to its session, and panics where that does not hold.
func (c *Coordinator) Check() {
	c.live.Check()
	for k, g := range c.live.groups {
		for id, m := range g.members {
			invariants.Check(c.deadlines.runs(deadlineKey{k, id, sessionEnd}), "group %v: member %s has no session", k, id)
			revokes := c.deadlines.runs(deadlineKey{k, id, revokeEnd})
			invariants.Check(revokes == (m.Status == Unrevoked), "group %v: member %s has status %d, deadline to give up tasks: %v", k, id, m.Status, revokes)
		}
	}
	for d, e := range c.deadlines.set {
		invariants.Check(e.queued <= e.end, "group %v: deadline of %s is looked at late", d.Key, d.member)
	}
}
