package kafka

import (
	"context"
	"sync/atomic"
)

// window bounds what is in flight. One goroutine takes, any give back.
type window struct {
	size int64
	open atomic.Int64  // taken and not given back, with the one that waits
	room chan struct{} // has an element after open fell to size; may have one without
	idle chan struct{} // has an element after open fell to 0; may have one without
}

func newWindow(size int) *window {
	return &window{size: int64(size), room: make(chan struct{}, 1), idle: make(chan struct{}, 1)}
}

// take waits until there is room. It fails when a context or ended is over.
func (w *window) take(ctx context.Context, ended <-chan struct{}) error {
	if w.open.Add(1) <= w.size {
		return nil
	}
	for {
		select {
		case <-w.room:
			if w.open.Load() <= w.size {
				return nil
			}
		case <-ctx.Done():
			w.give()
			return ctx.Err()
		case <-ended:
			w.give()
			return context.Canceled
		}
	}
}

// give gives back what was taken.
func (w *window) give() {
	switch w.open.Add(-1) {
	case w.size:
		wake(w.room)
	case 0:
		wake(w.idle)
	}
}

// drained waits until everything was given back.
func (w *window) drained(ctx context.Context) error {
	for w.open.Load() > 0 {
		select {
		case <-w.idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
