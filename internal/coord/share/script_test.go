package share

import (
	"fmt"
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

// streamID is readable in a transcript: its first byte is the letter, the second the incarnation.
func streamID(name string, incarnation byte) base.StreamID {
	return base.StreamID{name[0], incarnation}
}

func partitionName(p Partition) string {
	name := string(p.Stream[:1])
	if p.Stream[1] > 0 {
		name += strconv.Itoa(int(p.Stream[1]))
	}
	return fmt.Sprintf("%s/%d", name, p.Index)
}

func partitionNames(list []Partition) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = partitionName(p)
	}
	return "[" + strings.Join(names, " ") + "]"
}

// script is a coordinator with its state, as an engine would run them: changes are applied at once.
type script struct {
	t      *testing.T
	opts   Options
	now    int64
	topics topicMap
	state  *State
	c      *Coordinator
	stored map[string][]byte // checkpointed pairs
	out    *golden.Transcript
}

func newScript(t *testing.T, out *golden.Transcript) func(golden.Command) {
	s := &script{t: t, out: out, opts: DefaultOptions(), now: 1_000, topics: topicMap{}, state: NewState(), stored: map[string][]byte{}}
	s.c = NewCoordinator(s.opts, s.state, s.topics, s.now)
	return func(c golden.Command) {
		s.run(args{c})
		s.journal()
	}
}

type args struct{ golden.Command }

func (a args) key() Key {
	if a.Has("g") {
		return Key{Namespace: "default", Group: a.Values["g"]}
	}
	return Key{Namespace: "default", Group: "g"}
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
		s.c = NewCoordinator(s.opts, s.state, s.topics, s.now)
	case "at":
		s.now = a.Num("t", s.now)
		s.c.Tick(s.now)
	case "topic":
		s.topic(a)
	case "join", "beat", "leave":
		s.heartbeat(a)
	case "effects":
		s.effects(a.key(), a.Has("done"))
	case "config":
		values := map[string]string{}
		for k, v := range a.Values {
			if k != "g" {
				values[k] = v
			}
		}
		s.err(s.c.SetConfig(a.key(), values))
	case "alter":
		s.alter(a)
	case "forget":
		results, err := s.c.DeleteOffsets(s.now, a.key(), a.List("topics"))
		s.results(results, err)
	case "delete":
		s.err(s.c.Delete(s.now, a.key()))
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
	case "lose":
		// What was decided and not journaled is gone with the coordinator.
		s.c.Changes()
		s.c = NewCoordinator(s.opts, s.state, s.topics, s.now)
	default:
		s.t.Fatalf("unknown verb %q", a.Verb)
	}
}

func (s *script) topic(a args) {
	next := topicMap{}
	for k, v := range s.topics {
		next[k] = v
	}
	for name, n := range a.Values {
		count, err := strconv.Atoi(n)
		if err != nil {
			s.t.Fatal(err)
		}
		old, ok := next[name]
		switch {
		case count == 0:
			delete(next, name)
			s.state.Apply(&StreamDeleted{old.ID})
			s.c.StreamDeleted(old.ID)
		case ok:
			old.Partitions = count
			next[name] = old
		default:
			next[name] = Topic{streamID(name, byte(a.Num("again", 0))), name, count}
		}
		if a.Has("again") {
			delete(next, "again")
		}
	}
	s.topics = next
	s.c.SetTopics(next)
}

func (s *script) heartbeat(a args) {
	req := &HeartbeatRequest{Key: a.key(), MemberID: a.Values["m"], Epoch: int32(a.Num("epoch", 0)), ClientID: "c", ClientHost: "/127.0.0.1"}
	if req.Topics = a.List("topics"); a.Has("topics") {
		req.Subscribed = true
	}
	if rack := a.Values["rack"]; a.Has("rack") {
		req.Rack = &rack
	}
	if a.Verb == "leave" {
		req.Epoch = EpochLeave
	}
	out := s.c.Heartbeat(s.now, req)
	switch {
	case out.Err != nil:
		s.err(out.Err)
	case out.Assigned:
		s.out.Say("%s: epoch %d, next in %d ms, assigned %s", out.MemberID, out.Epoch, out.Interval, partitionNames(out.Assignment))
	default:
		s.out.Say("%s: epoch %d, next in %d ms", out.MemberID, out.Epoch, out.Interval)
	}
}

func (s *script) effects(k Key, done bool) {
	var confirmed []QueueVersion
	for _, e := range s.state.Effects(k) {
		s.out.Say("%s", effectText(e))
		confirmed = append(confirmed, QueueVersion{e.Partition, e.Version})
	}
	if done {
		s.c.Confirm(k, confirmed)
	}
}

func effectText(e QueueChange) string {
	if e.Status == Deleting {
		return fmt.Sprintf("delete %s, version %d", partitionName(e.Partition), e.Version)
	}
	kinds := []string{"latest", "earliest", "time", "offset"}
	return fmt.Sprintf("make %s from %s %d, version %d", partitionName(e.Partition), kinds[e.Start.Kind], e.Start.Value, e.Version)
}

// alter sets offsets: at=topic/partition:offset,...
func (s *script) alter(a args) {
	var topics []SetTopicOffsets
	for _, at := range a.List("at") {
		p, offset, _ := strings.Cut(at, ":")
		name, index, _ := strings.Cut(p, "/")
		i, err1 := strconv.Atoi(index)
		start, err2 := strconv.ParseInt(offset, 10, 64)
		if err1 != nil || err2 != nil {
			s.t.Fatalf("bad offset %q", at)
		}
		n := slices.IndexFunc(topics, func(t SetTopicOffsets) bool { return t.Topic == name })
		if n < 0 {
			n, topics = len(topics), append(topics, SetTopicOffsets{Topic: name})
		}
		topics[n].Partitions = append(topics[n].Partitions, SetOffset{int32(i), start})
	}
	results, err := s.c.AlterOffsets(s.now, a.key(), topics)
	s.results(results, err)
}

func (s *script) results(results []TopicResult, err *base.Error) {
	if err != nil {
		s.err(err)
	}
	for _, r := range results {
		s.out.WriteString("  " + r.Topic + "\n  ")
		s.err(r.Err)
		for _, e := range r.Errs {
			s.out.WriteString("  ")
			s.err(e)
		}
	}
}

func (s *script) describe(k Key) {
	d := s.c.Describe(k)
	if d.Err != nil {
		s.out.Say("%s", d.State)
		s.err(d.Err)
		return
	}
	s.out.Say("%s, epoch %d, assignment epoch %d, ready %s", d.State, d.Epoch, d.AssignmentEpoch, partitionNames(s.state.Ready(k)))
	for _, m := range d.Members {
		s.out.Say("%s epoch %d, rack %q, client %s at %s, reads %v, has %s of %s", m.ID, m.Epoch, m.Rack, m.ClientID, m.ClientHost,
			m.Topics, partitionNames(m.Assigned), partitionNames(m.Target))
	}
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
	s.c = NewCoordinator(s.opts, s.state, s.topics, s.now)
}
