package intake

import (
	"context"
	"sync"

	"godwit/internal/invariants"
)

// Budget bounds bytes that are in flight. Who waits is served in order, so that a large request is not
// starved by small ones.
type Budget struct {
	mu      sync.Mutex
	free    int64
	total   int64
	waiting []*waiter
}

type waiter struct {
	n     int64
	ready chan struct{}
}

// NewBudget is a budget of so many bytes.
func NewBudget(total int64) *Budget { return &Budget{free: total, total: total} }

// Take waits until n bytes may be used, or ctx ends. A request above the total counts as the total: it
// is alone then.
func (g *Budget) Take(ctx context.Context, n int64) error {
	n = min(n, g.total)
	g.mu.Lock()
	if len(g.waiting) == 0 && g.free >= n {
		g.free -= n
		g.mu.Unlock()
		return nil
	}
	w := &waiter{n, make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, o := range g.waiting {
		if o == w {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			g.serve()
			return context.Cause(ctx)
		}
	}
	g.free += n // it was served meanwhile
	g.serve()
	return context.Cause(ctx)
}

// Put gives n bytes back.
func (g *Budget) Put(n int64) {
	g.mu.Lock()
	g.free += min(n, g.total)
	invariants.Check(g.free <= g.total, "budget of %d bytes has %d free", g.total, g.free)
	g.serve()
	g.mu.Unlock()
}

// serve lets those go who come first and fit.
func (g *Budget) serve() {
	for len(g.waiting) > 0 && g.waiting[0].n <= g.free {
		w := g.waiting[0]
		g.free -= w.n
		g.waiting[0] = nil
		g.waiting = g.waiting[1:]
		close(w.ready)
	}
}

// Used is how many bytes are in flight.
func (g *Budget) Used() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total - g.free
}
