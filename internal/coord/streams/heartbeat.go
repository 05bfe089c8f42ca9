package streams

import (
	"fmt"
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/groupconf"
)

// Heartbeat answers StreamsGroupHeartbeat at once: it joins, keeps or ends a membership, and tells a member its epoch and its tasks.
//
// A group's epoch rises when a member comes or goes or changes, when the topics of the topology do, and when the assignor is
// configured otherwise. The first heartbeat after that assigns the group anew, but not sooner than streams.assignment.interval.ms after
// the assignment before; a group that was empty waits for streams.initial.rebalance.delay.ms first.
func (c *Coordinator) Heartbeat(now int64, req *HeartbeatRequest) HeartbeatResponse {
	c.advance(now)
	if err := checkHeartbeat(req); err != nil {
		return HeartbeatResponse{Err: err}
	}
	if req.Epoch < EpochJoin {
		return c.leave(req)
	}
	g := c.live.groups[req.Key]
	if g == nil {
		if req.Epoch != EpochJoin {
			return HeartbeatResponse{Err: notFound(req.Key)}
		}
		g = &group{Head: newHead}
	}
	b := &beat{c: c, req: req, g: g, conf: c.settings(req.Key), u: &Update{Key: req.Key, Head: g.Head}}
	for _, step := range []func() *base.Error{b.find, b.learn, b.configure, b.checkOwned} {
		if err := step(); err != nil {
			return HeartbeatResponse{Err: err}
		}
	}
	return b.run()
}

// beat is one heartbeat of a member that stays or comes.
type beat struct {
	c    *Coordinator
	req  *HeartbeatRequest
	g    *group // before
	conf groupconf.Streams

	old      Member // before; new members have an ID only
	known    bool
	replaced string // member of the same instance whose place it takes; empty: none
	m        Member // after
	topology *Topology
	topics   *configured
	bump     bool // the group's epoch rises
	u        *Update
	out      HeartbeatResponse
}

// find finds the member, and fences it if it is not who it says.
func (b *beat) find() *base.Error {
	req, g := b.req, b.g
	joins := req.Epoch == EpochJoin
	var static *Member
	if req.Instance != nil {
		static = g.static(*req.Instance)
	}
	b.old, b.known = g.members[req.MemberID]
	switch {
	case joins && static == nil && !b.known && len(g.members) >= b.c.opts.MaxSize:
		return base.Errorf(base.CodeGroupFull, "The streams group has reached its maximum capacity of %d members.", b.c.opts.MaxSize)
	case req.Instance == nil && !joins && !b.known:
		return unknownMember(req)
	case req.Instance != nil && !joins:
		if err := checkStatic(static, req); err != nil {
			return err
		}
	case static != nil && static.Epoch != EpochStatic:
		return base.Errorf(base.CodeUnreleasedInstance, "Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.",
			req.MemberID, *req.Instance, static.ID)
	case static != nil:
		b.replaced, b.old, b.known = static.ID, *static, true
		b.old.ID, b.old.Epoch, b.old.Previous = req.MemberID, 0, 0
	}
	if !b.known {
		b.old = Member{ID: req.MemberID, Status: Stable, Rebalance: -1, TopologyEpoch: -1}
	}
	return checkEpoch(&b.old, req)
}

func unknownMember(req *HeartbeatRequest) *base.Error {
	return base.Errorf(base.CodeUnknownMember, "Member %s is not a member of group %s.", req.MemberID, req.Group)
}

// checkStatic fences a static member whose place another has taken.
func checkStatic(static *Member, req *HeartbeatRequest) *base.Error {
	switch {
	case static == nil:
		return base.Errorf(base.CodeUnknownMember, "Instance id %s is unknown.", *req.Instance)
	case static.ID != req.MemberID:
		return base.Errorf(base.CodeFencedInstance, "Static member %s with instance id %s was fenced by member %s.", req.MemberID, *req.Instance, static.ID)
	}
	return nil
}

// checkEpoch fences a member whose epoch is neither its current one nor the one before, which it has if an answer was lost; then it
// must not have more than it was assigned.
func checkEpoch(m *Member, req *HeartbeatRequest) *base.Error {
	switch {
	case req.Epoch == EpochJoin:
		return nil
	case req.Epoch > m.Epoch:
		return base.Errorf(base.CodeFencedMember, "The streams group member has a greater member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.",
			req.Epoch, m.Epoch)
	case req.Epoch < m.Epoch && (req.Epoch != m.Previous || !m.Assigned.holds(req.Owned)):
		return base.Errorf(base.CodeFencedMember, "The streams group member has a smaller member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.",
			req.Epoch, m.Epoch)
	}
	return nil
}

// learn takes over what the member says of itself and of the topology.
func (b *beat) learn() *base.Error {
	b.m = b.old
	b.m.update(b.req)
	if b.req.Instance == nil {
		b.bump = !b.known || !sameMember(b.old, b.m)
	} else {
		b.bump = b.old.TopologyEpoch != b.m.TopologyEpoch || b.old.Rack != b.m.Rack || b.old.Process != b.m.Process || !slices.Equal(b.old.Tags, b.m.Tags)
	}
	b.topology = b.g.topology
	switch t := b.req.Topology; {
	case b.topology == nil && t == nil:
		return base.Errorf(base.CodeInvalidRequest, "Group %s has no topology yet: join it with one.", b.req.Group)
	case b.topology == nil:
		b.topology, b.u.Topology = t, t
	case t == nil:
	case b.topology.Epoch <= t.Epoch && !b.topology.equal(t):
		return base.Errorf(base.CodeInvalidRequest, "Topology updates are not supported yet.")
	}
	if b.g.topology != nil && b.m.TopologyEpoch < b.topology.Epoch {
		b.tell(StaleTopology, "The member's topology epoch %d is behind the group's topology epoch %d.", b.m.TopologyEpoch, b.topology.Epoch)
	}
	return nil
}

func (b *beat) tell(code StatusCode, format string, args ...any) {
	b.out.Statuses = append(b.out.Statuses, MemberStatus{code, fmt.Sprintf(format, args...)})
}

// update takes over what the request says of the member.
func (m *Member) update(req *HeartbeatRequest) {
	for _, f := range []struct{ to, said *string }{{&m.Instance, req.Instance}, {&m.Rack, req.Rack}, {&m.Process, req.Process}} {
		if f.said != nil {
			*f.to = *f.said
		}
	}
	m.ClientID, m.ClientHost = req.ClientID, req.ClientHost
	if req.Rebalance != -1 {
		m.Rebalance = req.Rebalance
	}
	if req.Topology != nil {
		m.TopologyEpoch = req.Topology.Epoch
	}
	if req.Tagged {
		m.Tags = slices.SortedFunc(slices.Values(req.Tags), comparePairs)
	}
	switch {
	case req.Endpoint != nil:
		m.Endpoint = *req.Endpoint
	case req.Epoch == EpochJoin:
		m.Endpoint = Endpoint{}
	}
}

// configure holds the topology against the topics.
func (b *beat) configure() *base.Error {
	v := b.c.volatile[b.req.Key]
	if v != nil && v.configured != nil && v.configured.view == b.c.view {
		b.topics = v.configured
		return nil
	}
	t, err := configure(b.topology, func(name string) (Topic, bool) { return b.c.topics.ByName(b.req.Namespace, name) })
	if err != nil {
		return err
	}
	t.view, b.topics = b.c.view, t
	return nil
}

// checkOwned refuses tasks that there are not.
func (b *beat) checkOwned() *base.Error {
	if b.req.Owned == nil || !b.topics.ready() {
		return nil
	}
	for _, list := range [][]TaskID{b.req.Owned.Active, b.req.Owned.Standby, b.req.Owned.Warmup} {
		for _, id := range list {
			s := b.topics.sub(id.Subtopology)
			switch {
			case s == nil:
				return base.Errorf(base.CodeInvalidRequest, "Subtopology %s does not exist in the topology.", id.Subtopology)
			case id.Partition < 0 || int(id.Partition) >= s.tasks:
				return base.Errorf(base.CodeInvalidRequest, "Task %d for subtopology %s is invalid. Number of tasks for this subtopology: %d", id.Partition, id.Subtopology, s.tasks)
			}
		}
	}
	return nil
}

// run decides. Nothing is refused any more.
func (b *beat) run() HeartbeatResponse {
	c, k, v := b.c, b.req.Key, b.c.of(b.req.Key)
	v.configured = b.topics
	v.report(b.req)
	b.raise()
	b.assign(v)
	before := b.m
	b.m.reconcile(b.u.AssignmentEpoch, b.req.Owned, func() holders { return b.g.holders(b.replaced) })
	if b.replaced != "" {
		b.u.Removed = []string{b.replaced}
		c.forget(k, b.replaced)
	}
	if !b.known || b.replaced != "" || !sameMember(b.old, b.m) {
		b.u.Members = append(b.u.Members, b.m)
	}
	if len(b.u.Members) > 0 || b.u.Head != b.g.Head || b.u.Topology != nil {
		c.decide(b.u)
	}
	c.deadlines.touch(deadlineKey{k, b.m.ID, sessionEnd}, c.now+b.conf.Session)
	if b.replaced != "" || !sameMember(before, b.m) {
		c.timeRevocation(k, &b.m)
	}
	if b.req.Shutdown && v.shutdown == "" {
		v.shutdown = b.req.MemberID
	}
	return b.answer(v)
}

// report notes what a member says of its changelogs.
func (v *volatile) report(req *HeartbeatRequest) {
	if req.Offsets == nil && req.EndOffsets == nil {
		return
	}
	r := v.reported[req.MemberID]
	if r == nil {
		r = &reported{}
		v.reported[req.MemberID] = r
	}
	for _, f := range []struct {
		to   *map[TaskID]int64
		said []TaskOffset
	}{{&r.offsets, req.Offsets}, {&r.ends, req.EndOffsets}} {
		if f.said == nil {
			continue
		}
		*f.to = make(map[TaskID]int64, len(f.said))
		for _, o := range f.said {
			(*f.to)[o.TaskID] = o.Offset
		}
	}
}

// raise raises the group's epoch if something changed that an assignment depends on.
func (b *beat) raise() {
	validated := int32(-1)
	if b.topics.ready() {
		validated = b.topology.Epoch
	}
	standbys := int32(b.conf.Standbys)
	h := &b.u.Head
	if !b.bump && h.Hash == b.topics.hash && h.Validated == validated && h.Standbys == standbys && h.Tags == b.conf.Tags {
		return
	}
	h.Epoch++
	h.Hash, h.Validated, h.Standbys, h.Tags = b.topics.hash, validated, standbys, b.conf.Tags
}

// assign assigns the group anew if that is due.
func (b *beat) assign(v *volatile) {
	delay := deadlineKey{Key: b.req.Key, kind: delayEnd}
	if len(b.g.members) == 0 && b.conf.InitialDelay > 0 && !b.c.deadlines.runs(delay) {
		b.c.deadlines.touch(delay, b.c.now+b.conf.InitialDelay)
	}
	if b.c.deadlines.ended(delay, b.c.now) {
		b.c.deadlines.drop(delay) // this heartbeat comes before the tick
	}
	switch {
	case b.c.deadlines.runs(delay):
		b.tell(AssignmentDelayed, "Assignment delayed due to the configured initial rebalance delay.")
	case b.u.AssignmentEpoch >= b.u.Epoch:
	case !b.c.intervalOver(b.req.Key, b.u.Head):
		b.tell(AssignmentDelayed, "Assignment delayed due to the configured assignment interval.")
	default:
		for _, m := range b.c.assign(b.u, v, b.g.with(&b.m, b.replaced)) {
			if m.ID == b.m.ID {
				b.m = m
			} else {
				b.u.Members = append(b.u.Members, m)
			}
		}
	}
}

// with lists a group's members by ID, with updated in the place of the member of its ID, and without the one that it replaces.
func (g *group) with(updated *Member, replaced string) []Member {
	members := slices.DeleteFunc(g.list(), func(m Member) bool { return m.ID == updated.ID || m.ID == replaced })
	i, _ := slices.BinarySearchFunc(members, updated.ID, func(m Member, id string) int { return strings.Compare(m.ID, id) })
	return slices.Insert(members, i, *updated)
}

// assign computes the targets of all members as of the epoch of u, and returns those members whose target changed. While topics
// are missing nobody has a task.
func (c *Coordinator) assign(u *Update, v *volatile, members []Member) (changed []Member) {
	seats := make([]*seat, len(members))
	for i, m := range members {
		seats[i] = &seat{id: m.ID, process: m.Process, old: m.Assigned}
		if r := v.reported[m.ID]; r != nil {
			seats[i].offsets = r.offsets
		}
	}
	subs := v.configured.subs
	if !v.configured.ready() {
		subs = nil
	}
	assign(seats, subs, int(u.Standbys))
	for i, m := range members {
		if target := seats[i].tasks(); !target.equal(m.Target) {
			m.Target = target
			changed = append(changed, m)
		}
	}
	u.AssignmentEpoch, u.AssignedAt = u.Epoch, c.now
	return changed
}

// answer tells the member what it should know.
func (b *beat) answer(v *volatile) HeartbeatResponse {
	out := &b.out
	out.MemberID, out.Epoch, out.Interval = b.m.ID, b.m.Epoch, b.conf.HeartbeatInterval
	out.OffsetInterval, out.RecoveryLag = b.conf.OffsetInterval, b.conf.RecoveryLag
	changed := !b.old.Assigned.equal(b.m.Assigned)
	if b.req.Epoch == EpochJoin || changed {
		out.Assigned, out.Tasks = true, b.m.Assigned
	}
	if b.old.Endpoint != b.m.Endpoint || changed && b.m.Endpoint != (Endpoint{}) {
		v.endpoints++
	}
	out.EndpointEpoch = v.endpoints
	if v.endpoints != b.req.EndpointEpoch {
		out.Located, out.Endpoints = true, b.c.endpoints(b.req.Key, v.configured)
	}
	if p := b.topics.problem; p != nil {
		out.Statuses, out.Create = append(out.Statuses, *p), b.topics.create
	}
	if v.shutdown != "" {
		b.tell(ShutdownApplication, "Streams group member %s encountered a fatal error and requested a shutdown for the entire application.", v.shutdown)
	}
	b.tellTags()
	return b.out
}

// tellTags names the client tags that the member lacks.
func (b *beat) tellTags() {
	if b.req.Version < 1 || b.conf.Tags == "" {
		return
	}
	var missing []string
	for tag := range strings.SplitSeq(b.conf.Tags, ",") {
		tag = strings.TrimSpace(tag)
		if !slices.ContainsFunc(b.m.Tags, func(p Pair) bool { return p.Key == tag }) {
			missing = append(missing, tag)
		}
	}
	if len(missing) > 0 {
		b.tell(MissingClientTags, "Missing required client tags for rack-aware standby assignment: [%s]. Configure them via 'client.tag.<tagKey>' in your Streams config.",
			strings.Join(missing, ", "))
	}
}

// endpoints lists where the state of which partitions can be asked for.
func (c *Coordinator) endpoints(k Key, topics *configured) (out []EndpointTopics) {
	for _, m := range c.live.groups[k].list() {
		if m.Endpoint == (Endpoint{}) {
			continue
		}
		out = append(out, EndpointTopics{m.Endpoint, c.partitions(k, topics, m.Assigned.running()), c.partitions(k, topics, m.Assigned.Standby)})
	}
	return out
}

// partitions lists what tasks read, which are ordered.
func (c *Coordinator) partitions(k Key, topics *configured, tasks []TaskID) (out []TopicPartitions) {
	for len(tasks) > 0 {
		n := 1
		for n < len(tasks) && tasks[n].Subtopology == tasks[0].Subtopology {
			n++
		}
		if sub := topics.sub(tasks[0].Subtopology); sub != nil {
			for _, name := range sub.sources {
				t, _ := c.topics.ByName(k.Namespace, name)
				at := TopicPartitions{Topic: name}
				for _, id := range tasks[:n] {
					if int(id.Partition) < t.Partitions {
						at.Partitions = append(at.Partitions, id.Partition)
					}
				}
				if len(at.Partitions) > 0 {
					out = append(out, at)
				}
			}
		}
		tasks = tasks[n:]
	}
	return out
}
