package run

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/load"
	"godwit/internal/bench/result"
)

// measureCommits has the consumers of many subscriptions read a backlog and make their place durable every few messages. They
// wait for each, so the loop is closed: as many are under way at once as there are consumers.
func measureCommits(ctx context.Context, x *trial) error {
	if err := x.retaining(ctx); err != nil {
		return err
	}
	if !x.driver.Traits().Commits {
		return driver.Unsupported("the protocol does not tell a consumer when its place is durable")
	}
	p := x.step.point
	l := driver.Layout{Destinations: p.Destinations, Partitions: x.s.Clients.Partitions}
	for i := range p.Subscriptions {
		l.Subscriptions = append(l.Subscriptions, driver.Subscription{Name: fmt.Sprintf("s%d", i), Durable: true, Shared: p.Consumers > 1})
	}
	space, err := x.open(ctx, l)
	if err != nil {
		return err
	}
	if err := x.start(ctx, space, p.Producers); err != nil {
		return err
	}
	c := &committing{x: x, gate: make(chan struct{})}
	defer c.open() // so that no consumer is stuck when this has failed
	var wg sync.WaitGroup
	errs := make([]error, len(l.Subscriptions))
	for i, sub := range l.Subscriptions {
		wg.Go(func() { errs[i] = c.consume(ctx, space, sub) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if _, err := x.phase(ctx, "writing the backlog", load.Phase{ID: phaseBacklog, Messages: max(x.messages()/int64(p.Subscriptions), 1)}); err != nil {
		return err
	}
	return c.measure(ctx)
}

// committing are the consumers of a measurement of kind commits.
type committing struct {
	x     *trial
	gate  chan struct{} // closed when they may handle messages
	once  sync.Once
	over  atomic.Bool  // no more commits, only the rest of the backlog
	done  atomic.Int64 // commits
	times load.Times
}

func (c *committing) open() { c.once.Do(func() { close(c.gate) }) }

// consume connects the consumers of one subscription. They get nothing before the backlog is written, and handle nothing before
// the gate opens.
func (c *committing) consume(ctx context.Context, space driver.Space, sub driver.Subscription) error {
	audited := c.x.session.Subscription(sub.Name)
	return c.x.connectAll(ctx, sub.Name, c.x.step.point.Consumers, func(ctx context.Context) (driver.Consumer, error) {
		handle, n := audited.Handler(), 0
		return space.Consumer(ctx, sub, driver.ConsumerOptions{
			Handle: func(d driver.Delivery) bool {
				<-c.gate
				n++
				return handle(d)
			},
			Commit:    func() bool { return n%c.x.s.Clients.Commit == 0 && !c.over.Load() },
			Committed: c.committed,
			Lost:      c.x.told,
		})
	})
}

// committed counts what was done in time.
func (c *committing) committed(took time.Duration, err error) {
	switch {
	case err != nil:
		c.x.note("a place was not made durable: %v", err)
	case !c.over.Load():
		c.done.Add(1)
		c.times.Record(took)
	}
}

// measure lets the consumers commit for the scenario's time, or until they have read all.
func (c *committing) measure(ctx context.Context) error {
	x := c.x
	x.do("committing")
	stop := x.watch()
	begin := time.Now()
	c.open()
	err := within(ctx, time.Duration(x.s.Duration), func(ctx context.Context) error { return x.session.Wait(ctx, x.r.Idle) })
	c.over.Store(true)
	took := time.Since(begin)
	n := c.done.Load()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		took = x.lastArrival().Sub(begin)
	}
	if err := x.settle(ctx); err != nil {
		return err
	}
	stop(x.out.Audit.Acked)
	if n == 0 || took <= 0 {
		return fmt.Errorf("no consumer made its place durable in %v", took)
	}
	l := c.times.Latency()
	x.out.Figures[result.CommitsPerSecond] = float64(n) / took.Seconds()
	x.out.Figures[result.CommitP50] = l.At(50) / 1e3
	x.out.Figures[result.CommitP99] = l.At(99) / 1e3
	return nil
}
