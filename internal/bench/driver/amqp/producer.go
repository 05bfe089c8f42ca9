package amqp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"godwit/internal/bench/driver"
)

// writeGrace is how long a write may go on when its context is over. After that the connection is given up, for
// nothing else ends a write to a target that has stopped reading.
const writeGrace = time.Second

// errRefused is what a negative acknowledgement says, which has no text of its own.
var errRefused = errors.New("the target refused the message (basic.nack)")

func (s *space) Producer(ctx context.Context, o driver.ProducerOptions) (driver.Producer, error) {
	l, err := connect(ctx, s.b.o, o.Net)
	if err != nil {
		return nil, err
	}
	p := &producer{
		link: l, space: s, done: o.Done, acked: !o.NoAck, ended: make(chan struct{}),
		room: make(chan struct{}, o.InFlight), pending: make(chan pending, o.InFlight+1), settled: make(chan struct{}),
	}
	if p.acked {
		if err := l.setup(ctx, func() error { return l.ch.Confirm(false) }); err != nil {
			l.abandon()
			return nil, err
		}
	}
	go p.settle()
	return p, nil
}

// producer publishes, each message with one write to the network, as the library does it.
//
// Confirms are taken from the library's DeferredConfirmation in the order of publishing: one goroutine waits for the
// oldest. NotifyPublish gives the same order, but starts a timer for each message, and drops confirms when
// they are not taken within 5 s.
type producer struct {
	link  *link
	space *space
	done  func(tag uint64, err error)
	acked bool // there are publisher confirms

	room    chan struct{} // one element for each message in flight
	pending chan pending  // in the order of publishing; closed with mu held
	settled chan struct{} // closed when nothing is pending any more
	ended   chan struct{} // closed by Close
	once    sync.Once

	writes atomic.Uint64 // begun and ended: odd while one goes on

	mu     sync.Mutex      // held while a message is published
	closed bool            // guarded by mu
	ctx    context.Context // guarded by mu; of the last message
	forget func() bool     // guarded by mu; stops watching ctx
}

// pending is a message to be confirmed, or the mark of a Flush.
type pending struct {
	confirm *amqp.DeferredConfirmation
	tag     uint64
	flushed chan struct{} // not nil for a mark
}

func (p *producer) Send(ctx context.Context, m driver.Message) error {
	select {
	case p.room <- struct{}{}:
	default:
		select {
		case p.room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return amqp.ErrClosed
		}
	}
	if err := p.publish(ctx, m); err != nil {
		<-p.room
		return err
	}
	return nil
}

func (p *producer) publish(ctx context.Context, m driver.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return amqp.ErrClosed
	}
	p.follow(ctx)
	p.writes.Add(1)
	err := ctx.Err() // from here on its end finds the write under way
	var confirm *amqp.DeferredConfirmation
	if err == nil {
		confirm, err = p.link.ch.PublishWithDeferredConfirm(p.space.exchange, p.space.keys[m.Destination], false, false,
			amqp.Publishing{DeliveryMode: p.space.b.settings.mode, Body: m.Payload})
	}
	p.writes.Add(1)
	if err != nil {
		return err
	}
	p.pending <- pending{confirm: confirm, tag: m.Tag} // has room: room had
	return nil
}

// follow makes the end of ctx end a write that hangs, with mu held. Most messages have the context of the one before.
func (p *producer) follow(ctx context.Context) {
	if ctx == p.ctx {
		return
	}
	if p.forget != nil {
		p.forget()
	}
	p.ctx = ctx
	p.forget = context.AfterFunc(ctx, func() {
		n := p.writes.Load()
		if n%2 == 0 {
			return
		}
		time.AfterFunc(writeGrace, func() {
			if p.writes.Load() == n {
				p.link.abandon()
			}
		})
	})
}

// settle reports messages, one after the other.
func (p *producer) settle() {
	defer close(p.settled)
	for e := range p.pending {
		if e.flushed != nil {
			close(e.flushed)
			continue
		}
		p.done(e.tag, p.outcome(e.confirm))
		<-p.room
	}
}

// outcome waits for the confirm of a message; without confirms there is nothing to wait for.
func (p *producer) outcome(confirm *amqp.DeferredConfirmation) error {
	if confirm == nil || confirm.Wait() {
		return nil
	}
	if p.link.ch.IsClosed() { // the library refuses what is left
		<-p.link.ended
		return p.link.Err()
	}
	return errRefused
}

func (p *producer) Flush(ctx context.Context) error {
	mark := pending{flushed: make(chan struct{})}
	if err := p.mark(ctx, mark); err != nil {
		return err
	}
	select {
	case <-mark.flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mark puts a mark behind what is pending.
func (p *producer) mark(ctx context.Context, mark pending) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		close(mark.flushed) // everything is done
		return nil
	}
	select {
	case p.pending <- mark:
		return nil
	case <-ctx.Done(): // marks of earlier calls may be left
		return ctx.Err()
	}
}

// Close fails what is not confirmed.
func (p *producer) Close() (err error) {
	p.once.Do(func() {
		close(p.ended)
		err = p.link.close()
		p.mu.Lock()
		p.closed = true
		if p.forget != nil {
			p.forget()
		}
		close(p.pending)
		p.mu.Unlock()
		<-p.settled
	})
	return err
}
