package run

import (
	"context"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/probe"
	"godwit/internal/bench/result"
)

// The durability probe sends so many messages, one after the other, with a pause between two: what a target
// syncs late is not taken for the next one's.
const (
	probes     = 100
	probePause = 5 * time.Millisecond
	probeSize  = 1 << 10
)

// durability compares the acknowledgements of messages sent one at a time with the syncs of the target's process.
func (x *trial) durability(ctx context.Context) result.Durability {
	unknown := func(why string) result.Durability {
		return result.Durability{Grade: result.GradeUnknown, Why: why}
	}
	switch {
	case !x.driver.Traits().Acks:
		return result.Durability{Grade: result.GradeNone}
	case x.target.PID == 0:
		return unknown("its process is not known: add pid= to the target's URL")
	}
	// A subscription that keeps messages: a broker may well not store what nobody waits for.
	keeps := driver.Subscription{Name: "keeps", Durable: true}
	space, err := x.open(ctx, driver.Layout{Destinations: 1, Partitions: 1, Subscriptions: []driver.Subscription{keeps}})
	if err != nil {
		return unknown(err.Error())
	}
	done := make(chan error, probes)
	p, err := space.Producer(ctx, driver.ProducerOptions{InFlight: 1, Done: func(_ uint64, err error) { done <- err }})
	if err != nil {
		return unknown(err.Error())
	}
	defer p.Close()
	// The first message may wait for what only happens once: metadata, a file created.
	if _, err := sendOne(ctx, p, done); err != nil {
		return unknown(err.Error())
	}
	traced, err := probe.TraceSyncs(x.target.PID)
	if err != nil {
		return unknown(err.Error())
	}
	acks, err := sendAll(ctx, p, done)
	syncs := traced.Stop()
	if err != nil {
		return unknown(err.Error())
	}
	return probe.Grade(acks, syncs)
}

// sendAll sends the probe's messages.
func sendAll(ctx context.Context, p driver.Producer, done <-chan error) (acks []probe.Interval, err error) {
	tick := time.NewTicker(probePause)
	defer tick.Stop()
	for range probes {
		a, err := sendOne(ctx, p, done)
		if err != nil {
			return nil, err
		}
		acks = append(acks, a)
		<-tick.C
	}
	return acks, nil
}

// sendOne sends a message and waits for its acknowledgement.
func sendOne(ctx context.Context, p driver.Producer, done <-chan error) (probe.Interval, error) {
	a := probe.Interval{Sent: time.Now()}
	if err := p.Send(ctx, driver.Message{Payload: make([]byte, probeSize)}); err != nil {
		return a, err
	}
	select {
	case err := <-done:
		a.Acked = time.Now()
		return a, err
	case <-ctx.Done():
		return a, ctx.Err()
	}
}
