package intake

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"godwit/internal/base"
)

func TestBudgetServesInTurn(t *testing.T) { synctest.Test(t, servesInTurn) }

func servesInTurn(t *testing.T) {
	g := NewBudget(100)
	take := func(ctx context.Context, n int64) chan error {
		c := make(chan error, 1)
		go func() { c <- g.Take(ctx, n) }()
		synctest.Wait() // until it has what it wants or waits for it
		return c
	}
	ctx := context.Background()
	if err := g.Take(ctx, 60); err != nil {
		t.Fatal(err)
	}
	large := take(ctx, 1000) // counts as all
	small := take(ctx, 10)   // would fit, but comes later
	cancelled, cancel := context.WithCancelCause(ctx)
	gone := take(cancelled, 5)
	cancel(base.Errorf(base.CodeShutdown, "enough"))
	if err := <-gone; err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("cancelled with %v", err)
	}
	g.Put(60)
	if err := <-large; err != nil || len(small) > 0 {
		t.Errorf("%v; the small one was served: %v", err, len(small) > 0)
	}
	g.Put(1000)
	if err := <-small; err != nil || g.Used() != 10 {
		t.Errorf("%v, %d bytes used", err, g.Used())
	}
}

func TestBufferClasses(t *testing.T) {
	last, lastSize := 0, 0
	for n := 1; n <= 1<<maxClassBits; n += 1 + n/50 {
		class, size := classOf(n)
		if size < n || size > 1<<minClassBits && size > n+n/4+1 || class < last || class >= classes || class == last && lastSize != 0 && size != lastSize {
			t.Fatalf("%d bytes: class %d of size %d, after %d of %d", n, class, size, last, lastSize)
		}
		last, lastSize = class, size
	}
	if class, size := classOf(1 << maxClassBits); class != classes-1 || size != 1<<maxClassBits {
		t.Errorf("the largest class is %d of %d", class, size)
	}
	if class, size := classOf(1<<maxClassBits + 1); class != -1 || size != 1<<maxClassBits+1 {
		t.Errorf("beyond the largest: %d of %d", class, size)
	}
	var p Pool
	b := p.Get(5000)
	b.Retain()
	b.Release()
	if len(b.B) != 5000 || cap(b.B) != 5<<10 {
		t.Errorf("%d of %d bytes", len(b.B), cap(b.B))
	}
	b.Release()
}
