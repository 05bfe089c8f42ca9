package streams

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

// world drives a coordinator with members that know only what they were answered and give up tasks late, over a journal that lags and
// loses its end.
type world struct {
	t       *rapid.T
	opts    Options
	configs map[string]string
	now     int64
	topics  topicMap
	born    byte // incarnation of the topic made last
	state   *State
	c       *Coordinator
	journal []written // written, not yet applied
	members []*client
	made    int // IDs given to clients
	highest map[Key]int32
}

// written is one call's decisions, and what is answered when they are committed.
type written struct {
	commands []Command
	commit   func()
}

// client is one member as it sees itself.
type client struct {
	key      Key
	id       string
	process  string
	instance *string
	epoch    int32 // 0: is not a member
	told     Tasks // its assignment
	active   map[TaskID]struct{}
	standby  map[TaskID]struct{}
	waits    bool // for an answer
}

var modelTopology = &Topology{Subtopologies: []Subtopology{
	{ID: "0", Sources: []string{"t"}, Sinks: []string{"r"}},
	{ID: "1", Sources: []string{"u"}, Repartitions: []TopicInfo{{Name: "r"}}, Changelogs: []TopicInfo{{Name: "c"}}},
}}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, opts: DefaultOptions(), now: 1_000, topics: topicMap{}, state: NewState(), highest: map[Key]int32{}, configs: map[string]string{
		"streams.assignment.interval.ms":     rapid.SampledFrom([]string{"0", "1000"}).Draw(t, "interval"),
		"streams.initial.rebalance.delay.ms": rapid.SampledFrom([]string{"0", "3000"}).Draw(t, "delay"),
	}}
	w.opts.MaxSize = rapid.SampledFrom([]int{3, 100}).Draw(t, "size")
	w.opts.Configs = func(Key) map[string]string { return w.configs }
	w.c = NewCoordinator(w.opts, w.state, w.topics, w.now)
	for i := range 7 {
		c := &client{key: Key{Namespace: "default", Group: "g"}, process: fmt.Sprintf("p%d", i/2)}
		if i > 4 {
			c.key.Group = "other"
		}
		if i%3 == 0 {
			instance := fmt.Sprintf("i%d", i)
			c.instance = &instance
		}
		w.reset(c)
		w.members = append(w.members, c)
	}
	return w
}

// reset makes a client a new one.
func (w *world) reset(c *client) {
	w.made++
	c.id, c.epoch, c.told = fmt.Sprintf("m%d", w.made), 0, Tasks{}
	c.active, c.standby = map[TaskID]struct{}{}, map[TaskID]struct{}{}
}

// wrote takes what the last call decided.
func (w *world) wrote(commit func()) {
	w.c.Check()
	w.journal = append(w.journal, written{w.c.Changes(), commit})
}

// apply commits a part of what was written.
func (w *world) apply() { w.settle(rapid.IntRange(0, len(w.journal)).Draw(w.t, "entries")) }

func (w *world) settle(n int) {
	for _, s := range w.journal[:n] {
		for _, cmd := range s.commands {
			back, err := DecodeCommand(AppendCommand(nil, cmd))
			if err != nil {
				w.t.Fatal(err)
			}
			w.state.Apply(back)
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
		w.state.Check()
		w.exclusive()
	}
	w.journal = w.journal[n:]
}

// exclusive checks that no two members run a task, and no two members of a process have its state open. Who is no member any more may
// run on until it finds out.
func (w *world) exclusive() {
	runs, open := map[Key]map[TaskID]*client{}, map[string]*client{}
	for _, c := range w.members {
		g := w.state.groups[c.key]
		if g == nil || c.epoch == 0 {
			continue
		}
		if m, ok := g.members[c.id]; !ok || m.Epoch < 0 {
			continue
		}
		if runs[c.key] == nil {
			runs[c.key] = map[TaskID]*client{}
		}
		for id := range c.active {
			if other := runs[c.key][id]; other != nil {
				w.t.Fatalf("%s and %s run %v: %+v %+v", other.id, c.id, id, g.members[other.id], g.members[c.id])
			}
			runs[c.key][id] = c
		}
		for _, of := range []map[TaskID]struct{}{c.active, c.standby} {
			for id := range of {
				name := fmt.Sprintf("%v %s %v", c.key, c.process, id)
				if other := open[name]; other != nil && other != c {
					w.t.Fatalf("%s and %s of process %s have %v open", other.id, c.id, c.process, id)
				}
				open[name] = c
			}
		}
	}
}

// restart loses the leader, and what was not committed.
func (w *world) restart() {
	w.apply()
	w.journal = nil
	for _, c := range w.members {
		c.waits = false
	}
	w.c = NewCoordinator(w.opts, w.state, w.topics, w.now)
}

func (w *world) beat() {
	c := rapid.SampledFrom(w.members).Draw(w.t, "member")
	if !c.waits {
		w.heartbeat(c, rapid.Bool().Draw(w.t, "says"))
	}
}

func (w *world) heartbeat(c *client, says bool) {
	req := &HeartbeatRequest{Key: c.key, MemberID: c.id, Epoch: c.epoch, Instance: c.instance, Rebalance: -1}
	if c.epoch == 0 {
		req.Topology, req.Rebalance, req.Process = modelTopology, 20_000, &c.process
	}
	if says || c.epoch == 0 {
		req.Owned = &Owned{Active: sorted(c.active), Standby: sorted(c.standby)}
	}
	before := w.assignment(c.key)
	out := w.c.Heartbeat(w.now, req)
	if w.assignment(c.key) != before {
		w.audit(c.key)
	}
	c.waits = true
	w.wrote(func() { w.answered(c, &out) })
}

func sorted(of map[TaskID]struct{}) []TaskID {
	return slices.SortedFunc(maps.Keys(of), compareTasks)
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
		case base.CodeUnknownMember, base.CodeUnknownGroup, base.CodeGroupFull, base.CodeFencedMember, base.CodeFencedInstance, base.CodeUnreleasedInstance,
			base.CodeInvalidRequest: // it has tasks of topics that were made anew with fewer partitions
			w.reset(c)
		default:
			w.t.Fatalf("%s at epoch %d: %v", c.id, c.epoch, out.Err)
		}
		return
	}
	if out.Epoch < c.epoch {
		w.t.Fatalf("%s went from epoch %d to %d", c.id, c.epoch, out.Epoch)
	}
	c.epoch = out.Epoch
	if !out.Assigned {
		return
	}
	c.told = out.Tasks
	for _, t := range out.Tasks.Active {
		delete(c.standby, t.TaskID)
		c.active[t.TaskID] = struct{}{}
	}
	for _, id := range out.Tasks.Standby {
		if _, runs := c.active[id]; !runs {
			c.standby[id] = struct{}{}
		}
	}
}

// giveUp lets a member drop what it is not assigned any more; what it is to keep as standby it keeps.
func (w *world) giveUp() { w.drop(rapid.SampledFrom(w.members).Draw(w.t, "member")) }

func (w *world) drop(c *client) {
	for id := range c.active {
		if _, ok := find(c.told.Active, id); !ok {
			delete(c.active, id)
			if has(c.told.Standby, id) {
				c.standby[id] = struct{}{}
			}
		}
	}
	maps.DeleteFunc(c.standby, func(id TaskID, _ struct{}) bool { return !has(c.told.Standby, id) })
}

func (w *world) leave() {
	c := rapid.SampledFrom(w.members).Draw(w.t, "member")
	if c.waits || c.epoch == 0 {
		return
	}
	epoch := EpochLeave
	if c.instance != nil && rapid.Bool().Draw(w.t, "comes back") {
		epoch = EpochStatic
	}
	w.c.Heartbeat(w.now, &HeartbeatRequest{Key: c.key, MemberID: c.id, Epoch: epoch, Instance: c.instance})
	w.reset(c)
	w.wrote(func() {})
}

func (w *world) tick() {
	w.now += rapid.SampledFrom([]int64{1, 500, 1_000, 5_000, 20_000, 45_000}).Draw(w.t, "ms")
	if w.c.NextDeadline() <= w.now {
		w.c.Tick(w.now)
		w.wrote(func() {})
	}
}

// changeTopics makes, grows or deletes a topic.
func (w *world) changeTopics() {
	name := rapid.SampledFrom([]string{"t", "u", "r", "c"}).Draw(w.t, "topic")
	n := rapid.IntRange(0, 5).Draw(w.t, "partitions")
	w.born++
	if n > 0 {
		n = max(n, w.topics[name].Partitions)
	}
	w.topics = w.topics.with(name, n, w.born)
	w.c.SetTopics(w.topics)
}

// complete makes topics as a broker does, so that they fit.
func (w *world) complete() {
	n := max(w.topics["t"].Partitions, 1)
	for name, count := range map[string]int{"t": n, "u": n, "r": n, "c": n} {
		w.born++
		if w.topics[name].Partitions > count {
			w.topics = w.topics.with(name, 0, w.born)
		}
		w.topics = w.topics.with(name, count, w.born)
	}
	w.c.SetTopics(w.topics)
}

func (w *world) configure() {
	w.configs = maps.Clone(w.configs)
	w.configs["streams.num.standby.replicas"] = strconv.Itoa(rapid.IntRange(0, 2).Draw(w.t, "standbys"))
}

func (w *world) admin() {
	k := rapid.SampledFrom(w.members).Draw(w.t, "group").key
	switch rapid.IntRange(0, 2).Draw(w.t, "request") {
	case 0:
		w.c.Delete(k)
	case 1:
		w.c.Expire(func(Key) bool { return false })
	case 2:
		w.c.Describe(k)
	}
	w.wrote(func() {})
}

// audit checks guarantees 4 and 5 of the targets right after an assignment.
func (w *world) audit(k Key) {
	g := w.c.Live().groups[k]
	if g == nil || len(g.members) == 0 || g.AssignmentEpoch != g.Epoch {
		return
	}
	want, running := map[TaskID]bool{}, map[TaskID]string{}
	conf := w.c.of(k).configured
	if conf.ready() {
		for _, s := range conf.subs {
			for n := range s.tasks {
				want[TaskID{s.id, int32(n)}] = true
			}
		}
	}
	open := map[string]string{}
	for id, m := range g.members {
		for _, t := range m.Target.Active {
			if !want[t.TaskID] || running[t.TaskID] != "" {
				w.t.Fatalf("%s is to run %v, which it should not", id, t.TaskID)
			}
			running[t.TaskID] = id
			open[m.Process+" "+fmt.Sprint(t.TaskID)] = id
		}
	}
	for id, m := range g.members {
		for _, t := range m.Target.Standby {
			name := m.Process + " " + fmt.Sprint(t)
			if other := open[name]; other != "" || !want[t] || t.Subtopology != "1" {
				w.t.Fatalf("%s is to have %v as standby, and %s has it on the same process", id, t, other)
			}
			open[name] = id
		}
	}
	if len(running) != len(want) {
		w.t.Fatalf("%d of %d tasks are to run", len(running), len(want))
	}
}

// end lets everything come to rest: topics fit, all members beat and give up what they should; then everything is assigned and told.
func (w *world) end() {
	w.complete()
	for range 12 {
		w.now += 5_000
		w.c.Tick(w.now)
		w.wrote(func() {})
		w.settle(len(w.journal))
		for _, c := range w.members {
			w.drop(c)
			if c.epoch > 0 {
				w.heartbeat(c, true)
				w.settle(len(w.journal))
			}
		}
	}
	for k, g := range w.state.groups {
		if s := g.state(); s != GroupStable && s != GroupEmpty {
			w.t.Fatalf("group %v is %s in the end: %+v", k, s, g)
		}
		for _, c := range w.members {
			m, member := g.members[c.id]
			if c.key != k || c.epoch == 0 || !member {
				continue
			}
			active := make([]TaskID, len(m.Target.Active))
			for i, t := range m.Target.Active {
				active[i] = t.TaskID
			}
			if c.epoch != g.Epoch || !slices.Equal(sorted(c.active), active) || !slices.Equal(sorted(c.standby), m.Target.Standby) {
				w.t.Fatalf("%s is at epoch %d of %d with %v and %v of %+v", c.id, c.epoch, g.Epoch, c.active, c.standby, m.Target)
			}
		}
		w.audit(k)
	}
}

func TestMembershipModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		actions := []func(){
			w.beat, w.beat, w.beat, w.beat, w.beat, w.beat, w.leave, w.tick, w.tick, w.changeTopics, w.complete, w.complete, w.complete, w.configure,
			w.giveUp, w.giveUp, w.giveUp, w.admin, w.apply, w.apply, w.apply, w.restart,
		}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(rt, "action")]()
			w.c.Check()
		}
		w.end()
	})
}
