package queue

// Tick decides what time brings: locks and times to live that are over, delayed records that come into memory. An error
// is the view's; what was decided before it stands.
func (q *Queue) Tick(now int64) ([]Command, error) {
	g := q.guess()
	var out []Command
	var err error
	if q.promoteAt() <= now {
		var cmd Command
		if cmd, err = q.promote(now); cmd != nil {
			out = append(out, cmd)
		}
	}
	g.watch.ripen(&g.runs, now)
	cmd := &Settle{Step: q.next(now)}
	g.runs.woken(now, func(r *run) {
		s := Span{r.first, r.last}
		if r.state == Acquired {
			cmd.Changes = append(cmd.Changes, q.release(now, r, s, 0))
		} else {
			cmd.Changes = append(cmd.Changes, Change{Span: s, Op: OpArchive, Cause: CauseExpired, Report: q.Options.reports(CauseExpired)})
		}
	})
	if len(cmd.Changes) > 0 {
		out = append(out, q.decide(cmd))
	}
	return out, err
}

// NextDeadline is when Tick has to be called, Unix ms; the largest time there is, if nothing is due. After it, Next may find more.
func (q *Queue) NextDeadline() int64 {
	g := q.guess()
	at := g.runs.wake()
	if d := &g.watch.delayed; len(d.items) > 0 {
		at = min(at, d.items[0].due)
	}
	return min(at, q.promoteAt())
}
