package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/internal/bench/driver"
)

const (
	// deliveryTimeout is how long a record may take, restarts of the broker included.
	deliveryTimeout = time.Minute
	// maxBatch is what brokers take by default (message.max.bytes), in bytes; the client's own default is a little
	// less.
	maxBatch     = 1048588
	closeTimeout = 10 * time.Second
	// topicsPerClient is how many topics one client of a producer sends to at most: to learn of a topic the client copies all
	// that it knows, so that one client would take minutes for 100,000.
	topicsPerClient = 2000
)

func (s *space) Producer(ctx context.Context, o driver.ProducerOptions) (driver.Producer, error) {
	if o.Atomic > 0 {
		return s.atomicProducer(ctx, o)
	}
	options := s.d.settings.sender(o.NoAck, o.InFlight)
	p := &producer{space: s, done: o.Done, window: newWindow(o.InFlight), ended: make(chan struct{})}
	p.slots.New = func() any {
		r := new(slot)
		r.promise = func(_ *kgo.Record, err error) { p.finish(r, err) }
		return r
	}
	for topics := range slices.Chunk(s.topics, topicsPerClient) {
		c, err := s.d.connect(ctx, o.Net, options...)
		if err == nil {
			p.clients = append(p.clients, c)
			err = c.learn(ctx, topics)
		}
		if err != nil {
			p.abandon()
			return nil, err
		}
	}
	return p, nil
}

type producer struct {
	clients []*client // each for topicsPerClient topics
	space   *space
	done    func(tag uint64, err error)
	window  *window
	slots   sync.Pool // of *slot
	once    sync.Once
	ended   chan struct{} // closed by Close
}

// slot is a record with what belongs to it, used again and again.
type slot struct {
	record  kgo.Record
	key     [4]byte
	tag     uint64
	promise func(*kgo.Record, error)
}

// learn has the client know all topics and have its connections, so that no message waits for that.
func (c *client) learn(ctx context.Context, topics []string) error {
	errs := make(chan error, len(topics))
	for _, topic := range topics {
		// No topic has this partition: once the client knows the topic, it refuses the record.
		r := &kgo.Record{Topic: topic, Partition: math.MaxInt32}
		c.Produce(ctx, r, func(_ *kgo.Record, err error) { errs <- err })
	}
	for range topics {
		err := <-errs
		var broker *kerr.Error
		switch {
		case errors.As(err, &broker):
			return fmt.Errorf("asking for topics: %w", err)
		case ctx.Err() != nil:
			return fmt.Errorf("asking for topics: %w", ctx.Err())
		case c.Err() != nil:
			return fmt.Errorf("asking for topics: %w", c.Err())
		}
	}
	return c.EnsureProduceConnectionIsOpen(ctx)
}

func (p *producer) abandon() {
	for _, c := range p.clients {
		c.abandon()
	}
}

func (p *producer) Send(ctx context.Context, m driver.Message) error {
	if err := p.window.take(ctx, p.ended); err != nil {
		return err
	}
	select {
	case <-p.ended:
		p.window.give()
		return kgo.ErrClientClosed
	default:
	}
	r := p.slots.Get().(*slot)
	r.tag = m.Tag
	p.space.record(&r.record, r.key[:], m)
	// Not with ctx: what was taken goes on when the call is over.
	p.clients[m.Destination/topicsPerClient].Produce(context.Background(), &r.record, r.promise)
	return nil
}

// record fills in the record of a message; key has room for four bytes and is part of it.
func (s *space) record(r *kgo.Record, key []byte, m driver.Message) {
	binary.BigEndian.PutUint32(key, m.Key)
	*r = kgo.Record{Topic: s.topics[m.Destination], Partition: s.partition(m.Key), Key: key, Value: m.Payload}
}

// partition spreads keys evenly. Senders usually spread them over the destinations by their remainder; that of the
// quotient is independent of it.
func (s *space) partition(key uint32) int32 {
	return int32(key / uint32(len(s.topics)) % uint32(s.partitions))
}

// finish reports a record; the client does not need it any more.
func (p *producer) finish(r *slot, err error) {
	tag := r.tag
	p.slots.Put(r)
	p.done(tag, err)
	p.window.give()
}

func (p *producer) Flush(ctx context.Context) error {
	for _, c := range p.clients {
		if err := c.Flush(ctx); err != nil {
			return err
		}
	}
	return p.window.drained(ctx)
}

// Close fails what is not acknowledged.
func (p *producer) Close() (err error) {
	p.once.Do(func() {
		close(p.ended)
		p.abandon()
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err = p.window.drained(ctx); err != nil {
			err = fmt.Errorf("failing %d records: %w", p.window.open.Load(), err)
		}
	})
	return err
}
