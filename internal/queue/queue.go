package queue

import (
	"math"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// View is the queue's own keys in the state store, as of what its checkpoints handed out.
type View interface {
	// Scan calls fn for the keys from the given one on, in their order, until it returns false or they end. A key that
	// Checkpoint handed out is shown, or not shown, from then on, whether or not it is written yet.
	Scan(from []byte, fn func(key, value []byte) bool) error
}

// Queue is the state of one queue over one partition. It has one owner. Apply, Checkpoint, Restore and what describes the
// applied state are for every replica, everything else for the leader.
type Queue struct {
	Options Options // may be changed at any time

	applied core
	lead    *core // the guess; nil while nothing was decided since the last Abandon
	view    View  // nil: delayed records are all held in memory
	roster  roster
}

// New is an empty queue that begins at offset 0. view may be nil.
func New(opts Options, view View) *Queue {
	return &Queue{Options: opts, applied: newCore(), view: view}
}

// guess is what a leader decides on.
func (q *Queue) guess() *core {
	if q.lead == nil {
		q.lead = q.applied.guess()
	}
	return q.lead
}

// decide enters a command into the guess.
func (q *Queue) decide(cmd Command) Command {
	q.guess().apply(cmd)
	return cmd
}

// next is the step of the command that is decided now.
func (q *Queue) next(now int64) Step { return Step{Seq: q.guess().seq + 1, Time: now} }

// Apply enters a committed command and returns the effects that it caused.
func (q *Queue) Apply(cmd Command) []Effect {
	if q.lead != nil && q.lead.seq < cmd.step().Seq {
		q.lead = nil // decided by another leader
	}
	before := q.applied.book.lastID
	q.applied.apply(cmd)
	effects := q.applied.book.effects
	i := len(effects)
	for i > 0 && effects[i-1].ID > before {
		i--
	}
	return append([]Effect(nil), effects[i:]...)
}

// Abandon drops the guess: what was in flight will not be applied.
func (q *Queue) Abandon() { q.lead = nil }

// Check verifies what can be seen from inside of the guarantees and panics where one does not hold.
func (q *Queue) Check() {
	q.applied.check()
	if q.lead != nil {
		q.lead.check()
	}
	last := uint64(0)
	for _, e := range q.applied.book.effects {
		invariants.Check(e.ID > last && e.ID <= q.applied.book.lastID && e.First <= e.Last, "queue: effect %+v after %d, last is %d", e, last, q.applied.book.lastID)
		last = e.ID
	}
}

// Start is the first offset that is not settled: Kafka's share-partition start offset.
func (q *Queue) Start() int64 { return q.applied.start }

// End is the first offset that the queue has not looked at.
func (q *Queue) End() int64 { return q.applied.end }

// NextAdmit is the first offset that Admit has not seen, what is in flight included.
func (q *Queue) NextAdmit() int64 { return q.guess().end }

// Needed is the lowest offset whose record the queue may still ask for.
func (q *Queue) Needed() int64 {
	at := q.applied.start
	for i := range q.applied.book.effects {
		at = min(at, q.applied.book.effects[i].First)
	}
	return at
}

// Effects are outstanding, in the order of their IDs. The result must not be changed and is valid until the next Apply.
func (q *Queue) Effects() []Effect { return q.applied.book.effects }

// Unsaved is how many changes to the ordered view wait in memory for a checkpoint.
func (q *Queue) Unsaved() int { return len(q.applied.book.later) }

// Describe tells how the queue stands. logEnd is the log's end as consumers may see it.
func (q *Queue) Describe(logEnd int64) Description {
	c := &q.applied
	return Description{
		Start: c.start, End: c.end,
		Available: c.count[Available], InFlight: c.count[Acquired], Waiting: c.count[Waiting], Done: c.count[Done],
		Lag:     max(logEnd, c.end) - c.start - c.count[Done],
		Effects: len(c.book.effects), Totals: c.book.totals,
	}
}

// Runs calls fn for the records of the window in order, alike neighbours together, until it returns false.
func (q *Queue) Runs(fn func(Run) bool) {
	q.applied.runs.each(q.applied.start, q.applied.end, func(r *run) bool {
		more := true
		r.pieces(func(p run) { more = more && fn(p.show()) })
		return more
	})
}

func (r *run) show() Run {
	out := Run{Span: Span{r.first, r.last}, State: r.state, Deliveries: r.count, Consumer: r.owner, Until: r.until}
	if out.Until == never {
		out.Until = 0
	}
	if r.trait != nil {
		out.Meta = Meta{Lane: r.trait.lane, Priority: r.trait.priority, Expires: r.trait.expires}
	}
	return out
}

// Held is how many records the consumer has, what is in flight included.
func (q *Queue) Held(consumer string) int64 { return q.guess().watch.held[consumer] }

// Room is how many offsets Admit may add.
func (q *Queue) Room() int64 {
	g := q.guess()
	if q.Options.MaxRuns > 0 && g.runs.apart >= 2*q.Options.MaxRuns {
		return 0
	}
	if q.Options.MaxWindow == 0 {
		return math.MaxInt64
	}
	return max(0, q.Options.MaxWindow-(g.end-g.start))
}

// Admit looks at the records up to and without end. metas are those that are not plain, in the order of offsets.
func (q *Queue) Admit(now, end int64, metas []Meta) Command {
	g := q.guess()
	if end <= g.end {
		return nil
	}
	cmd := &Admit{Step: q.next(now), End: end}
	apart := g.runs.apart
	for _, m := range metas {
		if m.NotBefore <= now {
			m.NotBefore = 0
		}
		if m.Offset < g.end || m.Offset >= end || m.NotBefore == 0 && m.trait() == nil {
			continue
		}
		a := Admitted{Meta: m, Later: q.far(now, m.NotBefore, apart)}
		if !a.Later {
			apart++
		}
		cmd.Records = append(cmd.Records, a)
	}
	return q.decide(cmd)
}

// far says whether a record that is not due before until waits outside memory, where so many runs are that are not
// plain.
func (q *Queue) far(now, until int64, apart int) bool {
	return q.view != nil && until > now && (until > now+q.Options.Horizon || q.Options.MaxRuns > 0 && apart >= q.Options.MaxRuns)
}

// Undone lists the offsets below one that are not Done, those beyond the window included: what a Trim to there takes.
func (q *Queue) Undone(below int64) (out []Span) {
	g := q.guess()
	g.runs.each(g.start, min(below, g.end)-1, func(r *run) bool {
		r.pieces(func(p run) {
			if p.last = min(p.last, below-1); p.state != Done && p.first <= p.last {
				out = join(out, Span{p.first, p.last})
			}
		})
		return true
	})
	if g.end < below {
		out = join(out, Span{g.end, below - 1})
	}
	return out
}

// Trim follows the log's start.
func (q *Queue) Trim(now, start int64) Command {
	if start <= q.guess().start {
		return nil
	}
	return q.decide(&Trim{Step: q.next(now), Start: start, Report: q.Options.reports(CauseRetention)})
}

// Reset takes the queue to an offset: a start, a rewind or a skip. What consumers hold they lose; delivery
// counts are forgotten.
func (q *Queue) Reset(now, start int64) Command {
	return q.decide(&Reset{Step: q.next(now), Start: start})
}

// Confirm says that effects were carried out.
func (q *Queue) Confirm(now int64, ids []uint64) Command {
	if len(ids) == 0 {
		return nil
	}
	return q.decide(&Confirm{Step: q.next(now), IDs: ids})
}

// Length is how many records could be acquired now or soon. logEnd is the log's end.
func (q *Queue) Length(logEnd int64) int64 {
	g := q.guess()
	return g.count[Available] + max(0, logEnd-g.end)
}

// Full says whether n more records are one too many: a CodePolicyViolation error where Options say that new records are
// refused.
func (q *Queue) Full(logEnd, n int64) error {
	if o := &q.Options; o.MaxLength > 0 && o.Overflow == RejectNew && q.Length(logEnd)+n > o.MaxLength {
		return base.Errorf(base.CodePolicyViolation, "the queue holds %d records of at most %d: consume some, or raise its length limit", q.Length(logEnd), o.MaxLength)
	}
	return nil
}

// Shorten drops the oldest records that could be acquired while the queue is longer than allowed.
func (q *Queue) Shorten(now, logEnd int64) Command {
	o := &q.Options
	if o.MaxLength == 0 || o.Overflow != DropHead {
		return nil
	}
	return q.drop(now, logEnd, q.Length(logEnd)-o.MaxLength, CauseOverflow)
}

// DropBelow archives what could be acquired below an offset: a queue's time to live or size in bytes, for which the
// caller finds the offset.
func (q *Queue) DropBelow(now, offset int64, cause Cause) Command {
	return q.drop(now, offset, math.MaxInt64, cause)
}

// drop archives at most n of the records below an offset that could be acquired, oldest first.
func (q *Queue) drop(now, below, n int64, cause Cause) Command {
	g := q.guess()
	cmd := &Settle{Step: q.next(now)}
	add := func(first, last int64) {
		if n <= 0 || first > last {
			return
		}
		last = min(last, first+min(n, last-first+1)-1)
		n -= last - first + 1
		if k := len(cmd.Changes); k > 0 && cmd.Changes[k-1].Last+1 == first {
			cmd.Changes[k-1].Last = last
			return
		}
		cmd.Changes = append(cmd.Changes, Change{Span: Span{first, last}, Op: OpArchive, Cause: cause, Report: q.Options.reports(cause)})
	}
	g.runs.each(g.start, min(below, g.end)-1, func(r *run) bool {
		if r.state == Available {
			add(r.first, min(r.last, below-1))
		}
		return n > 0
	})
	add(g.end, below-1)
	if len(cmd.Changes) == 0 {
		return nil
	}
	return q.decide(cmd)
}
