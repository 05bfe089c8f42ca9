package partlog

import "godwit/internal/base"

// Guard is a leader's token for a transaction that is about to get its first record in this log (KIP-890). It is taken before the
// coordinator is asked whether the transaction is open and has the partition, and is valid until the transaction got
// its first record, a marker came, or what is in flight was abandoned. So a late answer of the coordinator cannot
// open a transaction that a marker has ended meanwhile. 0 is no guard. Guards are never given out twice.
type Guard uint64

// verification is a producer's transaction of which the coordinator has yet to be asked.
type verification struct {
	guard Guard
	epoch int16
	// lowest is the smallest first sequence among the batches that wait: none above it may go first, or the others could
	// never be written.
	lowest int32
	bumps  bool  // the producer's epoch rises with every transaction, so sequences begin at 0
	since  int64 // shard time
}

// guards are leader-local: they are neither replicated nor kept over a restart.
type guards struct {
	last  Guard
	floor Guard // those up to here were lost with what was in flight
	byID  map[int64]*verification
}

// Guard gives the token to verify a batch with, for which Propose found Unverified. bumps says that the producer raises its epoch with every
// transaction (transaction version 2). Batches of the same producer share a token.
func (l *Log) Guard(b *Batch, bumps bool, now int64) Guard {
	g := &l.guards
	v := g.byID[b.ProducerID]
	if v == nil {
		g.last++
		v = &verification{guard: g.last, epoch: b.ProducerEpoch, lowest: b.FirstSequence, bumps: bumps, since: now}
		if g.byID == nil {
			g.byID = map[int64]*verification{}
		}
		g.byID[b.ProducerID] = v
	}
	switch {
	case b.ProducerEpoch > v.epoch:
		v.epoch, v.lowest = b.ProducerEpoch, b.FirstSequence
	case b.ProducerEpoch == v.epoch:
		v.lowest = min(v.lowest, b.FirstSequence)
	}
	v.bumps = v.bumps || bumps
	return v.guard
}

// ExpireGuards forgets guards that were taken before the given time and never used.
func (l *Log) ExpireGuards(before int64) {
	for id, v := range l.guards.byID {
		if v.since < before {
			delete(l.guards.byID, id)
		}
	}
}

func (g *guards) drop(id int64) { delete(g.byID, id) }

func (g *guards) abandon() { g.floor, g.byID = g.last, nil }

// check reports whether a guard lets the batch open a transaction.
func (g *guards) check(b *Batch, guard Guard) (Verdict, error) {
	switch v := g.byID[b.ProducerID]; {
	case guard <= g.floor:
		return Unverified, base.Errorf(base.CodeUnverifiedTxn, "the transaction of producer %d is not verified for this partition: try again", b.ProducerID)
	case v == nil || v.guard != guard:
		return Rejected, base.Errorf(base.CodeInvalidTxnState, "the transaction of producer %d ended before the batch was written", b.ProducerID)
	}
	return Accepted, nil
}

// checkSequence keeps batches in order that wait for the same verification.
func (g *guards) checkSequence(p *producer, b *Batch) error {
	v := g.byID[b.ProducerID]
	switch {
	case v == nil || v.epoch != b.ProducerEpoch:
	case v.bumps && b.FirstSequence != 0 && (p == nil || p.n == 0):
		return base.Errorf(base.CodeOutOfOrderSequence, "producer %d begins with sequence %d; a transaction of version 2 begins with 0 where nothing is known of its producer", b.ProducerID, b.FirstSequence)
	case b.FirstSequence > v.lowest:
		return base.Errorf(base.CodeOutOfOrderSequence, "producer %d: sequence %d came before %d, which waits to be verified", b.ProducerID, b.FirstSequence, v.lowest)
	}
	return nil
}
