// Package drivertest holds a driver against what package driver promises, on a real target.
package drivertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit/internal/bench/driver"
)

// Target is a driver to be tested and what it can do beyond its Traits.
type Target struct {
	// New opens the driver; called for every test. The test closes it.
	New func(t *testing.T) driver.Driver
	// AckEach says that subscriptions may acknowledge each message; otherwise Open must refuse them.
	AckEach bool
	// Told says that a durable reader is told of messages that were removed.
	Told bool
	// Discards says that messages that wait for a durable reader can be removed.
	Discards bool
	// Wait is how long anything may take at most; 0 means 30 s.
	Wait time.Duration
}

// Run runs all tests, one after the other.
func Run(t *testing.T, target Target) {
	if target.Wait == 0 {
		target.Wait = 30 * time.Second
	}
	d := target.New(t)
	traits := d.Traits()
	if err := d.Close(); err != nil {
		t.Fatalf("closing an unused driver: %v", err)
	}
	for _, c := range []struct {
		name string
		when bool
		test func(*bench)
	}{
		{"describes its target", true, testDescribe},
		{"delivers all in order", true, testOrder},
		{"every subscription gets all", true, testFanOut},
		{"consumers share a subscription", true, testShared},
		{"one message in flight", true, testWindowOfOne},
		{"without acknowledgements", true, testNoAck},
		{"a later subscription begins now", true, testFromNow},
		{"a cut producer fails its messages", true, testCutProducer},
		{"an ended context ends sending", true, testContext},
		{"a subscription keeps what came before its consumer", traits.Retains, testBeforeConsumer},
		{"a subscription keeps what came while its consumer was away", traits.Retains, testAway},
		{"a later subscription reads from the start", traits.Replays, testReplay},
		{"a killed consumer's message is delivered again", target.AckEach, testKilled},
		{"each message is acknowledged once", target.AckEach, testAckEach},
		{"acknowledging each message is refused", !target.AckEach, testAckEachRefused},
		{"what a consumer committed does not come again", traits.Commits, testCommits},
		{"an atomic batch appears when it is complete", traits.Atomic, testAtomic},
		{"an atomic batch that is not completed never appears", traits.Atomic, testAtomicGivenUp},
		{"messages are passed on to another space", traits.Commits, func(b *bench) { testTransform(b, false) }},
		{"messages are passed on atomically", traits.Atomic, func(b *bench) { testTransform(b, true) }},
		{"removed messages are gone", target.Discards, testDiscard},
	} {
		if c.when {
			t.Run(c.name, func(t *testing.T) { c.test(newBench(t, target)) })
		}
	}
}

// bench is one test's driver.
type bench struct {
	*testing.T
	target Target
	driver driver.Driver
	ctx    context.Context // over when the test may not take any longer
}

func newBench(t *testing.T, target Target) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), target.Wait)
	t.Cleanup(cancel)
	d := target.New(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing the driver: %v", err)
		}
	})
	return &bench{T: t, target: target, driver: d, ctx: ctx}
}

// destinations and partitions of the layouts here.
const (
	destinations = 3
	partitions   = 4
	keys         = 24
)

// layout has a name that no other test has used.
func layout(subs ...driver.Subscription) driver.Layout {
	return driver.Layout{
		Name: fmt.Sprintf("dt%08x", rand.Uint32()), Destinations: destinations, Partitions: partitions, Subscriptions: subs,
	}
}

// open creates a layout that is removed at the end.
func (b *bench) open(l driver.Layout) driver.Space {
	b.Helper()
	s, err := b.driver.Open(b.ctx, l)
	if err != nil {
		b.Fatalf("opening a layout: %v", err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), b.target.Wait)
		defer cancel()
		if err := s.Remove(ctx); err != nil {
			b.Errorf("removing the layout: %v", err)
		}
	})
	return s
}

// sender is a producer that counts what is done.
type sender struct {
	b        *bench
	p        driver.Producer
	sent     uint64
	done     atomic.Int64
	failed   atomic.Int64
	inFlight atomic.Int64
	most     atomic.Int64 // that were in flight
}

func (b *bench) producer(s driver.Space, o driver.ProducerOptions) *sender {
	b.Helper()
	x := &sender{b: b}
	o.Done = func(_ uint64, err error) {
		x.inFlight.Add(-1)
		if err != nil {
			x.failed.Add(1)
		}
		x.done.Add(1)
	}
	p, err := s.Producer(b.ctx, o)
	if err != nil {
		b.Fatalf("connecting a producer: %v", err)
	}
	closed := sync.OnceValue(p.Close)
	x.p = closable{p, closed}
	b.Cleanup(func() {
		if err := closed(); err != nil {
			b.Errorf("closing a producer: %v", err)
		}
	})
	return x
}

// closable can be closed by the test and again by its cleanup.
type closable struct {
	driver.Producer
	close func() error
}

func (c closable) Close() error { return c.close() }

// payload is a message: its key, its number within all of the sender, and filler.
func payload(key uint32, seq uint64) []byte {
	p := make([]byte, 100)
	binary.BigEndian.PutUint32(p, key)
	binary.BigEndian.PutUint64(p[4:], seq)
	return p
}

func contents(p []byte) (key uint32, seq uint64) {
	return binary.BigEndian.Uint32(p), binary.BigEndian.Uint64(p[4:])
}

// one sends the next message without waiting for it.
func (x *sender) one(ctx context.Context) error {
	key := uint32(x.sent % keys)
	m := driver.Message{Destination: int(key % destinations), Key: key, Payload: payload(key, x.sent), Tag: x.sent}
	if err := x.p.Send(ctx, m); err != nil {
		return err
	}
	// Done may have been called already: the count is one too low then, never too high.
	if n := x.inFlight.Add(1); n > x.most.Load() {
		x.most.Store(n)
	}
	x.sent++
	return nil
}

// send sends n messages and waits until all are done.
func (x *sender) send(n int) {
	x.b.Helper()
	for range n {
		if err := x.one(x.b.ctx); err != nil {
			x.b.Fatalf("sending message %d: %v", x.sent, err)
		}
	}
	if err := x.p.Flush(x.b.ctx); err != nil {
		x.b.Fatalf("flushing: %v", err)
	}
	if done, failed := x.done.Load(), x.failed.Load(); done != int64(x.sent) || failed > 0 {
		x.b.Fatalf("%d messages were sent; after the flush %d are done, %d of them failed", x.sent, done, failed)
	}
}

func testDescribe(b *bench) {
	said, err := b.driver.Describe(b.ctx)
	if err != nil || strings.TrimSpace(said) == "" {
		b.Fatalf("said %q, %v", said, err)
	}
	b.Log(said)
}

func testAckEachRefused(b *bench) {
	_, err := b.driver.Open(b.ctx, layout(driver.Subscription{Name: "work", Durable: true, Shared: true, AckEach: true}))
	if !errors.Is(err, driver.ErrUnsupported) {
		b.Fatalf("a subscription that acknowledges each message opens with: %v", err)
	}
}
