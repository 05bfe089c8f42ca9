package queue

import (
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

// script is a queue as an engine would run it. Commands are committed at once, unless held.
type script struct {
	t      *testing.T
	q      *Queue
	now    int64
	stored store
	held   []Command
	hold   bool
	out    strings.Builder
}

func runScript(t *testing.T, text string) string {
	s := &script{t: t, now: 1000, stored: store{}}
	s.q = New(DefaultOptions(), s.stored)
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
		s.q.Check()
	}
	return s.out.String()
}

func (s *script) say(format string, args ...any) { fmt.Fprintf(&s.out, "  "+format+"\n", args...) }

// args are the words of a line: the first, key=value, and others.
type args struct {
	verb string
	kv   map[string]string
	rest []string
}

func parseArgs(line string) args {
	words := strings.Fields(line)
	a := args{verb: words[0], kv: map[string]string{}}
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok && !strings.Contains(k, ":") {
			a.kv[k] = v
		} else {
			a.rest = append(a.rest, w)
		}
	}
	return a
}

func (a args) num(k string, unsaid int64) int64 {
	v, ok := a.kv[k]
	if !ok {
		return unsaid
	}
	return number(v)
}

// flag says whether the word stands alone.
func (a args) flag(word string) bool {
	for _, w := range a.rest {
		if w == word {
			return true
		}
	}
	return false
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// span reads first-last or one offset.
func span(text string) Span {
	first, last, two := strings.Cut(text, "-")
	if !two {
		last = first
	}
	return Span{number(first), number(last)}
}

func (s Span) String() string {
	if s.First == s.Last {
		return fmt.Sprint(s.First)
	}
	return fmt.Sprintf("%d-%d", s.First, s.Last)
}

// journal commits a command, or holds it.
func (s *script) journal(cmd Command) {
	if cmd == nil {
		return
	}
	if s.hold {
		s.held = append(s.held, cmd)
		return
	}
	for _, e := range s.q.Apply(cmd) {
		s.say("effect %d: %v %v after %d deliveries", e.ID, e.Span, e.Cause, e.Deliveries)
	}
}

func (s *script) err(err error) { s.say("code %d, %v", base.CodeOf(err), err) }

func (s *script) run(a args) {
	switch a.verb {
	case "options":
		s.options(a)
	case "time":
		s.now += number(a.rest[0])
	case "admit":
		s.journal(s.q.Admit(s.now, a.num("end", 0), s.metas(a.rest)))
	case "acquire":
		s.acquire(a)
	case "next":
		at, ok := s.q.Next(s.now)
		s.say("%d, %t", at, ok)
	case "ack":
		s.ack(a)
	case "tick":
		cmds, err := s.q.Tick(s.now)
		if err != nil {
			s.err(err)
		}
		for _, cmd := range cmds {
			s.journal(cmd)
		}
		switch at := s.q.NextDeadline(); {
		case at <= s.now:
			s.say("next at once")
		case at != never:
			s.say("next at +%d", at-s.now)
		}
	case "hold":
		s.hold = true
	case "commit":
		s.hold = false
		for _, cmd := range s.held {
			s.journal(cmd)
		}
		s.held = nil
	case "abandon":
		s.q.Abandon()
		s.hold, s.held = false, nil
	case "restart":
		s.stored.save(s.q)
		s.say("%d keys", len(s.stored))
		s.q = s.stored.load(s.t, s.q.Options)
	default:
		s.runMore(a)
	}
}

func (s *script) runMore(a args) {
	switch a.verb {
	case "release":
		s.journal(s.q.Release(s.now, a.kv["c"], a.flag("unused")))
	case "release-absent":
		s.journal(s.q.ReleaseAbsent(s.now, func(c string) bool { return a.flag(c) }))
	case "trim":
		s.journal(s.q.Trim(s.now, a.num("start", 0)))
	case "reset":
		s.journal(s.q.Reset(s.now, a.num("start", 0)))
	case "drop":
		s.journal(s.q.DropBelow(s.now, a.num("below", 0), CauseExpired))
	case "shorten":
		s.journal(s.q.Shorten(s.now, a.num("end", 0)))
	case "full":
		if err := s.q.Full(a.num("end", 0), a.num("n", 1)); err != nil {
			s.err(err)
			return
		}
		s.say("no")
	case "confirm":
		var ids []uint64
		for _, id := range a.rest {
			ids = append(ids, uint64(number(id)))
		}
		s.journal(s.q.Confirm(s.now, ids))
	case "effects":
		for _, e := range s.q.Effects() {
			s.say("effect %d: %v %v after %d deliveries", e.ID, e.Span, e.Cause, e.Deliveries)
		}
		s.say("needed from %d", s.q.Needed())
	case "join":
		if err := s.q.Join(a.kv["c"], ConsumerOptions{MaxInFlight: a.num("limit", 0), Priority: int(a.num("priority", 0)), Exclusive: a.flag("exclusive")}); err != nil {
			s.err(err)
		}
	case "leave":
		s.q.Leave(a.kv["c"])
	case "turn":
		name, credit := s.q.Turn()
		if credit == never {
			credit = -1
		}
		s.say("%q, credit %d", name, credit)
	case "show":
		s.show()
	case "describe":
		d := s.q.Describe(a.num("end", 0))
		s.say("[%d, %d): %d available, %d in flight, %d waiting, %d done; lag %d", d.Start, d.End, d.Available, d.InFlight, d.Waiting, d.Done, d.Lag)
		t := d.Totals
		s.say("%d deliveries, %d acked, %d rejected, %d at the limit, %d expired, %d overflowed, %d trimmed, %d gaps", t.Deliveries, t.Acked,
			t.Archived[CauseRejected], t.Archived[CauseLimit], t.Archived[CauseExpired], t.Archived[CauseOverflow], t.Archived[CauseRetention], t.Archived[CauseGap])
	default:
		s.t.Fatalf("unknown command %q", a.verb)
	}
}

func (s *script) options(a args) {
	overflow := DropHead
	if a.flag("refuse") {
		overflow = RejectNew
	}
	s.q.Options = Options{
		Lock: a.num("lock", 0), MaxWindow: a.num("window", 0), MaxInFlight: a.num("in-flight", 0), MaxDeliveries: int32(a.num("deliveries", 0)),
		Isolate: a.flag("isolate"), MaxLength: a.num("length", 0), Overflow: overflow, SingleActive: a.flag("single"), FairSpread: a.flag("fair"),
		Horizon: a.num("horizon", 100), MaxRuns: int(a.num("runs", 0)), Silent: uint8(a.num("silent", 0)),
	}
}

// metas reads offset:key=value,... with lane, priority, delay and life.
func (s *script) metas(words []string) (out []Meta) {
	for _, w := range words {
		at, what, _ := strings.Cut(w, ":")
		sp := span(at)
		for o := sp.First; o <= sp.Last; o++ {
			m := Meta{Offset: o}
			for _, kv := range strings.Split(what, ",") {
				switch k, v, _ := strings.Cut(kv, "="); k {
				case "lane":
					m.Lane = v
				case "priority":
					m.Priority = uint8(number(v))
				case "delay":
					m.NotBefore = s.now + number(v)
				case "life":
					m.Expires = s.now + number(v)
				default:
					s.t.Fatalf("unknown trait %q", kv)
				}
			}
			out = append(out, m)
		}
	}
	return out
}

func (s *script) acquire(a args) {
	want := &Want{Consumer: a.kv["c"], Records: int(a.num("n", 500)), Batch: int(a.num("batch", 0)), Strict: a.flag("strict")}
	if text, ok := a.kv["read"]; ok {
		want.Read = &Read{From: a.num("from", 0)}
		for _, b := range strings.Split(text, ",") {
			if b != "" {
				want.Read.Batches = append(want.Read.Batches, span(b))
				want.Read.To = span(b).Last + 1
			}
		}
		want.Read.To = a.num("to", want.Read.To)
	}
	cmd, got := s.q.Acquire(s.now, want)
	for _, g := range got {
		s.say("%v, delivery %d", g.Span, g.Deliveries)
	}
	if len(got) == 0 {
		s.say("nothing")
	}
	s.journal(cmd)
}

var ackTypes = map[string]AckType{"gap": AckGap, "accept": AckAccept, "release": AckRelease, "reject": AckReject, "renew": AckRenew, "return": AckReturn}

// ack reads span:type or span:type:delay.
func (s *script) ack(a args) {
	var acks []Ack
	for _, w := range a.rest {
		if w == "atomic" {
			continue
		}
		parts := strings.Split(w, ":")
		ack := Ack{Span: span(parts[0])}
		var ok bool
		if ack.Type, ok = ackTypes[parts[1]]; !ok {
			ack.Type = 99
		}
		if len(parts) > 2 {
			ack.Delay = number(parts[2])
		}
		acks = append(acks, ack)
	}
	cmd, errs := s.q.Acknowledge(s.now, a.kv["c"], acks, a.flag("atomic"))
	for i, err := range errs {
		if err != nil {
			s.say("%v: code %d, %s", acks[i].Span, err.Code, err.Msg)
		}
	}
	if cmd == nil {
		s.say("nothing changes")
	}
	s.journal(cmd)
}

func (s *script) show() {
	s.q.Runs(func(r Run) bool {
		var b strings.Builder
		fmt.Fprintf(&b, "%v %v", r.Span, r.State)
		if r.Consumer != "" {
			fmt.Fprintf(&b, " by %s", r.Consumer)
		}
		if r.Until != 0 {
			fmt.Fprintf(&b, " until +%d", r.Until-s.now)
		}
		if r.Deliveries != 0 {
			fmt.Fprintf(&b, ", %d deliveries", r.Deliveries)
		}
		if r.Meta.Lane != "" {
			fmt.Fprintf(&b, ", lane %s", r.Meta.Lane)
		}
		if r.Meta.Priority != 0 {
			fmt.Fprintf(&b, ", priority %d", r.Meta.Priority)
		}
		if r.Meta.Expires != 0 {
			fmt.Fprintf(&b, ", expires +%d", r.Meta.Expires-s.now)
		}
		s.say("%s", b.String())
		return true
	})
}
