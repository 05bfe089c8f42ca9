package engine

import (
	"context"

	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/queue"
	"godwit/internal/shard"
)

// queueCall is one request to a queue that is on its way.
type queueCall struct {
	done   chan struct{}
	err    error
	ticket *ticket
}

// queueCall runs fn with a queue in its loop. fn calls reply once, then or later.
func (e *Engine) queueCall(name ShareQueue, fn func(l *loop, hq *hostedQueue, q *queue.Queue, reply func(error))) *queueCall {
	c := &queueCall{done: make(chan struct{}), ticket: newTicket()}
	reply := func(err error) { c.err = err; close(c.done) }
	id, k, err := e.locate(name)
	if err != nil {
		reply(err)
		return c
	}
	e.loop(id).post(message{call: func(l *loop) {
		if !c.ticket.use() {
			return
		}
		defer c.ticket.done() // after the answer, if it is given at once
		hq, q, err := l.queues.open(l, k)
		if err != nil {
			reply(err)
			return
		}
		fn(l, hq, q, reply)
	}})
	return c
}

// wait waits for the answer. After an error of ctx fn has run or will not.
func (c *queueCall) wait(ctx context.Context, e *Engine) error {
	if err := e.await(ctx, c.done); err != nil {
		c.ticket.withdraw()
		return err
	}
	return c.err
}

// decided waits until fn has run. The error is why it did not, or the answer's where there is one already.
func (c *queueCall) decided(ctx context.Context, e *Engine) error {
	select {
	case <-c.done:
		return c.err
	default:
	}
	if err := e.await(ctx, c.ticket.ran); err != nil {
		c.ticket.withdraw()
		return err
	}
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// ShareAcknowledge settles what members say about records they hold. The result has one error for each entry, nil
// where all of it is committed, else a *base.Error and nothing of the entry counts. After CodeTimeout it may count all the same.
func (e *Engine) ShareAcknowledge(ctx context.Context, acks []ShareAcks) []error {
	calls := make([]*queueCall, len(acks))
	for i := range acks {
		a := &acks[i]
		calls[i] = e.queueCall(a.ShareQueue, func(l *loop, hq *hostedQueue, q *queue.Queue, reply func(error)) {
			l.queues.acknowledge(l, hq, q, a.Member, a.Ranges, reply)
		})
	}
	out := make([]error, len(acks))
	for i, c := range calls {
		out[i] = c.wait(ctx, e)
	}
	return out
}

func (h *queueHost) acknowledge(l *loop, hq *hostedQueue, q *queue.Queue, member string, ranges []queue.Ack, reply func(error)) {
	cmd, errs := q.Acknowledge(l.now(), member, ranges, true)
	for _, refused := range errs {
		if refused != nil {
			hq.flights.rest(func(err error) {
				if err == nil {
					err = refused
				}
				reply(err)
			})
			return
		}
	}
	h.journal(l, hq, q, cmd, reply)
}

// ShareRelease gives back at once what a member holds in queues, as when its session ends. These deliveries count, as in Kafka 4.4:
// the member may have ended because of them.
// Queues that are not there any more hold nothing.
func (e *Engine) ShareRelease(ctx context.Context, member string, queues []ShareQueue) error {
	calls := make([]*queueCall, len(queues))
	for i := range queues {
		calls[i] = e.queueCall(queues[i], func(l *loop, hq *hostedQueue, q *queue.Queue, reply func(error)) {
			l.queues.journal(l, hq, q, q.Release(l.now(), member, false), reply)
		})
	}
	var failure error
	for _, c := range calls {
		if err := c.wait(ctx, e); err != nil && base.CodeOf(err) != base.CodeUnknownPartition {
			failure = err
		}
	}
	return failure
}

// ShareOffsets tells how queues of a group stand, one entry for each partition.
func (e *Engine) ShareOffsets(ctx context.Context, k share.Key, partitions []share.Partition) []ShareOffset {
	out := make([]ShareOffset, len(partitions))
	calls := make([]*queueCall, len(partitions))
	for i, p := range partitions {
		o := &out[i]
		o.Partition, o.Epoch = p, int32(e.Term())
		calls[i] = e.queueCall(ShareQueue{Key: k, Stream: p.Stream, Index: p.Index}, func(l *loop, hq *hostedQueue, q *queue.Queue, reply func(error)) {
			end := int64(0)
			if log, ok := l.m.Log(hq.key.Log); ok {
				end = log.End()
			}
			o.Description = q.Describe(end)
			hq.flights.rest(reply)
		})
	}
	for i, c := range calls {
		out[i].Err = c.wait(ctx, e)
	}
	return out
}

// workQueues makes, sets back and deletes queues of a group in this shard's partitions, and reports which of it is done.
func (l *loop) workQueues(k share.Key, work []queueWork, report func([]share.QueueVersion, error)) {
	h := &l.queues
	if l.term == 0 {
		report(nil, l.why)
		return
	}
	if l.e.findStarts(l, k, work, report) {
		return
	}
	c := &shard.Command{}
	var done []share.QueueVersion
	var failure error
	for _, w := range work {
		qc, err := h.work(l, shard.QueueKey{Group: k, Log: w.log}, &w)
		if err != nil {
			failure = err
			continue
		}
		done = append(done, share.QueueVersion{Partition: w.Partition, Version: w.Version})
		if qc != nil {
			c.Queues = append(c.Queues, *qc)
		}
	}
	if c.Queues == nil {
		report(done, failure)
		return
	}
	working := h.working
	for i := range c.Queues {
		working[c.Queues[i].QueueKey] = struct{}{}
	}
	l.command(c, func(_ *shard.Applied, err error) {
		for i := range c.Queues {
			delete(working, c.Queues[i].QueueKey)
		}
		if err != nil {
			report(nil, err)
			return
		}
		report(done, failure)
	})
}

// work decides what is to be done for one queue; nil if nothing is.
func (h *queueHost) work(l *loop, k shard.QueueKey, w *queueWork) (*shard.QueueCommand, error) {
	if _, ok := h.working[k]; ok {
		return nil, base.Errorf(base.CodeNotReady, "the queue is being changed: ask again")
	}
	log, there := l.m.Writable(k.Log)
	q, version, exists := l.m.Queue(k)
	switch {
	case w.Status == share.Deleting:
		if !exists || version > w.Version {
			return nil, nil
		}
		l.m.DoomQueue(k)
		return &shard.QueueCommand{QueueKey: k, Delete: true}, nil
	case !there:
		return nil, base.Errorf(base.CodeNotReady, "the partition's log is not there yet")
	case exists && version >= w.Version:
		return nil, nil
	case !exists:
		q = queue.New(queue.Options{}, nil)
	}
	start := log.End()
	switch w.Start.Kind {
	case share.StartEarliest:
		start = log.Start()
	case share.StartAtOffset:
		start = min(max(w.Start.Value, log.Start()), log.End())
	}
	return &shard.QueueCommand{QueueKey: k, Version: w.Version, Do: q.Reset(l.now(), start)}, nil
}

// findStarts looks up the offsets of starts that are given as times, away from the loop, which does not wait for disks. It
// reports whether there are such; the work comes again with offsets then.
func (e *Engine) findStarts(l *loop, k share.Key, work []queueWork, report func([]share.QueueVersion, error)) bool {
	timed := false
	for i := range work {
		timed = timed || work[i].Status == share.Initializing && work[i].Start.Kind == share.StartAtTime
	}
	if !timed {
		return false
	}
	e.aside(func() {
		for i := range work {
			s := &work[i].Start
			if work[i].Status != share.Initializing || s.Kind != share.StartAtTime {
				continue
			}
			at, _, _, err := e.OffsetForTime(context.Background(), work[i].log, s.Value)
			switch {
			case err != nil && base.CodeOf(err) != base.CodeUnknownPartition:
				report(nil, err)
				return
			case err != nil || at < 0:
				*s = share.Start{Kind: share.StartLatest}
			default:
				*s = share.Start{Kind: share.StartAtOffset, Value: at}
			}
		}
		l.post(message{call: func(l *loop) { l.workQueues(k, work, report) }})
	})
	return true
}

// aside runs what may wait for a disk outside the loops.
func (e *Engine) aside(fn func()) {
	if e.opts.Stepped {
		fn()
		return
	}
	go fn()
}
