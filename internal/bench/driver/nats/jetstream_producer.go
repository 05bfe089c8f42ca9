package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

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
		asked: o.InFlight, shares: &s.shares, freed: make(chan struct{}, 1), pending: make(map[*nats.Msg]uint64), wake: -1,
	}
	p.js, err = jetstream.New(l.Conn,
		jetstream.WithPublishAsyncMaxPending(o.InFlight+1), // never reached: the window is
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { p.finish(m, nil) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { p.finish(m, explain(err)) }),
	)
	if err != nil {
		l.close()
		return nil, err
	}
	s.shares.producers.Add(1)
	go func() {
		<-l.over // nats.go forgets then what waited to be sent
		p.end()
	}()
	return p, nil
}

// shares divide what may be unacknowledged in a stream among its producers.
type shares struct {
	total     int          // messages, at least 1
	producers atomic.Int64 // that are open
}

// each is what one producer may have unacknowledged, at least 1.
func (s *shares) each() int { return max(1, s.total/max(1, int(s.producers.Load()))) }

// tooManyRequests is JetStream's error code for a message that it dropped because too many waited to be stored.
const tooManyRequests = 10167

// wakeBatch is how many messages, at most, must be done before a sender that waits for room goes on: waking for each
// one costs more than the message.
const wakeBatch = 64

type streamProducer struct {
	link     *link
	js       jetstream.JetStream
	layout   string
	done     func(tag uint64, err error)
	subjects map[int]string // of destinations; the sender's
	asked    int            // messages in flight that the caller allows
	shares   *shares        // what the stream allows
	freed    chan struct{}  // told when there is the room that the sender waits for

	mu      sync.Mutex
	pending map[*nats.Msg]uint64 // guarded by mu; tags of messages in flight that nobody is reporting on
	open    int                  // guarded by mu; messages in flight
	wake    int                  // guarded by mu; the sender waits until no more are open; negative: it does not
	idle    chan struct{}        // guarded by mu; if not nil, closed when none are
	closed  bool                 // guarded by mu
}

// enter takes room for a message, and waits for it if there is none.
func (p *streamProducer) enter(ctx context.Context, m *nats.Msg, tag uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed {
		limit := min(p.asked, p.shares.each())
		if p.open < limit {
			p.pending[m] = tag
			p.open++
			return nil
		}
		p.wake = limit - min(limit/16+1, wakeBatch)
		p.mu.Unlock()
		var err error
		select {
		case <-p.freed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		if err != nil {
			if p.wake < 0 {
				<-p.freed // was told at the same time
			}
			p.wake = -1
			return err
		}
	}
	return p.link.Err() // says why: there is nothing else that closes a producer
}

// rouse tells the sender that there is room, or that there will not be any. The caller holds mu.
func (p *streamProducer) rouse() {
	if p.wake >= 0 {
		p.wake = -1
		p.freed <- struct{}{} // has room: the sender takes one for each time that wake was set
	}
}

func (p *streamProducer) Send(ctx context.Context, m driver.Message) error {
	s, ok := p.subjects[m.Destination]
	if !ok {
		s = subject(p.layout, m.Destination)
		p.subjects[m.Destination] = s
	}
	msg := &nats.Msg{Subject: s, Data: m.Payload}
	if err := p.enter(ctx, msg, m.Tag); err != nil {
		return err
	}
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

// explain adds to an error what can be done about it.
func explain(err error) error {
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == tooManyRequests {
		return fmt.Errorf("%w (the server drops what comes while max_buffered_msgs wait to be stored: lower inflight of the URL)", err)
	}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open--; p.open <= p.wake {
		p.rouse()
	}
	if p.open == 0 && p.idle != nil {
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
	p.end()
	return nil
}

// end takes no more messages and fails those in flight.
func (p *streamProducer) end() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.shares.producers.Add(-1)
	}
	p.rouse()
	left := slices.Collect(maps.Keys(p.pending))
	p.mu.Unlock()
	for _, m := range left {
		p.finish(m, p.link.Err())
	}
}
