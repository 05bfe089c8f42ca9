package group

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"godwit/internal/base"
	"godwit/internal/golden"
)

// TestScripts runs the commands of each testdata/*.txt and compares the transcript: lines that begin with
// two spaces are what the command above them answered.
func TestScripts(t *testing.T) {
	golden.Scripts(t, newScript)
}

// script is a coordinator with its offsets, as an engine would run them: changes are applied at once.
type script struct {
	t       *testing.T
	opts    Options
	now     int64
	offsets *Offsets
	c       *Coordinator
	topics  topicTable
	stored  map[string][]byte // checkpointed pairs
	guards  map[string]*TxnGuard
	out     *golden.Transcript
}

func newScript(t *testing.T, out *golden.Transcript) func(golden.Command) {
	s := &script{t: t, out: out, opts: DefaultOptions(), offsets: NewOffsets(), topics: topicTable{}, stored: map[string][]byte{}, guards: map[string]*TxnGuard{}}
	s.lead()
	return func(c golden.Command) {
		s.run(args{c})
		s.journal(s.c.Changes())
		s.c.Check()
		s.offsets.Check()
	}
}

type args struct{ golden.Command }

func (a args) key() Key { return Key{Namespace: a.Str("ns", "default"), Group: a.Str("g", "g")} }

func (s *script) run(a args) {
	switch a.Verb {
	case "options":
		s.opts.InitialDelay = a.Num("delay", s.opts.InitialDelay)
		s.opts.MaxSize = int(a.Num("size", int64(s.opts.MaxSize)))
		s.opts.Retention = a.Num("retention", s.opts.Retention)
		s.opts.Consumer.MaxSize = int(a.Num("consumers", int64(s.opts.Consumer.MaxSize)))
		s.opts.Consumer.Migration = Migration(a.Str("migration", string(s.opts.Consumer.Migration)))
		s.lead()
	case "at":
		s.now = a.Num("t", s.now)
		s.replies(s.c.Tick(s.now))
	case "join":
		s.replies(s.c.Join(s.now, uint64(a.Num("token", 0)), joinArgs(a), a.Str("unique", "u")))
	case "sync":
		s.replies(s.c.Sync(s.now, uint64(a.Num("token", 0)), syncArgs(a)))
	case "heartbeat":
		s.err(s.c.Heartbeat(s.now, &HeartbeatRequest{a.key(), int32(a.Num("gen", 1)), a.Str("m", ""), a.Str("instance", "")}).Err)
	case "leave":
		s.leave(a)
	case "cancel":
		s.replies(s.c.Cancel(s.now, uint64(a.Num("token", 0))))
	case "resign":
		s.replies(s.c.Resign(base.Errorf(base.CodeNotReady, "another leader")))
	case "restart":
		s.restart()
	case "deadline":
		s.out.Say("%d", s.c.NextDeadline())
	default:
		if !s.runConsumers(a) {
			s.runOffsets(a)
		}
	}
}

// lead makes a coordinator from what is committed.
func (s *script) lead() {
	s.c = NewCoordinator(s.opts, s.offsets, s.now)
	s.c.SetTopics(s.topics)
}

func joinArgs(a args) *JoinRequest {
	req := &JoinRequest{
		Key: a.key(), MemberID: a.Str("m", ""), InstanceID: a.Str("instance", ""), ClientID: a.Str("client", "c"), ClientHost: "/127.0.0.1",
		SessionTimeout: a.Num("session", 10_000), RebalanceTimeout: a.Num("rebalance", 30_000), ProtocolType: a.Str("type", "consumer"),
		RequireKnownID: a.Has("known"), CanSkip: a.Has("skip"),
	}
	topics := a.List("topics")
	if topics == nil {
		topics = []string{"t"}
	}
	for _, p := range strings.Split(a.Str("protocols", "range"), ",") {
		if p != "" {
			metadata := subscription(topics...)
			if a.Has("metadata") {
				metadata = []byte(a.Str("metadata", ""))
			}
			if a.Has("owned") {
				metadata = cooperative(topics, partitionList(a.List("owned")))
			}
			req.Protocols = append(req.Protocols, Protocol{p, metadata})
		}
	}
	return req
}

// subscription writes Kafka's ConsumerProtocolSubscription, version 0.
func subscription(topics ...string) []byte {
	b := []byte{0, 0}
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(t))), t...)
	}
	return append(b, 0xff, 0xff, 0xff, 0xff)
}

func syncArgs(a args) *SyncRequest {
	req := &SyncRequest{
		Key: a.key(), Generation: int32(a.Num("gen", 1)), MemberID: a.Str("m", ""), InstanceID: a.Str("instance", ""),
		ProtocolType: a.Str("type", ""), Protocol: a.Str("protocol", ""),
	}
	for _, part := range a.List("assign") {
		m, data, _ := strings.Cut(part, ":")
		if topic, list, ok := strings.Cut(data, "/"); ok {
			data = string(assignment(topic, list))
		}
		req.Assignments = append(req.Assignments, Assignment{m, []byte(data)})
	}
	return req
}

func (s *script) leave(a args) {
	req := &LeaveRequest{Key: a.key()}
	for _, m := range a.List("m") {
		id, instance, _ := strings.Cut(m, "/")
		req.Members = append(req.Members, LeavingMember{id, instance})
	}
	out, replies := s.c.Leave(s.now, req)
	s.err(out.Err)
	for _, m := range out.Members {
		s.out.Say("%s/%s: %s", m.MemberID, m.InstanceID, errText(m.Err))
	}
	s.replies(replies)
}

func errText(err *base.Error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprintf("code %d, %s", err.Code, err.Msg)
}

func (s *script) err(err *base.Error) { s.out.Say("%s", errText(err)) }

func (s *script) replies(replies []Reply) {
	for _, r := range replies {
		switch r := r.Response.(type) {
		case *JoinResponse:
			s.joined(r)
		case *SyncResponse:
			if r.Err != nil {
				s.out.Say("sync: %s", errText(r.Err))
				break
			}
			s.out.Say("sync: %s %s, assignment %s", r.ProtocolType, r.Protocol, assignmentText(r.Assignment))
		}
		s.out.WriteString("  ^ token " + strconv.FormatUint(r.Token, 10) + "\n")
	}
}

func (s *script) joined(r *JoinResponse) {
	if r.Err != nil {
		s.out.Say("join: member %q, %s", r.MemberID, errText(r.Err))
		return
	}
	skip := ""
	if r.SkipAssignment {
		skip = ", skip assignment"
	}
	s.out.Say("join: member %s, generation %d, %s %s, leader %s%s", r.MemberID, r.Generation, r.ProtocolType, r.Protocol, r.Leader, skip)
	for _, m := range r.Members {
		topics, _ := subscribedTopics(m.Metadata)
		s.out.Say("  %s/%s reads %v", m.MemberID, m.InstanceID, topics)
	}
}

// journal applies commands as replicas do: after encoding.
func (s *script) journal(cmds []Command) {
	for _, cmd := range cmds {
		decoded, err := DecodeCommand(AppendCommand(nil, cmd))
		if err != nil {
			s.t.Fatal(err)
		}
		s.offsets.Apply(decoded)
		switch c := decoded.(type) {
		case *SaveGroup:
			s.out.Say("saved %s: generation %d, %d members, %s %s", c.Group, c.Record.Generation, len(c.Record.Members), c.Record.ProtocolType, c.Record.Protocol)
		case *DeleteGroup:
			s.out.Say("deleted %s, if unused: %t", c.Group, c.IfUnused)
		case *DeleteOffsets:
			s.out.Say("deleted offsets of %s: %s", c.Group, partitionsText(c.Partitions))
		case *SaveConsumers:
			var ids []string
			for _, m := range c.Members {
				ids = append(ids, m.MemberID)
			}
			s.out.Say("saved %s: epoch %d, assignment epoch %d, members %v, removed %v", c.Group, c.Head.Epoch, c.Head.AssignmentEpoch, ids, c.Removed)
		case *DropConsumers:
			s.out.Say("dropped what was saved of %s", c.Group)
		}
	}
}

// restart makes a new coordinator from what a checkpoint stored.
func (s *script) restart() {
	s.checkpoint()
	offsets := NewOffsets()
	for k, v := range s.stored {
		if err := offsets.Restore([]byte(k), v); err != nil {
			s.t.Fatal(err)
		}
	}
	s.offsets = offsets
	s.lead()
}

func (s *script) checkpoint() {
	s.offsets.Checkpoint(func(k, v []byte) {
		if v == nil {
			delete(s.stored, string(k))
		} else {
			s.stored[string(k)] = v
		}
	})
}
