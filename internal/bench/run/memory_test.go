package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/target"
)

// memory is a message system in memory that can do wrong on purpose. The zero value does everything right.
// Every subscription gets each message once, at one of its consumers, unless a fault says otherwise.
type memory struct {
	dropEvery   int  // of each subscription's deliveries, one in so many does not happen
	repeatEvery int  // one in so many happens twice
	swapEvery   int  // one in so many comes after the next one
	noDurable   bool // keeps nothing for receivers that are away
	silent      bool // says nothing when it removes messages
	keepsAll    bool // removes nothing when it is asked to
	refuseAll   bool // takes no message
	refuseEach  bool // has no acknowledgement of single messages
	plain       bool // has no atomic batches, and does not tell when a place is durable
	failCommits bool // makes no place durable

	mu     sync.Mutex
	spaces []*memorySpace // guarded by mu
}

func (m *memory) open(context.Context, *target.Target, driver.Options) (driver.Driver, error) {
	return memoryDriver{m}, nil
}

type memoryDriver struct{ *memory }

func (memoryDriver) Describe(context.Context) (string, error) { return "memory 1", nil }
func (d memoryDriver) Traits() driver.Traits {
	return driver.Traits{Acks: true, Retains: !d.noDurable, Commits: !d.plain, Atomic: !d.plain}
}
func (memoryDriver) Close() error { return nil }

func (d memoryDriver) Open(_ context.Context, l driver.Layout) (driver.Space, error) {
	s := &memorySpace{m: d.memory, subs: make(map[string]*memorySub)}
	for _, sub := range l.Subscriptions {
		if sub.AckEach && d.refuseEach {
			return nil, driver.Unsupported("no acknowledgement of single messages")
		}
		s.subs[sub.Name] = newMemorySub(d.memory)
	}
	d.mu.Lock()
	d.spaces = append(d.spaces, s)
	d.mu.Unlock()
	return s, nil
}

type memorySpace struct {
	m    *memory
	subs map[string]*memorySub
}

func (s *memorySpace) Producer(_ context.Context, o driver.ProducerOptions) (driver.Producer, error) {
	return &memoryProducer{s, o}, nil
}

func (s *memorySpace) Consumer(_ context.Context, sub driver.Subscription, o driver.ConsumerOptions) (driver.Consumer, error) {
	q := s.subs[sub.Name]
	if q == nil {
		return nil, errors.New("no such subscription")
	}
	c := &memoryConsumer{q: q, o: o, done: make(chan struct{})}
	q.mu.Lock()
	removed := q.removed
	q.removed = 0
	q.mu.Unlock()
	if removed > 0 && !s.m.silent && o.Lost != nil {
		o.Lost("offset out of range")
	}
	go c.run()
	return c, nil
}

func (s *memorySpace) Discard(context.Context, int) error {
	if s.m.keepsAll {
		return nil
	}
	for _, q := range s.subs {
		q.mu.Lock()
		q.removed += len(q.waiting)
		q.waiting = nil
		q.mu.Unlock()
	}
	return nil
}

func (s *memorySpace) Remove(context.Context) error { return nil }

type memoryProducer struct {
	s *memorySpace
	o driver.ProducerOptions
}

func (p *memoryProducer) Send(_ context.Context, m driver.Message) error {
	if p.s.m.refuseAll {
		p.o.Done(m.Tag, errors.New("no room"))
		return nil
	}
	for _, q := range p.s.subs {
		q.put(slices.Clone(m.Payload))
	}
	p.o.Done(m.Tag, nil)
	return nil
}
func (*memoryProducer) Flush(context.Context) error { return nil }
func (*memoryProducer) Close() error                { return nil }

// memorySub is a queue of what its consumers have not had.
type memorySub struct {
	m *memory

	mu      sync.Mutex
	more    *sync.Cond
	waiting [][]byte // guarded by mu
	n       int      // guarded by mu; messages put
	held    []byte   // guarded by mu; the one that comes after the next
	readers int      // guarded by mu
	removed int      // guarded by mu; messages discarded and not yet told
}

func newMemorySub(m *memory) *memorySub {
	q := &memorySub{m: m}
	q.more = sync.NewCond(&q.mu)
	return q
}

func hits(n, every int) bool { return every > 0 && n%every == every-1 }

// put applies the faults.
func (q *memorySub) put(b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.n
	q.n++
	switch {
	case hits(n, q.m.dropEvery), q.m.noDurable && q.readers == 0:
	case hits(n, q.m.repeatEvery):
		q.waiting = append(q.waiting, b, b)
	case hits(n, q.m.swapEvery):
		q.held = b
		return
	default:
		q.waiting = append(q.waiting, b)
	}
	if q.held != nil {
		q.waiting = append(q.waiting, q.held)
		q.held = nil
	}
	q.more.Broadcast()
}

type memoryConsumer struct {
	q    *memorySub
	o    driver.ConsumerOptions
	over bool // guarded by q.mu
	done chan struct{}
}

// run delivers. What its handler refuses goes back to the front of the queue when the consumer's network is cut.
func (c *memoryConsumer) run() {
	defer close(c.done)
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.readers++
	defer func() { q.readers-- }()
	for {
		for len(q.waiting) == 0 && !c.over {
			q.more.Wait()
		}
		if c.over {
			return
		}
		b := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		took := c.o.Handle(driver.Delivery{Payload: b, At: time.Now()})
		if took && c.o.Commit != nil && c.o.Commit() {
			c.commit()
		}
		q.mu.Lock()
		if !took {
			q.waiting = slices.Insert(q.waiting, 0, b)
			q.more.Broadcast()
			return
		}
	}
}

// commitTime is how long the memory takes to make a place durable.
const commitTime = 2 * time.Millisecond

func (c *memoryConsumer) commit() {
	begin := time.Now()
	var err error
	if c.q.m.failCommits {
		err = errors.New("no room")
	}
	<-time.After(commitTime)
	c.o.Committed(time.Since(begin), err)
}

// Transform passes messages on at once.
func (s *memorySpace) Transform(ctx context.Context, sub driver.Subscription, to driver.Space, o driver.TransformOptions) (driver.Consumer, error) {
	p, err := to.Producer(ctx, driver.ProducerOptions{Done: func(uint64, error) {}})
	if err != nil {
		return nil, err
	}
	if o.Every == 0 {
		return nil, errors.New("a batch without an end")
	}
	return s.Consumer(ctx, sub, driver.ConsumerOptions{Handle: func(d driver.Delivery) bool {
		m := o.Map(d)
		m.Payload = slices.Clone(m.Payload)
		return p.Send(ctx, m) == nil
	}})
}

func (*memoryConsumer) Err() error { return nil }

func (c *memoryConsumer) Close() error {
	c.q.mu.Lock()
	c.over = true
	c.q.mu.Unlock()
	c.q.more.Broadcast()
	<-c.done
	return nil
}
