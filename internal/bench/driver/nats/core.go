package nats

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"godwit/internal/bench/driver"
)

// core is a driver of NATS without streams.
type core struct {
	o    driver.Options
	link *link
}

// New connects to nats://[USER:PASSWORD@]HOST:PORT. A destination is a subject, a shared subscription a queue
// group. Nothing is kept for subscriptions that are away, and nothing is acknowledged: a message is done when the
// server has answered a ping that was sent after it.
func New(ctx context.Context, o driver.Options) (driver.Driver, error) {
	if _, err := driver.Settings(o.URL); err != nil {
		return nil, err
	}
	l, err := connect(ctx, o, nil, nil)
	if err != nil {
		return nil, err
	}
	return &core{o: o, link: l}, nil
}

func (d *core) Describe(context.Context) (string, error) { return d.link.describe() }

func (d *core) Traits() driver.Traits { return driver.Traits{} }

func (d *core) Close() error {
	d.link.close()
	return nil
}

// Open makes nothing: subjects exist when somebody uses them.
func (d *core) Open(_ context.Context, l driver.Layout) (driver.Space, error) {
	for _, sub := range l.Subscriptions {
		if err := refuse(sub); err != nil {
			return nil, err
		}
	}
	return &coreSpace{d: d, layout: l.Name}, nil
}

func refuse(sub driver.Subscription) error {
	if sub.AckEach {
		return driver.Unsupported("core NATS has no acknowledgements of consumers; JetStream has (jetstream://)")
	}
	return nil
}

type coreSpace struct {
	d      *core
	layout string
}

// Discard has nothing to remove.
func (*coreSpace) Discard(context.Context, int) error { return nil }

// Remove has nothing to remove.
func (*coreSpace) Remove(context.Context) error { return nil }

func (s *coreSpace) Consumer(ctx context.Context, sub driver.Subscription, o driver.ConsumerOptions) (driver.Consumer, error) {
	if err := refuse(sub); err != nil {
		return nil, err
	}
	l, err := connect(ctx, s.d.o, o.Net, o.Lost)
	if err != nil {
		return nil, err
	}
	handle := func(m *nats.Msg) { o.Handle(driver.Delivery{Payload: m.Data}) }
	c := &coreConsumer{link: l, closed: make(chan struct{})}
	if sub.Shared {
		c.sub, err = l.QueueSubscribe(everything(s.layout), s.layout+"-"+sub.Name, handle)
	} else {
		c.sub, err = l.Subscribe(everything(s.layout), handle)
	}
	if err == nil {
		c.sub.SetClosedHandler(func(string) { close(c.closed) })
		err = l.flush(ctx) // the server has the subscription when it answers
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return c, nil
}

// flush returns when the server has read everything sent before.
func (l *link) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	return l.FlushWithContext(ctx)
}

type coreConsumer struct {
	link   *link
	sub    *nats.Subscription
	closed chan struct{} // when the subscription has handled its last message
}

func (c *coreConsumer) Err() error { return c.link.Err() }

// Close handles what has arrived.
func (c *coreConsumer) Close() error {
	if c.link.Err() != nil {
		c.link.close()
		return nil
	}
	err := c.sub.Drain()
	if err == nil {
		err = within(c.closed, "handling the last messages")
	}
	c.link.close()
	return err
}

func (s *coreSpace) Producer(ctx context.Context, o driver.ProducerOptions) (driver.Producer, error) {
	l, err := connect(ctx, s.d.o, o.Net, nil)
	if err != nil {
		return nil, err
	}
	p := &coreProducer{
		link: l, layout: s.layout, done: o.Done, subjects: make(map[int]string),
		room: make(chan struct{}, o.InFlight), sent: make(chan sent, o.InFlight), ended: make(chan struct{}),
	}
	go p.confirm()
	return p, nil
}

// sent is a message on its way, or, with flushed, a place in the order of messages.
type sent struct {
	tag     uint64
	flushed chan struct{}
}

type coreProducer struct {
	link     *link
	layout   string
	done     func(tag uint64, err error)
	subjects map[int]string // of destinations; the sender's

	room  chan struct{} // one element for each message in flight
	sent  chan sent     // in order
	ended chan struct{} // closed when confirm has returned
	once  sync.Once
}

func (p *coreProducer) Send(ctx context.Context, m driver.Message) error {
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
	if err := p.link.Publish(s, m.Payload); err != nil {
		<-p.room
		return err
	}
	p.sent <- sent{tag: m.Tag} // has room for all in flight
	return nil
}

func (p *coreProducer) Flush(ctx context.Context) error {
	if err := p.link.Err(); err != nil {
		return err
	}
	flushed := make(chan struct{})
	select {
	case p.sent <- sent{flushed: flushed}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close fails what the server has not read.
func (p *coreProducer) Close() error {
	p.once.Do(func() {
		p.link.close()
		close(p.sent)
	})
	<-p.ended
	return nil
}

// confirm pings after whatever was sent meanwhile, again and again: when the server answers, it has read it.
func (p *coreProducer) confirm() {
	defer close(p.ended)
	var batch []sent
	for first := range p.sent {
		batch = append(batch[:0], first)
		for more := true; more; {
			select {
			case s, ok := <-p.sent:
				if more = ok; ok {
					batch = append(batch, s)
				}
			default:
				more = false
			}
		}
		err := p.link.flush(context.Background())
		for _, s := range batch {
			if s.flushed != nil {
				close(s.flushed)
				continue
			}
			p.done(s.tag, err)
			<-p.room
		}
	}
}
