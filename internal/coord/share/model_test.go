package share

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

// world drives a coordinator with members that know only what they were answered, over a journal that lags and loses its
// end, and shards that do what they are told late, twice and out of order.
type world struct {
	t       *rapid.T
	opts    Options
	now     int64
	topics  topicMap
	born    byte // incarnation of the topic made last
	state   *State
	c       *Coordinator
	journal []step // written, not yet applied
	members []*client
	sent    []sentEffect
	queues  map[Key]map[Partition]Queue // in the shards of the partitions
	highest map[Key]int32               // epoch of a group, over its lifetime
}

// step is one call's decisions, and what is answered when they are committed.
type step struct {
	commands []Command
	commit   func()
}

type sentEffect struct {
	Key
	QueueChange
}

// client is one member as it sees itself.
type client struct {
	key      Key
	id       string
	topics   []string
	epoch    int32 // 0: is not a member
	assigned []Partition
	full     bool // says everything with the next heartbeat
	waits    bool // for an answer
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, opts: DefaultOptions(), now: 1_000, topics: topicMap{}, state: NewState(),
		queues: map[Key]map[Partition]Queue{}, highest: map[Key]int32{},
	}
	w.opts.MaxSize = rapid.SampledFrom([]int{3, 100}).Draw(t, "size")
	w.opts.Defaults = map[string]string{"share.assignment.interval.ms": rapid.SampledFrom([]string{"0", "1000"}).Draw(t, "interval")}
	w.c = NewCoordinator(w.opts, w.state, w.topics, w.now)
	for i := range 8 {
		c := &client{key: Key{Namespace: "default", Group: "g"}, id: fmt.Sprintf("m%d", i)}
		if i > 5 {
			c.key.Group = "other"
		}
		w.members = append(w.members, c)
	}
	return w
}

// wrote takes what the last call decided.
func (w *world) wrote(commit func()) {
	w.c.Check()
	w.journal = append(w.journal, step{w.c.Changes(), commit})
}

// apply commits a part of what was written.
func (w *world) apply() { w.settle(rapid.IntRange(0, len(w.journal)).Draw(w.t, "entries")) }

func (w *world) settle(n int) {
	for _, s := range w.journal[:n] {
		for _, cmd := range s.commands {
			w.state.Apply(cmd)
			if d, ok := cmd.(*DeleteGroup); ok {
				delete(w.highest, d.Key)
			}
			for k, g := range w.state.groups {
				if g.Epoch < w.highest[k] {
					w.t.Fatalf("group %v: epoch %d after %d", k, g.Epoch, w.highest[k])
				}
				w.highest[k] = g.Epoch
			}
		}
		s.commit()
	}
	w.journal = w.journal[n:]
	w.state.Check()
}

// restart loses the leader, and what was not committed.
func (w *world) restart() {
	w.apply()
	w.journal = nil
	for _, c := range w.members {
		c.full, c.waits = c.full || c.waits, false
	}
	w.c = NewCoordinator(w.opts, w.state, w.topics, w.now)
}

func (w *world) beat() {
	c := rapid.SampledFrom(w.members).Draw(w.t, "member")
	if c.waits {
		return
	}
	if c.epoch == 0 || rapid.IntRange(0, 9).Draw(w.t, "resubscribe") == 0 {
		c.topics = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"t", "u", "v"}), 1, 3, rapid.ID).Draw(w.t, "topics")
		c.full = true
	}
	w.heartbeat(c)
}

func (w *world) heartbeat(c *client) {
	req := &HeartbeatRequest{Key: c.key, MemberID: c.id, Epoch: c.epoch}
	if c.full {
		req.Subscribed, req.Topics = true, c.topics
	}
	c.full = false
	before := w.assignment(c.key)
	out := w.c.Heartbeat(w.now, req)
	if after := w.assignment(c.key); after != before {
		w.audit(c.key)
	}
	c.waits = true
	w.wrote(func() { w.answered(c, &out) })
}

// assignment is the epoch of a group's last assignment.
func (w *world) assignment(k Key) int32 {
	if g := w.c.Live().groups[k]; g != nil {
		return g.AssignmentEpoch
	}
	return -1
}

func (w *world) answered(c *client, out *HeartbeatResponse) {
	c.waits = false
	if out.Err != nil {
		switch out.Err.Code {
		case base.CodeUnknownMember, base.CodeUnknownGroup, base.CodeGroupFull:
			c.epoch, c.assigned = 0, nil
		default:
			w.t.Fatalf("%s at epoch %d: %v", c.id, c.epoch, out.Err)
		}
		return
	}
	if out.Epoch < c.epoch {
		w.t.Fatalf("%s went from epoch %d to %d", c.id, c.epoch, out.Epoch)
	}
	c.epoch = out.Epoch
	if out.Assigned {
		c.assigned = out.Assignment
	}
}

func (w *world) leave() {
	c := rapid.SampledFrom(w.members).Draw(w.t, "member")
	if c.waits || c.epoch == 0 {
		return
	}
	w.c.Heartbeat(w.now, &HeartbeatRequest{Key: c.key, MemberID: c.id, Epoch: EpochLeave})
	c.epoch, c.assigned = 0, nil
	w.wrote(func() {})
}

func (w *world) tick() {
	w.now += rapid.SampledFrom([]int64{1, 500, 1_000, 5_000, 20_000, 45_000}).Draw(w.t, "ms")
	if next := w.c.NextDeadline(); next <= w.now {
		w.c.Tick(w.now)
		w.wrote(func() {})
	}
}

// changeTopics makes, grows or deletes a topic. The state learns of a deletion at its place in the journal.
func (w *world) changeTopics() {
	name := rapid.SampledFrom([]string{"t", "u", "v"}).Draw(w.t, "topic")
	n := rapid.IntRange(0, 7).Draw(w.t, "partitions")
	old, ok := w.topics[name]
	next := maps.Clone(w.topics)
	switch {
	case n == 0 && ok:
		delete(next, name)
	case ok:
		next[name] = Topic{old.ID, name, max(n, old.Partitions)}
	case n > 0:
		w.born++
		next[name] = Topic{streamID(name, w.born), name, n}
	}
	w.topics = next
	w.c.SetTopics(next)
	if n == 0 && ok {
		w.settle(len(w.journal))
		w.state.Apply(&StreamDeleted{old.ID})
		w.c.StreamDeleted(old.ID)
		for _, of := range w.queues {
			maps.DeleteFunc(of, func(p Partition, _ Queue) bool { return p.Stream == old.ID })
		}
		w.sent = slices.DeleteFunc(w.sent, func(e sentEffect) bool { return e.Stream == old.ID })
	}
}

// send has the shards told what is outstanding; again and again.
func (w *world) send() {
	for _, k := range w.state.Outstanding() {
		for _, e := range w.state.Effects(k) {
			w.sent = append(w.sent, sentEffect{k, e})
		}
	}
}

// carryOut does one of the things that shards were told, and has it confirmed or not.
func (w *world) carryOut() {
	if len(w.sent) > 0 {
		w.carry(rapid.IntRange(0, len(w.sent)-1).Draw(w.t, "effect"), rapid.Bool().Draw(w.t, "confirmed"))
	}
}

func (w *world) carry(i int, confirm bool) {
	e := w.sent[i]
	w.sent = slices.Delete(w.sent, i, i+1)
	of := w.queues[e.Key]
	if of == nil {
		of = map[Partition]Queue{}
		w.queues[e.Key] = of
	}
	if e.Version > of[e.Partition].Version {
		of[e.Partition] = e.Queue
	}
	if confirm {
		w.c.Confirm(e.Key, []QueueVersion{{e.Partition, e.Version}})
		w.wrote(func() {})
	}
}

func (w *world) admin() {
	k := rapid.SampledFrom(w.members).Draw(w.t, "group").key
	switch rapid.IntRange(0, 2).Draw(w.t, "request") {
	case 0:
		w.c.Delete(w.now, k)
	case 1:
		w.c.DeleteOffsets(w.now, k, []string{"t", "u"})
	case 2:
		w.c.AlterOffsets(w.now, k, []SetTopicOffsets{{"t", []SetOffset{{0, 5}, {1, -1}}}})
	}
	w.wrote(func() {})
}

// audit checks guarantees 4 and 5 right after an assignment.
func (w *world) audit(k Key) {
	g := w.c.Live().groups[k]
	if g.AssignmentEpoch != g.Epoch || len(g.members) == 0 {
		return
	}
	holders := map[Partition]int{}
	for id, m := range g.members {
		for i, p := range m.Target {
			t, ok := w.topics.ByID(p.Stream)
			q, _ := w.c.Live().Queue(k, p)
			if !ok || !slices.Contains(m.Topics, t.Name) || q.Status != Ready || i > 0 && m.Target[i-1] == p {
				w.t.Fatalf("%s has %v, which it should not", id, p)
			}
			holders[p]++
		}
	}
	for _, name := range []string{"t", "u", "v"} {
		var subscribers []Member
		for _, m := range g.members {
			if slices.Contains(m.Topics, name) {
				subscribers = append(subscribers, m)
			}
		}
		parts := w.c.assignable(k, name)
		if len(subscribers) == 0 || len(parts) == 0 {
			continue
		}
		for _, p := range parts {
			if holders[p] == 0 || holders[p] != holders[parts[0]] {
				w.t.Fatalf("%v has %d members, %v has %d", p, holders[p], parts[0], holders[parts[0]])
			}
		}
	}
	w.auditBalance(g)
}

// auditBalance compares the members if all have the same subscription.
func (w *world) auditBalance(g *group) {
	members := g.list()
	low, high := math.MaxInt, 0
	for _, m := range members {
		if !slices.Equal(m.Topics, members[0].Topics) {
			return
		}
		low, high = min(low, len(m.Target)), max(high, len(m.Target))
	}
	if high-low > 1 {
		w.t.Fatalf("members have from %d to %d partitions", low, high)
	}
}

// end lets everything come to rest: all members beat, those whose leaving was lost are timed out, all is carried out; then
// everything is assigned and told.
func (w *world) end() {
	for range 8 {
		w.c.Tick(w.now)
		w.wrote(func() {})
		w.settle(len(w.journal))
		for w.send(); len(w.sent) > 0; {
			w.carry(0, true)
		}
		w.now += 10_000
		for _, c := range w.members {
			if c.epoch > 0 {
				w.settle(len(w.journal))
				w.heartbeat(c)
			}
		}
	}
	w.settle(len(w.journal))
	for k, of := range w.queues {
		for p, q := range of {
			if s, ok := w.state.Queue(k, p); ok != (q.Status == Initializing) || ok && (s.Status != Ready || s.Version != q.Version) {
				w.t.Fatalf("group %v: queue %v is %+v, the state has %+v", k, p, q, s)
			}
		}
	}
	for k, g := range w.state.groups {
		has := map[Partition]bool{}
		for _, c := range w.members {
			m, member := g.members[c.id]
			if c.key != k || c.epoch == 0 || !member {
				continue
			}
			if c.epoch != g.Epoch || !slices.Equal(c.assigned, m.Target) {
				w.t.Fatalf("%s is at epoch %d of %d with %v of %v", c.id, c.epoch, g.Epoch, c.assigned, m.Target)
			}
			for _, p := range c.assigned {
				has[p] = true
			}
		}
		w.auditEnd(k, g, has)
	}
}

func (w *world) auditEnd(k Key, g *group, has map[Partition]bool) {
	for _, c := range w.members {
		if c.key != k || c.epoch == 0 {
			continue
		}
		for _, name := range c.topics {
			t, ok := w.topics[name]
			for i := range int32(t.Partitions) {
				if p := (Partition{Stream: t.ID, Index: i}); ok && !has[p] {
					w.t.Fatalf("group %v: nobody has %v; %+v", k, p, g)
				}
			}
		}
	}
	w.audit(k)
}

func TestMembershipModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		actions := []func(){
			w.beat, w.beat, w.beat, w.beat, w.beat, w.beat, w.leave, w.tick, w.tick, w.changeTopics, w.send, w.carryOut, w.carryOut, w.carryOut,
			w.admin, w.apply, w.apply, w.apply, w.restart,
		}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(rt, "action")]()
			w.c.Check()
		}
		w.end()
	})
}

// TestAssignor compares assignments with what they were: nobody gives up what the numbers let it keep.
func TestAssignor(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, p := rapid.IntRange(1, 40).Draw(rt, "members"), rapid.IntRange(1, 40).Draw(rt, "partitions")
		parts := make([]Partition, p)
		for i := range parts {
			parts[i].Index = int32(i)
		}
		seats := make([]*seat, n)
		for i := range seats {
			seats[i] = &seat{id: fmt.Sprintf("m%02d", i), topics: []string{"t"}}
			for _, part := range parts {
				if rapid.IntRange(0, 3).Draw(rt, "had") == 0 {
					seats[i].old = append(seats[i].old, part)
				}
			}
		}
		all := func(string) []Partition { return parts }
		assign(seats, all)
		holders := map[Partition]int{}
		low, high := p, 0
		for _, s := range seats {
			low, high = min(low, len(s.parts)), max(high, len(s.parts))
			for i, part := range s.parts {
				if holders[part]++; i > 0 && s.parts[i-1] == part {
					rt.Fatalf("%s has %v twice", s.id, part)
				}
			}
		}
		for _, part := range parts {
			if want := (n + p - 1) / p; holders[part] != want {
				rt.Fatalf("%v has %d members, want %d", part, holders[part], want)
			}
		}
		if high-low > 1 {
			rt.Fatalf("members have from %d to %d partitions", low, high)
		}
		// Once more, with nothing changed: nothing moves.
		again := make([]*seat, n)
		for i, s := range seats {
			again[i] = &seat{id: s.id, topics: s.topics, old: s.parts}
		}
		assign(again, all)
		for i, s := range again {
			if !slices.Equal(s.parts, seats[i].parts) {
				rt.Fatalf("%s had %v and got %v", s.id, seats[i].parts, s.parts)
			}
		}
	})
}

// TestAssignorMovesLittle joins and leaves one by one.
func TestAssignorMovesLittle(t *testing.T) {
	parts := make([]Partition, 100)
	for i := range parts {
		parts[i].Index = int32(i)
	}
	all := func(string) []Partition { return parts }
	var seats []*seat
	for n := 1; n <= 30; n++ {
		var next []*seat
		for _, s := range seats {
			next = append(next, &seat{id: s.id, topics: s.topics, old: s.parts})
		}
		next = append(next, &seat{id: fmt.Sprintf("m%02d", 30-n), topics: []string{"t"}})
		slices.SortFunc(next, func(a, b *seat) int { return int(a.id[1])<<8 + int(a.id[2]) - int(b.id[1])<<8 - int(b.id[2]) })
		assign(next, all)
		moved := 0
		for _, s := range next {
			for _, p := range s.parts {
				if !slices.Contains(s.old, p) {
					moved++
				}
			}
		}
		if n > 1 && moved > 100/n {
			t.Errorf("%d members: %d partitions moved, want at most %d", n, moved, 100/n)
		}
		seats = next
	}
}
