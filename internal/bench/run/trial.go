package run

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/load"
	"godwit/internal/bench/probe"
	"godwit/internal/bench/result"
	"godwit/internal/bench/scenario"
	"godwit/internal/bench/target"
)

// The bounds of what is waited for.
const (
	setupTimeout = 3 * time.Minute // for destinations and clients
	endTimeout   = time.Minute     // for removing what was made
)

// trial is one measurement of one target: a connection, a layout, clients, and what they found.
type trial struct {
	r      *runner
	target *target.Target
	s      *scenario.Scenario
	step   step
	name   string // of its layouts
	net    *driver.Network
	driver driver.Driver
	out    result.Round
	seed   uint64 // of arrivals

	// What close undoes, in order.
	mu        sync.Mutex
	consumers []driver.Consumer // guarded by mu
	session   *load.Session
	spaces    []driver.Space
	watcher   *probe.Watcher
	doing     string         // guarded by mu; for the progress line
	said      map[string]int // guarded by mu; what clients noted, with how often
}

// trial makes one; nothing is connected yet.
func (r *runner) trial(t *target.Target, s *scenario.Scenario, st step) *trial {
	r.trials++
	return &trial{
		r: r, target: t, s: s, step: st, net: &driver.Network{},
		name: "gw" + strconv.FormatInt(r.started.Unix(), 36) + "x" + strconv.Itoa(r.trials),
		out:  result.Round{Figures: make(map[result.Figure]float64)},
		said: make(map[string]int),
	}
}

// live is the progress line.
func (x *trial) live() string {
	x.mu.Lock()
	doing, session := x.doing, x.session
	x.mu.Unlock()
	if session == nil {
		return doing
	}
	p := session.Progress()
	return fmt.Sprintf("%s: sent %d, acked %d, received %d", doing, p.Sent, p.Acked, p.Received)
}

func (x *trial) do(what string) {
	x.mu.Lock()
	x.doing = what
	x.mu.Unlock()
}

// note keeps what a client said; the report shows each text once.
func (x *trial) note(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if text := fmt.Sprintf(format, args...); len(x.said) < 5 || x.said[text] > 0 {
		x.said[text]++
	}
}

// connect opens the driver.
func (x *trial) connect(ctx context.Context) (err error) {
	x.driver, err = x.r.Open(ctx, x.target, driver.Options{URL: x.target.URL, Net: x.net, Logf: x.note})
	return err
}

// open connects and creates a layout.
func (x *trial) open(ctx context.Context, l driver.Layout) (driver.Space, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	if x.driver == nil {
		x.do("connecting")
		if err := x.connect(ctx); err != nil {
			return nil, err
		}
	}
	if l.Name == "" {
		l.Name = x.name
	}
	x.do("creating destinations")
	begin := time.Now()
	space, err := x.driver.Open(ctx, l)
	if err != nil {
		return nil, orTimeout(ctx, err, "%d destinations and %d subscriptions do not exist after %v", l.Destinations, len(l.Subscriptions), setupTimeout)
	}
	x.out.Figures[result.CreateSeconds] += time.Since(begin).Seconds()
	x.spaces = append(x.spaces, space)
	return space, nil
}

// orTimeout says in words what took too long, if it was the time that ended ctx.
func orTimeout(ctx context.Context, err error, format string, args ...any) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s (%w)", fmt.Sprintf(format, args...), err)
	}
	return err
}

// start makes the session and its producers, without atomic batches.
func (x *trial) start(ctx context.Context, space driver.Space, producers int) error {
	return x.startAtomic(ctx, space, producers, 0)
}

// startAtomic makes the session and its producers, which complete a batch after so long.
func (x *trial) startAtomic(ctx context.Context, space driver.Space, producers int, atomic time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	p := x.step.point
	inFlight := min(max(int(x.s.Window)/max(p.Size, 1)/producers, 1), 1<<16)
	session := load.NewSession(load.Options{
		Run: uint64(x.r.started.UnixNano()) + uint64(x.r.trials), Keys: max(1, x.s.Message.Keys), Destinations: max(1, p.Destinations),
		Size: max(p.Size, load.HeaderSize), InFlight: inFlight, NoAck: x.s.Clients.Ack == scenario.AckNone,
		Seed: x.seed,
	})
	x.mu.Lock()
	x.session = session
	x.mu.Unlock()
	x.do("connecting producers")
	for range producers {
		err := session.AddProducer(ctx, func(o driver.ProducerOptions) (driver.Producer, error) {
			o.Atomic = atomic
			return space.Producer(ctx, o)
		})
		if err != nil {
			return orTimeout(ctx, err, "%d producers are not connected after %v", producers, setupTimeout)
		}
	}
	return nil
}

// consume connects n consumers of a subscription, all at once; handle makes the handler of each.
func (x *trial) consume(ctx context.Context, space driver.Space, sub driver.Subscription, n int, handle func() func(driver.Delivery) bool) error {
	return x.connectAll(ctx, sub.Name, n, func(ctx context.Context) (driver.Consumer, error) {
		return space.Consumer(ctx, sub, driver.ConsumerOptions{Handle: handle(), Lost: x.told})
	})
}

// told keeps what a reader was told of messages that it will not get.
func (x *trial) told(said string) { x.note("told to a reader: %s", said) }

// connectAll connects n consumers of the subscription with a name, all at once.
func (x *trial) connectAll(ctx context.Context, name string, n int, connect func(context.Context) (driver.Consumer, error)) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	x.do("connecting consumers")
	errs := make(chan error, n)
	for range n {
		go func() {
			c, err := connect(ctx)
			if err == nil {
				x.keep(c)
			}
			errs <- err
		}()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = orTimeout(ctx, err, "%d consumers of %s are not ready after %v", n, name, setupTimeout)
			cancel()
		}
	}
	return first
}

func (x *trial) keep(c driver.Consumer) {
	x.mu.Lock()
	x.consumers = append(x.consumers, c)
	x.mu.Unlock()
}

// phase sends one phase and reports its failures in the round.
func (x *trial) phase(ctx context.Context, what string, p load.Phase) (load.Sent, error) {
	x.do(what)
	p.Poisson = x.s.Arrivals != "uniform"
	sent, err := x.session.Send(ctx, p)
	for _, e := range sent.Errors {
		x.out.Notes = append(x.out.Notes, "sending failed: "+e)
	}
	return sent, err
}

// settle waits until everything acknowledged has arrived, or nothing more comes.
func (x *trial) settle(ctx context.Context) error {
	x.do("waiting for the last messages")
	begin := time.Now()
	err := x.session.Wait(ctx, x.r.Idle)
	a := x.session.Audit()
	x.out.Audit = &a
	if a.Lost == 0 {
		x.out.Figures[result.DrainSeconds] = x.since(begin).Seconds()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.consumers {
		if cerr := c.Err(); cerr != nil && err == nil {
			err = fmt.Errorf("a consumer ended: %w", cerr)
		}
	}
	return err
}

// lastArrival is when the last message came so far, at any subscription.
func (x *trial) lastArrival() time.Time { return time.Now().Add(-x.session.SinceLast()) }

// watch measures the target's process until the function it returns is called: when all messages that were acknowledged have
// arrived, too, so that what they cost is in it.
func (x *trial) watch() (stop func(acked int64)) {
	w := probe.Watch(x.target.PID, x.target.Data)
	x.watcher = w
	sent0, received0 := x.net.Bytes()
	return func(acked int64) {
		u := w.Stop()
		sent1, received1 := x.net.Bytes()
		u.NetReceived, u.NetSent = sent1-sent0, received1-received0
		u.Messages = acked
		u.PayloadBytes = acked * int64(x.step.point.Size)
		x.out.Usage = &u
	}
}

// conclude adds to the round what clients said.
func (x *trial) conclude() {
	for text, n := range x.said {
		if n > 1 {
			text += fmt.Sprintf(" (%d times)", n)
		}
		x.out.Notes = append(x.out.Notes, text)
	}
}

// close ends the clients, removes what was made on the target, and disconnects.
func (x *trial) close() {
	x.do("removing what was made")
	if x.watcher != nil {
		x.watcher.Stop() // where the measurement failed, nobody else does
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if x.session != nil {
		if err := x.session.Close(); err != nil {
			x.note("closing a producer: %v", err)
		}
	}
	x.mu.Lock()
	consumers := x.consumers
	x.consumers = nil
	x.mu.Unlock()
	var wg sync.WaitGroup
	for _, c := range consumers {
		wg.Go(func() {
			if err := c.Close(); err != nil {
				x.note("closing a consumer: %v", err)
			}
		})
	}
	wg.Wait()
	for _, s := range x.spaces {
		if err := s.Remove(ctx); err != nil {
			x.note("removing what was made: %v", err)
		}
	}
	if x.driver != nil {
		if err := x.driver.Close(); err != nil {
			x.note("disconnecting: %v", err)
		}
	}
}
