package partlog

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

const hour = int64(3_600_000)

func propose(t *testing.T, l *Log, b Batch, now int64) (Batch, Verdict, error) {
	t.Helper()
	v, err := l.Propose(&b, 0, now, 24*hour)
	return b, v, err
}

func seq(pid int64, epoch int16, first, n int32) Batch {
	return Batch{Records: n, ProducerID: pid, ProducerEpoch: epoch, FirstSequence: first}
}

func TestSequences(t *testing.T) {
	type step struct {
		b    Batch
		v    Verdict
		base int64
		code base.Code
	}
	tests := map[string][]step{
		"in order": {
			{seq(7, 0, 0, 3), Accepted, 0, 0}, {seq(7, 0, 3, 2), Accepted, 3, 0}, {seq(7, 0, 5, 1), Accepted, 5, 0}},
		"unknown producer may begin anywhere": {
			{seq(7, 3, 41, 1), Accepted, 0, 0}},
		"gap": {
			{seq(7, 0, 0, 3), Accepted, 0, 0}, {seq(7, 0, 4, 1), Rejected, 0, base.CodeOutOfOrderSequence}},
		"duplicate of each of the last five": {
			{seq(7, 0, 0, 1), Accepted, 0, 0}, {seq(7, 0, 1, 1), Accepted, 1, 0}, {seq(7, 0, 2, 1), Accepted, 2, 0},
			{seq(7, 0, 3, 1), Accepted, 3, 0}, {seq(7, 0, 4, 1), Accepted, 4, 0}, {seq(7, 0, 0, 1), Duplicate, 0, 0},
			{seq(7, 0, 5, 1), Accepted, 5, 0}, {seq(7, 0, 1, 1), Duplicate, 1, 0},
			{seq(7, 0, 0, 1), Rejected, 0, base.CodeOutOfOrderSequence}},
		"old epoch is fenced": {
			{seq(7, 2, 0, 1), Accepted, 0, 0}, {seq(7, 1, 1, 1), Rejected, 0, base.CodeFencedProducer}},
		"new epoch begins at 0": {
			{seq(7, 0, 0, 1), Accepted, 0, 0}, {seq(7, 1, 1, 1), Rejected, 0, base.CodeOutOfOrderSequence},
			{seq(7, 1, 0, 1), Accepted, 1, 0}},
		"sequences wrap": {
			{seq(7, 0, math.MaxInt32-1, 3), Accepted, 0, 0}, {seq(7, 0, 1, 1), Accepted, 3, 0},
			{seq(7, 0, math.MaxInt32-1, 3), Duplicate, 0, 0}},
		"wrap from the last sequence to 0": {
			{seq(7, 0, math.MaxInt32, 1), Accepted, 0, 0}, {seq(7, 0, 0, 1), Accepted, 1, 0}},
		"producers apart": {
			{seq(7, 0, 0, 1), Accepted, 0, 0}, {seq(8, 0, 0, 1), Accepted, 1, 0}},
	}
	for name, steps := range tests {
		for _, applied := range []bool{true, false} {
			l := New(1)
			for i, s := range steps {
				b, v, err := propose(t, l, s.b, 1000)
				if v != s.v || (err != nil) != (s.code != 0) || err != nil && base.CodeOf(err) != s.code {
					t.Fatalf("%s, step %d: verdict %d, error %v; want %d, %d", name, i, v, err, s.v, s.code)
				}
				if v != Rejected && b.Base != s.base {
					t.Fatalf("%s, step %d: base %d, want %d", name, i, b.Base, s.base)
				}
				if applied && v == Accepted {
					l.Apply(&b, 1000)
				}
				l.Check()
			}
		}
	}
}

func TestIdleProducerExpires(t *testing.T) {
	l := New(1)
	b, _, _ := propose(t, l, seq(7, 0, 0, 5), 0)
	l.Apply(&b, 0)
	if _, v, _ := propose(t, l, seq(7, 0, 9, 1), 24*hour); v != Rejected {
		t.Fatalf("verdict %d within the expiry, want a rejected gap", v)
	}
	b, v, err := propose(t, l, seq(7, 0, 9, 1), 24*hour+1)
	if v != Accepted {
		t.Fatalf("verdict %d, error %v after the expiry, want accepted", v, err)
	}
	l.Apply(&b, 24*hour+1)
	if l.ExpireProducers(24*hour+1) || len(l.ProducerStates()) != 1 {
		t.Fatal("a producer seen at the limit expired")
	}
	if !l.ExpireProducers(24*hour+2) || len(l.ProducerStates()) != 0 {
		t.Fatal("a producer seen before the limit did not expire")
	}
}

func TestEpochEnd(t *testing.T) {
	// Kafka's LeaderEpochFileCache.endOffsetFor, case by case.
	epochs := []Epoch{{2, 10}, {4, 20}, {5, 30}}
	tests := []struct {
		current, want, epoch int32
		offset               int64
	}{
		{7, 7, 7, 40}, {7, 8, -1, -1}, {7, -1, -1, -1}, {7, 6, 5, 40}, {7, 5, 5, 40},
		{7, 4, 4, 30}, {7, 3, 2, 20}, {7, 2, 2, 20}, {7, 1, 1, 10}, {5, 5, 5, 40},
	}
	for _, tt := range tests {
		e, o := EpochEnd(epochs, 10, 40, tt.current, tt.want)
		if e != tt.epoch || o != tt.offset {
			t.Errorf("current %d, want %d: got %d, %d; want %d, %d", tt.current, tt.want, e, o, tt.epoch, tt.offset)
		}
	}
	if e, o := EpochEnd(nil, 0, 0, 3, 2); e != 2 || o != 0 {
		t.Errorf("empty log: got %d, %d; want 2, 0", e, o)
	}
}

func TestTrimKeepsTheEpochOfTheStart(t *testing.T) {
	l := New(1)
	for e := int32(1); e <= 3; e++ {
		for range 10 {
			b := Batch{Records: 1, Epoch: e, ProducerID: -1, Base: l.End()}
			l.Apply(&b, 0)
		}
	}
	l.Trim(15)
	if want := []Epoch{{2, 15}, {3, 20}}; !reflect.DeepEqual(l.Epochs(), want) {
		t.Fatalf("epochs %v, want %v", l.Epochs(), want)
	}
	l.Trim(12) // never falls
	if l.Start() != 15 {
		t.Fatalf("start %d, want 15", l.Start())
	}
	l.Check()
}

// TestModel proposes, applies, abandons, trims and restores at random, beside a list of what
// was applied.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New(9)
		var flight, applied []Batch
		now := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"propose": func(t *rapid.T) {
				b := seq(rapid.Int64Range(-1, 2).Draw(t, "producer"), int16(rapid.IntRange(0, 1).Draw(t, "epoch")),
					rapid.Int32Range(0, 8).Draw(t, "sequence"), rapid.Int32Range(1, 3).Draw(t, "records"))
				v, err := l.Propose(&b, 0, now, hour)
				switch v {
				case Accepted:
					flight = append(flight, b)
				case Duplicate:
					found := false
					for _, o := range append(applied, flight...) {
						found = found || (o.Base == b.Base && o.ProducerID == b.ProducerID && o.FirstSequence == b.FirstSequence && o.Records == b.Records)
					}
					if !found {
						t.Fatalf("duplicate at %d, which was never accepted", b.Base)
					}
				case Rejected:
					if err == nil {
						t.Fatal("rejected without an error")
					}
				}
			},
			"apply": func(t *rapid.T) {
				if len(flight) == 0 {
					return
				}
				l.Apply(&flight[0], now)
				applied, flight = append(applied, flight[0]), flight[1:]
			},
			"abandon": func(*rapid.T) { l.Abandon(); flight = nil },
			"trim": func(t *rapid.T) {
				l.Trim(rapid.Int64Range(l.Start(), l.End()).Draw(t, "start"))
			},
			"restore": func(t *rapid.T) {
				l.Abandon()
				flight = nil
				r, err := Restore(l.ID, l.AppendSnapshot(nil))
				if err != nil || !reflect.DeepEqual(normal(r), normal(l)) {
					t.Fatalf("restored %+v (%v) from %+v", r, err, l)
				}
				l = r
			},
			"wait": func(t *rapid.T) { now += rapid.Int64Range(0, hour).Draw(t, "ms") },
			"": func(t *rapid.T) {
				l.Check()
				end := int64(0)
				for _, b := range applied {
					if b.Base != end {
						t.Fatalf("batch at %d, expected %d", b.Base, end)
					}
					end = b.Last() + 1
				}
				if l.End() != end {
					t.Fatalf("end %d, want %d", l.End(), end)
				}
			},
		})
	})
}

// normal makes empty and missing collections equal, and drops overlay left-overs.
func normal(l *Log) Log {
	n := *l
	n.guesses = nil
	if len(n.producers) == 0 {
		n.producers = nil
	}
	if len(n.epochs) == 0 {
		n.epochs = nil
	}
	for id, p := range n.producers {
		q := *p
		for i := int(q.n); i < window; i++ {
			q.recent[i] = sent{}
		}
		n.producers[id] = &q
	}
	return n
}

func TestRestoreRefusesDamage(t *testing.T) {
	l := New(3)
	b, _, _ := propose(t, l, seq(7, 0, 0, 5), 5)
	l.Apply(&b, 5)
	whole := l.AppendSnapshot(nil)
	for n := range whole {
		if _, err := Restore(3, whole[:n]); err == nil || base.CodeOf(err) != base.CodeCorruption {
			t.Fatalf("%d of %d bytes: error %v, want corruption", n, len(whole), err)
		}
	}
	if _, err := Restore(3, append(whole, 0)); err == nil {
		t.Fatal("a trailing byte was accepted")
	}
}
