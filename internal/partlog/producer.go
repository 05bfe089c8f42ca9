package partlog

import (
	"cmp"
	"slices"

	"godwit/internal/base"
)

// window is how many batches of a producer are remembered: Kafka's max.in.flight limit for
// idempotence (KIP-98).
const window = 5

type sent struct {
	first, last int32 // sequences
	base        int64
	records     int32
}

// producer is the state of one idempotent producer on one log.
type producer struct {
	epoch int16
	n     uint8 // entries in recent
	seen  int64 // shard time of its last batch, Unix milliseconds
	stamp int64 // max timestamp of its last batch
	txn   int64 // first offset of its open transaction; -1: none
	coord int32 // coordinator epoch of its last marker; -1: none
	// recent holds the last batches of this epoch, oldest first.
	recent [window]sent
}

func newProducer() *producer { return &producer{epoch: -1, txn: -1, coord: -1} }

// find looks for an earlier delivery of the batch among the remembered ones.
func (p *producer) find(b *Batch) (at int64, ok bool) {
	if p == nil || p.epoch != b.ProducerEpoch {
		return 0, false
	}
	for _, s := range p.recent[:p.n] {
		if s.first == b.FirstSequence && s.last == b.lastSequence() && s.records == b.Records {
			return s.base, true
		}
	}
	return 0, false
}

// checkEpoch fences a batch of an older incarnation of its producer.
func (p *producer) checkEpoch(b *Batch) error {
	if p != nil && b.ProducerEpoch < p.epoch {
		return base.Errorf(base.CodeFencedProducer, "producer %d has epoch %d; the batch came with epoch %d", b.ProducerID, p.epoch, b.ProducerEpoch)
	}
	return nil
}

// checkSequence applies the sequence rules of Kafka's ProducerAppendInfo. A producer of which nothing is
// known may begin anywhere: its state may have expired, or its records been deleted.
func (p *producer) checkSequence(b *Batch) error {
	if p == nil || p.epoch < 0 {
		return nil
	}
	if b.ProducerEpoch > p.epoch {
		if b.FirstSequence != 0 {
			return base.Errorf(base.CodeOutOfOrderSequence, "producer %d: first sequence of new epoch %d is %d, must be 0", b.ProducerID, b.ProducerEpoch, b.FirstSequence)
		}
		return nil
	}
	last := int32(-1) // a marker began the epoch, and nothing was written in it
	if p.n > 0 {
		last = p.recent[p.n-1].last
	}
	if want := addSequence(last, 1); b.FirstSequence != want {
		return base.Errorf(base.CodeOutOfOrderSequence, "producer %d: sequence %d came after %d, expected %d", b.ProducerID, b.FirstSequence, last, want)
	}
	return nil
}

// push enters a batch. A marker ends the transaction; where it raises the epoch, sequences begin anew.
func (p *producer) push(b *Batch, now int64) {
	if p.epoch != b.ProducerEpoch {
		p.epoch, p.n = b.ProducerEpoch, 0
	}
	p.seen, p.stamp = now, b.MaxTimestamp
	if b.Control != NotControl {
		p.txn, p.coord = -1, b.CoordinatorEpoch
		return
	}
	if p.n == window {
		copy(p.recent[:], p.recent[1:])
		p.n--
	}
	p.recent[p.n] = sent{b.FirstSequence, b.lastSequence(), b.Base, b.Records}
	p.n++
	if b.Transactional && p.txn < 0 {
		p.txn = b.Base
	}
}

// ProducerState is a producer as DescribeProducers shows it (KIP-664).
type ProducerState struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // of its epoch; -1: none yet
	LastTimestamp    int64 // Unix milliseconds
	CoordinatorEpoch int32 // of its last transaction marker; -1: none
	TxnStart         int64 // first offset of its open transaction; -1: none
}

// ProducerStates lists the applied producers by ID.
func (l *Log) ProducerStates() []ProducerState {
	out := make([]ProducerState, 0, len(l.producers))
	for id, p := range l.producers {
		s := ProducerState{ID: id, Epoch: p.epoch, LastSequence: -1, LastTimestamp: p.stamp,
			CoordinatorEpoch: p.coord, TxnStart: p.txn}
		if p.n > 0 {
			s.LastSequence = p.recent[p.n-1].last
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b ProducerState) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
