package queue

import (
	"fmt"

	"godwit/internal/invariants"
)

// apply enters a command. What a command does was checked when it was decided. Checks here stand in an if of their
// own: the arguments of a message would cost more than the change.
func (c *core) apply(cmd Command) {
	s := cmd.step()
	if s.Seq != c.seq+1 {
		invariants.Check(false, "queue: command %d applied after %d", s.Seq, c.seq)
	}
	c.begin(s)
	from := int64(0)
	switch cmd := cmd.(type) {
	case *Acquire:
		for _, g := range cmd.Gaps {
			c.archive(g, CauseGap, false)
		}
		for _, s := range cmd.Spans {
			c.acquire(s, cmd.Consumer, cmd.Deadline)
		}
	case *Settle:
		for i := range cmd.Changes {
			c.settle(&cmd.Changes[i])
		}
	case *Admit:
		c.admit(cmd)
	case *Promote:
		c.promote(cmd)
	case *Trim:
		if cmd.Start > c.start {
			c.archive(Span{c.start, min(cmd.Start, c.end) - 1}, CauseRetention, cmd.Report)
			from = cmd.Start
		}
	case *Reset:
		c.reset(cmd.Start)
	case *Confirm:
		if c.book != nil {
			c.book.confirm(cmd.IDs)
		}
	default:
		panic(fmt.Sprintf("queue: command %T is not known", cmd))
	}
	c.advance(from)
}

// begin enters what all commands have in common.
func (c *core) begin(s *Step) {
	c.seq, c.time = s.Seq, max(c.time, s.Time)
	if c.book != nil {
		c.book.dirty = true
	}
}

// acquire gives available records to a consumer; what is beyond the window enters it.
func (c *core) acquire(s Span, consumer string, deadline int64) {
	if deadline == 0 {
		deadline = never
	}
	c.extend(s.Last + 1)
	c.set(s.First, s.Last, func(r run) run {
		if r.state != Available {
			invariants.Check(false, "queue: [%d, %d] acquired while %v", r.first, r.last, r.state)
		}
		r.state, r.owner, r.until = Acquired, consumer, deadline
		r.count++
		return r
	})
	if c.book != nil {
		c.book.totals.Deliveries += s.Len()
	}
}

// archive makes an end of everything in the span that is not Done.
func (c *core) archive(s Span, cause Cause, report bool) {
	c.extend(s.Last + 1)
	s.First = max(s.First, c.start)
	if s.First > s.Last {
		return
	}
	since := 0
	if c.book != nil {
		since = len(c.book.effects)
	}
	c.set(s.First, s.Last, func(r run) run {
		if r.state == Done {
			return r
		}
		if c.book != nil {
			c.book.totals.Archived[cause] += r.len()
			if report {
				c.book.report(Effect{Span: Span{r.first, r.last}, Cause: cause, Deliveries: r.count, Time: c.time}, since)
			}
		}
		return run{first: r.first, last: r.last, state: Done}
	})
}

// settle enters one change of a Settle.
func (c *core) settle(ch *Change) {
	if ch.Op == OpArchive {
		c.archive(ch.Span, ch.Cause, ch.Report)
		return
	}
	c.set(ch.First, ch.Last, func(r run) run {
		if r.state == Done {
			return r
		}
		switch ch.Op {
		case OpAck:
			if c.book != nil {
				c.book.totals.Acked += r.len()
			}
			return run{first: r.first, last: r.last, state: Done}
		case OpRenew:
			if r.until = ch.Until; ch.Until == 0 {
				r.until = never
			}
		case OpRelease, OpReturn:
			if ch.Op == OpReturn {
				r.count--
			}
			r.state, r.owner, r.until = Available, "", ch.Until
		case OpDefer:
			c.postpone(Span{r.first, r.last}, ch.Until, r.count, r.trait)
			return run{first: r.first, last: r.last, state: Waiting}
		}
		return r
	})
}

// postpone enters records into the ordered view.
func (c *core) postpone(s Span, due int64, count int32, t *trait) {
	for at := s.First; at <= s.Last; at++ {
		e := laterEntry{epoch: c.epoch, count: count, trait: t}
		if c.book != nil {
			c.book.later[LaterKey{due, at}] = e
		}
		if c.watch != nil {
			c.watch.postponed(LaterKey{due, at}, e, c.seq)
		}
	}
}

// admit extends the window.
func (c *core) admit(cmd *Admit) {
	for i := range cmd.Records {
		a := &cmd.Records[i]
		c.extend(a.Offset)
		t := a.trait()
		if a.Later {
			c.postpone(Span{a.Offset, a.Offset}, a.NotBefore, 0, t)
			c.add(run{first: a.Offset, last: a.Offset, state: Waiting})
			continue
		}
		c.add(run{first: a.Offset, last: a.Offset, until: a.NotBefore, trait: t})
	}
	c.extend(cmd.End)
}

// trait is what of the Meta stays with the record, nil if nothing does.
func (m *Meta) trait() *trait {
	if m.Lane == "" && m.Priority == 0 && m.Expires == 0 {
		return nil
	}
	return &trait{lane: m.Lane, priority: m.Priority, expires: m.Expires}
}

// promote takes records out of the ordered view.
func (c *core) promote(cmd *Promote) {
	for _, k := range cmd.Stale {
		c.forget(k)
	}
	for i := range cmd.Records {
		p := &cmd.Records[i]
		c.forget(LaterKey{p.NotBefore, p.Offset})
		until := p.NotBefore
		if until <= c.time {
			until = 0
		}
		c.set(p.Offset, p.Offset, func(r run) run {
			if r.state != Waiting {
				invariants.Check(false, "queue: %d promoted while %v", r.first, r.state)
			}
			return run{first: r.first, last: r.last, until: until, trait: p.trait(), count: p.Deliveries}
		})
	}
}

// forget drops an entry of the ordered view.
func (c *core) forget(k LaterKey) {
	if c.book != nil {
		c.book.later[k] = laterEntry{gone: true}
	}
	if c.watch != nil {
		c.watch.forgotten(k, c.seq)
	}
}

// reset forgets the window.
func (c *core) reset(start int64) {
	c.runs.clear()
	c.count = [states]int64{}
	c.start, c.end = start, start
	c.epoch++
	if c.watch != nil {
		c.watch.clear()
	}
}
