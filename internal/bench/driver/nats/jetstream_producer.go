package nats

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"godwit/internal/bench/driver"
)

func (s *streamSpace) Producer(ctx context.Context, o driver.ProducerOptions) (driver.Producer, error) {
	if o.NoAck {
		// The same stream takes messages that nobody wants acknowledged.
		return (&coreSpace{d: &core{o: s.d.o}, layout: s.layout}).Producer(ctx, o)
	}
	l, err := connect(ctx, s.d.o, o.Net, nil)
	if err != nil {
		return nil, err
	}
	p := &streamProducer{
		link: l, layout: s.layout, done: o.Done, subjects: make(map[int]string),
		room: make(chan struct{}, o.InFlight), pending: make(map[*nats.Msg]uint64, o.InFlight),
	}
	p.js, err = jetstream.New(l.Conn,
		jetstream.WithPublishAsyncMaxPending(o.InFlight+1), // never reached: room is
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { p.finish(m, nil) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { p.finish(m, err) }),
	)
	if err != nil {
		l.close()
		return nil, err
	}
	return p, nil
}

type streamProducer struct {
	link     *link
	js       jetstream.JetStream
	layout   string
	done     func(tag uint64, err error)
	subjects map[int]string // of destinations; the sender's
	room     chan struct{}  // one element for each message in flight

	mu      sync.Mutex
	pending map[*nats.Msg]uint64 // guarded by mu; tags of messages in flight that nobody is reporting on
	open    int                  // guarded by mu; messages in flight
	idle    chan struct{}        // guarded by mu; if not nil, closed when none are
	closed  bool                 // guarded by mu
}

func (p *streamProducer) Send(ctx context.Context, m driver.Message) error {
	select {
	case p.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	s, ok := p.subjects[m.Destination]
	if !ok {
		s = subject(p.layout, m.Destination)
		p.subjects[m.Destination] = s
	}
	msg := &nats.Msg{Subject: s, Data: m.Payload}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		<-p.room
		return nats.ErrConnectionClosed
	}
	p.pending[msg] = m.Tag
	p.open++
	p.mu.Unlock()
	_, err := p.js.PublishMsgAsync(msg)
	if err == nil {
		return nil
	}
	if _, ours := p.take(msg); !ours {
		return nil // it failed elsewhere as well, and that was reported
	}
	p.reported()
	return err
}

// take makes the caller, and nobody else, report on a message.
func (p *streamProducer) take(m *nats.Msg) (tag uint64, ours bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tag, ours = p.pending[m]
	delete(p.pending, m)
	return tag, ours
}

// reported makes room for another message.
func (p *streamProducer) reported() {
	<-p.room
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open--; p.open == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// finish reports on a message, once.
func (p *streamProducer) finish(m *nats.Msg, err error) {
	if tag, ours := p.take(m); ours {
		p.done(tag, err)
		p.reported()
	}
}

func (p *streamProducer) Flush(ctx context.Context) error {
	p.mu.Lock()
	if p.open == 0 {
		p.mu.Unlock()
		return nil
	}
	idle := make(chan struct{})
	p.idle = idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close fails what is not acknowledged.
func (p *streamProducer) Close() error {
	p.link.close()
	p.mu.Lock()
	p.closed = true
	left := make([]*nats.Msg, 0, len(p.pending))
	for m := range p.pending {
		left = append(left, m)
	}
	p.mu.Unlock()
	for _, m := range left {
		p.finish(m, nats.ErrConnectionClosed)
	}
	return nil
}
