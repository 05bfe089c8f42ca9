package streams

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godwit/internal/base"
	"godwit/internal/golden"
)

// TestScripts runs the commands of each testdata/*.txt and compares the transcript: lines that begin with two spaces are
// what the command above them answered.
func TestScripts(t *testing.T) {
	golden.Scripts(t, newScript)
}

// topicMap is a view of topics in namespace "default"; a change makes a new one.
type topicMap map[string]Topic

func (m topicMap) ByName(namespace, name string) (Topic, bool) {
	t, ok := m[name]
	return t, ok && namespace == "default"
}

func (m topicMap) ByID(id base.StreamID) (Topic, bool) {
	for _, t := range m {
		if t.ID == id {
			return t, true
		}
	}
	return Topic{}, false
}

// with makes, grows or, without partitions, deletes a topic.
func (m topicMap) with(name string, partitions int, born byte) topicMap {
	next := maps.Clone(m)
	old, ok := m[name]
	switch {
	case partitions == 0:
		delete(next, name)
	case ok:
		next[name] = Topic{old.ID, name, partitions}
	default:
		next[name] = Topic{base.StreamID{name[0], name[len(name)-1], born}, name, partitions}
	}
	return next
}

// script is a coordinator with its state, as an engine would run them: changes are applied at once.
type script struct {
	t        *testing.T
	opts     Options
	configs  map[Key]map[string]string
	now      int64
	topics   topicMap
	topology *Topology // of those who join from now on
	state    *State
	c        *Coordinator
	stored   map[string][]byte // checkpointed pairs
	out      *golden.Transcript
}

func newScript(t *testing.T, out *golden.Transcript) func(golden.Command) {
	s := &script{t: t, out: out, opts: DefaultOptions(), configs: map[Key]map[string]string{}, now: 1_000, topics: topicMap{},
		topology: &Topology{}, state: NewState(), stored: map[string][]byte{}}
	s.opts.Configs = func(k Key) map[string]string { return s.configs[k] }
	s.renew()
	return func(c golden.Command) {
		s.run(args{c})
		if c.Has("lost") {
			s.c.Changes() // what was decided is gone with the coordinator
			s.renew()
		}
		s.journal()
	}
}

func (s *script) renew() { s.c = NewCoordinator(s.opts, s.state, s.topics, s.now) }

type args struct{ golden.Command }

func (a args) key() Key { return Key{Namespace: "default", Group: a.Str("g", "g")} }

// text is the value of a word; nil if it is not there.
func (a args) text(key string) *string {
	if v, ok := a.Values[key]; ok {
		return &v
	}
	return nil
}

func (s *script) err(err *base.Error) {
	if err != nil {
		s.out.Say("code %d, %s", err.Code, err.Msg)
		return
	}
	s.out.Say("ok")
}

func (s *script) run(a args) {
	switch a.Verb {
	case "options":
		s.opts.MaxSize = int(a.Num("size", int64(s.opts.MaxSize)))
		s.renew()
	case "config":
		s.configs[a.key()] = a.Values
	case "at":
		s.now = a.Num("t", s.now)
		s.c.Tick(s.now)
	case "topic":
		for _, name := range slices.Sorted(maps.Keys(a.Values)) {
			s.topics = s.topics.with(name, int(a.Num(name, 0)), 0)
		}
		s.c.SetTopics(s.topics)
	case "topology":
		s.topology = &Topology{Epoch: int32(a.Num("epoch", 0))}
	case "sub":
		s.sub(a)
	case "join", "beat", "leave":
		s.heartbeat(a)
	case "commit":
		s.commit(a)
	case "fetch":
		s.err(s.c.CheckFetch(a.key(), a.text("m"), int32(a.Num("epoch", -1))))
	case "reads":
		s.out.Say("%v", s.c.Reads(a.key(), a.Str("topic", "")))
	case "delete":
		s.err(s.c.Delete(a.key()))
	case "release":
		s.c.Release(a.key())
	case "expire":
		s.c.Expire(func(k Key) bool { return slices.Contains(a.List("offsets"), k.Group) })
	case "describe":
		s.describe(a.key())
	case "list":
		for _, l := range s.c.List("default", a.List("states")) {
			s.out.Say("%s: %s", l.Group, l.State)
		}
	case "deadline":
		if d := s.c.NextDeadline(); d == math.MaxInt64 {
			s.out.Say("never")
		} else {
			s.out.Say("%d", d)
		}
	case "restart":
		s.restart()
	default:
		s.t.Fatalf("unknown verb %q", a.Verb)
	}
}

// sub adds a subtopology: sub id=0 from=in,in2 to=r reads=r:3,q logs=c copartition=s0,s1,r0
func (s *script) sub(a args) {
	infos := func(key string) (out []TopicInfo) {
		for _, text := range a.List(key) {
			name, n, _ := strings.Cut(text, ":")
			count, _ := strconv.Atoi(n)
			out = append(out, TopicInfo{Name: name, Partitions: int32(count)})
		}
		return out
	}
	sub := Subtopology{ID: a.Str("id", "0"), Sources: a.List("from"), Sinks: a.List("to"), Repartitions: infos("reads"), Changelogs: infos("logs")}
	if list := a.List("copartition"); list != nil {
		var c Copartition
		for _, text := range list {
			n := int16(golden.Number(text[1:]))
			if text[0] == 's' {
				c.Sources = append(c.Sources, n)
			} else {
				c.Repartitions = append(c.Repartitions, n)
			}
		}
		sub.Copartitions = []Copartition{c}
	}
	s.topology = &Topology{s.topology.Epoch, append(slices.Clone(s.topology.Subtopologies), sub)}
}

// parseTasks reads 0_1,1_0, in any order.
func parseTasks(texts []string) (out []TaskID) {
	for _, text := range texts {
		name, n, _ := strings.Cut(text, "_")
		out = append(out, TaskID{name, int32(golden.Number(n))})
	}
	slices.SortFunc(out, compareTasks)
	return out
}

func (s *script) heartbeat(a args) {
	req := &HeartbeatRequest{Key: a.key(), MemberID: a.Str("m", ""), Epoch: int32(a.Num("epoch", 0)), EndpointEpoch: int32(a.Num("endpoints", 0)),
		Instance: a.text("instance"), Rack: a.text("rack"), Process: a.text("process"), Rebalance: -1, Shutdown: a.Has("shutdown"),
		Regex: a.Has("regex"), Incomplete: a.Has("incomplete"), Version: int16(a.Num("version", 1)), ClientID: a.Str("client", "c"), ClientHost: "/127.0.0.1"}
	switch {
	case a.Verb == "leave":
		req.Epoch = int32(a.Num("epoch", int64(EpochLeave)))
	case a.Verb == "join":
		req.Rebalance, req.Topology, req.Owned = int32(a.Num("rebalance", 60_000)), s.topology, &Owned{}
		if req.Process == nil {
			process := "p-" + req.MemberID
			req.Process = &process
		}
	}
	if a.Has("owned") || a.Has("standby") || a.Has("warmup") {
		req.Owned = &Owned{parseTasks(a.List("owned")), parseTasks(a.List("standby")), parseTasks(a.List("warmup"))}
	}
	if a.Has("offsets") {
		req.Offsets = []TaskOffset{}
		for _, text := range a.List("offsets") {
			task, n, _ := strings.Cut(text, ":")
			req.Offsets = append(req.Offsets, TaskOffset{parseTasks([]string{task})[0], golden.Number(n)})
		}
	}
	if host, ok := a.Values["endpoint"]; ok {
		req.Endpoint = &Endpoint{host, 9_000}
	}
	if a.Has("tags") {
		req.Tagged = true
		for _, text := range a.List("tags") {
			key, value, _ := strings.Cut(text, ":")
			req.Tags = append(req.Tags, Pair{key, value})
		}
	}
	s.answer(s.c.Heartbeat(s.now, req))
}

func (s *script) answer(out HeartbeatResponse) {
	if out.Err != nil {
		s.err(out.Err)
		return
	}
	line := fmt.Sprintf("%s: epoch %d", out.MemberID, out.Epoch)
	if out.Interval > 0 {
		line += fmt.Sprintf(", next in %d ms", out.Interval)
	}
	if out.Assigned {
		line += ", tasks " + tasksText(out.Tasks)
	}
	s.out.Say("%s", line)
	for _, st := range out.Statuses {
		s.out.Say("  status %d: %s", st.Code, st.Detail)
	}
	for _, t := range out.Create {
		s.out.Say("  create %s with %d partitions, %d replicas", t.Name, t.Partitions, t.Replicas)
	}
	if out.Located {
		s.out.Say("  endpoints, epoch %d", out.EndpointEpoch)
		for _, e := range out.Endpoints {
			s.out.Say("    %s:%d active %v standby %v", e.Host, e.Port, e.Active, e.Standby)
		}
	}
}

func tasksText(t Tasks) string {
	active, standby := make([]string, len(t.Active)), make([]string, len(t.Standby))
	for i, a := range t.Active {
		active[i] = fmt.Sprintf("%s_%d", a.Subtopology, a.Partition)
	}
	for i, id := range t.Standby {
		standby[i] = fmt.Sprintf("%s_%d", id.Subtopology, id.Partition)
	}
	out := "[" + strings.Join(active, " ") + "]"
	if len(standby) > 0 {
		out += " standby [" + strings.Join(standby, " ") + "]"
	}
	return out
}

// commit checks a commit of topic/partition,...
func (s *script) commit(a args) {
	req := &CommitCheck{Key: a.key(), MemberID: a.Str("m", ""), Epoch: int32(a.Num("epoch", -1)), Transactional: a.Has("txn"), Classic: a.Has("classic")}
	req.Anonymous = req.MemberID == "" && req.Epoch < 0
	for _, text := range a.List("at") {
		name, n, _ := strings.Cut(text, "/")
		req.Partitions = append(req.Partitions, Partition{Stream: s.topics[name].ID, Index: int32(golden.Number(n))})
	}
	s.err(s.c.CheckCommit(req))
}

func (s *script) describe(k Key) {
	d := s.c.Describe(k)
	if d.Err != nil {
		s.out.Say("%s", d.State)
		s.err(d.Err)
		return
	}
	s.out.Say("%s, epoch %d, assignment epoch %d, topology %d", d.State, d.Epoch, d.AssignmentEpoch, d.Topology.Epoch)
	for _, sub := range d.Topology.Subtopologies {
		s.out.Say("  %s reads %v %v, writes %v, keeps %v", sub.ID, sub.Sources, infosText(sub.Repartitions), sub.Sinks, infosText(sub.Changelogs))
	}
	for _, m := range d.Members {
		s.out.Say("%s epoch %d, status %d, has %s, gives up %s, target %s, offsets %v", m.ID, m.Epoch, m.Status,
			tasksText(m.Assigned), tasksText(m.Revoking), tasksText(m.Target), m.Offsets)
	}
}

func infosText(list []TopicInfo) (out []string) {
	for _, t := range list {
		out = append(out, fmt.Sprintf("%s:%d", t.Name, t.Partitions))
	}
	return out
}

// journal applies what was decided, by way of its bytes.
func (s *script) journal() {
	for _, c := range s.c.Changes() {
		back, err := DecodeCommand(AppendCommand(nil, c))
		if err != nil {
			s.t.Fatal(err)
		}
		s.state.Apply(back)
	}
	s.c.Check()
	s.state.Check()
	if !s.state.equal(s.c.Live()) {
		s.t.Fatalf("the coordinator's copy differs from the state after\n%s", s.out.String())
	}
}

// restart goes by way of a checkpoint.
func (s *script) restart() {
	s.state.Checkpoint(func(k, v []byte) {
		if v == nil {
			delete(s.stored, string(k))
			return
		}
		s.stored[string(k)] = v
	})
	back := NewState()
	for k, v := range s.stored {
		if err := back.Restore([]byte(k), v); err != nil {
			s.t.Fatal(err)
		}
	}
	if !back.equal(s.state) {
		s.t.Fatalf("the state came back otherwise after\n%s", s.out.String())
	}
	s.state = back
	s.renew()
}
