package partlog

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// twin is what a log should know of transactions, worked out anew from the list of all applied batches.
type twin struct {
	applied []Batch
	start   int64
}

// state walks over the list: open transactions, aborted ones, and the last stable offset.
func (w *twin) state() (open []OpenTxn, aborted []Aborted, stable int64) {
	first := map[int64]int64{}
	end := int64(0)
	lowest := func() int64 {
		s := end
		for _, at := range first {
			s = min(s, at)
		}
		return s
	}
	for i := range w.applied {
		b := &w.applied[i]
		end = b.Last() + 1
		at, is := first[b.ProducerID]
		switch {
		case b.Control == NotControl && b.Transactional && !is:
			first[b.ProducerID] = b.Base
		case b.Control != NotControl && is:
			delete(first, b.ProducerID)
			if b.Control == Abort {
				aborted = append(aborted, Aborted{b.ProducerID, at, b.Base, lowest()})
			}
		}
	}
	for id, at := range first {
		open = append(open, OpenTxn{id, at})
	}
	slices.SortFunc(open, func(a, b OpenTxn) int { return int(a.First - b.First) })
	return open, aborted, lowest()
}

// committed lists the offsets of records in [from, to) that are of no transaction or of a committed one.
func (w *twin) committed(from, to int64) (out []int64) {
	fate := map[int64]Control{} // producer -> its next marker, seen from the end
	var rev []int64
	for i := len(w.applied) - 1; i >= 0; i-- {
		b := &w.applied[i]
		switch {
		case b.Control != NotControl:
			fate[b.ProducerID] = b.Control
			continue
		case b.Transactional && fate[b.ProducerID] != Commit:
			continue
		}
		for at := b.Last(); at >= b.Base; at-- {
			if at >= from && at < to {
				rev = append(rev, at)
			}
		}
	}
	slices.Reverse(rev)
	return append(out, rev...)
}

// view lists what a reader gets that reads [from, to) and knows the aborted transactions in it: it leaves out what their producers wrote
// from their first offset to their marker.
func view(applied []Batch, aborted []Aborted, from, to int64) (out []int64) {
	for i := range applied {
		b := &applied[i]
		void := slices.ContainsFunc(aborted, func(a Aborted) bool {
			return b.Transactional && a.ProducerID == b.ProducerID && a.First <= b.Base && b.Base < a.Last
		})
		for at := b.Base; at <= b.Last(); at++ {
			if b.Control == NotControl && !void && at >= from && at < to {
				out = append(out, at)
			}
		}
	}
	return out
}

// txnModel drives a log and its twin.
type txnModel struct {
	l      *Log
	twin   twin
	flight []Batch
	guards map[int64]Guard // the last given to each producer, as long as it is valid
	now    int64
}

// opens reports whether a producer has a transaction, with what is in flight.
func (m *txnModel) opens(id int64) bool {
	w := twin{applied: append(slices.Clone(m.twin.applied), m.flight...)}
	open, _, _ := w.state()
	return slices.ContainsFunc(open, func(o OpenTxn) bool { return o.ProducerID == id })
}

// next is the epoch and sequence with which a producer would go on.
func (m *txnModel) next(id int64) (epoch int16, sequence int32) {
	p := m.l.guess(id, m.now, hour)
	switch {
	case p == nil:
		return 0, 0
	case p.n == 0:
		return p.epoch, 0
	}
	return p.epoch, p.recent[p.n-1].last + 1
}

// often is true three times out of four.
func often(t *rapid.T, what string) bool { return rapid.IntRange(0, 3).Draw(t, what) > 0 }

func (m *txnModel) send(t *rapid.T) {
	b := seq(rapid.Int64Range(1, 3).Draw(t, "producer"), 0, 0, rapid.Int32Range(1, 2).Draw(t, "records"))
	b.ProducerEpoch, b.FirstSequence = m.next(b.ProducerID)
	if !often(t, "regular") {
		b.ProducerEpoch, b.FirstSequence = int16(rapid.IntRange(0, 3).Draw(t, "epoch")), rapid.Int32Range(0, 3).Draw(t, "sequence")
	}
	b.Transactional = often(t, "transactional")
	m.propose(t, b, Guard(rapid.IntRange(0, 5).Draw(t, "guard")))
	if guard := m.guards[b.ProducerID]; guard != 0 && b.Transactional && often(t, "verified") {
		m.propose(t, b, guard)
	}
}

func (m *txnModel) propose(t *rapid.T, b Batch, guard Guard) {
	valid := m.guards[b.ProducerID]
	open := m.opens(b.ProducerID)
	v, err := m.l.Propose(&b, guard, m.now, hour)
	if (err != nil) != (v == Rejected || v == Unverified) {
		t.Fatalf("verdict %d with error %v", v, err)
	}
	switch v {
	case Accepted:
		if open && !b.Transactional {
			t.Fatalf("%+v was accepted into a transaction", b)
		}
		if !open && b.Transactional && (guard == 0 || guard != valid) {
			t.Fatalf("guard %d opened a transaction; the valid one is %d", guard, valid)
		}
		m.flight = append(m.flight, b)
		delete(m.guards, b.ProducerID)
	case Unverified:
		m.guards[b.ProducerID] = m.l.Guard(&b, rapid.Bool().Draw(t, "bumps"), m.now)
	}
}

func (m *txnModel) mark(t *rapid.T) {
	k := Marker{ProducerID: rapid.Int64Range(1, 3).Draw(t, "producer"),
		CoordinatorEpoch: rapid.Int32Range(0, 1).Draw(t, "coordinator"), Commit: rapid.Bool().Draw(t, "commit"), Version: int16(rapid.IntRange(1, 2).Draw(t, "version"))}
	k.Epoch, _ = m.next(k.ProducerID)
	k.Epoch += int16(rapid.IntRange(-1, 2).Draw(t, "raise"))
	if k.Epoch < 0 {
		k.Epoch = 0
	}
	open := m.opens(k.ProducerID)
	var b Batch
	v, err := m.l.ProposeMarker(&b, &k, m.now, hour)
	switch {
	case (err != nil) != (v == Rejected):
		t.Fatalf("verdict %d with error %v", v, err)
	case v == Duplicate && open:
		t.Fatalf("%+v is called a duplicate, and the transaction is open", k)
	case v == Accepted:
		m.flight = append(m.flight, b)
	}
	if v != Rejected {
		delete(m.guards, k.ProducerID)
	}
}

func (m *txnModel) abandon() {
	m.l.Abandon()
	m.flight = nil
	clear(m.guards)
}

func (m *txnModel) check(t *rapid.T) {
	l := m.l
	l.Check()
	open, aborted, stable := m.twin.state()
	aborted = slices.DeleteFunc(aborted, func(a Aborted) bool { return a.Last < m.twin.start })
	if !slices.Equal(l.Open(), open) || !slices.Equal(l.Aborted(), aborted) || l.LastStable() != max(stable, m.twin.start) {
		t.Fatalf("open %v, aborted %v, stable %d; want %v, %v, %d", l.Open(), l.Aborted(), l.LastStable(), open, aborted, stable)
	}
	from := rapid.Int64Range(l.Start(), l.End()).Draw(t, "from")
	to := rapid.Int64Range(min(from, l.LastStable()), l.LastStable()).Draw(t, "to")
	within := AbortedWithin(l.Aborted(), from, to)
	for i, a := range within {
		if a.First >= to || a.Last < from || i > 0 && within[i-1].First >= a.First {
			t.Fatalf("%v is listed for [%d, %d), in %v", a, from, to, within)
		}
	}
	if got, want := view(m.twin.applied, within, from, to), m.twin.committed(from, to); !slices.Equal(got, want) {
		t.Fatalf("[%d, %d) shows %v, committed are %v", from, to, got, want)
	}
}

// TestTransactionModel proposes, applies, abandons, trims and restores at random, beside a list of what was applied: the view of a reader
// of committed records equals the committed ones.
func TestTransactionModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &txnModel{l: New(9), guards: map[int64]Guard{}}
		t.Repeat(map[string]func(*rapid.T){
			"send":      m.send,
			"send more": m.send,
			"mark":      m.mark,
			"abandon":   func(*rapid.T) { m.abandon() },
			"apply": func(t *rapid.T) {
				for range rapid.IntRange(1, 4).Draw(t, "batches") {
					if len(m.flight) == 0 {
						return
					}
					m.l.Apply(&m.flight[0], m.now)
					m.twin.applied, m.flight = append(m.twin.applied, m.flight[0]), m.flight[1:]
				}
			},
			"trim": func(t *rapid.T) {
				m.twin.start = rapid.Int64Range(m.l.Start(), m.l.End()).Draw(t, "start")
				m.l.Trim(m.twin.start)
			},
			"expire": func(*rapid.T) { m.l.ExpireProducers(m.now - hour) },
			"restore": func(t *rapid.T) {
				m.abandon()
				r, err := Restore(m.l.ID, m.l.AppendSnapshot(nil))
				if err != nil || !r.RestoreAborted(m.l.Aborted()) {
					t.Fatal(err)
				}
				a, b := normal(r), normal(m.l)
				a.guards, b.guards = guards{}, guards{}
				if len(a.open) == 0 {
					a.open, b.open = nil, nil
				}
				if !reflect.DeepEqual(a, b) {
					t.Fatalf("restored %+v from %+v", r, m.l)
				}
				m.l = r
			},
			"wait": func(t *rapid.T) { m.now += rapid.Int64Range(0, hour).Draw(t, "ms") },
			"":     m.check,
		})
	})
}

// TestVersion1Snapshot: what was written before there were transactions.
func TestVersion1Snapshot(t *testing.T) {
	// start 0, end 5; epoch 2 from 0; producer 7: epoch 1, seen at 50, stamp 60, one batch 0-4 at 0.
	b := []byte{1, 0, 10, 1, 4, 0, 1, 14, 2, 100, 120, 2, 0, 8, 0, 10}
	l, err := Restore(3, b)
	if err != nil {
		t.Fatal(err)
	}
	if want := []ProducerState{{ID: 7, Epoch: 1, LastSequence: 4, LastTimestamp: 60, CoordinatorEpoch: -1, TxnStart: -1}}; !reflect.DeepEqual(l.ProducerStates(), want) || l.End() != 5 || l.LastStable() != 5 {
		t.Fatalf("end %d, stable %d, producers %+v; want %+v", l.End(), l.LastStable(), l.ProducerStates(), want)
	}
	l.Check()
}

func TestRestoreAbortedRefusesNonsense(t *testing.T) {
	l := New(3)
	b := Batch{Records: 10, ProducerID: -1}
	l.Apply(&b, 0)
	for _, all := range [][]Aborted{
		{{7, 5, 5, 6}}, {{7, -1, 5, 6}}, {{7, 0, 10, 11}}, {{7, 0, 5, 6}, {8, 1, 5, 6}}, {{7, 0, 5, 6}, {8, 1, 4, 5}},
	} {
		if l.RestoreAborted(all) {
			t.Errorf("%v was taken", all)
		}
	}
	if !l.RestoreAborted([]Aborted{{7, 0, 5, 6}, {8, 1, 9, 10}}) {
		t.Error("two good ones were refused")
	}
}

func TestForgetAborted(t *testing.T) {
	l := New(3)
	b := Batch{Records: 30, ProducerID: -1}
	l.Apply(&b, 0)
	l.RestoreAborted([]Aborted{{7, 0, 5, 6}, {8, 1, 9, 10}, {7, 11, 20, 21}})
	held := l.Aborted()
	if gone := l.ForgetAborted([]int64{5, 6, 20}); len(gone) != 2 || gone[0].Last != 5 || gone[1].Last != 20 {
		t.Fatalf("forgot %v", gone)
	}
	if len(l.Aborted()) != 1 || l.Aborted()[0].Last != 9 || held[0].Last != 5 {
		t.Fatalf("left %v; a reader holds %v", l.Aborted(), held)
	}
}

func FuzzRestore(f *testing.F) {
	l := New(3)
	for i, b := range []Batch{
		{Records: 3, Epoch: 2, ProducerID: 7, Transactional: true},
		{Records: 2, Epoch: 2, ProducerID: 8, ProducerEpoch: 1},
		{Records: 1, Epoch: 3, ProducerID: 7, ProducerEpoch: 1, FirstSequence: -1, Transactional: true, Control: Abort, CoordinatorEpoch: 4},
		{Records: 1, Epoch: 3, ProducerID: 9, Transactional: true},
	} {
		b.Base = l.End()
		l.Apply(&b, int64(i))
	}
	f.Add(l.AppendSnapshot(nil))
	f.Add([]byte{1, 0, 10, 1, 4, 0, 1, 14, 2, 100, 120, 2, 0, 8, 0, 10})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := Restore(3, b)
		if err != nil {
			return
		}
		again, err := Restore(3, l.AppendSnapshot(nil))
		if err != nil || !reflect.DeepEqual(normal(again), normal(l)) {
			t.Fatalf("%+v came back as %+v, %v", l, again, err)
		}
	})
}
