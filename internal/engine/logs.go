package engine

import (
	"sync"
	"sync/atomic"

	"godwit/internal/base"
	"godwit/internal/partlog"
)

// logState is what a loop publishes of one log.
type logState struct {
	shard   base.ShardID
	start   atomic.Int64
	hw      atomic.Int64
	stable  atomic.Int64 // last stable offset; written after, read before what it vouches for: hw and aborted
	epochs  atomic.Pointer[[]partlog.Epoch]
	aborted atomic.Pointer[[]partlog.Aborted]

	mu      sync.Mutex
	watches []*Watch
}

// LogState is the readable state of one log.
type LogState struct {
	Start         int64 // log start offset
	HighWatermark int64 // applied committed end; nothing at or above it is shown
	LastStable    int64 // first offset of the oldest open transaction; the high watermark if there is none
	Size          int64 // bytes kept for the log, in batch bytes
}

// publish copies what readers may see. The index of extents must already know them.
func (s *logState) publish(l *partlog.Log) {
	s.start.Store(l.Start())
	if ep := l.Epochs(); len(ep) > 0 {
		if old := s.epochs.Load(); old == nil || &(*old)[0] != &ep[0] || len(*old) != len(ep) {
			s.epochs.Store(&ep)
		}
	}
	s.hw.Store(l.End())
	all := l.Aborted()
	if old := s.aborted.Load(); old == nil && len(all) > 0 || old != nil && !sameAborted(*old, all) {
		s.aborted.Store(&all)
	}
	s.stable.Store(l.LastStable())
}

// sameAborted compares lists of one log, which grow at their end and shrink at their front.
func sameAborted(a, b []partlog.Aborted) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// signal tells the watches that the log changed.
func (s *logState) signal(id base.LogID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		w.signal(id)
	}
}

// logMap holds the published state of all logs of the node.
type logMap struct{ m sync.Map }

func (m *logMap) get(id base.LogID) *logState {
	v, ok := m.m.Load(id)
	if !ok {
		return nil
	}
	return v.(*logState)
}

func (m *logMap) put(id base.LogID, s *logState) { m.m.Store(id, s) }
func (m *logMap) drop(id base.LogID)             { m.m.Delete(id) }

// State is the readable state of a log; false if this node has no such log (yet, or any more).
func (e *Engine) State(id base.LogID) (LogState, bool) {
	s := e.logs.get(id)
	if s == nil {
		return LogState{}, false
	}
	// The start is read last: it may then exceed the watermark seen, but never be too low.
	stable := s.stable.Load()
	hw := s.hw.Load()
	start := s.start.Load()
	return LogState{Start: start, HighWatermark: max(hw, start), LastStable: max(stable, start), Size: e.store.Size(id)}, true
}

// Aborted lists the aborted transactions of a log, by the offsets of their markers; it is immutable. It has all
// below a last stable offset that was read before.
func (e *Engine) Aborted(id base.LogID) []partlog.Aborted {
	if s := e.logs.get(id); s != nil {
		if all := s.aborted.Load(); all != nil {
			return *all
		}
	}
	return nil
}

// Epochs is the leader epoch history of a log.
func (e *Engine) Epochs(id base.LogID) []partlog.Epoch {
	if s := e.logs.get(id); s != nil {
		if ep := s.epochs.Load(); ep != nil {
			return *ep
		}
	}
	return nil
}

// Watch tells one waiting reader that logs have grown, were trimmed or have gone. Its owner uses it from
// one goroutine; the loops signal it from theirs.
type Watch struct {
	e    *Engine
	logs map[base.LogID]*logState
	c    chan struct{} // capacity 1

	mu    sync.Mutex
	ready []base.LogID
	has   map[base.LogID]struct{}
}

// NewWatch makes a watch over no log.
func (e *Engine) NewWatch() *Watch {
	return &Watch{e: e, logs: map[base.LogID]*logState{}, c: make(chan struct{}, 1), has: map[base.LogID]struct{}{}}
}

// Add begins to watch a log. It is idempotent; a log that does not exist never signals.
func (w *Watch) Add(id base.LogID) {
	if _, ok := w.logs[id]; ok {
		return
	}
	s := w.e.logs.get(id)
	if s == nil {
		return
	}
	w.logs[id] = s
	s.mu.Lock()
	s.watches = append(s.watches, w)
	s.mu.Unlock()
}

// Remove ends watching a log. It is idempotent.
func (w *Watch) Remove(id base.LogID) {
	s := w.logs[id]
	if s == nil {
		return
	}
	delete(w.logs, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.watches {
		if o == w {
			last := len(s.watches) - 1
			s.watches[i] = s.watches[last]
			s.watches[last] = nil
			s.watches = s.watches[:last]
			return
		}
	}
}

// C receives after at least one watched log changed since the last Take.
func (w *Watch) C() <-chan struct{} { return w.c }

// Take returns the logs that changed since the last Take.
func (w *Watch) Take() []base.LogID {
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

// Close ends watching all logs.
func (w *Watch) Close() {
	for id := range w.logs {
		w.Remove(id)
	}
}

// signal is called under the log's lock; it takes the watch's, never the other way round.
func (w *Watch) signal(id base.LogID) {
	w.mu.Lock()
	if _, ok := w.has[id]; !ok {
		w.has[id] = struct{}{}
		w.ready = append(w.ready, id)
	}
	w.mu.Unlock()
	select {
	case w.c <- struct{}{}:
	default:
	}
}
