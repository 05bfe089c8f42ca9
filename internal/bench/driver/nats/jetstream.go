package nats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"godwit/internal/bench/driver"
)

// usualInFlight is how many messages all producers of a stream together may have unacknowledged, unless the URL says otherwise.
// nats.go would let each producer have 4,000. But for each stream one goroutine of the server stores all messages that
// have come meanwhile, one by one, and only then sends their acknowledgements, and deliveries and heartbeats to
// consumers: whatever producers have in flight is, in the end, what everybody waits for. Some hundred messages keep that
// goroutine busy. With more, the consumers' windows (1,000 unacknowledged messages for a subscription, 500 asked for by
// each of its consumers) are emptied too rarely for them to keep up; with thousands and a sync for each, consumers
// hear nothing for minutes; and with 100,000 waiting, the server refuses more (its max_buffered_msgs).
const usualInFlight = 512

// settings are the query parameters of a jetstream:// URL.
type settings struct {
	storage  jetstream.StorageType
	replicas int           // of streams; 0 leaves it to the server
	ackWait  time.Duration // until an unacknowledged message is delivered again; 0 leaves it to the server, which takes 30 s
	inFlight int           // messages of all producers of a stream that are unacknowledged at most
}

func readSettings(u *url.URL) (s settings, err error) {
	q, err := driver.Settings(u, "ackwait", "inflight", "replicas", "storage")
	if err != nil {
		return s, err
	}
	switch v := q.Get("storage"); v {
	case "", "file":
		s.storage = jetstream.FileStorage
	case "memory":
		s.storage = jetstream.MemoryStorage
	default:
		return s, fmt.Errorf("storage=%s is neither file nor memory", v)
	}
	if v := q.Get("replicas"); v != "" {
		if s.replicas, err = strconv.Atoi(v); err != nil || s.replicas < 1 {
			return s, fmt.Errorf("replicas=%s is not a number of replicas", v)
		}
	}
	if v := q.Get("ackwait"); v != "" {
		if s.ackWait, err = time.ParseDuration(v); err != nil || s.ackWait <= 0 {
			return s, fmt.Errorf("ackwait=%s is not a time such as 30s", v)
		}
	}
	s.inFlight = usualInFlight
	if v := q.Get("inflight"); v != "" {
		if s.inFlight, err = strconv.Atoi(v); err != nil || s.inFlight < 1 {
			return s, fmt.Errorf("inflight=%s is not a number of unacknowledged messages", v)
		}
	}
	return s, nil
}

// streams is a driver of JetStream.
type streams struct {
	o        driver.Options
	settings settings
	link     *link
	js       jetstream.JetStream
}

// NewJetStream connects to jetstream://[USER:PASSWORD@]HOST:PORT[?storage=file|memory][&replicas=N][&ackwait=30s][&inflight=512].
// A layout is a stream, a destination one of its subjects. A durable or shared subscription is a durable pull
// consumer, any other an ordered consumer.
//
// Producers publish asynchronously. Each may have as many messages unacknowledged as its options say, but all producers
// of a layout together no more than inflight. A window that suits a client which batches, tens of
// thousands of messages, would have the server refuse messages and leave its consumers without any; that would tell of the
// client, not of the server.
func NewJetStream(ctx context.Context, o driver.Options) (driver.Driver, error) {
	set, err := readSettings(o.URL)
	if err != nil {
		return nil, err
	}
	l, err := connect(ctx, o, nil, nil)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(l.Conn)
	if err != nil {
		l.close()
		return nil, err
	}
	return &streams{o: o, settings: set, link: l, js: js}, nil
}

func (d *streams) Describe(ctx context.Context) (string, error) {
	said, err := d.link.describe()
	if err != nil {
		return "", err
	}
	if _, err := d.js.AccountInfo(ctx); err != nil {
		return "", fmt.Errorf("%s, without JetStream: %w", said, err)
	}
	return said + ", JetStream", nil
}

func (d *streams) Traits() driver.Traits {
	return driver.Traits{Acks: true, Retains: true, Replays: true}
}

func (d *streams) Close() error {
	d.link.close()
	return nil
}

// Open makes the stream and the durable consumers.
func (d *streams) Open(ctx context.Context, l driver.Layout) (driver.Space, error) {
	stream, err := d.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: l.Name, Subjects: []string{everything(l.Name)}, Storage: d.settings.storage, Replicas: d.settings.replicas,
	})
	if err != nil {
		return nil, fmt.Errorf("creating stream %s: %w", l.Name, err)
	}
	s := &streamSpace{d: d, layout: l.Name, stream: stream, shares: shares{total: d.settings.inFlight}}
	for _, sub := range l.Subscriptions {
		if !sub.Durable {
			continue
		}
		sub.FromStart = true // of a new stream: where the layout begins
		if _, err := s.durable(ctx, stream, sub); err != nil {
			return nil, errors.Join(err, s.Remove(ctx))
		}
	}
	return s, nil
}

type streamSpace struct {
	d      *streams
	layout string
	stream jetstream.Stream
	shares shares
}

// durable is the consumer of a subscription; made if it does not exist.
func (s *streamSpace) durable(ctx context.Context, stream jetstream.Stream, sub driver.Subscription) (jetstream.Consumer, error) {
	c, err := stream.Consumer(ctx, sub.Name)
	if err == nil || !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return c, err
	}
	cfg := jetstream.ConsumerConfig{
		Durable: sub.Name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.d.settings.ackWait, DeliverPolicy: jetstream.DeliverNewPolicy,
	}
	if acksAll(sub) {
		cfg.AckPolicy = jetstream.AckAllPolicy
	}
	if sub.FromStart {
		cfg.DeliverPolicy = jetstream.DeliverAllPolicy
	}
	// Of several that try at once, all get the one that is made: they ask for the same.
	if c, err = stream.CreateConsumer(ctx, cfg); err != nil {
		return nil, fmt.Errorf("creating consumer %s: %w", sub.Name, err)
	}
	return c, nil
}

// acksAll says whether a subscription acknowledges everything up to a message at once: only where nobody else has
// a part of it.
func acksAll(sub driver.Subscription) bool { return !sub.AckEach && !sub.Shared }

// Discard purges the destination's subject.
func (s *streamSpace) Discard(ctx context.Context, destination int) error {
	return s.stream.Purge(ctx, jetstream.WithPurgeSubject(subject(s.layout, destination)))
}

// Remove deletes the stream, and with it its consumers.
func (s *streamSpace) Remove(ctx context.Context) error {
	err := s.d.js.DeleteStream(ctx, s.layout)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}
