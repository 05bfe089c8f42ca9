package run

import (
	"context"
	"fmt"
	"slices"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/load"
)

// measureRequests sends requests to responders that share them; every requester has a destination of its own for
// replies. A reply is its request, so that the audit of replies is one of round trips.
func measureRequests(ctx context.Context, x *trial) error {
	p := x.step.point
	rate, err := x.rate(ctx)
	if err != nil {
		return err
	}
	asked := driver.Subscription{Name: "responders", Durable: true, Shared: p.Consumers > 1}
	requests, err := x.open(ctx, driver.Layout{Name: x.name + "q", Destinations: 1, Partitions: x.s.Clients.Partitions, Subscriptions: []driver.Subscription{asked}})
	if err != nil {
		return err
	}
	var replies []driver.Space
	answered := driver.Subscription{Name: "requester"}
	for i := range p.Producers {
		space, err := x.open(ctx, driver.Layout{Name: fmt.Sprintf("%sp%d", x.name, i), Destinations: 1, Partitions: 1, Subscriptions: []driver.Subscription{answered}})
		if err != nil {
			return err
		}
		replies = append(replies, space)
	}
	if err := x.start(ctx, requests, p.Producers); err != nil {
		return err
	}
	round := x.session.Subscription("replies")
	for _, space := range replies {
		if err := x.consume(ctx, space, answered, 1, round.Handler); err != nil {
			return err
		}
	}
	for range p.Consumers {
		if err := x.respond(ctx, requests, asked, replies); err != nil {
			return err
		}
	}
	return x.loaded(ctx, rate)
}

// respond starts one responder.
func (x *trial) respond(ctx context.Context, requests driver.Space, asked driver.Subscription, replies []driver.Space) error {
	var senders []driver.Producer
	for _, space := range replies {
		p, err := space.Producer(ctx, driver.ProducerOptions{InFlight: 1000, Done: func(_ uint64, err error) {
			if err != nil {
				x.note("a reply failed: %v", err)
			}
		}})
		if err != nil {
			return err
		}
		x.keep(responder{p})
		senders = append(senders, p)
	}
	handle := func(d driver.Delivery) bool {
		h, err := load.ParseHeader(d.Payload)
		if err != nil || int(h.Producer) >= len(senders) {
			return true
		}
		// The client may keep it longer than this call lasts.
		if err := senders[h.Producer].Send(ctx, driver.Message{Payload: slices.Clone(d.Payload)}); err != nil {
			x.note("a reply was not sent: %v", err)
		}
		return true
	}
	return x.consume(ctx, requests, asked, 1, func() func(driver.Delivery) bool { return handle })
}

// responder closes its producer with the trial's consumers.
type responder struct{ driver.Producer }

// Err never is one: failed replies are noted where they happen.
func (responder) Err() error { return nil }
