package drivertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"godwit/internal/bench/driver"
)

// count is how many messages a test sends, more than any client buffers at once.
const count = 3000

func testOrder(b *bench) {
	for _, durable := range []bool{false, true} {
		sub := driver.Subscription{Name: "one", Durable: durable}
		s := b.open(layout(sub))
		r := b.received()
		c := r.consume(s, sub)
		b.producer(s, driver.ProducerOptions{InFlight: 100}).send(count)
		r.all(0, count)
		r.once(0)
		c.end(b)
	}
}

func testFanOut(b *bench) {
	subs := []driver.Subscription{{Name: "a", Durable: true}, {Name: "b"}, {Name: "c", Durable: true}}
	s := b.open(layout(subs...))
	var all []*received
	for _, sub := range subs {
		r := b.received()
		r.consume(s, sub)
		all = append(all, r)
	}
	b.producer(s, driver.ProducerOptions{InFlight: 100}).send(count)
	for _, r := range all {
		r.all(0, count)
		r.once(0)
	}
}

func testShared(b *bench) {
	for _, durable := range []bool{false, true} {
		sub := driver.Subscription{Name: "both", Durable: durable, Shared: true}
		s := b.open(layout(sub))
		r := b.received()
		consumers := make([]*listener, 2)
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i := range consumers {
			wg.Go(func() {
				consumers[i], errs[i] = r.connect(s, sub, driver.ConsumerOptions{}, func(driver.Delivery) bool { return true })
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			b.Fatalf("connecting two consumers at once: %v", err)
		}
		b.producer(s, driver.ProducerOptions{InFlight: 100}).send(count)
		r.all(0, count)
		r.once(0)
		for i, c := range consumers {
			r.mu.Lock()
			got := c.got
			r.mu.Unlock()
			if got == 0 {
				b.Errorf("consumer %d of two got nothing", i)
			}
			c.end(b)
		}
	}
}

func testWindowOfOne(b *bench) {
	sub := driver.Subscription{Name: "one"}
	s := b.open(layout(sub))
	r := b.received()
	r.consume(s, sub)
	p := b.producer(s, driver.ProducerOptions{InFlight: 1})
	p.send(50)
	r.all(0, 50)
	if most := p.most.Load(); most > 1 {
		b.Errorf("%d messages were in flight", most)
	}
}

func testNoAck(b *bench) {
	sub := driver.Subscription{Name: "one"}
	s := b.open(layout(sub))
	r := b.received()
	r.consume(s, sub)
	b.producer(s, driver.ProducerOptions{InFlight: 100, NoAck: true}).send(500)
	r.all(0, 500)
}

func testFromNow(b *bench) {
	s := b.open(layout())
	p := b.producer(s, driver.ProducerOptions{InFlight: 100})
	p.send(200)
	r := b.received()
	r.consume(s, driver.Subscription{Name: "later"})
	p.send(200)
	r.all(200, 400)
	r.once(200)
}

func testCutProducer(b *bench) {
	s := b.open(layout())
	net := &driver.Network{}
	x := b.producer(s, driver.ProducerOptions{InFlight: 100, Net: net})
	x.send(10)
	if sent, received := net.Bytes(); sent == 0 || received == 0 {
		b.Errorf("%d bytes sent and %d received over the producer's own network", sent, received)
	}
	net.Cut()
	taken := 10
	for range 50 {
		if x.one(b.ctx) == nil { // a client that has noticed may refuse
			taken++
		}
	}
	if err := x.p.Close(); err != nil {
		b.Logf("closing a cut producer: %v", err)
	}
	if done := x.done.Load(); done != int64(taken) {
		b.Errorf("%d messages were taken; after closing %d are done", taken, done)
	}
	if err := x.one(b.ctx); err == nil {
		b.Error("a closed producer takes messages")
	}
}

func testContext(b *bench) {
	s := b.open(layout())
	x := b.producer(s, driver.ProducerOptions{InFlight: 1})
	ctx, cancel := context.WithCancel(b.ctx)
	x.send(1)
	cancel()
	// As long as the window has room messages may be taken.
	for range 10_000 {
		if err := x.one(ctx); err != nil {
			if !errors.Is(err, context.Canceled) {
				b.Errorf("with an ended context sending fails with: %v", err)
			}
			x.send(1)
			return
		}
	}
	b.Error("with an ended context sending goes on")
}

func testBeforeConsumer(b *bench) {
	subs := []driver.Subscription{{Name: "a", Durable: true}, {Name: "b", Durable: true, Shared: true}}
	s := b.open(layout(subs...))
	p := b.producer(s, driver.ProducerOptions{InFlight: 100})
	p.send(count)
	var all []*received
	for _, sub := range subs {
		r := b.received()
		r.consume(s, sub)
		all = append(all, r)
	}
	p.send(100)
	for _, r := range all {
		r.all(0, count+100)
		r.once(0)
	}
}

func testAway(b *bench) {
	sub := driver.Subscription{Name: "away", Durable: true}
	s := b.open(layout(sub))
	p := b.producer(s, driver.ProducerOptions{InFlight: 100})
	r := b.received()
	c := r.consume(s, sub)
	p.send(500)
	r.all(0, 500)
	c.end(b)
	p.send(500)
	r.consume(s, sub)
	p.send(500)
	r.all(0, 1500)
	r.once(0)
}

func testReplay(b *bench) {
	s := b.open(layout())
	p := b.producer(s, driver.ProducerOptions{InFlight: 100})
	p.send(500)
	for _, sub := range []driver.Subscription{
		{Name: "a", FromStart: true}, {Name: "b", FromStart: true, Durable: true}, {Name: "c", FromStart: true, Shared: true},
	} {
		r := b.received()
		r.consume(s, sub)
		r.all(0, 500)
		r.once(0)
	}
}

func testAckEach(b *bench) {
	for _, shared := range []bool{false, true} {
		sub := driver.Subscription{Name: "work", Durable: true, Shared: shared, AckEach: true}
		s := b.open(layout(sub))
		p := b.producer(s, driver.ProducerOptions{InFlight: 100})
		p.send(200)
		r := b.received()
		c := r.consumeWith(s, sub, driver.ConsumerOptions{Prefetch: 10}, func(driver.Delivery) bool { return true })
		p.send(500)
		r.all(0, 700)
		c.end(b)
		p.send(100)
		c = r.consume(s, sub)
		r.all(0, 800)
		r.once(0)
		c.end(b)
	}
}

// testKilled has a consumer die with a message in its hands.
func testKilled(b *bench) {
	sub := driver.Subscription{Name: "work", Durable: true, Shared: true, AckEach: true}
	s := b.open(layout(sub))
	net := &driver.Network{}
	r := b.received()
	var taken atomic.Int64
	var held atomic.Uint64
	dead := make(chan struct{})
	first := r.consumeWith(s, sub, driver.ConsumerOptions{Net: net}, func(d driver.Delivery) bool {
		switch n := taken.Add(1); {
		case n < 100:
			return true
		case n == 100:
			_, seq := contents(d.Payload)
			held.Store(seq)
			net.Cut()
			close(dead)
		}
		return false
	})
	p := b.producer(s, driver.ProducerOptions{InFlight: 100})
	p.send(500)
	select {
	case <-dead:
	case <-b.ctx.Done():
		b.Fatal("the consumer that is to be killed got too few messages")
	}
	var again atomic.Bool
	r.consumeWith(s, sub, driver.ConsumerOptions{}, func(d driver.Delivery) bool {
		if _, seq := contents(d.Payload); seq == held.Load() {
			again.Store(true)
		}
		return true
	})
	p.send(100)
	r.all(0, 600)
	if !again.Load() {
		b.Errorf("message %d, which the dead consumer held, was not delivered to the other", held.Load())
	}
	if err := first.Close(); err != nil {
		b.Logf("closing the dead consumer: %v", err)
	}
	if err := first.Err(); err == nil {
		b.Error("the dead consumer does not say what ended it")
	}
}

func testDiscard(b *bench) {
	sub := driver.Subscription{Name: "slow", Durable: true}
	s := b.open(layout(sub))
	p := b.producer(s, driver.ProducerOptions{InFlight: 100})
	r := b.received()
	c := r.consume(s, sub)
	p.send(200)
	r.all(0, 200)
	c.end(b)
	p.send(200)
	for d := range destinations {
		if err := s.Discard(b.ctx, d); err != nil {
			b.Fatalf("discarding destination %d: %v", d, err)
		}
	}
	p.send(200)
	r.consume(s, sub)
	r.all(400, 600)
	if b.target.Told {
		r.until("a word about what was removed", func() bool { return len(r.lost) > 0 })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for seq := range r.times {
		if seq >= 200 && seq < 400 {
			b.Fatalf("message %d was removed and came", seq)
		}
	}
	b.Logf("told: %q", r.lost)
}
