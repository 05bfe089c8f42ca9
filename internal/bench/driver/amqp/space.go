package amqp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"godwit/internal/bench/driver"
)

type space struct {
	b        *broker
	exchange string
	keys     []string // by destination

	mu     sync.Mutex
	queues map[string]bool // guarded by mu; with names, by name: durable or not
}

// Open declares the exchange and the queues of durable subscriptions.
func (b *broker) Open(ctx context.Context, l driver.Layout) (driver.Space, error) {
	s := &space{b: b, exchange: l.Name, queues: make(map[string]bool)}
	for i := range l.Destinations {
		s.keys = append(s.keys, fmt.Sprintf("%s.%06d", l.Name, i))
	}
	err := b.administer(ctx, func(ch *amqp.Channel) error {
		if err := ch.ExchangeDeclare(s.exchange, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
			return fmt.Errorf("declaring exchange %s: %w", s.exchange, err)
		}
		for _, sub := range l.Subscriptions {
			if sub.Durable {
				if _, err := s.declare(ch, sub); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		if err := s.Remove(clean); err != nil {
			b.o.Logf("removing what was made: %v", err)
		}
		return nil, err
	}
	return s, nil
}

// queue is the name of a subscription's queue, unless it is exclusive.
func (s *space) queue(sub driver.Subscription) string { return s.exchange + "." + sub.Name }

// waits says whether a subscription has a durable queue.
func (s *space) waits(sub driver.Subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[s.queue(sub)]
}

// declare makes a subscription's queue, if it does not exist, and binds it.
func (s *space) declare(ch *amqp.Channel, sub driver.Subscription) (queue string, err error) {
	exclusive := !sub.Durable && !sub.Shared
	if !exclusive {
		queue = s.queue(sub)
		s.mu.Lock()
		s.queues[queue] = sub.Durable
		s.mu.Unlock()
	}
	var arguments amqp.Table
	if sub.Durable {
		arguments = amqp.Table{amqp.QueueTypeArg: s.b.settings.queue}
	}
	q, err := ch.QueueDeclare(queue, sub.Durable, !sub.Durable, exclusive, false, arguments)
	if err != nil {
		return "", fmt.Errorf("declaring the queue of subscription %s: %w", sub.Name, err)
	}
	if err := ch.QueueBind(q.Name, "#", s.exchange, false, nil); err != nil {
		return "", fmt.Errorf("binding queue %s to exchange %s: %w", q.Name, s.exchange, err)
	}
	return q.Name, nil
}

// Discard purges the durable queues. All destinations wait in them together, and AMQP has no way to take out
// those of one.
func (s *space) Discard(ctx context.Context, _ int) error {
	s.mu.Lock()
	queues := maps.Clone(s.queues)
	s.mu.Unlock()
	return s.b.administer(ctx, func(ch *amqp.Channel) error {
		for queue, durable := range queues {
			if !durable {
				continue
			}
			if _, err := ch.QueuePurge(queue, false); err != nil {
				return fmt.Errorf("purging queue %s: %w", queue, err)
			}
		}
		return nil
	})
}

// Remove deletes the queues and the exchange.
func (s *space) Remove(ctx context.Context) error {
	s.mu.Lock()
	queues := slices.Collect(maps.Keys(s.queues))
	clear(s.queues)
	s.mu.Unlock()
	return s.b.administer(ctx, func(ch *amqp.Channel) error {
		var errs []error
		for _, queue := range queues {
			if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
				errs = append(errs, fmt.Errorf("deleting queue %s: %w", queue, err))
			}
		}
		if err := ch.ExchangeDelete(s.exchange, false, false); err != nil {
			errs = append(errs, fmt.Errorf("deleting exchange %s: %w", s.exchange, err))
		}
		return errors.Join(errs...)
	})
}
