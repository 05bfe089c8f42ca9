package queue

import (
	"slices"
	"sort"

	"godwit/internal/base"
)

// Acknowledge settles what a consumer says about its records. errs has one entry for each range: nil, or why nothing of the
// range was settled; CodeInvalidRecordState if the consumer does not hold all of it. With atomic, one
// bad range leaves all unsettled (Kafka), and the others have nil. What lies below the start was settled before, and passes.
func (q *Queue) Acknowledge(now int64, consumer string, acks []Ack, atomic bool) (cmd Command, errs []*base.Error) {
	g := q.guess()
	out := &Settle{Step: q.next(now)}
	errs = make([]*base.Error, len(acks))
	var seen []Span // in the order of offsets
	for i := range acks {
		a := acks[i]
		if a.Last < a.First || a.Type > AckReturn {
			errs[i] = base.Errorf(base.CodeInvalidRequest, "acknowledgement %d of offsets %d to %d is not valid: types go from 0 to %d, the first offset is not above the last", a.Type, a.First, a.Last, AckReturn)
		} else if a.First = max(a.First, g.start); a.First <= a.Last {
			errs[i] = q.checkHeld(g, consumer, a.Span, seen)
			if errs[i] == nil {
				seen = slices.Insert(seen, after(seen, a.First), a.Span)
				q.answer(g, now, &a, &out.Changes)
			}
		}
		if errs[i] != nil && atomic {
			return nil, errs
		}
	}
	if len(out.Changes) == 0 {
		return nil, errs
	}
	return q.decide(out), errs
}

// after is how many of the spans, which are in order, begin at or before the offset.
func after(spans []Span, offset int64) int {
	return sort.Search(len(spans), func(i int) bool { return spans[i].First > offset })
}

// checkHeld says why the consumer may not settle the span: it does not hold all of it, or it settled
// some of it in the same request.
func (q *Queue) checkHeld(g *core, consumer string, s Span, seen []Span) (err *base.Error) {
	if s.Last >= g.end {
		return base.Errorf(base.CodeInvalidRequest, "offsets %d to %d go beyond %d, the last offset that was acquired", s.First, s.Last, g.end-1)
	}
	if i := after(seen, s.First); i > 0 && seen[i-1].Last >= s.First || i < len(seen) && seen[i].First <= s.Last {
		return base.Errorf(base.CodeInvalidRecordState, "offsets %d to %d are acknowledged twice in one request", s.First, s.Last)
	}
	g.runs.each(s.First, s.Last, func(r *run) bool {
		if r.state != Acquired || r.owner != consumer {
			at := max(s.First, r.first)
			err = errState(consumer, Span{at, min(s.Last, r.last)}, r.stateAt(at))
		}
		return err == nil
	})
	return err
}

// answer appends what becomes of an acknowledged span.
func (q *Queue) answer(g *core, now int64, a *Ack, out *[]Change) {
	until := int64(0)
	if a.Delay > 0 {
		until = now + a.Delay
	}
	switch a.Type {
	case AckAccept:
		*out = append(*out, Change{Span: a.Span, Op: OpAck})
	case AckGap:
		*out = append(*out, Change{Span: a.Span, Op: OpArchive, Cause: CauseGap})
	case AckReject:
		*out = append(*out, Change{Span: a.Span, Op: OpArchive, Cause: CauseRejected, Report: q.Options.reports(CauseRejected)})
	case AckRenew:
		if until == 0 && q.Options.Lock > 0 {
			until = now + q.Options.Lock
		}
		*out = append(*out, Change{Span: a.Span, Op: OpRenew, Until: until})
	case AckReturn:
		*out = append(*out, Change{Span: a.Span, Op: OpReturn, Until: until})
	case AckRelease:
		g.runs.each(a.First, a.Last, func(r *run) bool {
			*out = append(*out, q.release(now, r, Span{max(a.First, r.first), min(a.Last, r.last)}, until))
			return true
		})
	}
}

// release is what becomes of an acquired run, or a part of it, that is to be delivered again, if it may be.
func (q *Queue) release(now int64, r *run, s Span, until int64) Change {
	if most := q.Options.MaxDeliveries; most > 0 && r.count >= most {
		return Change{Span: s, Op: OpArchive, Cause: CauseLimit, Report: q.Options.reports(CauseLimit)}
	}
	op := OpRelease
	if r.lane() == "" && q.far(now, until, q.guess().runs.apart) {
		op = OpDefer // a record of a lane stays, to hold the lane
	}
	return Change{Span: s, Op: op, Until: until}
}

// Release gives back everything that a consumer holds, as when it leaves. unused: it never looked at them, and
// these deliveries do not count.
func (q *Queue) Release(now int64, consumer string, unused bool) Command {
	if q.Held(consumer) == 0 {
		return nil
	}
	return q.releaseHeld(now, unused, func(name string) bool { return name == consumer })
}

// ReleaseAbsent gives back what consumers hold that are not there any more, as after a restart.
func (q *Queue) ReleaseAbsent(now int64, live func(consumer string) bool) Command {
	return q.releaseHeld(now, false, func(name string) bool { return !live(name) })
}

func (q *Queue) releaseHeld(now int64, unused bool, match func(consumer string) bool) Command {
	g := q.guess()
	cmd := &Settle{Step: q.next(now)}
	g.runs.each(g.start, g.end-1, func(r *run) bool {
		if r.state == Acquired && match(r.owner) {
			ch := Change{Span: Span{r.first, r.last}, Op: OpReturn}
			if !unused {
				ch = q.release(now, r, ch.Span, 0)
			}
			cmd.Changes = append(cmd.Changes, ch)
		}
		return true
	})
	if len(cmd.Changes) == 0 {
		return nil
	}
	return q.decide(cmd)
}
