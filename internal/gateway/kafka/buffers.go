package kafka

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"

	"godwit/internal/invariants"
)

// Size classes: from 4 KiB on, four to each power of two, so that at most a quarter is wasted. A larger
// buffer than the last class is not kept.
const (
	minClassBits = 12
	maxClassBits = 24 // 16 MiB
	classes      = (maxClassBits-minClassBits)*4 + 1
)

// classOf is the class of the smallest buffers that hold n bytes, and their size; -1 for none.
func classOf(n int) (class, size int) {
	if n <= 1<<minClassBits {
		return 0, 1 << minClassBits
	}
	if n > 1<<maxClassBits {
		return -1, n
	}
	top := bits.Len(uint(n-1)) - 1 // 2^top < n <= 2^(top+1)
	step := 1 << (top - 2)
	quarter := (n - (1 << top) + step - 1) / step // 1 to 4
	return (top-minClassBits)*4 + quarter, 1<<top + quarter*step
}

// buffers is a pool of request memory.
type buffers struct{ classes [classes]sync.Pool }

// get returns a buffer of n bytes with one reference and nothing in it.
func (p *buffers) get(n int) *buffer {
	class, size := classOf(n)
	b := &buffer{pool: p, class: class}
	if class >= 0 {
		if m, _ := p.classes[class].Get().(*[]byte); m != nil {
			b.whole = m
		}
	}
	if b.whole == nil {
		m := make([]byte, size)
		b.whole = &m
	}
	b.b = (*b.whole)[:n]
	b.refs.Store(1)
	return b
}

// own returns a buffer of n bytes that is left to the garbage collector.
func own(n int) *buffer {
	b := &buffer{b: make([]byte, n), class: -1}
	b.refs.Store(1)
	return b
}

// buffer is the memory of one request. The last release gives it back, with its share of the budgets.
type buffer struct {
	b     []byte
	whole *[]byte
	pool  *buffers
	class int
	refs  atomic.Int32
	spent [2]*budget // of the connection and of the server; nil if not counted
}

func (b *buffer) retain() { b.refs.Add(1) }

func (b *buffer) release() {
	n := b.refs.Add(-1)
	invariants.Check(n >= 0, "request buffer released %d times too often", -n)
	if n > 0 {
		return
	}
	for _, g := range b.spent {
		if g != nil {
			g.put(int64(len(b.b)))
		}
	}
	if b.class >= 0 {
		b.pool.classes[b.class].Put(b.whole)
	}
}

// budget bounds bytes that are in flight. Who waits is served in order, so that a large request is not
// starved by small ones.
type budget struct {
	mu      sync.Mutex
	free    int64
	total   int64
	waiting []*waiter
}

type waiter struct {
	n     int64
	ready chan struct{}
}

func newBudget(total int64) *budget { return &budget{free: total, total: total} }

// take waits until n bytes may be used, or ctx ends. A request above the total counts as the total: it
// is alone then.
func (g *budget) take(ctx context.Context, n int64) error {
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

// put gives n bytes back.
func (g *budget) put(n int64) {
	g.mu.Lock()
	g.free += min(n, g.total)
	invariants.Check(g.free <= g.total, "budget of %d bytes has %d free", g.total, g.free)
	g.serve()
	g.mu.Unlock()
}

// serve lets those go who come first and fit.
func (g *budget) serve() {
	for len(g.waiting) > 0 && g.waiting[0].n <= g.free {
		w := g.waiting[0]
		g.free -= w.n
		g.waiting[0] = nil
		g.waiting = g.waiting[1:]
		close(w.ready)
	}
}

// used is how many bytes are in flight.
func (g *budget) used() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total - g.free
}
