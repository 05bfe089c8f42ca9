package wal

import (
	"time"

	"godwit/internal/base"
	"godwit/internal/storage/segment"
	"godwit/internal/vfs"
)

const (
	idleAfter   = 20 * time.Millisecond
	zeroWindow  = 16 << 20 // kept zeroed ahead of the tail
	zeroAtATime = 256 << 10
)

var zeros [zeroAtATime]byte

// Idle does what waits for quiet: it records the synced position in the log, and writes zeros
// ahead, a step at a call, since syncing over written blocks takes half the time of growing a file. It
// reports whether more is to do.
func (w *Writer) Idle() bool {
	if w.failed != nil || w.Pending() {
		return false
	}
	if pos := w.Synced(); w.marked < pos {
		return w.mark(pos)
	}
	if w.opts.Durability != Sync {
		return false
	}
	end := min(int64(w.tail)+zeroWindow, w.opts.FileSize)
	if end-int64(w.zeroed) < zeroAtATime {
		return false
	}
	err := vfs.Writev(w.file.Handle(), int64(w.zeroed), [][]byte{zeros[:]})
	if err == nil {
		err = w.file.Handle().SyncData()
	}
	if err != nil {
		w.fail(err)
		return false
	}
	w.zeroed += zeroAtATime
	return true
}

// mark writes a frame that carries the synced position. It needs no completion: whether it reaches
// the disk changes nothing but what recovery may call corruption.
func (w *Writer) mark(pos base.Position) bool {
	r := &Record{Frame: segment.Frame{Kind: segment.FrameMark, Term: w.term}, Control: true,
		Done: func(Placement, error) {}}
	if !w.fits(w.tail, r.size(), true) {
		w.marked = pos
		return false
	}
	w.writeGroup([]*Record{r})
	w.flush()
	w.deliver()
	w.marked = w.Synced()
	return w.failed == nil
}
