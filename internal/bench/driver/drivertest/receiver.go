package drivertest

import (
	"fmt"
	"sync"

	"godwit/internal/bench/driver"
)

// received is what the consumers of one subscription got together.
type received struct {
	b *bench

	mu       sync.Mutex
	times    map[uint64]int // guarded by mu; deliveries of each message
	lost     []string       // guarded by mu
	disorder string         // guarded by mu; the first
	changed  chan struct{}  // guarded by mu; closed at the next delivery
}

func (b *bench) received() *received {
	return &received{b: b, times: make(map[uint64]int), changed: make(chan struct{})}
}

// listener is one consumer.
type listener struct {
	driver.Consumer
	got  int // messages; guarded by received.mu
	last map[uint32]uint64
}

// consume connects a consumer that takes every message.
func (r *received) consume(s driver.Space, sub driver.Subscription) *listener {
	r.b.Helper()
	return r.consumeWith(s, sub, driver.ConsumerOptions{}, func(driver.Delivery) bool { return true })
}

// consumeWith lets handle decide whether a message is taken. Messages that are not do not count.
func (r *received) consumeWith(s driver.Space, sub driver.Subscription, o driver.ConsumerOptions, handle func(driver.Delivery) bool) *listener {
	r.b.Helper()
	l, err := r.connect(s, sub, o, handle)
	if err != nil {
		r.b.Fatalf("connecting a consumer of %s: %v", sub.Name, err)
	}
	return l
}

// connect is consumeWith for other goroutines than the test's own.
func (r *received) connect(s driver.Space, sub driver.Subscription, o driver.ConsumerOptions, handle func(driver.Delivery) bool) (*listener, error) {
	l := &listener{last: make(map[uint32]uint64)}
	o.Handle = func(d driver.Delivery) bool {
		if !handle(d) {
			return false
		}
		r.take(l, d)
		return true
	}
	o.Lost = func(said string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lost = append(r.lost, said)
		r.wake()
	}
	c, err := s.Consumer(r.b.ctx, sub, o)
	if err != nil {
		return nil, err
	}
	closed := sync.OnceValue(c.Close)
	l.Consumer = onceClosed{c, closed}
	r.b.Cleanup(func() { _ = closed() })
	return l, nil
}

// onceClosed can be closed by the test and again by its cleanup.
type onceClosed struct {
	driver.Consumer
	close func() error
}

func (c onceClosed) Close() error { return c.close() }

func (r *received) take(l *listener, d driver.Delivery) {
	key, seq := contents(d.Payload)
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := l.last[key]; ok && seq <= last && r.times[seq] == 0 && r.disorder == "" {
		r.disorder = fmt.Sprintf("message %d of key %d came after %d", seq, key, last)
	}
	l.last[key] = max(seq, l.last[key])
	l.got++
	r.times[seq]++
	r.wake()
}

// wake tells who waits. The caller holds mu.
func (r *received) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// until waits for a condition of what was received; what describes it for the failure.
func (r *received) until(what string, cond func() bool) {
	r.b.Helper()
	for {
		r.mu.Lock()
		ok, changed, got := cond(), r.changed, len(r.times)
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-r.b.ctx.Done():
			r.b.Fatalf("waiting for %s: %d messages arrived", what, got)
		}
	}
}

// all waits for the messages from to to-1.
func (r *received) all(from, to uint64) {
	r.b.Helper()
	next := from
	r.until(fmt.Sprintf("messages %d to %d", from, to-1), func() bool {
		for next < to && r.times[next] > 0 {
			next++
		}
		return next == to
	})
}

// once checks that nothing came twice, nothing out of order, and nothing before from.
func (r *received) once(from uint64) {
	r.b.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disorder != "" {
		r.b.Errorf("out of order: %s", r.disorder)
	}
	for seq, n := range r.times {
		if n > 1 {
			r.b.Errorf("message %d came %d times", seq, n)
			return
		}
		if seq < from {
			r.b.Errorf("message %d came, and the first to come is %d", seq, from)
			return
		}
	}
}

// end closes a consumer that must have been well until then.
func (l *listener) end(b *bench) {
	b.Helper()
	if err := l.Err(); err != nil {
		b.Errorf("the consumer had ended: %v", err)
	}
	if err := l.Close(); err != nil {
		b.Errorf("closing the consumer: %v", err)
	}
}
