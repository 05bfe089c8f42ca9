// Package amqp drives brokers that speak AMQP 0-9-1 with amqp091-go.
//
// A layout is one durable topic exchange. A destination is a routing key of it: what a program writes to and a
// binding chooses from, as subjects and topics are elsewhere; 100,000 cost no more than one. A subscription is a
// queue bound to all keys, because it gets all messages, and its consumers share the queue.
//
// A durable subscription has a durable queue, by default a classic one. Any other has a queue that goes with its
// consumers: an exclusive one or, for several consumers, one that is deleted after the last of them.
//
// Acknowledgements of consumers: each message by itself, where a subscription asks for it; otherwise several
// at a time on durable queues; otherwise none (the broker forgets a message when it has sent it).
package amqp

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"godwit/internal/bench/driver"
)

// The bounds of what is waited for where the caller gives none.
const (
	connectTimeout = 30 * time.Second
	closeTimeout   = 10 * time.Second
)

// broker is a driver.
type broker struct {
	o        driver.Options
	settings settings
}

// New connects to amqp://[USER:PASSWORD@]HOST:PORT[/VHOST][?SETTINGS], see readSettings. Without a user it is guest,
// without a virtual host "/".
func New(ctx context.Context, o driver.Options) (driver.Driver, error) {
	set, err := readSettings(o.URL)
	if err != nil {
		return nil, err
	}
	b := &broker{o: o, settings: set}
	return b, b.administer(ctx, func(*amqp.Channel) error { return nil })
}

// administer does something over a connection of its own, so that it can be done before and after restarts of the target.
// The end of ctx ends it.
func (b *broker) administer(ctx context.Context, do func(*amqp.Channel) error) error {
	l, err := connect(ctx, b.o, nil)
	if err != nil {
		return err
	}
	if err := l.setup(ctx, func() error { return do(l.ch) }); err != nil {
		l.abandon()
		return err
	}
	return l.close()
}

// Describe repeats what the target says of itself to every client.
func (b *broker) Describe(ctx context.Context) (string, error) {
	l, err := connect(ctx, b.o, nil)
	if err != nil {
		return "", err
	}
	said := l.conn.Properties
	if err := l.close(); err != nil {
		return "", err
	}
	product, _ := said["product"].(string)
	version, _ := said["version"].(string)
	if product == "" {
		product = "AMQP 0-9-1 broker"
	}
	if version == "" {
		return product, nil
	}
	return fmt.Sprintf("%s %s", product, version), nil
}

// Traits are those of queues: they forget what was acknowledged.
func (b *broker) Traits() driver.Traits {
	return driver.Traits{Acks: true, Retains: true}
}

// Close has nothing to free: producers and consumers have connections of their own.
func (b *broker) Close() error { return nil }
