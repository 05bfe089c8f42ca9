package txn

import (
	"slices"

	"godwit/internal/base"
)

// AddPartitions answers with one error for each partition, nil where it is in the transaction.
func (c *Coordinator) AddPartitions(now int64, req *AddPartitionsRequest) []error {
	c.advance(now)
	errs := make([]error, len(req.Partitions))
	t, err := c.producer(req.Key, req.ProducerID, req.Epoch)
	var missing []Partition
	if err == nil {
		for i, p := range req.Partitions {
			if _, ok := t.partitions[p]; ok {
				continue
			}
			if missing = append(missing, p); req.Joining == Verify {
				errs[i] = notInTxn(req.Key)
			}
		}
		if req.Joining == Verify || len(missing) == 0 {
			return errs
		}
		slices.SortFunc(missing, Partition.Compare)
		missing = slices.Compact(missing)
		err = c.room(req.Key, t, len(missing))
	}
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	c.decide(req.Key, &Update{Key: req.Key, Head: c.begun(t), Partitions: missing})
	return errs
}

// AddOffsets answers with nil if the group is in the transaction.
func (c *Coordinator) AddOffsets(now int64, req *AddOffsetsRequest) *base.Error {
	c.advance(now)
	t, err := c.producer(req.Key, req.ProducerID, req.Epoch)
	if err != nil {
		return err
	}
	if req.Group == "" || len(req.Group) > MaxID {
		return base.Errorf(base.CodeInvalidGroup, "A group name of %d bytes is not between 1 and %d.", len(req.Group), MaxID)
	}
	if _, ok := t.groups[req.Group]; ok {
		return nil
	}
	if req.Joining == Verify {
		return notInTxn(req.Key)
	}
	if err := c.room(req.Key, t, 1); err != nil {
		return err
	}
	c.decide(req.Key, &Update{Key: req.Key, Head: c.begun(t), Groups: []string{req.Group}})
	return nil
}

// producer finds the transactional ID of its current producer, unless a transaction is ending.
func (c *Coordinator) producer(k Key, id int64, epoch int16) (*txn, *base.Error) {
	if err := checkKey(k); err != nil {
		return nil, err
	}
	t := c.live.txns[k]
	switch {
	case t == nil:
		return nil, unknownMapping(k, id)
	case t.claim(id, epoch) != current:
		return nil, t.refuse(k, id, epoch)
	case t.Status.preparing():
		return nil, concurrent(k)
	}
	return t, nil
}

// begun is the head of a transaction to which something is added.
func (c *Coordinator) begun(t *txn) Head {
	h := t.Head
	if h.Status != Ongoing {
		h.Status, h.Started = Ongoing, c.now
		h.LastProducerID, h.LastEpoch = -1, -1 // it has the answer to its last step
	}
	h.Updated = c.now
	return h
}

func (c *Coordinator) room(k Key, t *txn, more int) *base.Error {
	if n := t.participants(); n+more > c.opts.MaxParticipants {
		return base.Errorf(base.CodePolicyViolation, "The transaction of %s has %d partitions and groups; %d more are above the limit of %d: end it first.", k.ID, n, more, c.opts.MaxParticipants)
	}
	return nil
}

func notInTxn(k Key) *base.Error {
	return base.Errorf(base.CodeTxnAbortable, "It is not in an open transaction of transactional ID %s: abort the transaction.", k.ID)
}
