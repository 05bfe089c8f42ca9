// Package mqtt drives MQTT 5 brokers with paho.golang.
//
// A destination n of a layout is the topic LAYOUT/n; every subscription is to LAYOUT/+. What a subscription asks for
// decides the session it lives in:
//
//   - Not durable: a session that begins and ends with its connection.
//   - Durable: a session with a fixed client ID that outlives its connections. The broker keeps for it what
//     was sent at QoS 1 or 2 while nobody was connected, up to the broker's own limits: mosquitto drops
//     what exceeds max_queued_messages and tells neither side.
//   - Shared: the topic filter is $share/LAYOUT-NAME/LAYOUT/+, and every consumer has a session of its own. If it is
//     durable too, consumers take numbered sessions, the lowest free one first; the first one exists from the
//     beginning. A consumer that takes the place of a closed or dead one thus continues its session, as programs
//     with fixed client IDs do. Meanwhile whatever the broker gave to that session waits in it: MQTT lets a broker hand it
//     to others only for sessions that end, and mosquitto goes on dealing messages out to members that are away.
//
// Consumers acknowledge each message after it was handled, for paho does so; it makes no difference whether a subscription
// asks for it. A message that was not taken is delivered again, marked as a duplicate, when its session is resumed.
//
// Connections do not come back by themselves: a producer or consumer that loses its connection has ended.
package mqtt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"godwit/internal/bench/driver"
)

// versionTopic is where many brokers publish who they are, and versionWait how long to wait for it.
const (
	versionTopic = "$SYS/broker/version"
	versionWait  = time.Second
)

// mqtt is a driver.
type mqtt struct {
	o      driver.Options
	qos    byte
	id     string       // begins client IDs of its own
	broker paho.Connack // what the broker said of itself at the first connection

	clients atomic.Int64 // numbers client IDs that need not be known again

	mu    sync.Mutex
	links map[*link]struct{} // guarded by mu; open ones
}

// New connects to mqtt://[USER:PASSWORD@]HOST:PORT[?qos=0|1|2] once, to learn what the broker can do. The quality of service
// is that of messages and of subscriptions; the default is 1. At 0 nothing is acknowledged and nothing kept.
func New(ctx context.Context, o driver.Options) (driver.Driver, error) {
	qos, err := readSettings(o.URL)
	if err != nil {
		return nil, err
	}
	d := &mqtt{o: o, qos: qos, id: fmt.Sprintf("godwit-%08x", rand.Uint32()), links: make(map[*link]struct{})}
	l, err := d.connect(ctx, session{})
	if err != nil {
		return nil, err
	}
	defer l.close()
	d.broker = *l.ack
	p := d.broker.Properties
	if p.MaximumQoS != nil && *p.MaximumQoS < qos {
		return nil, driver.Unsupported("the broker takes messages up to QoS %d: add qos=%d to the target's URL", *p.MaximumQoS, *p.MaximumQoS)
	}
	if !p.WildcardSubAvailable {
		return nil, driver.Unsupported("the broker has no wildcard subscriptions, which receive from many topics")
	}
	return d, nil
}

// Describe says what the broker publishes as its version, or only that it speaks MQTT 5.
func (d *mqtt) Describe(ctx context.Context) (string, error) {
	said := make(chan string, 1)
	l, err := d.connect(ctx, session{handle: func(m *paho.Publish) bool {
		select {
		case said <- string(m.Payload):
		default:
		}
		return true
	}})
	if err != nil {
		return "", err
	}
	defer l.close()
	const unnamed = "MQTT 5 broker"
	if err := l.subscribe(ctx, versionTopic, 0); err != nil {
		if l.Err() != nil {
			return "", err
		}
		return unnamed, ctx.Err() // not for everybody to read
	}
	t := time.NewTimer(versionWait)
	defer t.Stop()
	select {
	case s := <-said:
		return s, nil
	case <-t.C:
		return unnamed, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (d *mqtt) Traits() driver.Traits {
	return driver.Traits{Acks: d.qos > 0, Retains: d.qos > 0}
}

// Close ends what was not closed as well.
func (d *mqtt) Close() error {
	d.mu.Lock()
	left := make([]*link, 0, len(d.links))
	for l := range d.links {
		left = append(left, l)
	}
	d.mu.Unlock()
	var errs []error
	for _, l := range left {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// refuse says what of a subscription cannot be had.
func (d *mqtt) refuse(sub driver.Subscription) error {
	switch {
	case sub.AckEach && d.qos == 0:
		return driver.Unsupported("messages of QoS 0 are not acknowledged")
	case sub.FromStart && !sub.Durable:
		return driver.Unsupported("MQTT keeps no messages for subscriptions that are made later")
	case sub.Shared && !d.broker.Properties.SharedSubAvailable:
		return driver.Unsupported("the broker has no shared subscriptions")
	}
	return nil
}
