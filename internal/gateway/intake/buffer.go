package intake

import (
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

// Pool is memory of requests that is used again. Its zero value is empty.
type Pool struct{ classes [classes]sync.Pool }

// Get returns a buffer of n bytes with one reference and nothing in it.
func (p *Pool) Get(n int) *Buffer {
	class, size := classOf(n)
	b := &Buffer{pool: p, class: class}
	if class >= 0 {
		if m, _ := p.classes[class].Get().(*[]byte); m != nil {
			b.whole = m
		}
	}
	if b.whole == nil {
		m := make([]byte, size)
		b.whole = &m
	}
	b.B = (*b.whole)[:n]
	b.refs.Store(1)
	return b
}

// Own returns a buffer of n bytes that is left to the garbage collector.
func Own(n int) *Buffer {
	b := &Buffer{B: make([]byte, n), class: -1}
	b.refs.Store(1)
	return b
}

// Buffer is the memory of one request. The last release gives it back, with its share of the budgets.
type Buffer struct {
	B     []byte
	whole *[]byte
	pool  *Pool
	class int
	refs  atomic.Int32
	spent [2]*Budget // of the connection and of the server; nil if not counted
}

// Charge has the last release give the buffer's bytes back to two budgets, of its connection and of the server, from which they were taken.
func (b *Buffer) Charge(conn, server *Budget) { b.spent = [2]*Budget{conn, server} }

// Retain adds a reference.
func (b *Buffer) Retain() { b.refs.Add(1) }

// Release drops a reference.
func (b *Buffer) Release() {
	n := b.refs.Add(-1)
	invariants.Check(n >= 0, "request buffer released %d times too often", -n)
	if n > 0 {
		return
	}
	for _, g := range b.spent {
		if g != nil {
			g.Put(int64(len(b.B)))
		}
	}
	if b.class >= 0 {
		b.pool.classes[b.class].Put(b.whole)
	}
}
