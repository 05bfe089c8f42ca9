package engine

import (
	"sync"

	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/shard"
)

// queueWatches finds the watches of each queue of the node. A watch may be there before its queue is.
type queueWatches struct{ stripes [64]watchStripe }

// watchStripe has the watches of the queues in some logs.
type watchStripe struct {
	mu sync.RWMutex
	m  map[shard.QueueKey][]*ShareWatch
}

func (q *queueWatches) stripe(log base.LogID) *watchStripe { return &q.stripes[uint64(log)%64] }

// signal tells the watches of a queue that it changed.
func (q *queueWatches) signal(k shard.QueueKey) {
	s := q.stripe(k.Log)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, w := range s.m[k] {
		w.signal(k)
	}
}

// signalLog tells the watches of all queues in a log, be they there or not.
func (q *queueWatches) signalLog(log base.LogID) {
	q.stripe(log).each(func(k shard.QueueKey) bool { return k.Log == log })
}

// signalGroup tells the watches of all queues of a group.
func (q *queueWatches) signalGroup(g share.Key) {
	for i := range q.stripes {
		q.stripes[i].each(func(k shard.QueueKey) bool { return k.Group == g })
	}
}

func (s *watchStripe) each(match func(shard.QueueKey) bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for k, list := range s.m {
		if match(k) {
			for _, w := range list {
				w.signal(k)
			}
		}
	}
}

func (s *watchStripe) add(k shard.QueueKey, w *ShareWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[shard.QueueKey][]*ShareWatch{}
	}
	s.m[k] = append(s.m[k], w)
}

func (s *watchStripe) remove(k shard.QueueKey, w *ShareWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.m[k]
	for i, o := range list {
		if o == w {
			last := len(list) - 1
			list[i] = list[last]
			list[last] = nil
			list = list[:last]
			break
		}
	}
	if s.m[k] = list; len(list) == 0 {
		delete(s.m, k)
	}
}

// ShareWatch tells one waiting reader that queues may have something that they had not before. Its owner uses it from one
// goroutine; the loops signal it from theirs.
type ShareWatch struct {
	e      *Engine
	queues map[ShareQueue]shard.QueueKey
	c      chan struct{} // capacity 1

	mu    sync.Mutex
	names map[shard.QueueKey]ShareQueue
	ready []ShareQueue
	has   map[shard.QueueKey]struct{}
}

// NewShareWatch makes a watch over no queue.
func (e *Engine) NewShareWatch() *ShareWatch {
	return &ShareWatch{e: e, queues: map[ShareQueue]shard.QueueKey{}, c: make(chan struct{}, 1),
		names: map[shard.QueueKey]ShareQueue{}, has: map[shard.QueueKey]struct{}{}}
}

// Add begins to watch a queue, which need not be there; of a partition that is not there nothing is told. It is idempotent.
func (w *ShareWatch) Add(q ShareQueue) {
	if _, ok := w.queues[q]; ok {
		return
	}
	_, k, err := w.e.locate(q)
	if err != nil {
		return
	}
	w.queues[q] = k
	w.mu.Lock()
	w.names[k] = q
	w.mu.Unlock()
	w.e.queueWatches.stripe(k.Log).add(k, w)
}

// Remove ends watching a queue. It is idempotent.
func (w *ShareWatch) Remove(q ShareQueue) {
	k, ok := w.queues[q]
	if !ok {
		return
	}
	delete(w.queues, q)
	w.e.queueWatches.stripe(k.Log).remove(k, w)
	w.mu.Lock()
	delete(w.names, k)
	w.mu.Unlock()
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

// signal is called under the lock of a stripe; it takes the watch's, never the other way round.
func (w *ShareWatch) signal(k shard.QueueKey) {
	w.mu.Lock()
	q, ok := w.names[k]
	if _, had := w.has[k]; ok && !had {
		w.has[k] = struct{}{}
		w.ready = append(w.ready, q)
	}
	w.mu.Unlock()
	select {
	case w.c <- struct{}{}:
	default:
	}
}
