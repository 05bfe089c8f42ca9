package amqp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"godwit/internal/bench/driver"
)

// How many messages are on their way to a consumer at most, where it does not say itself, and how often one
// acknowledges that does so for several at a time.
const (
	prefetchEach  = 100
	prefetchBatch = 1000
	ackPart       = 4 // of the prefetched: a quarter, so that the rest keeps it busy
	ackInterval   = 100 * time.Millisecond

	maxPrefetch = math.MaxUint16
)

// errCancelled says that the target has ended a consumer, and nothing else.
var errCancelled = errors.New("the target cancelled the consumer (basic.cancel): its queue was deleted or is not available")

// consumerTag is the same for all: each has a channel of its own.
const consumerTag = "godwit-bench"

// consumer takes the messages of a queue.
type consumer struct {
	link   *link
	handle func(driver.Delivery) bool
	ended  chan struct{} // closed when the last message was handled
	closed atomic.Bool
}

// Consumer connects to the subscription's queue.
func (s *space) Consumer(ctx context.Context, sub driver.Subscription, o driver.ConsumerOptions) (driver.Consumer, error) {
	if sub.FromStart && !s.waits(sub) {
		return nil, driver.Unsupported("a queue has what was sent since it was bound: in AMQP 0-9-1 nobody reads what was sent before")
	}
	l, err := connect(ctx, s.b.o, o.Net)
	if err != nil {
		return nil, err
	}
	c := &consumer{link: l, handle: o.Handle, ended: make(chan struct{})}
	prefetch := s.prefetch(sub, o)
	var deliveries <-chan amqp.Delivery
	err = l.setup(ctx, func() error {
		queue, err := s.declare(l.ch, sub)
		if err != nil {
			return err
		}
		if prefetch > 0 {
			if err := l.ch.Qos(prefetch, 0, false); err != nil {
				return fmt.Errorf("setting the prefetch count: %w", err)
			}
		}
		if deliveries, err = l.ch.Consume(queue, consumerTag, prefetch == 0, false, false, false, nil); err != nil {
			return fmt.Errorf("consuming from queue %s: %w", queue, err)
		}
		return nil
	})
	if err != nil {
		l.abandon()
		return nil, err
	}
	switch {
	case prefetch == 0:
		go c.unacknowledged(deliveries)
	case sub.AckEach:
		go c.ackEach(deliveries)
	default:
		go c.ackBatches(deliveries, max(prefetch/ackPart, 1))
	}
	return c, nil
}

// prefetch is how many messages a consumer has at most that it has not acknowledged; 0 means that it does not
// acknowledge, and takes what comes.
func (s *space) prefetch(sub driver.Subscription, o driver.ConsumerOptions) int {
	switch {
	case !sub.Durable && !sub.AckEach:
		return 0
	case o.Prefetch > 0:
		return min(o.Prefetch, maxPrefetch)
	case s.b.settings.prefetch > 0:
		return s.b.settings.prefetch
	case sub.AckEach:
		return prefetchEach
	}
	return prefetchBatch
}

func (c *consumer) unacknowledged(deliveries <-chan amqp.Delivery) {
	defer close(c.ended)
	for d := range deliveries {
		c.take(&d)
	}
}

// take handles a message.
func (c *consumer) take(d *amqp.Delivery) bool {
	return c.handle(driver.Delivery{Payload: d.Body, Redelivered: d.Redelivered})
}

func (c *consumer) ackEach(deliveries <-chan amqp.Delivery) {
	defer close(c.ended)
	for d := range deliveries {
		if c.take(&d) {
			_ = c.link.ch.Ack(d.DeliveryTag, false) // fails with the connection, which is known then
		}
	}
}

// ackBatches acknowledges every few messages, and what is left in intervals.
func (c *consumer) ackBatches(deliveries <-chan amqp.Delivery, every int) {
	defer close(c.ended)
	tick := time.NewTicker(ackInterval)
	defer tick.Stop()
	last, n := uint64(0), 0 // handled, not acknowledged
	ack := func() {
		if n > 0 {
			_ = c.link.ch.Ack(last, true) // fails with the connection, which is known then
			n = 0
		}
	}
	defer ack()
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return
			}
			if c.take(&d) {
				last = d.DeliveryTag
				if n++; n >= every {
					ack()
				}
			}
		case <-tick.C:
			ack()
		}
	}
}

func (c *consumer) Err() error {
	select {
	case <-c.ended:
	default:
		return nil
	}
	if c.link.ch.IsClosed() {
		<-c.link.ended
	}
	err := c.link.Err()
	switch {
	case c.closed.Load() && (err == nil || errors.Is(err, amqp.ErrClosed)):
		return nil // that was Close
	case err == nil:
		return errCancelled
	}
	return err
}

// Close handles and acknowledges what has arrived.
func (c *consumer) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	late := time.AfterFunc(closeTimeout, c.link.abandon)
	if err := c.link.ch.Cancel(consumerTag, false); err != nil {
		c.link.abandon() // which ends the messages as well
	}
	if !late.Stop() {
		return fmt.Errorf("the target has not answered within %v to the end of a consumer", closeTimeout)
	}
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case <-c.ended:
	case <-t.C:
		c.link.abandon()
		return fmt.Errorf("the handler has not returned after %v", closeTimeout)
	}
	return c.link.close()
}
