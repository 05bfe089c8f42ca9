package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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
	// learnAtOnce is how many topics a producer asks for at once at most.
	learnAtOnce = 20_000
)

func (s *space) Producer(ctx context.Context, o driver.ProducerOptions) (driver.Producer, error) {
	options := append(s.d.settings.producer(o.NoAck),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(max(o.InFlight+1, min(len(s.topics), learnAtOnce))),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.ProducerBatchMaxBytes(maxBatch),
	)
	c, err := s.d.connect(ctx, o.Net, options...)
	if err != nil {
		return nil, err
	}
	p := &producer{client: c, space: s, done: o.Done, window: newWindow(o.InFlight), ended: make(chan struct{})}
	p.slots.New = func() any {
		r := new(slot)
		r.promise = func(_ *kgo.Record, err error) { p.finish(r, err) }
		return r
	}
	if err := p.learn(ctx); err != nil {
		c.abandon()
		return nil, err
	}
	return p, nil
}

type producer struct {
	client *client
	space  *space
	done   func(tag uint64, err error)
	window *window
	slots  sync.Pool // of *slot
	once   sync.Once
	ended  chan struct{} // closed by Close
}

// slot is a record with what belongs to it, used again and again.
type slot struct {
	record  kgo.Record
	key     [4]byte
	tag     uint64
	promise func(*kgo.Record, error)
}

// learn has the client know all topics and have its connections, so that no message waits for that.
func (p *producer) learn(ctx context.Context) error {
	topics := p.space.topics
	for len(topics) > 0 {
		n := min(len(topics), learnAtOnce)
		errs := make(chan error, n)
		for _, topic := range topics[:n] {
			// No topic has this partition: once the client knows the topic, it refuses the record.
			r := &kgo.Record{Topic: topic, Partition: math.MaxInt32}
			p.client.Produce(ctx, r, func(_ *kgo.Record, err error) { errs <- err })
		}
		for range n {
			err := <-errs
			var broker *kerr.Error
			if errors.As(err, &broker) || ctx.Err() != nil || p.client.Err() != nil {
				return fmt.Errorf("asking for topics: %w", err)
			}
		}
		topics = topics[n:]
	}
	return p.client.EnsureProduceConnectionIsOpen(ctx)
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
	binary.BigEndian.PutUint32(r.key[:], m.Key)
	r.record = kgo.Record{
		Topic: p.space.topics[m.Destination], Partition: p.space.partition(m.Key), Key: r.key[:], Value: m.Payload,
	}
	// Not with ctx: what was taken goes on when the call is over.
	p.client.Produce(context.Background(), &r.record, r.promise)
	return nil
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
	if err := p.client.Flush(ctx); err != nil {
		return err
	}
	return p.window.drained(ctx)
}

// Close fails what is not acknowledged.
func (p *producer) Close() (err error) {
	p.once.Do(func() {
		close(p.ended)
		p.client.abandon()
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err = p.window.drained(ctx); err != nil {
			err = fmt.Errorf("failing %d records: %w", p.window.open.Load(), err)
		}
	})
	return err
}
