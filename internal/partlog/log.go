package partlog

import (
	"math"
	"sort"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// Epoch says at which offset a leader epoch began.
type Epoch struct {
	Epoch int32
	Start int64
}

// Batch is what the log needs to know of one record batch.
type Batch struct {
	Base          int64 // first offset; set by Propose
	Records       int32 // offsets taken: last offset delta + 1, at least 1
	Epoch         int32 // partition leader epoch at the proposal
	ProducerID    int64 // -1: not idempotent
	ProducerEpoch int16
	FirstSequence int32 // -1: a marker
	MaxTimestamp  int64 // Unix milliseconds

	Transactional    bool
	Control          Control // the batch is a transaction marker; always transactional
	CoordinatorEpoch int32   // of a marker: of the transaction coordinator that sent it
}

// Last is the batch's last offset.
func (b *Batch) Last() int64 { return b.Base + int64(b.Records) - 1 }

// lastSequence wraps from 2^31-1 to 0.
func (b *Batch) lastSequence() int32 { return addSequence(b.FirstSequence, b.Records-1) }

func addSequence(seq, n int32) int32 { return int32((int64(seq) + int64(n)) & 0x7fffffff) }

// Log is the state of one partition. It has one owner.
type Log struct {
	ID        base.LogID
	start     int64
	end       int64
	epochs    []Epoch // ascending in both fields; replaced, never written in place
	producers map[int64]*producer
	open      []OpenTxn // ascending; one for each producer with an open transaction
	aborted   []Aborted // ascending by Last; only appended to and cut at the front, so that readers may hold it

	next    int64               // end of the overlay
	guesses map[int64]*producer // producers with batches in flight, as the overlay has them
	guards  guards
}

// New is an empty log.
func New(id base.LogID) *Log { return &Log{ID: id} }

// Start is the log start offset.
func (l *Log) Start() int64 { return l.start }

// End is the offset that the next applied batch gets: the high watermark.
func (l *Log) End() int64 { return l.end }

// Next is the offset that the next proposed batch gets.
func (l *Log) Next() int64 { return l.next }

// Epochs is the leader epoch history, ascending. It is immutable.
func (l *Log) Epochs() []Epoch { return l.epochs }

// Verdict says what becomes of a proposed batch.
type Verdict uint8

// The verdicts.
const (
	Accepted  Verdict = iota
	Duplicate         // committed before, or about to be: Base tells where
	Rejected
	Unverified // the batch would open a transaction, and the guard does not cover it: see Guard
)

// Propose gives a batch of records its base offset and enters it into the overlay, or finds that it is a
// duplicate (Base is set to the offset of the first delivery), or rejects it. now is the shard's
// time; producers idle for longer than expire milliseconds count as unknown. guard is what Guard gave before the
// transaction coordinator confirmed that the transaction is open and has this partition; 0 for none. An error comes
// with Rejected and with Unverified, then of CodeUnverifiedTxn.
func (l *Log) Propose(b *Batch, guard Guard, now, expire int64) (Verdict, error) {
	if b.ProducerID >= 0 {
		p := l.guess(b.ProducerID, now, expire)
		if at, ok := p.find(b); ok {
			b.Base = at
			return Duplicate, nil
		}
		if v, err := l.admit(p, b, guard); err != nil {
			return v, err
		}
		b.Base = l.next
		l.remember(b, now)
		l.guards.drop(b.ProducerID)
	}
	b.Base = l.next
	l.next += int64(b.Records)
	return Accepted, nil
}

// guess is the overlay's view of a producer; nil if nothing is known.
func (l *Log) guess(id, now, expire int64) *producer {
	if p := l.guesses[id]; p != nil {
		return p
	}
	if p := l.producers[id]; p != nil && (p.txn >= 0 || now-p.seen <= expire) {
		return p
	}
	return nil
}

// admit applies the rules of Kafka's log in its order: epoch, verification, sequence, state of the transaction.
func (l *Log) admit(p *producer, b *Batch, guard Guard) (Verdict, error) {
	if err := p.checkEpoch(b); err != nil {
		return Rejected, err
	}
	open := p != nil && p.txn >= 0
	if b.Transactional && !open {
		if v, err := l.guards.check(b, guard); err != nil {
			return v, err
		}
	}
	if err := l.guards.checkSequence(p, b); err != nil {
		return Rejected, err
	}
	if err := p.checkSequence(b); err != nil {
		return Rejected, err
	}
	if open && !b.Transactional {
		return Rejected, base.Errorf(base.CodeInvalidTxnState, "producer %d has a transaction open since offset %d; the batch is not transactional", b.ProducerID, p.txn)
	}
	return Accepted, nil
}

func (l *Log) remember(b *Batch, now int64) {
	p := l.guesses[b.ProducerID]
	if p == nil {
		p = newProducer()
		if old := l.producers[b.ProducerID]; old != nil {
			*p = *old
		}
		if l.guesses == nil {
			l.guesses = map[int64]*producer{}
		}
		l.guesses[b.ProducerID] = p
	}
	p.push(b, now)
}

// Abandon drops the overlay: what was in flight will not be applied.
func (l *Log) Abandon() {
	l.next = l.end
	l.guesses = nil
	l.guards.abandon()
}

// Apply enters a committed batch. Its base must be the end of the log: anything else is a bug, or a
// journal of another log.
func (l *Log) Apply(b *Batch, now int64) {
	invariants.Check(b.Base == l.end, "log %d: batch at %d applied at end %d", l.ID, b.Base, l.end)
	l.end += int64(b.Records)
	if l.next <= l.end {
		// Nothing is in flight any more (or the entry came from another leader).
		l.next, l.guesses = l.end, nil
	}
	if n := len(l.epochs); n == 0 || l.epochs[n-1].Epoch < b.Epoch {
		l.epochs = append(l.epochs[:n:n], Epoch{b.Epoch, b.Base})
	}
	if b.ProducerID < 0 {
		return
	}
	p := l.producers[b.ProducerID]
	if p == nil {
		p = newProducer()
		if l.producers == nil {
			l.producers = map[int64]*producer{}
		}
		l.producers[b.ProducerID] = p
	}
	before := p.txn
	p.push(b, now)
	l.track(b, before)
}

// Trim raises the log start offset; it never falls and never passes the end. It returns the aborted transactions
// that are forgotten, because their markers are below the start now.
func (l *Log) Trim(start int64) []Aborted {
	if start <= l.start {
		return nil
	}
	invariants.Check(start <= l.end, "log %d: start %d beyond end %d", l.ID, start, l.end)
	l.start = start
	// Keep the epoch that the first kept record belongs to; it begins at the start now.
	i := sort.Search(len(l.epochs), func(i int) bool { return l.epochs[i].Start > start }) - 1
	if i >= 0 {
		kept := append([]Epoch(nil), l.epochs[i:]...)
		kept[0].Start = max(kept[0].Start, start)
		l.epochs = kept
	}
	return l.trimAborted()
}

// ExpireProducers forgets producers that were last seen before the given time, and reports whether there were
// any. Producers with batches in flight or an open transaction stay.
func (l *Log) ExpireProducers(before int64) bool {
	n := len(l.producers)
	for id, p := range l.producers {
		if p.seen < before && p.txn < 0 && l.guesses[id] == nil {
			delete(l.producers, id)
		}
	}
	return len(l.producers) < n
}

// OldestProducer is the time at which the producer that is silent for longest, of those that can expire, was last
// seen; the largest time there is, if there are none.
func (l *Log) OldestProducer() int64 {
	oldest := int64(math.MaxInt64)
	for _, p := range l.producers {
		if p.txn < 0 {
			oldest = min(oldest, p.seen)
		}
	}
	return oldest
}

// EpochEnd finds the largest epoch not above the wanted one, and the offset at which the next one
// begins, as OffsetForLeaderEpoch answers (KIP-101, KIP-279). current is the epoch in which the
// leader writes now; it began at end if it has no record yet. An epoch above it gets -1, -1.
func EpochEnd(epochs []Epoch, start, end int64, current, want int32) (epoch int32, offset int64) {
	switch {
	case want < 0 || want > current:
		return -1, -1
	case want == current:
		return current, end
	}
	i := sort.Search(len(epochs), func(i int) bool { return epochs[i].Epoch > want })
	next := end // where the epoch above the wanted one begins
	if i < len(epochs) {
		next = max(start, epochs[i].Start)
	}
	if i == 0 {
		return want, next
	}
	return epochs[i-1].Epoch, next
}

// Check verifies the guarantees that can be seen from inside.
func (l *Log) Check() {
	invariants.Check(0 <= l.start && l.start <= l.end && l.end <= l.next, "log %d: start %d, end %d, next %d", l.ID, l.start, l.end, l.next)
	for i := 1; i < len(l.epochs); i++ {
		a, b := l.epochs[i-1], l.epochs[i]
		invariants.Check(a.Epoch < b.Epoch && a.Start <= b.Start, "log %d: epochs %v then %v", l.ID, a, b)
	}
	l.checkTxns()
}
