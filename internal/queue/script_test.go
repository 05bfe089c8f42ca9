package queue

import (
	"fmt"
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

// script is a queue as an engine would run it. Commands are committed at once, unless held.
type script struct {
	t      *testing.T
	q      *Queue
	now    int64
	stored store
	held   []Command
	hold   bool
	out    *golden.Transcript
}

func newScript(t *testing.T, out *golden.Transcript) func(golden.Command) {
	s := &script{t: t, out: out, now: 1000, stored: store{}}
	s.q = New(DefaultOptions(), s.stored)
	return func(c golden.Command) {
		s.run(c)
		s.q.Check()
	}
}

// span reads first-last or one offset.
func span(text string) Span {
	first, last, two := strings.Cut(text, "-")
	if !two {
		last = first
	}
	return Span{golden.Number(first), golden.Number(last)}
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
		s.out.Say("effect %d: %v %v after %d deliveries", e.ID, e.Span, e.Cause, e.Deliveries)
	}
}

func (s *script) err(err error) { s.out.Say("code %d, %v", base.CodeOf(err), err) }

func (s *script) run(a golden.Command) {
	switch a.Verb {
	case "options":
		s.options(a)
	case "time":
		s.now += golden.Number(a.Words[0])
	case "admit":
		s.journal(s.q.Admit(s.now, a.Num("end", 0), s.metas(a.Words)))
	case "acquire":
		s.acquire(a)
	case "next":
		at, ok := s.q.Next(s.now)
		s.out.Say("%d, %t", at, ok)
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
			s.out.Say("next at once")
		case at != never:
			s.out.Say("next at +%d", at-s.now)
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
		s.out.Say("%d keys", len(s.stored))
		s.q = s.stored.load(s.t, s.q.Options)
	default:
		s.runMore(a)
	}
}

func (s *script) runMore(a golden.Command) {
	switch a.Verb {
	case "release":
		s.journal(s.q.Release(s.now, a.Values["c"], a.Has("unused")))
	case "release-absent":
		s.journal(s.q.ReleaseAbsent(s.now, func(c string) bool { return a.Has(c) }))
	case "trim":
		s.journal(s.q.Trim(s.now, a.Num("start", 0)))
	case "reset":
		s.journal(s.q.Reset(s.now, a.Num("start", 0)))
	case "drop":
		s.journal(s.q.DropBelow(s.now, a.Num("below", 0), CauseExpired))
	case "shorten":
		s.journal(s.q.Shorten(s.now, a.Num("end", 0)))
	case "full":
		if err := s.q.Full(a.Num("end", 0), a.Num("n", 1)); err != nil {
			s.err(err)
			return
		}
		s.out.Say("no")
	case "confirm":
		var ids []uint64
		for _, id := range a.Words {
			ids = append(ids, uint64(golden.Number(id)))
		}
		s.journal(s.q.Confirm(s.now, ids))
	case "effects":
		for _, e := range s.q.Effects() {
			s.out.Say("effect %d: %v %v after %d deliveries", e.ID, e.Span, e.Cause, e.Deliveries)
		}
		s.out.Say("needed from %d", s.q.Needed())
	case "join":
		if err := s.q.Join(a.Values["c"], ConsumerOptions{MaxInFlight: a.Num("limit", 0), Priority: int(a.Num("priority", 0)), Exclusive: a.Has("exclusive")}); err != nil {
			s.err(err)
		}
	case "leave":
		s.q.Leave(a.Values["c"])
	case "turn":
		name, credit := s.q.Turn()
		if credit == never {
			credit = -1
		}
		s.out.Say("%q, credit %d", name, credit)
	case "show":
		s.show()
	case "describe":
		d := s.q.Describe(a.Num("end", 0))
		s.out.Say("[%d, %d): %d available, %d in flight, %d waiting, %d done; lag %d", d.Start, d.End, d.Available, d.InFlight, d.Waiting, d.Done, d.Lag)
		t := d.Totals
		s.out.Say("%d deliveries, %d acked, %d rejected, %d at the limit, %d expired, %d overflowed, %d trimmed, %d gaps", t.Deliveries, t.Acked,
			t.Archived[CauseRejected], t.Archived[CauseLimit], t.Archived[CauseExpired], t.Archived[CauseOverflow], t.Archived[CauseRetention], t.Archived[CauseGap])
	default:
		s.t.Fatalf("unknown command %q", a.Verb)
	}
}

func (s *script) options(a golden.Command) {
	overflow := DropHead
	if a.Has("refuse") {
		overflow = RejectNew
	}
	s.q.Options = Options{
		Lock: a.Num("lock", 0), MaxWindow: a.Num("window", 0), MaxInFlight: a.Num("in-flight", 0), MaxDeliveries: int32(a.Num("deliveries", 0)),
		Isolate: a.Has("isolate"), MaxLength: a.Num("length", 0), Overflow: overflow, SingleActive: a.Has("single"), FairSpread: a.Has("fair"),
		Horizon: a.Num("horizon", 100), MaxRuns: int(a.Num("runs", 0)), Silent: uint8(a.Num("silent", 0)),
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
					m.Priority = uint8(golden.Number(v))
				case "delay":
					m.NotBefore = s.now + golden.Number(v)
				case "life":
					m.Expires = s.now + golden.Number(v)
				default:
					s.t.Fatalf("unknown trait %q", kv)
				}
			}
			out = append(out, m)
		}
	}
	return out
}

func (s *script) acquire(a golden.Command) {
	want := &Want{Consumer: a.Values["c"], Records: int(a.Num("n", 500)), Batch: int(a.Num("batch", 0)), Strict: a.Has("strict")}
	if text, ok := a.Values["read"]; ok {
		want.Read = &Read{From: a.Num("from", 0)}
		for _, b := range strings.Split(text, ",") {
			if b != "" {
				want.Read.Batches = append(want.Read.Batches, span(b))
				want.Read.To = span(b).Last + 1
			}
		}
		want.Read.To = a.Num("to", want.Read.To)
	}
	cmd, got := s.q.Acquire(s.now, want)
	for _, g := range got {
		s.out.Say("%v, delivery %d", g.Span, g.Deliveries)
	}
	if len(got) == 0 {
		s.out.Say("nothing")
	}
	s.journal(cmd)
}

var ackTypes = map[string]AckType{"gap": AckGap, "accept": AckAccept, "release": AckRelease, "reject": AckReject, "renew": AckRenew, "return": AckReturn}

// ack reads span:type or span:type:delay.
func (s *script) ack(a golden.Command) {
	var acks []Ack
	for _, w := range a.Words {
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
			ack.Delay = golden.Number(parts[2])
		}
		acks = append(acks, ack)
	}
	cmd, errs := s.q.Acknowledge(s.now, a.Values["c"], acks, a.Has("atomic"))
	for i, err := range errs {
		if err != nil {
			s.out.Say("%v: code %d, %s", acks[i].Span, err.Code, err.Msg)
		}
	}
	if cmd == nil {
		s.out.Say("nothing changes")
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
		s.out.Say("%s", b.String())
		return true
	})
}
