package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/load"
	"godwit/internal/bench/result"
)

// plainEvery is how often a consumer that passes messages on keeps its place where the scenario has no batches to take it from.
const plainEvery = 100 * time.Millisecond

// measureTransform has consumers pass messages on from one destination to another, and reads them there: at a rate, for
// the latency from the first send to the last receipt; or a backlog, for the throughput.
func measureTransform(ctx context.Context, x *trial) error {
	rate, err := x.rate(ctx)
	if err != nil {
		return err
	}
	if err := x.retaining(ctx); err != nil {
		return err
	}
	if x.step.point.Atomic > 0 && !x.driver.Traits().Atomic {
		return driver.Unsupported("the protocol, or its client as it is set, has no atomic batches of messages")
	}
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open() // so that no consumer is stuck when this has failed
	if err := x.chain(ctx, gate); err != nil {
		return err
	}
	if rate > 0 {
		open()
		return x.loaded(ctx, rate)
	}
	n := x.messages()
	if _, err := x.phase(ctx, "writing the backlog", load.Phase{ID: phaseBacklog, Messages: n}); err != nil {
		return err
	}
	stop := x.watch()
	begin := time.Now()
	open()
	x.do("passing the backlog on")
	if err := x.settle(ctx); err != nil {
		return err
	}
	stop(x.out.Audit.Acked)
	delete(x.out.Figures, result.DrainSeconds) // it is all about that
	if seconds := x.lastArrival().Sub(begin).Seconds(); seconds > 0 && x.out.Audit.Lost == 0 {
		x.out.Figures[result.ThroughputPerSecond] = float64(x.out.Audit.Acked) / seconds
		x.out.Figures[result.ThroughputMiB] = x.out.Figures[result.ThroughputPerSecond] * float64(x.step.point.Size) / (1 << 20)
	}
	return nil
}

// chain makes two layouts, the readers of the second, the consumers that pass messages on from the first, which wait for the gate,
// and producers to the first.
func (x *trial) chain(ctx context.Context, gate <-chan struct{}) error {
	p, partitions := x.step.point, x.s.Clients.Partitions
	from := driver.Subscription{Name: "in", Durable: true, Shared: p.Consumers > 1}
	var read []driver.Subscription
	for i := range p.Subscriptions {
		read = append(read, driver.Subscription{Name: fmt.Sprintf("s%d", i), Committed: x.batches() > 0})
	}
	in, err := x.open(ctx, driver.Layout{Name: x.name + "i", Destinations: p.Destinations, Partitions: partitions, Subscriptions: []driver.Subscription{from}})
	if err != nil {
		return err
	}
	passes, ok := in.(driver.Transformer)
	if !ok {
		return driver.Unsupported("the benchmark's client for this protocol does not pass messages on")
	}
	out, err := x.open(ctx, driver.Layout{Name: x.name + "o", Destinations: p.Destinations, Partitions: partitions, Subscriptions: read})
	if err != nil {
		return err
	}
	if err := x.start(ctx, in, p.Producers); err != nil {
		return err
	}
	for _, sub := range read {
		if err := x.consume(ctx, out, sub, 1, x.session.Subscription(sub.Name).Handler); err != nil {
			return err
		}
	}
	o := driver.TransformOptions{Every: p.Atomic, Atomic: p.Atomic > 0, Map: x.passed(gate), Failed: func(err error) { x.note("passing on: %v", err) }}
	if !o.Atomic {
		if o.Every = x.batches(); o.Every == 0 {
			o.Every = plainEvery
		}
	}
	return x.connectAll(ctx, from.Name, p.Consumers, func(ctx context.Context) (driver.Consumer, error) {
		return passes.Transform(ctx, from, out, o)
	})
}

// passed makes the message that is passed on: the same, to the destination of its key.
func (x *trial) passed(gate <-chan struct{}) func(driver.Delivery) driver.Message {
	keys, destinations := uint32(max(1, x.s.Message.Keys)), uint32(max(1, x.step.point.Destinations))
	return func(d driver.Delivery) driver.Message {
		<-gate
		m := driver.Message{Payload: slices.Clone(d.Payload)} // the client may keep it longer than this call lasts
		if h, err := load.ParseHeader(d.Payload); err == nil {
			m.Key = h.Producer*keys + h.Key
			m.Destination = int(m.Key % destinations)
		}
		return m
	}
}
