package txn

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/golden"
)

// TestScripts runs the commands of each testdata/*.txt and compares the transcript.
func TestScripts(t *testing.T) { golden.Scripts(t, newScript) }

// script is a coordinator with its state, as an engine would run them: changes are applied at once.
type script struct {
	t      *testing.T
	opts   Options
	now    int64
	fresh  int64 // producer ID to be given out next
	state  *State
	c      *Coordinator
	stored map[string][]byte // checkpointed pairs
	out    *golden.Transcript
}

func newScript(t *testing.T, out *golden.Transcript) func(golden.Command) {
	s := &script{t: t, out: out, opts: DefaultOptions(), now: 1_000, fresh: 100, state: NewState(), stored: map[string][]byte{}}
	s.c = NewCoordinator(s.opts, s.state, s.now)
	return func(c golden.Command) {
		s.run(args{c})
		s.journal()
	}
}

type args struct{ golden.Command }

func (a args) key() Key { return Key{"default", a.Str("id", "tx")} }

// partition reads a letter for the stream and an index, such as a/0.
func partition(name string) Partition {
	letter, index, _ := strings.Cut(name, "/")
	return Partition{Stream: base.StreamID{letter[0]}, Index: int32(golden.Number(index))}
}

func (a args) partitions() (out []Partition) {
	for _, name := range a.List("p") {
		out = append(out, partition(name))
	}
	return out
}

func partitionText(p Partition) string { return fmt.Sprintf("%c/%d", p.Stream[0], p.Index) }

func texts(list []Partition) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = partitionText(p)
	}
	return "[" + strings.Join(names, " ") + "]"
}

// serial is that of the last ending.
func (t *txn) serial() int64 {
	if t == nil {
		return 0
	}
	return t.Serial
}

func (a args) joining() Joining {
	switch {
	case a.Has("verify"):
		return Verify
	case a.Has("implicit"):
		return Implicit
	}
	return Add
}

func (s *script) err(err error) {
	if err == nil {
		s.out.Say("ok")
		return
	}
	s.out.Say("code %d, %v", base.CodeOf(err), err)
}

// producer shows what somebody was given.
func (s *script) producer(id int64, epoch int16, err *base.Error, needs bool) {
	switch {
	case err != nil:
		s.err(err)
	case needs:
		s.out.Say("needs a producer ID")
	default:
		s.out.Say("producer %d, epoch %d", id, epoch)
	}
}

// takeFresh is a new producer ID, unless the command says "dry"; used says whether it was taken.
func (s *script) takeFresh(a args) *int64 {
	if a.Has("dry") {
		return nil
	}
	id := s.fresh
	return &id
}

func (s *script) run(a args) {
	pid, epoch := a.Num("pid", -1), int16(a.Num("epoch", -1))
	switch a.Verb {
	case "options":
		s.opts.Expiry = time.Duration(a.Num("expiry", s.opts.Expiry.Milliseconds())) * time.Millisecond
		s.opts.MaxParticipants = int(a.Num("participants", int64(s.opts.MaxParticipants)))
		s.c = NewCoordinator(s.opts, s.state, s.now)
	case "at":
		s.now = a.Num("t", s.now)
		s.c.Tick(s.now)
	case "init":
		req := &InitRequest{Key: a.key(), TimeoutMs: int32(a.Num("timeout", 60_000)), ProducerID: pid, Epoch: epoch, Fresh: s.takeFresh(a), TwoPhase: a.Has("2pc"), Keep: a.Has("keep")}
		r := s.c.InitProducerID(s.now, req)
		if s.producer(r.ProducerID, r.Epoch, r.Err, r.NeedsID); r.ProducerID == s.fresh {
			s.fresh++
		}
	case "add":
		for i, err := range s.c.AddPartitions(s.now, &AddPartitionsRequest{a.key(), pid, epoch, a.partitions(), a.joining()}) {
			s.out.WriteString("  " + partitionText(a.partitions()[i]))
			s.err(err)
		}
	case "offsets":
		if err := s.c.AddOffsets(s.now, &AddOffsetsRequest{a.key(), pid, epoch, a.Str("g", ""), a.joining()}); err != nil {
			s.err(err)
		} else {
			s.out.Say("ok")
		}
	case "end":
		r := s.c.End(s.now, &EndRequest{a.key(), pid, epoch, a.Has("commit"), int16(a.Num("v", 2)), s.takeFresh(a)})
		if s.producer(r.ProducerID, r.Epoch, r.Err, r.NeedsID); r.ProducerID == s.fresh {
			s.fresh++
		}
	case "epoch": // as if so many transactions had been
		h := s.state.txns[a.key()].Head
		h.Epoch = epoch
		s.state.Apply(&Update{Key: a.key(), Head: h})
		s.c = NewCoordinator(s.opts, s.state, s.now)
	default:
		s.operate(a)
	}
}

// operate runs the commands that are not a producer's.
func (s *script) operate(a args) {
	switch a.Verb {
	case "effects":
		for _, k := range s.state.Outstanding() {
			s.effects(k, a.Has("done"))
		}
	case "confirm":
		s.c.Confirm(s.now, a.key(), a.Num("serial", s.state.txns[a.key()].serial()), a.partitions(), a.List("g"))
	case "deleted":
		id := base.StreamID{a.Str("s", "a")[0]}
		s.state.Apply(&StreamDeleted{id})
		s.c.StreamDeleted(id)
	case "describe":
		s.describe(a.key())
	case "list":
		s.list(a)
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
		s.c = NewCoordinator(s.opts, s.state, s.now)
	default:
		s.t.Fatalf("unknown verb %q", a.Verb)
	}
}

func (s *script) effects(k Key, done bool) {
	e, _ := s.state.Ending(k)
	outcome := "abort"
	if e.Commit {
		outcome = "commit"
	}
	s.out.Say("%s: %s %s and groups %v of producer %d, epoch %d, version %d, serial %d", k.ID, outcome, texts(e.Partitions), e.Groups, e.ProducerID, e.Epoch, e.Version, e.Serial)
	if done {
		s.c.Confirm(s.now, k, e.Serial, e.Partitions, e.Groups)
	}
}

func (s *script) describe(k Key) {
	d := s.c.Describe(k)
	if d.Err != nil {
		s.out.Say("%v", d.Status)
		s.err(d.Err)
		return
	}
	s.out.Say("%v, producer %d, epoch %d, time-out %d ms, started %d, partitions %s, groups %v", d.Status, d.ProducerID, d.Epoch, d.TimeoutMs, d.Started, texts(d.Partitions), d.Groups)
}

func (s *script) list(a args) {
	f := Filter{Statuses: a.List("states"), Duration: a.Num("longer", -1), Pattern: a.Str("like", "")}
	for _, id := range a.List("pids") {
		f.ProducerIDs = append(f.ProducerIDs, golden.Number(id))
	}
	l := s.c.List(s.now, "default", f)
	if l.Err != nil {
		s.err(l.Err)
	}
	if len(l.Unknown) > 0 {
		s.out.Say("unknown states %v", l.Unknown)
	}
	for _, t := range l.Txns {
		s.out.Say("%s: producer %d, %v", t.ID, t.ProducerID, t.Status)
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
	if !back.equal(s.state) || len(back.dirty) > 0 {
		s.t.Fatalf("the state came back otherwise after\n%s", s.out.String())
	}
	s.state = back
	s.c = NewCoordinator(s.opts, s.state, s.now)
}
