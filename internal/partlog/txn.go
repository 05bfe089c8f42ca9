package partlog

import (
	"cmp"
	"slices"
	"sort"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// Control says whether a batch is a transaction marker.
type Control uint8

// The kinds of batches.
const (
	NotControl Control = iota // records of a client
	Abort
	Commit
)

// OpenTxn is a transaction that has records and no marker yet.
type OpenTxn struct {
	ProducerID int64
	First      int64 // offset of its first record
}

// Aborted is a transaction whose marker says abort. Readers of committed records leave out what the producer wrote
// from First to Last.
type Aborted struct {
	ProducerID int64
	First      int64 // offset of its first record
	Last       int64 // offset of its marker
	LastStable int64 // first offset of the oldest transaction that was open behind the marker; else the offset behind it
}

// LastStable is the last stable offset: no transaction that is open has records below it.
func (l *Log) LastStable() int64 { return max(l.start, l.undecided()) }

// undecided is the first offset of the oldest open transaction, even if that is below the start; the end if none is open.
func (l *Log) undecided() int64 {
	if len(l.open) == 0 {
		return l.end
	}
	return l.open[0].First
}

// Open lists the open transactions by their first offset. It must not be written to, and holds until the next Apply.
func (l *Log) Open() []OpenTxn { return l.open }

// Aborted lists the aborted transactions that still matter, by the offset of their markers. It must not be written to, and stays as
// it is whatever becomes of the log.
func (l *Log) Aborted() []Aborted { return l.aborted }

// AbortedWithin finds the aborted transactions that have offsets in [from, to), by their first offset, among those that Aborted
// listed. Transactions that were open when the log's last stable offset was to may be missing.
func AbortedWithin(all []Aborted, from, to int64) []Aborted {
	var out []Aborted
	i := sort.Search(len(all), func(i int) bool { return all[i].Last >= from })
	for ; i < len(all); i++ {
		if a := &all[i]; a.First < to {
			out = append(out, *a)
		}
		if all[i].LastStable >= to {
			break // whatever ended later began at or above it
		}
	}
	slices.SortFunc(out, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	return out
}

// Marker asks for the end of a producer's transaction.
type Marker struct {
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32
	Commit           bool
	// Version is that of the transaction (transaction.version): from 2 on the epoch was raised for the marker (KIP-890), so one
	// that is not above the producer's own cannot be of the transaction that is open.
	Version int16
}

// ProposeMarker decides on a marker like Propose on records. Accepted fills b, but for Epoch and MaxTimestamp, which are
// the caller's. Duplicate says that the transaction has ended already, or is about to by a marker in flight: nothing is to be
// written, which is where this differs from Kafka, whose log gets one more marker. Either way no guard of the
// producer is valid any more.
func (l *Log) ProposeMarker(b *Batch, m *Marker, now, expire int64) (Verdict, error) {
	p := l.guess(m.ProducerID, now, expire)
	if p != nil {
		switch {
		case m.Epoch < p.epoch, m.Epoch == p.epoch && m.Version >= 2 && p.txn >= 0:
			return Rejected, base.Errorf(base.CodeFencedProducer, "producer %d has epoch %d; the marker came with epoch %d for a transaction of version %d", m.ProducerID, p.epoch, m.Epoch, m.Version)
		case m.CoordinatorEpoch < p.coord:
			return Rejected, base.Errorf(base.CodeFencedCoordinator, "producer %d had a marker of coordinator epoch %d; this one came with epoch %d", m.ProducerID, p.coord, m.CoordinatorEpoch)
		}
	}
	l.guards.drop(m.ProducerID)
	if p != nil && m.Epoch == p.epoch && p.txn < 0 {
		return Duplicate, nil
	}
	b.Base, b.Records = l.next, 1
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = m.ProducerID, m.Epoch, -1
	b.Transactional, b.Control, b.CoordinatorEpoch = true, Abort, m.CoordinatorEpoch
	if m.Commit {
		b.Control = Commit
	}
	l.remember(b, now)
	l.next++
	return Accepted, nil
}

// Settled reports whether nothing is in flight.
func (l *Log) Settled() bool { return l.next == l.end }

// track enters what an applied batch did to its producer's transaction, which began at before, -1 if it was not open.
func (l *Log) track(b *Batch, before int64) {
	switch {
	case b.Control == NotControl:
		if b.Transactional && before < 0 {
			l.open = append(l.open, OpenTxn{b.ProducerID, b.Base})
		}
	case before >= 0:
		i := slices.IndexFunc(l.open, func(o OpenTxn) bool { return o.First == before })
		invariants.Check(i >= 0, "log %d: the transaction of producer %d from %d on is not listed", l.ID, b.ProducerID, before)
		l.open = slices.Delete(l.open, i, i+1)
		if b.Control == Abort {
			l.aborted = append(l.aborted, Aborted{b.ProducerID, before, b.Base, l.undecided()})
		}
	}
}

// trimAborted forgets the aborted transactions whose markers are below the start.
func (l *Log) trimAborted() []Aborted {
	n := sort.Search(len(l.aborted), func(i int) bool { return l.aborted[i].Last >= l.start })
	return l.cutAborted(n)
}

// cutAborted forgets the first n. What is left is copied, since readers may hold the old list.
func (l *Log) cutAborted(n int) []Aborted {
	if n == 0 {
		return nil
	}
	gone := l.aborted[:n:n]
	l.aborted = slices.Clone(l.aborted[n:])
	return gone
}

// ForgetAborted forgets transactions, named by the ascending offsets of their markers, of whose records none is left. It returns those
// that it knew.
func (l *Log) ForgetAborted(last []int64) []Aborted {
	var gone, kept []Aborted
	for _, a := range l.aborted {
		if _, ok := slices.BinarySearch(last, a.Last); ok {
			gone = append(gone, a)
		} else {
			kept = append(kept, a)
		}
	}
	if gone != nil {
		l.aborted = kept
	}
	return gone
}

// RestoreAborted gives a restored log its aborted transactions, in the order of their markers. False: they cannot be.
func (l *Log) RestoreAborted(all []Aborted) bool {
	for i := range all {
		a := &all[i]
		if a.First < 0 || a.First >= a.Last || a.Last >= l.end || i > 0 && all[i-1].Last >= a.Last {
			return false
		}
	}
	l.aborted = all
	return true
}

// checkTxns verifies what can be seen from inside of transactions.
func (l *Log) checkTxns() {
	n := 0
	for id, p := range l.producers {
		if p.txn >= 0 {
			n++
			invariants.Check(slices.Contains(l.open, OpenTxn{id, p.txn}), "log %d: the transaction of producer %d from %d on is not listed", l.ID, id, p.txn)
		}
	}
	invariants.Check(n == len(l.open), "log %d: %d producers have transactions, %d are listed", l.ID, n, len(l.open))
	for i := 1; i < len(l.open); i++ {
		invariants.Check(l.open[i-1].First < l.open[i].First, "log %d: open transactions %v then %v", l.ID, l.open[i-1], l.open[i])
	}
	for i := 1; i < len(l.aborted); i++ {
		invariants.Check(l.aborted[i-1].Last < l.aborted[i].Last, "log %d: aborted %v then %v", l.ID, l.aborted[i-1], l.aborted[i])
	}
	invariants.Check(l.LastStable() <= l.end, "log %d: last stable offset %d above the end %d", l.ID, l.LastStable(), l.end)
}
