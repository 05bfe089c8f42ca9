package load

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit/internal/bench/driver"
)

// target is a message system in memory. It handles the messages of a producer in order, each a while after it was
// sent, and can be told to do it badly. Only for synctest bubbles: its time is theirs.
type target struct {
	latency time.Duration // from sending to delivery and acknowledgement
	service time.Duration // that one message after the other takes
	queue   int           // messages that a producer's connection holds before Send blocks
	// verdict, if set, decides about message n of a producer.
	verdict func(producer, n int) verdict

	sleep func(time.Duration) // moves the bubble's clock

	mu       sync.Mutex
	stalled  time.Time // does nothing before
	handlers []func(driver.Delivery) bool
	conns    []*conn
}

// verdict is what becomes of a message.
type verdict struct {
	deliver int           // times that it arrives
	hold    bool          // arrives after its successor
	err     error         // what the producer is told
	silent  bool          // the producer is told nothing
	refuse  error         // what Send says
	after   time.Duration // more latency for the acknowledgement
}

// conn is one producer of a target.
type conn struct {
	t      *target
	index  int
	o      driver.ProducerOptions
	queue  chan work
	closed chan struct{}
	n      int // messages that Send was asked to take

	mu       sync.Mutex
	out, max int              // guarded by mu; messages of which the producer was told nothing, and the most that there were
	under    int              // guarded by mu; messages of which it has not been told until the end
	silent   int              // guarded by mu; of them: will never be
	idle     []chan struct{}  // guarded by mu; closed when the others are done
	sent     []driver.Message // guarded by mu; without payloads
	times    []time.Time      // guarded by mu; of sent
}

type work struct {
	m  driver.Message
	at time.Time
	v  verdict
}

func (t *target) open(o driver.ProducerOptions) (driver.Producer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &conn{t: t, index: len(t.conns), o: o, queue: make(chan work, max(t.queue, 1)), closed: make(chan struct{})}
	t.conns = append(t.conns, c)
	go c.serve()
	return c, nil
}

// stall stops the target for a while, beginning so long from now.
func (t *target) stall(in, d time.Duration) {
	time.AfterFunc(in, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stalled = time.Now().Add(d)
	})
}

func (t *target) wait(until time.Time) {
	t.sleep(time.Until(until))
	t.mu.Lock()
	stalled := t.stalled
	t.mu.Unlock()
	t.sleep(time.Until(stalled))
}

func (c *conn) Send(ctx context.Context, m driver.Message) error {
	v := verdict{deliver: 1}
	if c.t.verdict != nil {
		v = c.t.verdict(c.index, c.n)
	}
	c.n++
	if v.refuse != nil {
		return v.refuse
	}
	at := time.Now()
	c.mu.Lock()
	c.under++
	c.out++
	c.max = max(c.max, c.out)
	c.sent, c.times = append(c.sent, m), append(c.times, at)
	c.mu.Unlock()
	m.Payload = slices.Clone(m.Payload)
	select {
	case c.queue <- work{m, at, v}:
		return nil
	case <-ctx.Done():
		c.leave(1, 0)
		return ctx.Err()
	}
}

func (c *conn) serve() {
	var held []driver.Message
	for {
		select {
		case w := <-c.queue:
			c.t.wait(w.at.Add(c.t.latency))
			c.t.sleep(c.t.service)
			if w.v.hold {
				held = append(held, w.m)
			} else {
				for range w.v.deliver {
					c.t.deliver(w.m)
				}
				for _, m := range held {
					c.t.deliver(m)
				}
				held = held[:0]
			}
			switch {
			case w.v.silent:
				c.leave(0, 1)
			case w.v.after > 0:
				time.AfterFunc(w.v.after, func() { c.finish(w) })
			default:
				c.finish(w)
			}
		case <-c.closed:
			for len(c.queue) > 0 {
				w := <-c.queue
				w.v.err = errBroken
				c.finish(w)
			}
			return
		}
	}
}

func (c *conn) finish(w work) {
	c.mu.Lock()
	c.out--
	c.mu.Unlock()
	c.o.Done(w.m.Tag, w.v.err)
	c.leave(1, 0)
}

// leave counts messages that are done, or will never be, and ends the waiting for them.
func (c *conn) leave(done, silent int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under -= done
	c.silent += silent
	if c.under == c.silent {
		for _, ch := range c.idle {
			close(ch)
		}
		c.idle = nil
	}
}

// waited is closed when all messages are done that will be.
func (c *conn) waited() <-chan struct{} {
	ch := make(chan struct{})
	c.mu.Lock()
	c.idle = append(c.idle, ch)
	c.mu.Unlock()
	c.leave(0, 0)
	return ch
}

func (t *target) deliver(m driver.Message) {
	t.mu.Lock()
	handlers := t.handlers
	t.mu.Unlock()
	for _, h := range handlers {
		h(driver.Delivery{Payload: m.Payload})
	}
}

func (c *conn) Flush(ctx context.Context) error {
	select {
	case <-c.waited():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *conn) Close() error {
	close(c.closed)
	<-c.waited()
	return nil
}

// listen subscribes one consumer.
func (t *target) listen(u *Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handlers = append(t.handlers, u.Handler())
}

// rig is a session on a target.
type rig struct {
	*testing.T
	*Session
	target *target
}

// within runs f in a bubble with a session of n producers on a target.
func within(t *testing.T, o Options, n int, tg *target, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tg.sleep = time.Sleep
		o.Run, o.Keys, o.Destinations = 7, max(o.Keys, 1), max(o.Destinations, 1)
		o.Size, o.InFlight = max(o.Size, 100), max(o.InFlight, 1)
		r := &rig{T: t, Session: NewSession(o), target: tg}
		r.newSleeper = newTimerSleeper // a timerfd does not know of the bubble's time
		for range n {
			if err := r.AddProducer(t.Context(), tg.open); err != nil {
				t.Fatal(err)
			}
		}
		defer func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(r)
	})
}

// send sends a phase and wants it to work.
func (r *rig) send(p Phase) Sent {
	r.Helper()
	sent, err := r.Send(r.Context(), p)
	if err != nil {
		r.Fatal(err)
	}
	if sent.Offered != sent.Acked+sent.Failed {
		r.Fatalf("%d offered are not %d acknowledged and %d failed", sent.Offered, sent.Acked, sent.Failed)
	}
	return sent
}

// settle waits for the last messages.
func (r *rig) settle() {
	r.Helper()
	if err := r.Session.Wait(r.Context(), time.Second); err != nil {
		r.Fatal(err)
	}
}

var errBroken = errors.New("broken")
