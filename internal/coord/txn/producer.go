package txn

import (
	"math"

	"godwit/internal/base"
)

// Epochs at the end of a producer ID. The last one is never a client's, so that every producer can be fenced.
const (
	fencingEpoch int16 = math.MaxInt16
	highestEpoch       = fencingEpoch - 1 // that a client may have
)

// claim is what somebody's producer ID and epoch say of him.
type claim uint8

const (
	stranger claim = iota // of another producer, or an older one
	current               // the producer
	repeated              // the producer as it was before the last step, whose answer it may have missed
)

// claim compares a producer ID and epoch with those of the transactional ID.
func (h *Head) claim(id int64, epoch int16) claim {
	nowID, nowEpoch := h.client()
	switch {
	case id == nowID && epoch == nowEpoch && epoch < fencingEpoch:
		return current
	case id >= 0 && id == h.LastProducerID && epoch == h.LastEpoch:
		return repeated
	}
	return stranger
}

// client is what the producer has: while preparing, for its next transaction.
func (h *Head) client() (id int64, epoch int16) {
	if h.NextProducerID >= 0 {
		return h.NextProducerID, 0
	}
	return h.ProducerID, h.Epoch
}

// refuse is the answer to who is not the current producer.
func (h *Head) refuse(k Key, id int64, epoch int16) *base.Error {
	nowID, nowEpoch := h.client()
	if id != nowID {
		return unknownMapping(k, id)
	}
	return base.Errorf(base.CodeProducerFenced, "Transactional ID %s has epoch %d; producer %d came with epoch %d.", k.ID, nowEpoch, id, epoch)
}

func unknownMapping(k Key, id int64) *base.Error {
	return base.Errorf(base.CodeUnknownMapping, "Producer %d is not that of transactional ID %s: initialize it.", id, k.ID)
}

func concurrent(k Key) *base.Error {
	return base.Errorf(base.CodeConcurrentTxn, "The last transaction of transactional ID %s is still ending: try again.", k.ID)
}

// rotate gives the producer an ID of its own, with epoch 0.
func (h *Head) rotate(fresh int64) { h.ProducerID, h.Epoch = fresh, 0 }

// InitProducerID makes the sender the producer of the transactional ID. One that says what it has is refused if it is no
// longer the producer (KIP-360).
func (c *Coordinator) InitProducerID(now int64, req *InitRequest) InitResult {
	c.advance(now)
	if err := c.checkInit(req); err != nil {
		return initError(err)
	}
	t, said := c.live.txns[req.Key], req.ProducerID >= 0
	if t == nil {
		return c.initNew(req)
	}
	claim := t.claim(req.ProducerID, req.Epoch)
	switch {
	case said && claim == stranger:
		return initError(base.Errorf(base.CodeProducerFenced, "Transactional ID %s has another producer than %d with epoch %d.", req.ID, req.ProducerID, req.Epoch))
	case t.Status.preparing():
		return initError(concurrent(req.Key))
	case t.Status == Ongoing:
		c.abort(req.Key, t)
		return initError(concurrent(req.Key))
	}
	h := t.Head
	h.Status, h.TimeoutMs, h.Started, h.Updated = Empty, req.TimeoutMs, -1, c.now
	limit := fencingEpoch // a repeated request raises nothing, unless the epoch is none for a client
	if claim != repeated {
		limit = highestEpoch
		if h.LastProducerID, h.LastEpoch = -1, -1; said {
			h.LastProducerID, h.LastEpoch = h.ProducerID, h.Epoch
		}
	}
	switch {
	case h.Epoch >= limit && req.Fresh == nil:
		return InitResult{ProducerID: -1, Epoch: -1, NeedsID: true}
	case h.Epoch >= limit:
		h.rotate(*req.Fresh)
	case claim != repeated:
		h.Epoch++
	}
	c.decide(req.Key, &Update{Key: req.Key, Head: h})
	return InitResult{ProducerID: h.ProducerID, Epoch: h.Epoch}
}

// initNew makes a transactional ID. A producer whose ID has been forgotten may say what it had; who that was is not known any more.
func (c *Coordinator) initNew(req *InitRequest) InitResult {
	if req.Fresh == nil {
		return InitResult{ProducerID: -1, Epoch: -1, NeedsID: true}
	}
	h := Head{ProducerID: *req.Fresh, LastProducerID: -1, LastEpoch: -1, NextProducerID: -1, TimeoutMs: req.TimeoutMs, Started: -1, Updated: c.now}
	c.decide(req.Key, &Update{Key: req.Key, Head: h})
	return InitResult{ProducerID: h.ProducerID, Epoch: h.Epoch}
}

func (c *Coordinator) checkInit(req *InitRequest) *base.Error {
	if err := checkKey(req.Key); err != nil {
		return err
	}
	switch {
	case req.TwoPhase:
		return base.Errorf(base.CodeTwoPhaseCommit, "Two-phase commit is not enabled: use transactions without it.")
	case req.Keep:
		return base.Errorf(base.CodeUnsupportedVersion, "Prepared transactions cannot be kept: initialize without it.")
	case req.TimeoutMs <= 0 || int64(req.TimeoutMs) > c.opts.MaxTimeout.Milliseconds():
		return base.Errorf(base.CodeInvalidTxnTimeout, "A transaction time-out of %d ms is not between 1 and %d.", req.TimeoutMs, c.opts.MaxTimeout.Milliseconds())
	case (req.ProducerID < 0) != (req.Epoch < 0):
		return base.Errorf(base.CodeInvalidRequest, "Producer ID %d goes with epoch %d: say both or neither.", req.ProducerID, req.Epoch)
	}
	return nil
}

func initError(err *base.Error) InitResult {
	return InitResult{ProducerID: -1, Epoch: -1, Err: err}
}
