package drivertest

import (
	"slices"
	"sync/atomic"
	"time"

	"godwit/internal/bench/driver"
)

// never is longer than any test.
const never = time.Hour

// testCommits has a consumer commit after every tenth message, and die in the middle of a message.
func testCommits(b *bench) {
	const all, every, dies = 500, 10, 255
	sub := driver.Subscription{Name: "place", Durable: true}
	s := b.open(driver.Layout{Name: layout().Name, Destinations: 1, Partitions: 1, Subscriptions: []driver.Subscription{sub}})
	p := b.producer(s, driver.ProducerOptions{InFlight: 100})
	for i := range all {
		if err := p.p.Send(b.ctx, driver.Message{Payload: payload(0, uint64(i)), Tag: uint64(i)}); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.p.Flush(b.ctx); err != nil {
		b.Fatal(err)
	}
	net := &driver.Network{}
	r := b.received()
	var committed atomic.Int64
	dead := make(chan struct{})
	taken := 0
	first := r.consumeWith(s, sub, driver.ConsumerOptions{
		Net:    net,
		Commit: func() bool { return taken%every == 0 },
		Committed: func(took time.Duration, err error) {
			if err != nil || took <= 0 {
				b.Errorf("commit %d took %v: %v", committed.Load(), took, err)
			}
			committed.Add(1)
		},
	}, func(driver.Delivery) bool {
		switch taken++; {
		case taken < dies:
			return true
		case taken == dies:
			net.Cut()
			close(dead)
		}
		return false
	})
	select {
	case <-dead:
	case <-b.ctx.Done():
		b.Fatal("the consumer that is to be killed got too few messages")
	}
	if n := committed.Load(); n != dies/every {
		b.Errorf("%d commits are done when %d messages are handled", n, dies-1)
	}
	if err := first.Close(); err != nil {
		b.Logf("closing the dead consumer: %v", err)
	}
	again := b.received()
	second := again.consumeWith(s, sub, driver.ConsumerOptions{
		Commit: func() bool { return false }, Committed: func(time.Duration, error) { b.Error("a commit that nobody asked for") },
	}, func(driver.Delivery) bool { return true })
	again.all(dies/every*every, all)
	again.once(dies / every * every)
	second.end(b) // commits what was handled
	last := b.received()
	last.consume(s, sub)
	if err := p.p.Send(b.ctx, driver.Message{Payload: payload(0, all), Tag: all}); err != nil {
		b.Fatal(err)
	}
	last.all(all, all+1)
	last.once(all)
}

// testAtomic completes batches by Flush and by their time.
func testAtomic(b *bench) {
	sub := driver.Subscription{Name: "whole", Committed: true}
	s := b.open(layout(sub))
	r := b.received()
	r.consume(s, sub)
	p := b.producer(s, driver.ProducerOptions{InFlight: 1000, Atomic: never})
	for range 300 {
		if err := p.one(b.ctx); err != nil {
			b.Fatal(err)
		}
	}
	// Whatever another sends in the meantime shows that the reader reads on, as far as an open batch lets it.
	other := b.producer(b.open(layout()), driver.ProducerOptions{InFlight: 100})
	other.send(300)
	r.mu.Lock()
	early := len(r.times)
	r.mu.Unlock()
	if done := p.done.Load(); done > 0 || early > 0 {
		b.Errorf("%d messages are done and %d arrived before their batch was complete", done, early)
	}
	p.send(0)
	r.all(0, 300)
	soon := b.producer(s, driver.ProducerOptions{InFlight: 1000, Atomic: 20 * time.Millisecond})
	soon.sent = 300
	for range 100 {
		if err := soon.one(b.ctx); err != nil {
			b.Fatal(err)
		}
	}
	r.all(300, 400)
	r.once(0)
}

// testAtomicGivenUp closes a producer in the middle of a batch.
func testAtomicGivenUp(b *bench) {
	sub := driver.Subscription{Name: "whole", Committed: true}
	s := b.open(layout(sub))
	r := b.received()
	r.consume(s, sub)
	p := b.producer(s, driver.ProducerOptions{InFlight: 1000, Atomic: never})
	for range 100 {
		if err := p.one(b.ctx); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.p.Close(); err != nil {
		b.Fatalf("closing a producer with an open batch: %v", err)
	}
	if done, failed := p.done.Load(), p.failed.Load(); done != 100 || failed != 100 {
		b.Errorf("of 100 messages of a batch that was not completed %d are done and %d failed", done, failed)
	}
	next := b.producer(s, driver.ProducerOptions{InFlight: 1000, Atomic: never})
	next.sent = 100
	for range 100 {
		if err := next.one(b.ctx); err != nil {
			b.Fatal(err)
		}
	}
	if err := next.p.Flush(b.ctx); err != nil {
		b.Fatal(err)
	}
	r.all(100, 200)
	r.once(100)
}

// testTransform passes messages on, with a second consumer that follows the first.
func testTransform(b *bench, atomically bool) {
	from := driver.Subscription{Name: "in", Durable: true}
	to := driver.Subscription{Name: "out", Committed: true}
	in, out := b.open(layout(from)), b.open(layout(to))
	r := b.received()
	r.consume(out, to)
	passes, ok := in.(driver.Transformer)
	if !ok {
		b.Fatal("the space cannot pass messages on")
	}
	options := driver.TransformOptions{
		Every: 20 * time.Millisecond, Atomic: atomically,
		Map: func(d driver.Delivery) driver.Message {
			key, _ := contents(d.Payload)
			return driver.Message{Destination: int(key % destinations), Key: key, Payload: slices.Clone(d.Payload)}
		},
		Failed: func(err error) { b.Errorf("passing messages on: %v", err) },
	}
	p := b.producer(in, driver.ProducerOptions{InFlight: 100})
	for i := range uint64(2) {
		p.send(count)
		c, err := passes.Transform(b.ctx, from, out, options)
		if err != nil {
			b.Fatalf("connecting a consumer that passes messages on: %v", err)
		}
		r.all(i*count, (i+1)*count)
		if err := c.Err(); err != nil {
			b.Errorf("the consumer had ended: %v", err)
		}
		if err := c.Close(); err != nil {
			b.Errorf("closing the consumer: %v", err)
		}
	}
	r.once(0)
}
