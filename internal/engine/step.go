package engine

// Step lets one part of a stepped engine take a turn, chosen at random among those that have something to do:
// a loop handles its mailbox, or the journal writes what is queued, with the sync or ahead of it. It reports false when
// nothing is left to do.
func (e *Engine) Step() bool {
	var ready []func()
	for _, l := range e.loops {
		if l.pending() {
			ready = append(ready, l.step)
		}
	}
	if e.writer.Pending() {
		ready = append(ready, func() { e.writer.Step() }, e.writer.WriteAhead)
	} else if e.writer.Failed() != nil {
		// Only when nothing else can go on: a recovery refuses what is still under way.
		if len(ready) == 0 {
			return e.single.Recover()
		}
	}
	if len(ready) == 0 {
		return false
	}
	e.randMu.Lock()
	i := e.opts.Rand.IntN(len(ready))
	e.randMu.Unlock()
	ready[i]()
	return true
}

// Drain steps until nothing is left to do.
func (e *Engine) Drain() {
	for e.Step() {
	}
}
