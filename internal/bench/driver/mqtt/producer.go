package mqtt

import (
	"context"
	"errors"
	"fmt"

	"github.com/eclipse/paho.golang/paho"

	"godwit/internal/bench/driver"
)

// packetOverhead is how many bytes a PUBLISH packet has beside topic and payload, at most.
const packetOverhead = 1 + 4 + 2 + 2 + 1

func (s *space) Producer(ctx context.Context, o driver.ProducerOptions) (driver.Producer, error) {
	qos := s.d.qos
	if o.NoAck {
		qos = 0
	}
	w := newWindow(o.InFlight, qos, o.Done)
	l, err := s.d.connect(ctx, session{net: o.Net, window: w, written: w.written})
	if err != nil {
		return nil, err
	}
	p := &producer{link: l, space: s, window: w, qos: qos, topics: make(map[int]string)}
	if m := l.ack.Properties.MaximumPacketSize; m != nil {
		p.largest = int(*m)
	}
	return p, nil
}

type producer struct {
	link    *link
	space   *space
	window  *window
	qos     byte
	largest int            // packet the broker takes, in bytes; 0 for any
	topics  map[int]string // of destinations
}

func (p *producer) Send(ctx context.Context, m driver.Message) error {
	topic, ok := p.topics[m.Destination]
	if !ok {
		topic = p.space.topic(m.Destination)
		p.topics[m.Destination] = topic
	}
	if n := len(topic) + len(m.Payload) + packetOverhead; p.largest > 0 && n > p.largest {
		return fmt.Errorf("a packet of %d bytes is larger than the broker's maximum of %d: send less, or raise the broker's limit", n, p.largest)
	}
	id, err := p.window.open(ctx, m.Tag)
	if err != nil {
		if e := p.link.Err(); e != nil && ctx.Err() == nil {
			err = e
		}
		return err
	}
	// The window has let it through: nothing in here waits.
	_, err = p.link.client.PublishWithOptions(context.Background(), &paho.Publish{QoS: p.qos, Topic: topic, Payload: m.Payload},
		paho.PublishOptions{Method: paho.PublishMethod_AsyncSend})
	if err == nil && p.qos == 0 {
		p.window.wrote(id, p.link.wire.position())
	}
	if err == nil || errors.Is(err, paho.ErrNetworkErrorAfterStored) {
		return nil
	}
	if !p.window.withdraw(id) {
		return nil // it failed elsewhere as well, and that was reported
	}
	return err
}

func (p *producer) Flush(ctx context.Context) error { return p.window.drained(ctx) }

// Close fails what is not acknowledged.
func (p *producer) Close() error { return p.link.close() }
