package txn

import "godwit/internal/base"

// End decides on the outcome of the open transaction. The same end again is answered alike once the transaction is complete: with version 2
// that is known by the epoch, with version 1 any end with the last one's outcome counts as it. Version 2 may abort without a
// transaction, which raises the epoch.
func (c *Coordinator) End(now int64, req *EndRequest) EndResult {
	c.advance(now)
	if err := checkKey(req.Key); err != nil {
		return endError(err)
	}
	t := c.live.txns[req.Key]
	if t == nil {
		return endError(unknownMapping(req.Key, req.ProducerID))
	}
	claim := t.claim(req.ProducerID, req.Epoch)
	if claim == repeated && (req.Version < Version2 || t.Status == Empty) {
		claim = stranger
	}
	prepared, complete := PrepareAbort, CompleteAbort
	if req.Commit {
		prepared, complete = PrepareCommit, CompleteCommit
	}
	next := claim == current && req.Version >= Version2 // it ends a transaction behind the last one
	switch {
	case claim == stranger:
		return endError(t.refuse(req.Key, req.ProducerID, req.Epoch))
	case t.Status == Ongoing:
		return c.end(req, t, prepared)
	case t.Status.preparing() && (next || t.Status == prepared):
		return endError(concurrent(req.Key))
	case t.Status == complete && !next:
		return c.endAgain(req, t)
	case next && !req.Commit:
		return c.end(req, t, prepared)
	}
	return endError(base.Errorf(base.CodeInvalidTxnState, "Transactional ID %s is %v and cannot become %v.", req.ID, t.Status, prepared))
}

// end prepares an outcome.
func (c *Coordinator) end(req *EndRequest, t *txn, prepared Status) EndResult {
	h := c.preparing(t, prepared)
	h.Version = Version1
	if req.Version >= Version2 {
		h.raise()
		if h.Epoch == fencingEpoch {
			if req.Fresh == nil {
				return EndResult{ProducerID: -1, Epoch: -1, NeedsID: true}
			}
			h.NextProducerID = *req.Fresh
		}
	}
	c.decide(req.Key, &Update{Key: req.Key, Head: h})
	id, epoch := h.client()
	return EndResult{ProducerID: id, Epoch: epoch}
}

// endAgain answers an end that is complete. If it was not the producer's own, the producer learns its new epoch here.
func (c *Coordinator) endAgain(req *EndRequest, t *txn) EndResult {
	h := t.Head
	if h.Epoch == fencingEpoch {
		if req.Fresh == nil {
			return EndResult{ProducerID: -1, Epoch: -1, NeedsID: true}
		}
		h.rotate(*req.Fresh)
		h.Updated = c.now
		c.decide(req.Key, &Update{Key: req.Key, Head: h})
	}
	return EndResult{ProducerID: h.ProducerID, Epoch: h.Epoch}
}

// abort aborts the open transaction without its producer.
func (c *Coordinator) abort(k Key, t *txn) {
	h := c.preparing(t, PrepareAbort)
	h.raise()
	c.decide(k, &Update{Key: k, Head: h})
}

// preparing is the head of a transaction whose outcome is decided.
func (c *Coordinator) preparing(t *txn, prepared Status) Head {
	h := t.Head
	if h.Status != Ongoing {
		h.Started = c.now
	}
	h.Status, h.Updated = prepared, c.now
	h.Serial = max(h.Serial+1, c.now) // above those of an ID of the same name that was forgotten
	return h
}

// raise raises the epoch for the markers. What the producer had is remembered.
func (h *Head) raise() {
	h.Version = Version2
	h.LastProducerID, h.LastEpoch = h.ProducerID, h.Epoch
	h.Epoch++
}

func endError(err *base.Error) EndResult {
	return EndResult{ProducerID: -1, Epoch: -1, Err: err}
}

func unknownTxn(k Key) *base.Error {
	return base.Errorf(base.CodeUnknownTxn, "There is no transactional ID %s.", k.ID)
}
