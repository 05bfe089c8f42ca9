package driver

import (
	"context"
	"time"
)

// Transformer is a Space whose messages can be passed on to another space of the same driver: received, changed, sent, and the place
// in the subscription kept, again and again. Kafka calls it consume-transform-produce; with AMQP 0-9-1 it is a channel in transaction mode.
type Transformer interface {
	Space
	// Transform connects one consumer of a durable subscription that sends what it makes of each message, and returns when messages flow
	// to it.
	Transform(ctx context.Context, sub Subscription, to Space, o TransformOptions) (Consumer, error)
}

// TransformOptions configure one consumer that passes messages on.
type TransformOptions struct {
	// Every is how long after its first message a batch is completed: what was sent is acknowledged, and the place is durable.
	Every time.Duration
	// Atomic completes what was sent and the place together or not at all. Otherwise the place follows what was sent, and a
	// consumer that dies in between has messages passed on twice. Only where the protocol has it (Traits).
	Atomic bool
	// Map makes the message to send, for one consumer from one goroutine at a time. The payload of the delivery may be in it.
	Map func(d Delivery) Message
	// Failed is told what could not be sent or kept; what is lost by it is received again. Called from any goroutine.
	Failed func(err error)
}
