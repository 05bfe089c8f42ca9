package group

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"godwit/internal/base"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestScripts runs the commands of each testdata/*.txt and compares the transcript: lines that begin with
// two spaces are what the command above them answered.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s: the transcript is now\n%s", file, got)
			}
		})
	}
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
	out     strings.Builder
}

func runScript(t *testing.T, text string) string {
	s := &script{t: t, opts: DefaultOptions(), offsets: NewOffsets(), topics: topicTable{}, stored: map[string][]byte{}}
	s.lead()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		s.run(parseArgs(line))
		s.journal(s.c.Changes())
		s.c.Check()
		s.offsets.Check()
	}
	return s.out.String()
}

// args are the words of a line: the first, and key=value.
type args struct {
	verb string
	kv   map[string]string
}

func parseArgs(line string) args {
	words := strings.Fields(line)
	a := args{verb: words[0], kv: map[string]string{}}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		a.kv[k] = v
	}
	return a
}

func (a args) str(k, unsaid string) string {
	if v, ok := a.kv[k]; ok {
		return v
	}
	return unsaid
}

func (a args) num(k string, unsaid int64) int64 {
	v, ok := a.kv[k]
	if !ok {
		return unsaid
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (a args) flag(k string) bool { _, ok := a.kv[k]; return ok }

func (a args) key() Key { return Key{a.str("ns", "default"), a.str("g", "g")} }

func (a args) list(k string) []string {
	if a.kv[k] == "" {
		return nil
	}
	return strings.Split(a.kv[k], ",")
}

func (s *script) say(format string, values ...any) {
	fmt.Fprintf(&s.out, "  "+format+"\n", values...)
}

func (s *script) run(a args) {
	switch a.verb {
	case "options":
		s.opts.InitialDelay = a.num("delay", s.opts.InitialDelay)
		s.opts.MaxSize = int(a.num("size", int64(s.opts.MaxSize)))
		s.opts.Retention = a.num("retention", s.opts.Retention)
		s.opts.Consumer.MaxSize = int(a.num("consumers", int64(s.opts.Consumer.MaxSize)))
		s.opts.Consumer.Migration = Migration(a.str("migration", string(s.opts.Consumer.Migration)))
		s.lead()
	case "at":
		s.now = a.num("t", s.now)
		s.replies(s.c.Tick(s.now))
	case "join":
		s.replies(s.c.Join(s.now, uint64(a.num("token", 0)), joinArgs(a), a.str("unique", "u")))
	case "sync":
		s.replies(s.c.Sync(s.now, uint64(a.num("token", 0)), syncArgs(a)))
	case "heartbeat":
		s.err(s.c.Heartbeat(s.now, &HeartbeatRequest{a.key(), int32(a.num("gen", 1)), a.str("m", ""), a.str("instance", "")}).Err)
	case "leave":
		s.leave(a)
	case "cancel":
		s.replies(s.c.Cancel(s.now, uint64(a.num("token", 0))))
	case "resign":
		s.replies(s.c.Resign(base.Errorf(base.CodeNotReady, "another leader")))
	case "restart":
		s.restart()
	case "deadline":
		s.say("%d", s.c.NextDeadline())
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
		Key: a.key(), MemberID: a.str("m", ""), InstanceID: a.str("instance", ""), ClientID: a.str("client", "c"), ClientHost: "/127.0.0.1",
		SessionTimeout: a.num("session", 10_000), RebalanceTimeout: a.num("rebalance", 30_000), ProtocolType: a.str("type", "consumer"),
		RequireKnownID: a.flag("known"), CanSkip: a.flag("skip"),
	}
	topics := a.list("topics")
	if topics == nil {
		topics = []string{"t"}
	}
	for _, p := range strings.Split(a.str("protocols", "range"), ",") {
		if p != "" {
			metadata := subscription(topics...)
			if a.flag("owned") {
				metadata = cooperative(topics, partitionList(a.list("owned")))
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
		Key: a.key(), Generation: int32(a.num("gen", 1)), MemberID: a.str("m", ""), InstanceID: a.str("instance", ""),
		ProtocolType: a.str("type", ""), Protocol: a.str("protocol", ""),
	}
	for _, part := range a.list("assign") {
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
	for _, m := range a.list("m") {
		id, instance, _ := strings.Cut(m, "/")
		req.Members = append(req.Members, LeavingMember{id, instance})
	}
	out, replies := s.c.Leave(s.now, req)
	s.err(out.Err)
	for _, m := range out.Members {
		s.say("%s/%s: %s", m.MemberID, m.InstanceID, errText(m.Err))
	}
	s.replies(replies)
}

func errText(err *base.Error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprintf("code %d, %s", err.Code, err.Msg)
}

func (s *script) err(err *base.Error) { s.say("%s", errText(err)) }

func (s *script) replies(replies []Reply) {
	for _, r := range replies {
		switch r := r.Response.(type) {
		case *JoinResponse:
			s.joined(r)
		case *SyncResponse:
			if r.Err != nil {
				s.say("sync: %s", errText(r.Err))
				break
			}
			s.say("sync: %s %s, assignment %s", r.ProtocolType, r.Protocol, assignmentText(r.Assignment))
		}
		s.out.WriteString("  ^ token " + strconv.FormatUint(r.Token, 10) + "\n")
	}
}

func (s *script) joined(r *JoinResponse) {
	if r.Err != nil {
		s.say("join: member %q, %s", r.MemberID, errText(r.Err))
		return
	}
	skip := ""
	if r.SkipAssignment {
		skip = ", skip assignment"
	}
	s.say("join: member %s, generation %d, %s %s, leader %s%s", r.MemberID, r.Generation, r.ProtocolType, r.Protocol, r.Leader, skip)
	for _, m := range r.Members {
		topics, _ := subscribedTopics(m.Metadata)
		s.say("  %s/%s reads %v", m.MemberID, m.InstanceID, topics)
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
			s.say("saved %s: generation %d, %d members, %s %s", c.Group, c.Record.Generation, len(c.Record.Members), c.Record.ProtocolType, c.Record.Protocol)
		case *DeleteGroup:
			s.say("deleted %s, if unused: %t", c.Group, c.IfUnused)
		case *DeleteOffsets:
			s.say("deleted offsets of %s: %s", c.Group, partitionsText(c.Partitions))
		case *SaveConsumers:
			var ids []string
			for _, m := range c.Members {
				ids = append(ids, m.MemberID)
			}
			s.say("saved %s: epoch %d, assignment epoch %d, members %v, removed %v", c.Group, c.Head.Epoch, c.Head.AssignmentEpoch, ids, c.Removed)
		case *DropConsumers:
			s.say("dropped what was saved of %s", c.Group)
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
