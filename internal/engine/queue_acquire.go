package engine

import (
	"context"
	"math"

	"godwit/internal/base"
	"godwit/internal/queue"
	"godwit/internal/recordbatch"
	"godwit/internal/storage/segment"
)

// acquiring is one ShareAcquire as it goes from queue to queue. What is decided is on its way to the journal while it
// goes on.
type acquiring struct {
	e       *Engine
	req     *ShareAcquire
	records int // that may still be acquired
	bytes   int // that may still be answered
	grants  []*grant
}

// grant is what one queue gave.
type grant struct {
	index int // in the request
	taken []queue.Taken
	call  *queueCall
	recs  *Records
	lock  int64
}

// Limits of one look at a queue.
const (
	maxScan  = 10_000 // batches
	maxTries = 64     // looks in which others were faster, or nothing but gaps was found
)

// ShareAcquire gives a member records of queues, as many as there are now. It waits for what is decided to be committed.
func (e *Engine) ShareAcquire(ctx context.Context, req *ShareAcquire) []ShareAcquired {
	out := make([]ShareAcquired, len(req.Queues))
	a := &acquiring{e: e, req: req, records: req.Records, bytes: req.Bytes}
	for i := range req.Queues {
		if a.records <= 0 || a.bytes <= 0 {
			break
		}
		err := a.ask(ctx, i)
		if err == nil {
			continue
		}
		if out[i].Err = err; base.CodeOf(err) == base.CodeUnknown {
			out[i].Err = base.Errorf(base.CodeStorage, "reading records: %v", err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	for _, g := range a.grants {
		o := &out[g.index]
		if err := g.call.wait(ctx, e); err != nil {
			o.Err = err
			a.giveBack(g)
			continue
		}
		o.Ranges, o.Records, o.Lock = g.taken, g.recs, g.lock
	}
	return out
}

// giveBack undoes a grant that will not be answered. Where it was not committed there is nothing to undo.
func (a *acquiring) giveBack(g *grant) {
	if g.recs != nil {
		g.recs.Release()
	}
	acks := make([]queue.Ack, len(g.taken))
	for i, t := range g.taken {
		acks[i] = queue.Ack{Span: t.Span, Type: queue.AckReturn}
	}
	a.e.queueCall(a.req.Queues[g.index], func(l *loop, hq *hostedQueue, q *queue.Queue, reply func(error)) {
		l.queues.acknowledge(l, hq, q, a.req.Member, acks, reply)
	})
}

// queuePeek is what has to be known of a queue before its log is read.
type queuePeek struct {
	next      int64 // offset from which to read
	end       int64 // first offset that the queue has not looked at
	any       bool  // something may be acquired
	committed bool  // only of transactions that are committed
	lock      int64 // ms
}

// ask acquires of one queue.
func (a *acquiring) ask(ctx context.Context, i int) error {
	name := a.req.Queues[i]
	_, k, err := a.e.locate(name)
	if err != nil {
		return err
	}
	for range maxTries {
		p, err := a.peek(ctx, name)
		if err != nil || !p.any {
			return err
		}
		rd, err := a.scan(ctx, k.Log, p)
		if err != nil || rd == nil {
			return err
		}
		g, err := a.take(ctx, i, p, rd)
		if err != nil {
			return err
		}
		if len(g.taken) == 0 {
			continue
		}
		a.grants = append(a.grants, g)
		for _, t := range g.taken {
			a.records -= int(t.Len())
		}
		if g.recs, err = a.e.spansOf(k.Log, g.taken); err != nil {
			a.grants = a.grants[:len(a.grants)-1]
			a.giveBack(g)
			return err
		}
		a.bytes -= g.recs.Len()
		return nil
	}
	return nil
}

// peek asks the queue where there may be records.
func (a *acquiring) peek(ctx context.Context, name ShareQueue) (p queuePeek, err error) {
	call := a.e.queueCall(name, func(l *loop, hq *hostedQueue, q *queue.Queue, reply func(error)) {
		p.next, p.any = q.Next(l.now())
		p.end, p.committed, p.lock = q.NextAdmit(), hq.seen.ReadCommitted, hq.seen.LockDuration
		reply(nil)
	})
	return p, call.wait(ctx, a.e)
}

// scan lists what may be delivered from the peeked offset on, as far as the limits go: control records, aborted
// transactions if only committed ones count, and what compaction removed are not in it. nil: nothing is there that fits.
func (a *acquiring) scan(ctx context.Context, log base.LogID, p queuePeek) (*queue.Read, error) {
	st, ok := a.e.State(log)
	if !ok {
		return nil, unknownLog()
	}
	r := &lagReader{store: a.e.store, log: log}
	defer r.close()
	to := st.HighWatermark
	if p.committed {
		// The list comes before the files: a transaction leaves it only when no file has its records.
		to, r.aborted = st.LastStable, a.e.Aborted(log)
	}
	if p.next >= to {
		return nil, nil
	}
	if p.next < st.Start {
		return &queue.Read{From: p.next, To: p.next}, nil // the queue follows the log when it is asked again
	}
	rd := &queue.Read{From: p.next, To: to}
	bytes, fresh, batches := 0, 0, 0
	err := r.headers(ctx, p.next, to, func(f *segment.File, pos int64, h *recordbatch.Info) (bool, error) {
		if !r.counts(h) {
			return true, nil
		}
		first := len(rd.Batches) == 0 && len(a.grants) == 0
		if !first && (bytes+h.Size > a.bytes || fresh >= a.records) || batches >= maxScan {
			rd.To = min(to, max(p.next, h.BaseOffset))
			return false, nil
		}
		batches++
		bytes += h.Size
		if h.LastOffset() >= p.end {
			fresh += int(h.Records)
		}
		return true, r.exist(f, pos, h, &rd.Batches)
	})
	if err != nil {
		return nil, err
	}
	if rd.From == rd.To {
		return nil, nil // what is there does not fit
	}
	return rd, nil
}

// exist appends the offsets of a batch that have records.
func (r *lagReader) exist(f *segment.File, pos int64, h *recordbatch.Info, out *[]queue.Span) error {
	if int64(h.Records) == int64(h.LastOffsetDelta)+1 {
		*out = append(*out, queue.Span{First: h.BaseOffset, Last: h.LastOffset()})
		return nil
	}
	begin := len(*out)
	return r.records(f, pos, h, func(rec *recordbatch.Record) bool {
		if n := len(*out); n > begin && (*out)[n-1].Last+1 == rec.Offset {
			(*out)[n-1].Last++
		} else {
			*out = append(*out, queue.Span{First: rec.Offset, Last: rec.Offset})
		}
		return true
	})
}

// take has the queue decide. A grant without ranges: there were only gaps, or others were faster.
func (a *acquiring) take(ctx context.Context, i int, p queuePeek, rd *queue.Read) (*grant, error) {
	g := &grant{index: i, lock: p.lock}
	want := &queue.Want{Consumer: a.req.Member, Records: a.records, Batch: a.req.Batch, Strict: a.req.Strict, Read: rd}
	g.call = a.e.queueCall(a.req.Queues[i], func(l *loop, hq *hostedQueue, q *queue.Queue, reply func(error)) {
		cmd, taken := q.Acquire(l.now(), want)
		if g.taken = taken; cmd == nil {
			reply(nil)
			return
		}
		l.queues.journal(l, hq, q, cmd, reply)
	})
	if err := g.call.decided(ctx, a.e); err != nil {
		if len(g.taken) > 0 {
			a.giveBack(g)
		}
		return nil, err
	}
	return g, nil
}

// spansOf finds the batches that hold ranges.
func (e *Engine) spansOf(log base.LogID, taken []queue.Taken) (*Records, error) {
	st, ok := e.State(log)
	if !ok {
		return nil, unknownLog()
	}
	r := &Records{state: st}
	first, last := taken[0].First, taken[len(taken)-1].Last
	spans, err := e.store.Find(log, max(first, st.Start), last+1, math.MaxInt32, true)
	if err != nil {
		return nil, err
	}
	r.spans = spans
	for _, s := range spans {
		r.n += int(s.Len)
	}
	return r, nil
}
