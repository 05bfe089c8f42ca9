// Package single is the journal of a lone node: an entry is committed when the local WAL has it
// on disk. Terms, indexes and hard state are those of a Raft group with one voter, so that the node
// can grow into a cluster in place.
package single

import (
	"log/slog"
	"time"

	"godwit/internal/base"
	"godwit/internal/journal"
	"godwit/internal/storage/segment"
	"godwit/internal/storage/wal"
)

// retryAfter is how long a failed log rests before a new file is tried.
const retryAfter = 500 * time.Millisecond

// Journal drives one WAL writer. After a failed write it begins a new file under a new
// term, and tells so by the leads function.
type Journal struct {
	w     *wal.Writer
	leads journal.Leads
	log   *slog.Logger

	stop chan struct{}
	done chan struct{}
}

// New wraps a writer. Run or Step drives it.
func New(w *wal.Writer, leads journal.Leads, log *slog.Logger) *Journal {
	return &Journal{w: w, leads: leads, log: log, stop: make(chan struct{}), done: make(chan struct{})}
}

// Propose implements journal.Journal.
func (j *Journal) Propose(p *journal.Proposal) {
	p.Frame.Kind = segment.FrameEntry
	p.Frame.Vote, p.Frame.Commit = 1, p.Frame.Index
	j.w.Append(p)
}

// Barrier implements journal.Journal.
func (j *Journal) Barrier(done func(base.Position, error)) {
	j.w.Append(&wal.Record{Barrier: true, Done: func(at wal.Placement, err error) {
		if err != nil {
			done(0, err)
			return
		}
		done(base.At(at.File.Number, at.Pos), nil)
	}})
}

// MaxEntry implements journal.Journal.
func (j *Journal) MaxEntry() int { return j.w.MaxPayload() }

// Run writes until Stop.
func (j *Journal) Run() {
	finish := j.w.Attended()
	defer close(j.done)
	defer finish()
	for {
		if !j.w.RunUntilFailed(j.stop) {
			return
		}
		select {
		case <-j.stop:
			return
		case <-time.After(retryAfter):
			j.Recover()
		}
	}
}

// Recover tries once to go on after a failure; it reports whether it did.
func (j *Journal) Recover() bool {
	cause := j.w.Failed()
	term, err := j.w.Recover()
	if err != nil {
		j.log.Error("the log cannot be written", "error", err)
		return false
	}
	j.log.Warn("writing again after a failure", "cause", cause, "term", term)
	j.w.After(func() { j.leads(term) })
	return true
}

// Stop writes what is queued and ends Run.
func (j *Journal) Stop() {
	close(j.stop)
	<-j.done
}
