// Package driver is what the benchmark asks of a message system, and nothing more: places to send to,
// subscriptions that keep what they have not seen, producers and consumers. Every protocol has one
// implementation below it, on the client library that programs of that protocol use.
//
// A subscription is a cursor with a name: it gets every message of every destination. Its consumers,
// one or many, share its messages. Kafka calls it a consumer group (or a share group, where each
// message is acknowledged by itself), AMQP 0-9-1 a queue, MQTT a session or a shared subscription,
// JetStream a consumer, NATS a queue group.
package driver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// ErrUnsupported is the class of errors that say that the target, or its protocol, has no such thing.
// The text after it says what is missing; a benchmark shows it in place of a figure.
var ErrUnsupported = errors.New("unsupported")

// Unsupported makes an error of class ErrUnsupported.
func Unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// Options are what a driver is opened with.
type Options struct {
	URL *url.URL // of the target, with its query parameters
	Net *Network // every connection goes through it
	// Logf notes what the client library says of itself: reconnections, refusals. Never nil.
	Logf func(format string, args ...any)
}

// Driver speaks one protocol to one target. Its methods may be called from many goroutines.
type Driver interface {
	// Describe asks the target for its name and version, as far as its protocol tells, for example
	// "RabbitMQ 3.10.8". It fails if the target does not answer.
	Describe(ctx context.Context) (string, error)
	// Traits tells what the protocol promises.
	Traits() Traits
	// Open creates the destinations and subscriptions of a layout: nothing sent after it returns may
	// be missed by a subscription that can keep messages. Fails with ErrUnsupported if the protocol
	// has no way to do what the layout asks.
	Open(ctx context.Context, l Layout) (Space, error)
	// Close frees what the driver holds.
	Close() error
}

// Traits are promises of a protocol, not of a server.
type Traits struct {
	Acks    bool // a producer is told that its message was taken
	Retains bool // a durable subscription gets what was sent while nobody consumed
	Replays bool // a subscription made later can read what was sent before
	Commits bool // a consumer can be told to make its place durable, and is told when it is
	Atomic  bool // several messages can become visible together or not at all
}

// Layout is what a scenario needs before its first message.
type Layout struct {
	Name         string // prefix of every name that is made, unique among all runs: letters, digits and '-'
	Destinations int    // topics, queues or subjects: 1 to 100,000
	Partitions   int    // of each destination, where the protocol has partitions
	// Subscriptions that exist from the beginning. Each gets all messages of all destinations.
	Subscriptions []Subscription
}

// Subscription is a cursor that keeps its place.
type Subscription struct {
	Name string // letters, digits and '-'; unique in its layout
	// Durable keeps messages and position while nobody consumes. Without it a protocol uses its
	// cheapest way to listen (Kafka: partitions without a group; AMQP: an exclusive queue).
	Durable bool
	// Shared is set where more than one consumer may take part.
	Shared bool
	// AckEach has each message acknowledged by itself, after it was handled, and redelivered if its
	// consumer dies before. Otherwise the protocol's usual batched or automatic way.
	AckEach bool
	// FromStart begins with the first message the target still has; otherwise with the first one sent
	// after Consume returned ready. Durable subscriptions of the layout begin at its beginning anyway.
	FromStart bool
	// Committed leaves out the messages of atomic batches that are not complete, where the protocol would deliver them.
	Committed bool
}

// Space is a layout that exists.
type Space interface {
	// Producer connects one producer.
	Producer(ctx context.Context, o ProducerOptions) (Producer, error)
	// Consumer connects one consumer of a subscription and returns when messages flow to it: after
	// the group has given it its share, the broker has confirmed the subscription, and so on. Sub may be
	// one of the layout's or, if the protocol Replays or the subscription is not durable, a new one.
	Consumer(ctx context.Context, sub Subscription, o ConsumerOptions) (Consumer, error)
	// Discard has the target remove the messages that it has of a destination, up to now, as its
	// retention would. A scenario uses it to see what a reader is told.
	Discard(ctx context.Context, destination int) error
	// Remove deletes everything the layout and its consumers made on the target.
	Remove(ctx context.Context) error
}

// Message is one message to send.
type Message struct {
	Destination int    // 0 to Layout.Destinations - 1
	Key         uint32 // messages with one key are in order (Kafka: decides the partition)
	Payload     []byte // not to be changed until the message is done
	Tag         uint64 // comes back with Done
}

// ProducerOptions configure one producer.
type ProducerOptions struct {
	Net *Network // instead of the driver's, if not nil
	// NoAck does not ask for acknowledgements (Kafka acks=0, MQTT QoS 0, no publisher confirms): Done is
	// called when the message was written.
	NoAck bool
	// InFlight is how many messages may be unacknowledged at most, at least 1; Send blocks at it. The
	// client library's own buffers are sized so that it can be reached. A driver may allow fewer where its
	// server, not its client, holds what is unacknowledged, and says so.
	InFlight int
	// Atomic, if not 0, puts messages into batches that become visible together or not at all: one is completed so long after its first
	// message, or by Flush. Done is called then. Only where the protocol has it (Traits).
	Atomic time.Duration
	// Done is called once for each message that Send took, from any goroutine: err is nil when the
	// target has acknowledged it. It must not block.
	Done func(tag uint64, err error)
}

// Producer sends. One goroutine uses it at a time.
type Producer interface {
	// Send takes a message; it may block while the target or the window pushes back, and returns an
	// error, without a call of Done, if the message was not taken (closed, context over).
	Send(ctx context.Context, m Message) error
	// Flush hands everything to the network that waits in the client's buffers and returns when all
	// messages are done.
	Flush(ctx context.Context) error
	// Close ends the producer. Messages not done by then get an error by Done.
	Close() error
}

// ConsumerOptions configure one consumer.
type ConsumerOptions struct {
	Net *Network // instead of the driver's, if not nil
	// Prefetch is how many messages may be on their way to the handler at most, where the protocol
	// can say so; 0 means the client's default.
	Prefetch int
	// Handle is called for each message, for one consumer from one goroutine at a time. Payload is only
	// valid during the call. Returning false leaves the message unacknowledged (AckEach).
	Handle func(d Delivery) bool
	// Commit is asked after every message that Handle took: on true the consumer makes its place durable, that message included, and
	// waits until the target says that it is, before the next one is handled. Only for durable subscriptions, and where the protocol has
	// it (Traits). Nil leaves it to the client's usual way.
	Commit func() bool
	// Committed is told, by the goroutine that calls Handle, what came of it and how long that took. Not nil where Commit is not.
	Committed func(took time.Duration, err error)
	// Lost is told what the target or the client library says about messages it will not deliver, in its
	// own words; it may be nil. Called from any goroutine.
	Lost func(said string)
}

// Delivery is a message that arrived.
type Delivery struct {
	Payload     []byte
	At          time.Time // when the client library handed it over; the zero time means now
	Redelivered bool      // the target says that it tried before
}

// Consumer receives until it is closed.
type Consumer interface {
	// Err is what ended the consumer, if something did.
	Err() error
	// Close leaves in good order: what was handled is acknowledged.
	Close() error
}
