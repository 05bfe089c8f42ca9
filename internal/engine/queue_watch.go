package engine

import "sync"

// queueWatches finds the watches of each queue of the node. Queues are watched by name, so a watch may be there before its
// queue is.
type queueWatches struct {
	mu sync.RWMutex
	m  map[ShareQueue][]*ShareWatch
}

// signal tells the watches of a queue that it changed.
func (q *queueWatches) signal(name ShareQueue) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	for _, w := range q.m[name] {
		w.signal(name)
	}
}

// ShareWatch tells one waiting reader that queues may have something that they had not before. Its owner uses it from one
// goroutine; the loops signal it from theirs.
type ShareWatch struct {
	e      *Engine
	queues map[ShareQueue]struct{}
	c      chan struct{} // capacity 1

	mu    sync.Mutex
	ready []ShareQueue
	has   map[ShareQueue]struct{}
}

// NewShareWatch makes a watch over no queue.
func (e *Engine) NewShareWatch() *ShareWatch {
	return &ShareWatch{e: e, queues: map[ShareQueue]struct{}{}, c: make(chan struct{}, 1), has: map[ShareQueue]struct{}{}}
}

// Add begins to watch a queue, which need not be there. It is idempotent.
func (w *ShareWatch) Add(q ShareQueue) {
	if _, ok := w.queues[q]; ok {
		return
	}
	w.queues[q] = struct{}{}
	all := &w.e.queueWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.m == nil {
		all.m = map[ShareQueue][]*ShareWatch{}
	}
	all.m[q] = append(all.m[q], w)
}

// Remove ends watching a queue. It is idempotent.
func (w *ShareWatch) Remove(q ShareQueue) {
	if _, ok := w.queues[q]; !ok {
		return
	}
	delete(w.queues, q)
	all := &w.e.queueWatches
	all.mu.Lock()
	defer all.mu.Unlock()
	list := all.m[q]
	for i, o := range list {
		if o == w {
			last := len(list) - 1
			list[i] = list[last]
			list[last] = nil
			list = list[:last]
			break
		}
	}
	if all.m[q] = list; len(list) == 0 {
		delete(all.m, q)
	}
}

// C receives after at least one watched queue may have changed since the last Take.
func (w *ShareWatch) C() <-chan struct{} { return w.c }

// Take returns the queues that may have changed since the last Take.
func (w *ShareWatch) Take() []ShareQueue {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.ready
	w.ready = nil
	clear(w.has)
	select {
	case <-w.c:
	default:
	}
	return out
}

// Close ends watching all queues.
func (w *ShareWatch) Close() {
	for q := range w.queues {
		w.Remove(q)
	}
}

// signal is called under the lock of all watches; it takes the watch's, never the other way round.
func (w *ShareWatch) signal(q ShareQueue) {
	w.mu.Lock()
	if _, ok := w.has[q]; !ok {
		w.has[q] = struct{}{}
		w.ready = append(w.ready, q)
	}
	w.mu.Unlock()
	select {
	case w.c <- struct{}{}:
	default:
	}
}
