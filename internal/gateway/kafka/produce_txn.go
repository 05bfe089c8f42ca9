package kafka

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
	"godwit/internal/recordbatch"
)

// A log lets a producer open a transaction only when the coordinator has confirmed it (KIP-890): it refuses the first batch
// with a guard, and the request asks the coordinator and tries again with the guard. That goes on beside the connection's
// other requests, but those of the same transactional ID must not overtake: their sequences would be out of order.

// Versions of Produce that change what transactions mean.
const (
	abortableSince = 11 // the client knows TRANSACTION_ABORTABLE
	implicitSince  = 12 // writing adds a partition to the transaction (transaction version 2)
)

// maxAttempts bounds how often a request asks the coordinator. More than once is needed only if a write was lost meanwhile.
const maxAttempts = 3

// stage is how far a transactional request is. Only the connection's worker changes it.
type stage uint8

const (
	submitted stage = iota // the journal has it, or answered without asking for verification
	refused                // some items wait to be verified, behind other requests
	asking                 // the coordinator is being asked
	parked                 // it was not submitted yet, since requests before it are being verified
	over                   // there are results for all items
)

// produceTxn is what a request needs to know of its transaction.
type produceTxn struct {
	id       string // transactional ID
	producer int64
	epoch    int16
	mixed    bool  // its batches are of several producers
	slots    []int // items of produce.sent that are transactional
	parts    []group.Partition

	stage    stage
	attempts int   // so often the coordinator was asked
	retried  bool  // it was submitted once more behind a request that was verified
	open     []int // places in slots that are not verified yet
	answered chan []error
	again    broker.Append // the items of open, when submitted once more
}

// transactional notes a batch that is about to be put on the list.
func (p *produce) transactional(s *meta.Stream, index int32, info *recordbatch.Info) {
	t := p.txn
	if t == nil {
		t = &produceTxn{producer: info.ProducerID, epoch: info.ProducerEpoch}
		if p.txnID != nil {
			t.id = strings.Clone(*p.txnID)
		}
		p.txn = t
	}
	t.mixed = t.mixed || t.producer != info.ProducerID || t.epoch != info.ProducerEpoch
	t.slots = append(t.slots, len(p.sent.Items))
	t.parts = append(t.parts, group.Partition{Stream: s.ID, Index: index})
}

// checkTxn refuses the whole request where its transactional batches are of no transaction, or of several, as Kafka does.
func (p *produce) checkTxn() {
	var e *kerr.Error
	switch {
	case p.txn == nil:
		return
	case p.txnID == nil:
		e = kerr.TransactionalIDAuthorizationFailed
	case p.txn.mixed:
		e = kerr.InvalidProducerIDMapping
	default:
		return
	}
	p.txn, p.sent.Items = nil, nil
	for i := range p.results {
		p.results[i] = produceResult{slot: -1, base: -1, stamp: -1, logStart: -1, code: p.rc.reject(e)}
	}
}

// txnError is the error of an item as the request's version may see it.
func (p *produce) txnError(err error) error {
	if base.CodeOf(err) == base.CodeTxnAbortable && p.rc.version < abortableSince {
		return base.Errorf(base.CodeInvalidTxnState, "%v", err)
	}
	return err
}

// verdict is the error of an item whose transaction the coordinator did not confirm.
func (p *produce) verdict(err error) error {
	switch c := base.CodeOf(err); {
	case c == base.CodeProducerFenced: // a produce request has a code of its own for it
		return base.Errorf(base.CodeFencedProducer, "%v", err)
	case c == base.CodeConcurrentTxn && p.rc.version >= implicitSince:
		return err
	case c.Retriable():
		// Nothing is known of the transaction: the producer has to try again, and does so with this code in every version.
		return base.Errorf(base.CodeUnverifiedTxn, "the transaction could not be verified: %v", err)
	}
	return err
}

// ready reports whether the request can be answered.
func (p *produce) ready() bool {
	return p.done.Load() && (p.txn == nil || p.txn.stage == over)
}

// holds reports whether a new request of a transactional ID has to wait, so that it does not overtake others.
func (c *conn) holds(id string) bool {
	return slices.ContainsFunc(c.pending, func(p *produce) bool {
		return p.txn != nil && p.txn.id == id && p.txn.stage != submitted && p.txn.stage != over
	})
}

// advance moves transactional requests on, oldest first.
func (c *conn) advance() {
	for i, p := range c.pending {
		if p.txn != nil && p.txn.stage != over {
			p.advance(c.pending[:i])
		}
	}
}

// advance moves the request on as far as it goes, behind the requests before it.
func (p *produce) advance(before []*produce) {
	defer p.c.guard(p.rc)
	t := p.txn
	if t.stage == submitted && p.done.Load() {
		p.collect()
	}
	if t.stage == asking {
		select {
		case answers := <-t.answered:
			p.takeAnswers(answers)
		default:
		}
	}
	if t.stage != refused && t.stage != parked || p.waits(before) {
		return
	}
	switch {
	case p.c.broken != nil:
		p.done.Store(true)
		t.stage = over // nobody hears of it
	case t.stage == parked:
		t.stage = submitted
		p.submit(&p.sent)
	case !t.retried && p.follows(before):
		t.retried = true
		p.resubmit(false) // the transaction is likely open by now
	default:
		p.ask()
	}
}

// follows reports whether a request of the same transaction before it was verified.
func (p *produce) follows(before []*produce) bool {
	return slices.ContainsFunc(before, func(o *produce) bool {
		return o.txn != nil && o.txn.id == p.txn.id && o.txn.attempts > 0
	})
}

// waits reports whether a request of the same transaction is before it whose place in the log is not settled.
func (p *produce) waits(before []*produce) bool {
	return slices.ContainsFunc(before, func(o *produce) bool {
		if o.txn == nil || o.txn.id != p.txn.id {
			return false
		}
		switch o.txn.stage {
		case submitted:
			return o.txn.attempts == 0 && !o.txn.retried && !o.done.Load()
		case over:
			return false
		}
		return true
	})
}

// collect takes over what the journal answered, and finds what has to be verified.
func (p *produce) collect() {
	t := p.txn
	for i := range t.again.Items {
		p.sent.Items[t.slots[t.open[i]]] = t.again.Items[i]
	}
	t.again = broker.Append{}
	t.open = t.open[:0]
	for i, slot := range t.slots {
		if err := p.sent.Items[slot].Err; err != nil && base.CodeOf(err) == base.CodeUnverifiedTxn {
			t.open = append(t.open, i)
		}
	}
	t.stage = refused
	if len(t.open) == 0 || t.attempts == maxAttempts {
		t.stage = over
	}
}

// ask begins to ask the coordinator.
func (p *produce) ask() {
	t := p.txn
	t.stage, t.answered = asking, make(chan []error, 1)
	t.attempts++
	check := &broker.TxnCheck{Implicit: p.rc.version >= implicitSince,
		TxnProducer: broker.TxnProducer{Namespace: p.rc.namespace, Transactional: t.id, ProducerID: t.producer, Epoch: t.epoch}}
	for _, i := range t.open {
		check.Partitions = append(check.Partitions, t.parts[i])
	}
	ctx, cancel := context.WithDeadline(p.c.ctx, p.deadline)
	c, answered := p.c, t.answered
	go func() {
		defer cancel()
		answered <- c.s.verifyTxn(ctx, check)
		c.nudge()
	}()
}

// verifyTxn asks the coordinator. A panic is an answer, so that the worker goes on.
func (s *Server) verifyTxn(ctx context.Context, check *broker.TxnCheck) (errs []error) {
	defer func() {
		if v := recover(); v != nil {
			s.metrics.panics.Inc()
			s.log.Error("verifying a transaction panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			errs = make([]error, len(check.Partitions))
			for i := range errs {
				errs[i] = base.Errorf(base.CodeUnknown, "verifying the transaction failed")
			}
		}
	}()
	return s.backend.VerifyTxn(ctx, check)
}

// takeAnswers takes over what the coordinator answered, and tries again what it confirmed.
func (p *produce) takeAnswers(answers []error) {
	t := p.txn
	var confirmed []int
	for k, i := range t.open {
		if err := answers[k]; err != nil {
			p.sent.Items[t.slots[i]].Err = p.verdict(err)
		} else {
			confirmed = append(confirmed, i)
		}
	}
	if t.open = confirmed; len(confirmed) == 0 {
		t.stage = over
		return
	}
	p.resubmit(true)
}

// resubmit submits once more what is not verified, with its guards if it is by now.
func (p *produce) resubmit(verified bool) {
	t := p.txn
	for _, i := range t.open {
		it := &p.sent.Items[t.slots[i]]
		again := broker.AppendItem{Log: it.Log, Shard: it.Shard, Data: it.Data, Batches: it.Batches}
		if verified {
			again.Guard = it.Guard
		}
		t.again.Items = append(t.again.Items, again)
	}
	t.stage = submitted
	p.submit(&t.again)
}
