package run

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/load"
	"godwit/internal/bench/result"
	"godwit/internal/bench/scenario"
)

// The phases of messages.
const (
	phaseWarmup uint32 = iota + 1
	phaseMeasured
	phaseBacklog
	phaseAlone
)

// measureLoad sends at the step's rate to its consumers.
func measureLoad(ctx context.Context, x *trial) error {
	rate, err := x.rate(ctx)
	if err != nil {
		return err
	}
	if err := x.fill(ctx); err != nil {
		return err
	}
	return x.loaded(ctx, rate)
}

// rate is what a step asks for in messages a second; 0 closes the loop. For a part of the maximum, that is
// searched for, once for each target and point.
func (x *trial) rate(ctx context.Context) (float64, error) {
	r := x.step.point.Rate
	if r.Max() || r.OfMax == 0 {
		return r.PerSecond, nil
	}
	p := x.step.point
	p.Rate = scenario.Rate{}
	key := fmt.Sprintf("%s\n%v\n%s", x.target.Name, p, x.s.YAML())
	if found, ok := x.r.maxima[key]; ok {
		return found * r.OfMax, nil
	}
	x.do("searching for the maximum")
	st := x.step
	st.point.Rate = scenario.Rate{OfMax: 1}
	y := x.r.trial(x.target, x.s, st)
	err := x.step.measure(ctx, y)
	y.close()
	y.conclude()
	x.out.Notes = append(x.out.Notes, y.out.Notes...)
	if a := y.out.Audit; a != nil && a.Lost+a.Failed > 0 {
		x.note("searching for the maximum, %d messages were lost and %d failed", a.Lost, a.Failed)
	}
	found := y.out.Figures[result.ThroughputPerSecond]
	if err != nil {
		return 0, fmt.Errorf("searching for the maximum: %w", err)
	}
	if found == 0 {
		return 0, fmt.Errorf("searching for the maximum: nothing arrived")
	}
	x.r.maxima[key] = found
	return found * r.OfMax, nil
}

// fill makes the layout of a step with its consumers and producers.
func (x *trial) fill(ctx context.Context) error {
	p, c := x.step.point, x.s.Clients
	l := driver.Layout{Destinations: p.Destinations, Partitions: c.Partitions}
	if err := x.atomic(ctx); err != nil {
		return err
	}
	if p.Consumers > 0 {
		for i := range p.Subscriptions {
			l.Subscriptions = append(l.Subscriptions, driver.Subscription{
				Name: fmt.Sprintf("s%d", i), Durable: c.Durable, Shared: p.Consumers > 1, AckEach: c.Ack == scenario.AckEach,
				Committed: x.batches() > 0,
			})
		}
	}
	space, err := x.open(ctx, l)
	if err != nil {
		return err
	}
	if err := x.startAtomic(ctx, space, p.Producers, p.Atomic); err != nil {
		return err
	}
	errs := make(chan error, len(l.Subscriptions))
	for _, sub := range l.Subscriptions {
		audited := x.session.Subscription(sub.Name)
		go func() { errs <- x.consume(ctx, space, sub, p.Consumers, audited.Handler) }()
	}
	var first error
	for range l.Subscriptions {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// batches is the longest time of the scenario's atomic batches, 0 if it has none: where some are measured, all read in the same way.
func (x *trial) batches() time.Duration {
	return time.Duration(slices.Max(append(x.s.Clients.Atomic, 0)))
}

// atomic refuses protocols without atomic batches where the step is about them.
func (x *trial) atomic(ctx context.Context) error {
	if x.step.point.Atomic == 0 {
		return nil
	}
	if err := x.connect(ctx); err != nil {
		return err
	}
	if !x.driver.Traits().Atomic {
		return driver.Unsupported("the protocol, or its client as it is set, has no atomic batches of messages")
	}
	return nil
}

// loaded warms up, measures, and waits for the last message.
func (x *trial) loaded(ctx context.Context, rate float64) error {
	if n := x.step.point.Destinations; n > 1 {
		// Keys go round, and with them destinations.
		if _, err := x.phase(ctx, "sending to each destination once", load.Phase{ID: phaseBacklog, Messages: int64(n)}); err != nil {
			return err
		}
	}
	if w := time.Duration(x.s.Warmup); w > 0 {
		if _, err := x.phase(ctx, "warming up", load.Phase{ID: phaseWarmup, Rate: rate, Duration: w}); err != nil {
			return err
		}
	}
	stop := x.watch()
	sent, err := x.phase(ctx, "measuring", load.Phase{ID: phaseMeasured, Rate: rate, Duration: time.Duration(x.s.Duration), Record: true})
	x.rates(sent, rate)
	if err != nil {
		return err
	}
	if err := x.settle(ctx); err != nil {
		return err
	}
	stop(sent.Acked)
	x.out.Producer, x.out.EndToEnd = x.session.Latency(phaseMeasured)
	return nil
}

// rates keeps what went through during a phase.
func (x *trial) rates(sent load.Sent, rate float64) {
	f, seconds := x.out.Figures, sent.Elapsed.Seconds()
	if seconds <= 0 {
		return
	}
	if rate > 0 {
		f[result.IntendedPerSecond] = float64(sent.Offered) / time.Duration(x.s.Duration).Seconds() // what was due: arrivals are random
	}
	f[result.ProducedPerSecond] = float64(sent.AckedDuring) / seconds
	through := f[result.ProducedPerSecond]
	if len(sent.ReceivedDuring) > 0 {
		slowest, backlog := math.Inf(1), int64(0)
		for name, n := range sent.ReceivedDuring {
			slowest = min(slowest, float64(n)/seconds)
			backlog = max(backlog, x.session.Subscription(name).Missing())
		}
		f[result.ConsumedPerSecond] = slowest
		f[result.BacklogAtEnd] = float64(backlog)
		through = min(through, slowest)
	}
	f[result.ThroughputPerSecond] = through
	f[result.ThroughputMiB] = through * float64(x.step.point.Size) / (1 << 20)
}
