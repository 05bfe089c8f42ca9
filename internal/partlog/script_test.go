package partlog

import (
	"testing"

	"godwit/internal/base"
	"godwit/internal/golden"
)

// TestScripts runs the commands of each testdata/*.txt and compares the transcript: lines that begin with
// two spaces are what the command above them answered.
//
//	send p=7 e=0 s=0 [n=1] [txn] [guard=1]   propose a batch of records; a refusal to verify tells the guard
//	     [bumps]                             the producer raises its epoch with every transaction
//	mark p=7 e=1 commit|abort [v=2] [c=0]    propose a marker of a transaction version and a coordinator epoch
//	apply [n=1]                              apply what was accepted first
//	abandon                                  drop what is in flight
//	restart                                  abandon, and go on from a snapshot
//	trim to=5                                raise the log start
//	expire at=5                              forget producers and guards from before a time
//	now at=5                                 the time
//	show
func TestScripts(t *testing.T) {
	golden.Scripts(t, newScript)
}

type script struct {
	t      *testing.T
	l      *Log
	flight []Batch
	now    int64
	out    *golden.Transcript
}

func newScript(t *testing.T, out *golden.Transcript) func(golden.Command) {
	s := &script{t: t, out: out, l: New(1)}
	return func(c golden.Command) {
		s.run(c)
		s.l.Check()
	}
}

func (s *script) run(c golden.Command) {
	switch c.Verb {
	case "send":
		s.send(c)
	case "mark":
		var b Batch
		v, err := s.l.ProposeMarker(&b, &Marker{ProducerID: c.Num("p", 0), Epoch: int16(c.Num("e", 0)), CoordinatorEpoch: int32(c.Num("c", 0)),
			Commit: c.Has("commit"), Version: int16(c.Num("v", 2))}, s.now, 1000)
		s.verdict(v, err, b)
	case "apply":
		for range c.Num("n", 1) {
			s.l.Apply(&s.flight[0], s.now)
			s.flight = s.flight[1:]
		}
	case "abandon":
		s.l.Abandon()
		s.flight = nil
	case "restart":
		kept := s.l.Aborted()
		l, err := Restore(1, s.l.AppendSnapshot(nil))
		if err != nil || !l.RestoreAborted(kept) {
			s.t.Fatal(err)
		}
		s.l, s.flight = l, nil
	case "trim":
		s.out.Say("forgotten %v", s.l.Trim(c.Num("to", 0)))
	case "expire":
		s.l.ExpireGuards(c.Num("at", 0))
		s.out.Say("%v", s.l.ExpireProducers(c.Num("at", 0)))
	case "now":
		s.now = c.Num("at", 0)
	case "show":
		s.show()
	default:
		s.t.Fatalf("no such command: %s", c.Verb)
	}
}

func (s *script) send(c golden.Command) {
	b := Batch{Records: int32(c.Num("n", 1)), ProducerID: c.Num("p", -1), ProducerEpoch: int16(c.Num("e", 0)),
		FirstSequence: int32(c.Num("s", 0)), Transactional: c.Has("txn"), MaxTimestamp: s.now}
	v, err := s.l.Propose(&b, Guard(c.Num("guard", 0)), s.now, 1000)
	s.verdict(v, err, b)
	if v == Unverified {
		s.out.Say("guard %d", s.l.Guard(&b, c.Has("bumps"), s.now))
	}
}

func (s *script) verdict(v Verdict, err error, b Batch) {
	switch v {
	case Accepted:
		s.out.Say("at %d", b.Base)
		s.flight = append(s.flight, b)
	case Duplicate:
		s.out.Say("duplicate of %d", b.Base)
	default:
		s.out.Say("%s: %v", map[base.Code]string{base.CodeUnverifiedTxn: "unverified", base.CodeInvalidTxnState: "invalid state", base.CodeOutOfOrderSequence: "out of order",
			base.CodeFencedProducer: "fenced producer", base.CodeFencedCoordinator: "fenced coordinator"}[base.CodeOf(err)], err)
	}
}

func (s *script) show() {
	l := s.l
	s.out.Say("start %d, stable %d, end %d, next %d", l.Start(), l.LastStable(), l.End(), l.Next())
	for _, p := range l.ProducerStates() {
		s.out.Say("producer %d: epoch %d, sequence %d, transaction from %d, coordinator %d", p.ID, p.Epoch, p.LastSequence, p.TxnStart, p.CoordinatorEpoch)
	}
	for _, o := range l.Open() {
		s.out.Say("open: producer %d from %d", o.ProducerID, o.First)
	}
	for _, a := range l.Aborted() {
		s.out.Say("aborted: producer %d from %d to %d, stable %d", a.ProducerID, a.First, a.Last, a.LastStable)
	}
}
