package load

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"godwit/internal/bench/driver"
)

// Subscription is one cursor that the session audits: it gets every acknowledged message once, over all its
// consumers together.
type Subscription struct {
	s    *Session
	name string

	received atomic.Int64              // distinct messages
	wakeAt   atomic.Int64              // received at which somebody is to be told
	muted    atomic.Bool               // no latencies are kept
	ledgers  atomic.Pointer[[]*ledger] // by producer; replaced, never changed

	mu        sync.Mutex
	consumers []*consumer // guarded by mu
	waiters   []*waiter   // guarded by mu
}

// waiter wants to know when so many distinct messages have arrived.
type waiter struct {
	n       int64
	arrived chan struct{} // closed then
}

// nobody waits: wakeAt is never reached.
const nobody = math.MaxInt64

// stripes is how many locks a ledger has.
const stripes = 8

// ledger knows what arrived of one producer.
type ledger struct {
	locks [stripes]struct {
		sync.Mutex
		_ [56]byte // keeps locks out of each other's cache lines
	}
	tracks []tracker // by key; guarded by the lock of the key's stripe
}

// arrive notes a message and says whether it is new; ok is false if the producer has not sent it.
func (l *ledger) arrive(p *producer, key uint32, seq uint64) (fresh, ok bool) {
	lock := &l.locks[key%stripes]
	lock.Lock()
	defer lock.Unlock()
	t := &l.tracks[key]
	if seq > t.top && seq >= p.next[key].Load() {
		return false, false
	}
	return t.arrive(seq), true
}

// within counts how many of a key's messages arrived of those in set.
func (l *ledger) within(key uint32, set spans) (n int64) {
	lock := &l.locks[key%stripes]
	lock.Lock()
	defer lock.Unlock()
	for _, e := range set {
		n += l.tracks[key].within(e.lo, e.hi)
	}
	return n
}

func newSubscription(s *Session, name string) *Subscription {
	u := &Subscription{s: s, name: name}
	u.wakeAt.Store(nobody)
	u.ledgers.Store(new([]*ledger))
	return u
}

// ledger is that of one producer, made when it is first asked for.
func (u *Subscription) ledger(producer uint32) *ledger {
	if all := *u.ledgers.Load(); int(producer) < len(all) {
		return all[producer]
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	all := slices.Clip(*u.ledgers.Load())
	for int(producer) >= len(all) {
		all = append(all, &ledger{tracks: make([]tracker, u.s.o.Keys)})
	}
	u.ledgers.Store(&all)
	return all[producer]
}

// Mute leaves the subscription out of the latencies from now on: for a reader of what was sent long ago.
func (u *Subscription) Mute() { u.muted.Store(true) }

// Received counts distinct messages.
func (u *Subscription) Received() int64 { return u.received.Load() }

// Missing counts acknowledged messages that have not arrived; exact while nothing is being sent.
func (u *Subscription) Missing() int64 {
	missing := -u.Received()
	for i, p := range *u.s.producers.Load() {
		missing += p.counts().acked
		for key, set := range p.failures() {
			missing += u.ledger(uint32(i)).within(key, set) // arrived, but nobody waits for them
		}
	}
	return max(missing, 0)
}

// Wait returns when n distinct messages have arrived, or with ctx's error when ctx ends.
func (u *Subscription) Wait(ctx context.Context, n int64) error {
	arrived, forget := u.notify(n)
	defer forget()
	select {
	case <-arrived:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// notify closes a channel when n distinct messages have arrived. Forget is to be called at the end.
func (u *Subscription) notify(n int64) (arrived <-chan struct{}, forget func()) {
	w := &waiter{n: n, arrived: make(chan struct{})}
	u.mu.Lock()
	u.waiters = append(u.waiters, w)
	u.mu.Unlock()
	u.wake() // it may have been reached before anybody waited
	return w.arrived, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.waiters = slices.DeleteFunc(u.waiters, func(o *waiter) bool { return o == w })
	}
}

// wake tells those whose number is reached, and sets wakeAt for the rest. It reads received after that: whoever
// counts a message up to wakeAt before it was set is seen here, and whoever does so later calls wake.
func (u *Subscription) wake() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		next := int64(nobody)
		for _, w := range u.waiters {
			next = min(next, w.n)
		}
		u.wakeAt.Store(next)
		n := u.received.Load()
		if n < next {
			return
		}
		u.waiters = slices.DeleteFunc(u.waiters, func(w *waiter) bool {
			if w.n > n {
				return false
			}
			close(w.arrived)
			return true
		})
	}
}

// each calls f for every consumer, with its lock held.
func (u *Subscription) each(f func(*consumer)) {
	u.mu.Lock()
	all := slices.Clip(u.consumers)
	u.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		f(c)
		c.mu.Unlock()
	}
}

// last is when the last new message arrived, by the session's clock.
func (u *Subscription) last() (at int64) {
	u.each(func(c *consumer) { at = max(at, c.last) })
	return at
}

// consumer audits what one consumer gets.
type consumer struct {
	u *Subscription

	mu         sync.Mutex
	highest    [][]uint64 // guarded by mu; by producer and key: one more than the highest sequence number seen
	duplicates int64      // guarded by mu
	disordered int64      // guarded by mu
	foreign    int64      // guarded by mu
	last       int64      // guarded by mu; when the last new message arrived
	kept       []kept     // guarded by mu; the one used last is first
}

// kept is what a consumer knows of a phase.
type kept struct {
	phase     uint32
	latencies *latencies // nil if it is not recorded
}

// Handler is for the deliveries of one more consumer, which calls it from one goroutine at a time. It always
// answers true: a message that was counted was handled.
func (u *Subscription) Handler() func(driver.Delivery) bool {
	c := &consumer{u: u}
	u.mu.Lock()
	u.consumers = append(u.consumers, c)
	u.mu.Unlock()
	return c.handle
}

func (c *consumer) handle(d driver.Delivery) bool {
	s := c.u.s
	var at int64
	if d.At.IsZero() {
		at = s.Now()
	} else {
		at = int64(d.At.Sub(s.epoch))
	}
	h, err := ParseHeader(d.Payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	producers := *s.producers.Load()
	if err != nil || len(d.Payload) != s.o.Size || h.Run != s.o.Run || int(h.Producer) >= len(producers) || int64(h.Key) >= int64(s.o.Keys) {
		c.foreign++
		return true
	}
	l, known := c.phase(h.Phase)
	if !known {
		c.foreign++
		return true
	}
	fresh, ok := c.u.ledger(h.Producer).arrive(producers[h.Producer], h.Key, h.Sequence)
	if !ok {
		c.foreign++
		return true
	}
	seen := c.seen(&h)
	if !fresh {
		c.duplicates++
		*seen = max(*seen, h.Sequence+1)
		return true
	}
	if h.Sequence < *seen {
		c.disordered++
	} else {
		*seen = h.Sequence + 1
	}
	c.last = max(c.last, at)
	if l != nil && !c.u.muted.Load() {
		l.record(at - h.Intended)
	}
	if n := c.u.received.Add(1); n >= c.u.wakeAt.Load() {
		c.u.wake()
	}
	return true
}

// seen is one more than the highest sequence number of the message's key, with mu held.
func (c *consumer) seen(h *Header) *uint64 {
	for int(h.Producer) >= len(c.highest) {
		c.highest = append(c.highest, nil)
	}
	keys := c.highest[h.Producer]
	if keys == nil {
		keys = make([]uint64, c.u.s.o.Keys)
		c.highest[h.Producer] = keys
	}
	return &keys[h.Key]
}

// phase finds a phase's latencies, with mu held; false if there is no such phase.
func (c *consumer) phase(id uint32) (*latencies, bool) {
	for i := range c.kept {
		if c.kept[i].phase == id {
			c.kept[0], c.kept[i] = c.kept[i], c.kept[0]
			return c.kept[0].latencies, true
		}
	}
	record, known := c.u.s.recorded(id)
	if !known {
		return nil, false
	}
	k := kept{phase: id}
	if record {
		k.latencies = newLatencies()
	}
	c.kept = append(c.kept, k)
	return k.latencies, true
}
