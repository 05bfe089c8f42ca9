package share

import (
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"

	"godwit/internal/base"
	"godwit/internal/groupconf"
	"godwit/internal/invariants"
)

// Options are the broker's settings of share groups.
type Options struct {
	MaxSize  int               // members of a group, group.share.max.size
	Defaults map[string]string // of group configurations, by their names
}

// DefaultOptions are Kafka's.
func DefaultOptions() Options { return Options{MaxSize: 200} }

// Coordinator runs the memberships of all share groups of one shard, for its leader. It has one owner.
type Coordinator struct {
	opts      Options
	now       int64 // largest time seen, Unix ms
	topics    Topics
	view      uint64           // rises with each new view of the topics
	live      *State           // the journaled state and what is in flight
	checked   map[Key]uint64   // the view at which a group's topics were last looked at
	unsettled map[Key]struct{} // groups that may have a ready queue that nobody is assigned
	sessions  sessions
	changes   []Command
}

// NewCoordinator takes over the groups of a state: members have one session from now to show themselves.
func NewCoordinator(opts Options, s *State, topics Topics, now int64) *Coordinator {
	c := &Coordinator{
		opts: opts, now: now, topics: topics, view: 1, live: s.clone(), checked: map[Key]uint64{}, unsettled: map[Key]struct{}{},
		sessions: sessions{members: map[memberKey]*session{}},
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.live.groups), Key.Compare) {
		c.unsettled[k] = struct{}{}
		session := c.settings(k).Session
		for _, m := range c.live.groups[k].list() {
			c.sessions.touch(memberKey{k, m.ID}, now+session)
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

// Exists reports whether there is a share group of the name, or is about to be.
func (c *Coordinator) Exists(k Key) bool { return c.live.Exists(k) }

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

// StreamDeleted notes that the stream is gone and the state knows it: the command is in the journal already.
func (c *Coordinator) StreamDeleted(id base.StreamID) {
	c.live.Apply(&StreamDeleted{id})
	clear(c.live.dirty)
}

// Confirm notes that effects have been carried out.
func (c *Coordinator) Confirm(k Key, done []QueueVersion) {
	if len(done) > 0 {
		c.decide(&ConfirmQueues{k, done})
		c.unsettled[k] = struct{}{}
	}
}

// SetConfig replaces the configuration of a group, which need not exist, or be a share group. values are valid.
func (c *Coordinator) SetConfig(k Key, values map[string]string) *base.Error {
	if k.Group == "" {
		return base.Errorf(base.CodeInvalidRequest, "Group name can't be empty.")
	}
	if !maps.Equal(c.live.Config(k), values) {
		c.decide(&SetConfig{k, values})
	}
	return nil
}

// advance moves the coordinator's time, which never goes back.
func (c *Coordinator) advance(now int64) { c.now = max(c.now, now) }

func (c *Coordinator) settings(k Key) groupconf.Share {
	return groupconf.ResolveShare(c.live.Config(k), c.opts.Defaults)
}

// NextDeadline is the Unix ms at which Tick may have something to do; math.MaxInt64 for never.
func (c *Coordinator) NextDeadline() int64 { return c.sessions.next() }

// Tick removes the members whose sessions have ended.
func (c *Coordinator) Tick(now int64) {
	c.advance(now)
	ended := map[Key][]string{}
	for m, ok := c.sessions.due(c.now); ok; m, ok = c.sessions.due(c.now) {
		ended[m.Key] = append(ended[m.Key], m.member)
	}
	for _, k := range slices.SortedFunc(maps.Keys(ended), Key.Compare) {
		slices.Sort(ended[k])
		c.remove(k, ended[k])
	}
}

// remove ends memberships; the group is assigned anew with the next heartbeat of a member that stays.
func (c *Coordinator) remove(k Key, ids []string) {
	g := c.live.groups[k]
	left := slices.DeleteFunc(g.list(), func(m Member) bool { return slices.Contains(ids, m.ID) })
	u := &Update{Key: k, Head: g.Head, Removed: ids}
	u.Epoch, u.Hash = g.Epoch+1, hashTopics(c.subscribed(k, left))
	if len(left) == 0 {
		u.AssignmentEpoch, u.AssignedAt = u.Epoch, 0
	}
	for _, id := range ids {
		c.sessions.drop(memberKey{k, id})
	}
	c.decide(u)
}

// version is that of a new wish for the queues of a group.
func (c *Coordinator) version(k Key) int64 {
	v := c.now
	for _, of := range c.live.queues[k] {
		for _, q := range of {
			v = max(v, q.Version+1)
		}
	}
	return v
}

// subscribed lists the topics that members subscribe to and that there are, by name.
func (c *Coordinator) subscribed(k Key, members []Member) (out []Topic) {
	names := map[string]struct{}{}
	for i := range members {
		for _, t := range members[i].Topics {
			names[t] = struct{}{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if t, ok := c.topics.ByName(k.Namespace, name); ok {
			out = append(out, t)
		}
	}
	return out
}

// hashTopics tells one state of the subscribed topics from another; 0 for none.
func hashTopics(topics []Topic) uint64 {
	if len(topics) == 0 {
		return 0
	}
	h := fnv.New64a()
	for _, t := range topics {
		h.Write(t.ID[:])
		io.WriteString(h, t.Name+"\x00"+strconv.Itoa(t.Partitions)+"\x00")
	}
	return h.Sum64()
}

// Check verifies the state and that sessions are those of members, and panics where that does not hold.
func (c *Coordinator) Check() {
	c.live.Check()
	members := 0
	for k, g := range c.live.groups {
		members += len(g.members)
		for id := range g.members {
			invariants.Check(c.sessions.members[memberKey{k, id}] != nil, "group %v: member %s has no session", k, id)
		}
	}
	invariants.Check(members == len(c.sessions.members), "%d members, %d sessions", members, len(c.sessions.members))
	for m, s := range c.sessions.members {
		invariants.Check(s.queued <= s.end, "group %v: session of %s is looked at late", m.Key, m.member)
	}
}
