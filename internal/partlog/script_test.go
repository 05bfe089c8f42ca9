package partlog

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

type script struct {
	t      *testing.T
	l      *Log
	flight []Batch
	now    int64
	out    strings.Builder
}

func runScript(t *testing.T, text string) string {
	s := &script{t: t, l: New(1)}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			s.run(words)
			s.l.Check()
		}
	}
	return s.out.String()
}

func (s *script) say(format string, args ...any) { fmt.Fprintf(&s.out, "  "+format+"\n", args...) }

// num finds the number of key=number.
func num(words []string, key string, unsaid int64) int64 {
	for _, w := range words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				panic(err)
			}
			return n
		}
	}
	return unsaid
}

func has(words []string, key string) bool {
	for _, w := range words {
		if w == key {
			return true
		}
	}
	return false
}

func (s *script) run(w []string) {
	switch w[0] {
	case "send":
		s.send(w)
	case "mark":
		var b Batch
		v, err := s.l.ProposeMarker(&b, &Marker{ProducerID: num(w, "p", 0), Epoch: int16(num(w, "e", 0)), CoordinatorEpoch: int32(num(w, "c", 0)),
			Commit: has(w, "commit"), Version: int16(num(w, "v", 2))}, s.now, 1000)
		s.verdict(v, err, b)
	case "apply":
		for range num(w, "n", 1) {
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
		s.say("forgotten %v", s.l.Trim(num(w, "to", 0)))
	case "expire":
		s.l.ExpireGuards(num(w, "at", 0))
		s.say("%v", s.l.ExpireProducers(num(w, "at", 0)))
	case "now":
		s.now = num(w, "at", 0)
	case "show":
		s.show()
	default:
		s.t.Fatalf("no such command: %s", w[0])
	}
}

func (s *script) send(w []string) {
	b := Batch{Records: int32(num(w, "n", 1)), ProducerID: num(w, "p", -1), ProducerEpoch: int16(num(w, "e", 0)),
		FirstSequence: int32(num(w, "s", 0)), Transactional: has(w, "txn"), MaxTimestamp: s.now}
	v, err := s.l.Propose(&b, Guard(num(w, "guard", 0)), s.now, 1000)
	s.verdict(v, err, b)
	if v == Unverified {
		s.say("guard %d", s.l.Guard(&b, has(w, "bumps"), s.now))
	}
}

func (s *script) verdict(v Verdict, err error, b Batch) {
	switch v {
	case Accepted:
		s.say("at %d", b.Base)
		s.flight = append(s.flight, b)
	case Duplicate:
		s.say("duplicate of %d", b.Base)
	default:
		s.say("%s: %v", map[base.Code]string{base.CodeUnverifiedTxn: "unverified", base.CodeInvalidTxnState: "invalid state", base.CodeOutOfOrderSequence: "out of order",
			base.CodeFencedProducer: "fenced producer", base.CodeFencedCoordinator: "fenced coordinator"}[base.CodeOf(err)], err)
	}
}

func (s *script) show() {
	l := s.l
	s.say("start %d, stable %d, end %d, next %d", l.Start(), l.LastStable(), l.End(), l.Next())
	for _, p := range l.ProducerStates() {
		s.say("producer %d: epoch %d, sequence %d, transaction from %d, coordinator %d", p.ID, p.Epoch, p.LastSequence, p.TxnStart, p.CoordinatorEpoch)
	}
	for _, o := range l.Open() {
		s.say("open: producer %d from %d", o.ProducerID, o.First)
	}
	for _, a := range l.Aborted() {
		s.say("aborted: producer %d from %d to %d, stable %d", a.ProducerID, a.First, a.Last, a.LastStable)
	}
}
