package wal

import (
	"time"

	"godwit/internal/base"
	"godwit/internal/vfs"
)

// aheadBytes is how much has to be queued for it to be written while a sync is under way. Less is written behind the
// sync, together with what else comes until then.
const aheadBytes = 256 << 10

// flight is the sync under way beside the writer's goroutine. The kernel copies one group into the page cache while the disk
// takes the group before: each alone leaves either a core or the disk idle.
type flight struct {
	under   bool // a sync is under way
	covered int  // so many of the writer's answers depend on it
	end     base.Position
	files   chan vfs.File // to be synced
	landed  chan landing
}

// landing is how a sync ended.
type landing struct {
	err  error
	took time.Duration
}

// syncData syncs a file and times it. It is called from any goroutine.
func (w *Writer) syncData(f vfs.File) landing {
	start := w.opts.Clock.Now()
	err := f.SyncData()
	return landing{err, w.opts.Clock.Now().Sub(start)}
}

// fly starts the goroutine that syncs, until the returned function is called. Nothing must be under way then.
func (w *Writer) fly() (land func()) {
	w.flight = flight{files: make(chan vfs.File), landed: make(chan landing, 1)}
	files, landed := w.flight.files, w.flight.landed
	go func() {
		for f := range files {
			landed <- w.syncData(f)
		}
	}()
	return func() {
		close(files)
		w.flight = flight{}
	}
}

// advance writes what is queued and has it synced. While a sync is under way it only writes ahead what is much.
func (w *Writer) advance() {
	for w.failed == nil && (!w.flight.under || w.muchQueued()) {
		recs := w.take()
		for rest := recs; len(rest) > 0; {
			rest = w.writeGroup(rest)
			w.poll()
			w.depart()
			w.deliver()
		}
		w.took(recs)
		if len(recs) == 0 {
			break
		}
	}
	w.depart()
	w.deliver()
}

func (w *Writer) muchQueued() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued >= aheadBytes
}

// depart has everything synced that was written, unless a sync is under way.
func (w *Writer) depart() {
	if w.flight.under || !w.unsettled() {
		return
	}
	w.deliver()
	w.flight.under, w.flight.covered, w.flight.end = true, len(w.answers), w.end()
	w.flight.files <- w.file.Handle()
}

// poll lands a sync that has ended.
func (w *Writer) poll() {
	select {
	case l := <-w.flight.landed:
		w.land(l)
	default:
	}
}

// join waits for the sync under way.
func (w *Writer) join() {
	if w.flight.under {
		w.land(<-w.flight.landed)
	}
}

// land settles what a sync covered. If it failed, all that was written behind it is void as well.
func (w *Writer) land(l landing) {
	w.flight.under = false
	if l.err != nil {
		w.fail(l.err)
		return
	}
	w.Stats.SyncNanos.Add(int64(l.took))
	w.Stats.Syncs.Add(1)
	w.synced.Store(uint64(w.flight.end))
	w.settled = w.flight.covered
	w.deliver()
}

// flush makes everything durable that was written and waits for a sync.
func (w *Writer) flush() {
	w.join()
	if w.unsettled() {
		w.sync()
	}
}

// sync makes everything durable that was written, and settles it.
func (w *Writer) sync() {
	w.flight.covered, w.flight.end = len(w.answers), w.end()
	w.land(w.syncData(w.file.Handle()))
}

// settleUnsynced settles what counts as written without a sync, or after one for a barrier.
func (w *Writer) settleUnsynced(barrier bool) {
	if barrier {
		w.sync()
		return
	}
	w.settled = len(w.answers)
}

// end is the position behind the last frame.
func (w *Writer) end() base.Position { return base.At(w.file.Number, w.tail) }
