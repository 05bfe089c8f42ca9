package run

import (
	"context"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/load"
	"godwit/internal/bench/result"
	"godwit/internal/bench/scenario"
)

// messages is how many messages make up the scenario's backlog: the same for every target, so that the one with the most memory
// cannot hold it either.
func (x *trial) messages() int64 {
	size := int64(x.s.Backlog.Size)
	if f := x.s.Backlog.OfMemory; f > 0 {
		most := int64(0)
		for _, t := range x.r.Targets {
			m := t.Memory
			if m == 0 {
				m = x.r.run.Machine.MemoryMB << 20
			}
			most = max(most, m)
		}
		size = int64(f * float64(most))
	}
	return max(size/int64(x.step.point.Size), 1)
}

// pile writes the backlog with nobody reading.
func (x *trial) pile(ctx context.Context, space driver.Space) error {
	if err := x.start(ctx, space, x.step.point.Producers); err != nil {
		return err
	}
	n := x.messages()
	sent, err := x.phase(ctx, "writing the backlog", load.Phase{ID: phaseBacklog, Messages: n})
	if err != nil {
		return err
	}
	mib := float64(sent.Acked) * float64(x.step.point.Size) / (1 << 20)
	x.out.Figures[result.BacklogMiB] = mib
	x.out.Figures[result.WriteMiB] = mib / sent.Elapsed.Seconds()
	return nil
}

// waiting is a subscription that has been away since the beginning.
func (x *trial) waiting(name string) driver.Subscription {
	return driver.Subscription{
		Name: name, Durable: true, FromStart: true, Shared: x.step.point.Consumers > 1, AckEach: x.s.Clients.Ack == scenario.AckEach,
	}
}

// retaining refuses protocols that keep nothing for those who are away.
func (x *trial) retaining(ctx context.Context) error {
	if err := x.connect(ctx); err != nil {
		return err
	}
	if !x.driver.Traits().Retains {
		return driver.Unsupported("the protocol keeps nothing for receivers that are away")
	}
	return nil
}

// measureBacklog writes a backlog with nobody receiving, and then has it received.
func measureBacklog(ctx context.Context, x *trial) error {
	if err := x.retaining(ctx); err != nil {
		return err
	}
	p, sub := x.step.point, x.waiting("late")
	space, err := x.open(ctx, driver.Layout{Destinations: p.Destinations, Partitions: x.s.Clients.Partitions, Subscriptions: []driver.Subscription{sub}})
	if err != nil {
		return err
	}
	stop := x.watch()
	if err := x.pile(ctx, space); err != nil {
		return err
	}
	late := x.session.Subscription(sub.Name)
	begin := time.Now()
	first, err := x.first(ctx, space, sub, late)
	if err != nil {
		return err
	}
	x.out.Figures[result.FirstMessageSeconds] = first.Sub(begin).Seconds()
	x.do("reading the backlog")
	if err := x.settle(ctx); err != nil {
		return err
	}
	stop(x.out.Audit.Acked)
	if x.out.Audit.Lost > 0 {
		return nil // what was not read took no time
	}
	x.out.Figures[result.ReadMiB] = float64(late.Received()) * float64(p.Size) / (1 << 20) / x.lastArrival().Sub(first).Seconds()
	return nil
}

// first connects the consumers of a subscription and says when they got their first message.
func (x *trial) first(ctx context.Context, space driver.Space, sub driver.Subscription, audited *load.Subscription) (time.Time, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	arrived := make(chan time.Time, 1)
	go func() { // it may come before the last consumer is connected
		if audited.Wait(waiting, 1) == nil {
			arrived <- time.Now()
		}
	}()
	if err := x.consume(ctx, space, sub, x.step.point.Consumers, audited.Handler); err != nil {
		return time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	select {
	case at := <-arrived:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, orTimeout(ctx, ctx.Err(), "no message of the backlog arrived in %v", setupTimeout)
	}
}

// measureRestart restarts the target while it holds a backlog.
func measureRestart(ctx context.Context, x *trial) error {
	if x.target.Script == "" {
		return driver.Unsupported("the target's URL names no script that could restart it")
	}
	if err := x.retaining(ctx); err != nil {
		return err
	}
	p, sub := x.step.point, x.waiting("late")
	space, err := x.open(ctx, driver.Layout{Destinations: p.Destinations, Partitions: x.s.Clients.Partitions, Subscriptions: []driver.Subscription{sub}})
	if err != nil {
		return err
	}
	if err := x.pile(ctx, space); err != nil {
		return err
	}
	x.do("restarting the target")
	begin := time.Now()
	if err := x.target.Restart(ctx); err != nil {
		return err
	}
	x.out.Figures[result.RestartSeconds] = time.Since(begin).Seconds()
	first, err := x.first(ctx, space, sub, x.session.Subscription(sub.Name))
	if err != nil {
		return err
	}
	x.out.Figures[result.FirstMessageSeconds] = first.Sub(begin).Seconds()
	return x.settle(ctx)
}

// within runs f with less time.
func within(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return f(ctx)
}

// measureCatchUp has a reader start at the first message while another follows the newest ones.
func measureCatchUp(ctx context.Context, x *trial) error {
	if err := x.retaining(ctx); err != nil {
		return err
	}
	p := x.step.point
	tail := driver.Subscription{Name: "tail"}
	late := driver.Subscription{Name: "late", FromStart: true}
	l := driver.Layout{Destinations: p.Destinations, Partitions: x.s.Clients.Partitions, Subscriptions: []driver.Subscription{tail}}
	if !x.driver.Traits().Replays {
		late.Durable = true
		l.Subscriptions = append(l.Subscriptions, late)
	}
	space, err := x.open(ctx, l)
	if err != nil {
		return err
	}
	if err := x.start(ctx, space, p.Producers); err != nil {
		return err
	}
	follows := x.session.Subscription(tail.Name)
	if err := x.consume(ctx, space, tail, p.Consumers, follows.Handler); err != nil {
		return err
	}
	sent, err := x.phase(ctx, "writing the backlog", load.Phase{ID: phaseBacklog, Messages: x.messages()})
	if err != nil {
		return err
	}
	if err := within(ctx, setupTimeout, func(ctx context.Context) error { return follows.Wait(ctx, sent.Acked) }); err != nil {
		return orTimeout(ctx, err, "the tail did not follow: %d of %d messages are missing", follows.Missing(), sent.Acked)
	}
	x.out.Figures[result.BacklogMiB] = float64(sent.Acked) * float64(p.Size) / (1 << 20)
	alone := load.Phase{ID: phaseAlone, Rate: p.Rate.PerSecond, Duration: time.Duration(x.s.Duration) / 2, Record: true}
	if _, err := x.phase(ctx, "the tail alone", alone); err != nil {
		return err
	}
	return x.catchUp(ctx, space, late, sent.Acked)
}

// catchUp starts the late reader beside the tail and measures both.
func (x *trial) catchUp(ctx context.Context, space driver.Space, late driver.Subscription, backlog int64) error {
	p := x.step.point
	behind := x.session.Subscription(late.Name)
	behind.Mute() // its latencies are ages by design
	type caught struct {
		seconds float64
		err     error
	}
	done := make(chan caught, 1)
	reading, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	go func() {
		begin := time.Now()
		err := x.consume(reading, space, late, 1, behind.Handler)
		if err == nil {
			err = orTimeout(reading, behind.Wait(reading, backlog), "the reader did not catch up in %v", setupTimeout)
		}
		done <- caught{time.Since(begin).Seconds(), err}
	}()
	beside := load.Phase{ID: phaseMeasured, Rate: p.Rate.PerSecond, Duration: time.Duration(x.s.Duration), Record: true}
	_, err := x.phase(ctx, "the tail beside the catch-up read", beside)
	if err != nil {
		cancel()
		<-done
		return err
	}
	c := <-done
	if c.err != nil {
		return c.err
	}
	if err := x.settle(ctx); err != nil {
		return err
	}
	f := x.out.Figures
	f[result.CatchUpPerSecond] = float64(backlog) / c.seconds
	f[result.CatchUpMiB] = f[result.CatchUpPerSecond] * float64(p.Size) / (1 << 20)
	_, before := x.session.Latency(phaseAlone)
	x.out.Producer, x.out.EndToEnd = x.session.Latency(phaseMeasured)
	if b := before.At(99); b > 0 {
		f[result.TailSlowdown] = x.out.EndToEnd.At(99) / b
	}
	return nil
}
