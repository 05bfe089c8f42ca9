package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"godwit/internal/bench/driver"
)

// How often a consumer that acknowledges everything up to a message does so: often enough for the server's limit
// of 1,000 unacknowledged messages.
const (
	ackEvery    = 250 // messages
	ackInterval = 100 * time.Millisecond
)

func (s *streamSpace) Consumer(ctx context.Context, sub driver.Subscription, o driver.ConsumerOptions) (driver.Consumer, error) {
	l, err := connect(ctx, s.d.o, o.Net, o.Lost)
	if err != nil {
		return nil, err
	}
	c := &streamConsumer{link: l, handle: o.Handle}
	if err := c.start(ctx, s, sub, o.Prefetch); err != nil {
		l.close()
		return nil, err
	}
	return c, nil
}

type streamConsumer struct {
	link   *link
	handle func(driver.Delivery) bool
	on     jetstream.ConsumeContext
	end    atomic.Pointer[error]

	stop func() // ends the goroutine that acknowledges in intervals; nil without one

	mu      sync.Mutex
	taken   jetstream.Msg // guarded by mu; the last one handled, not acknowledged yet
	unacked int           // guarded by mu; messages up to taken
}

func (c *streamConsumer) start(ctx context.Context, s *streamSpace, sub driver.Subscription, prefetch int) error {
	js, err := jetstream.New(c.link.Conn)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, s.layout)
	if err != nil {
		return err
	}
	options := []jetstream.PullConsumeOpt{jetstream.ConsumeErrHandler(c.heard)}
	if prefetch > 0 {
		// nats.go asks for more when half of prefetch has been handled, unless it is just asking. If all of
		// the rest arrives at that very moment it never asks again, until it misses the server's heartbeats,
		// every 15 s by default. With few messages on their way that happens.
		options = append(options, jetstream.PullMaxMessages(prefetch), jetstream.PullExpiry(5*time.Second), jetstream.PullHeartbeat(500*time.Millisecond))
	}
	var consumer jetstream.Consumer
	take := c.unacknowledged
	if sub.Durable || sub.Shared || sub.AckEach {
		if consumer, err = s.durable(ctx, stream, sub); err != nil {
			return err
		}
		take = c.ackOne
		if acksAll(sub) {
			take = c.ackUpTo
			c.ackInIntervals()
		}
	} else {
		if consumer, err = ordered(ctx, stream, sub); err != nil {
			return err
		}
	}
	if c.on, err = consumer.Consume(take, options...); err != nil {
		return err
	}
	return c.link.flush(ctx) // the server has the first request for messages
}

// ordered is a consumer that the client library makes anew whenever it misses something. It begins at a sequence
// number, so that it does so also if it has to be made anew before its first message.
func ordered(ctx context.Context, stream jetstream.Stream, sub driver.Subscription) (jetstream.Consumer, error) {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	if !sub.FromStart {
		info, err := stream.Info(ctx)
		if err != nil {
			return nil, err
		}
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, info.State.LastSeq+1
	}
	return stream.OrderedConsumer(ctx, cfg)
}

// heard is what goes wrong between calls.
func (c *streamConsumer) heard(_ jetstream.ConsumeContext, err error) {
	if c.link.Err() != nil {
		return // ended, and that is known
	}
	if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		c.end.CompareAndSwap(nil, &err)
	}
	c.link.logf("%v", err)
}

// unacknowledged takes messages of an ordered consumer.
func (c *streamConsumer) unacknowledged(m jetstream.Msg) {
	c.mu.Lock() // the old one's last message and a new one's first
	defer c.mu.Unlock()
	c.handle(driver.Delivery{Payload: m.Data()})
}

// ackOne acknowledges each message.
func (c *streamConsumer) ackOne(m jetstream.Msg) {
	d := driver.Delivery{Payload: m.Data()}
	if meta, err := m.Metadata(); err == nil {
		d.Redelivered = meta.NumDelivered > 1
	}
	if c.handle(d) {
		c.ack(m)
	}
}

// ackUpTo acknowledges now and then.
func (c *streamConsumer) ackUpTo(m jetstream.Msg) {
	if !c.handle(driver.Delivery{Payload: m.Data()}) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = m
	if c.unacked++; c.unacked >= ackEvery {
		c.ackTaken()
	}
}

// ackTaken acknowledges everything up to taken. The caller holds mu.
func (c *streamConsumer) ackTaken() {
	if c.taken != nil {
		c.ack(c.taken)
	}
	c.taken, c.unacked = nil, 0
}

func (c *streamConsumer) ack(m jetstream.Msg) {
	if err := m.Ack(); err != nil && c.link.Err() == nil {
		c.link.logf("acknowledging: %v", err)
	}
}

// ackInIntervals acknowledges what is left when messages get rare.
func (c *streamConsumer) ackInIntervals() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c.stop = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		t := time.NewTicker(ackInterval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				c.mu.Lock()
				c.ackTaken()
				c.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	}()
}

func (c *streamConsumer) Err() error {
	if err := c.end.Load(); err != nil {
		return *err
	}
	return c.link.Err()
}

// Close handles and acknowledges what has arrived.
func (c *streamConsumer) Close() error {
	defer c.link.close()
	if c.stop != nil {
		defer c.stop()
	}
	if c.link.Err() != nil {
		c.on.Stop()
		return nil
	}
	c.on.Drain()
	if err := within(c.on.Closed(), "handling the last messages"); err != nil {
		return err
	}
	c.mu.Lock()
	c.ackTaken()
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.link.FlushWithContext(ctx); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("flushing acknowledgements: %w", err)
	}
	return nil
}

// within waits for an event, but not for ever.
func within(event <-chan struct{}, what string) error {
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case <-event:
		return nil
	case <-t.C:
		return fmt.Errorf("%s takes longer than %v", what, closeTimeout)
	}
}
