package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/internal/bench/driver"
)

// transactionTimeout is after what time the broker aborts a transaction whose client has died.
const transactionTimeout = time.Minute

// transactional are the options of a client with transactions of its own.
func (s *space) transactional(inFlight int) []kgo.Opt {
	id := s.layout + "-" + strconv.FormatInt(s.d.atomics.Add(1), 10)
	return append(s.d.settings.sender(false, inFlight), kgo.TransactionalID(id), kgo.TransactionTimeout(transactionTimeout))
}

// atomicProducer sends in transactions. A transaction begins with its first record, so that none is open while nothing is
// sent.
type atomicProducer struct {
	client *client
	space  *space
	o      driver.ProducerOptions
	window *window
	turn   chan struct{} // has an element while nobody sends or ends a transaction
	ended  chan struct{} // closed by Close
	once   sync.Once

	// Of whoever has the turn.
	open  bool  // a transaction is
	begun int64 // transactions

	mu    sync.Mutex
	tags  []uint64 // guarded by mu; of the transaction's records that are done
	err   error    // guarded by mu; the first of the transaction
	final bool     // guarded by mu; no transaction follows
}

// atomicProducer connects one, which knows its topics and its producer ID before the first message.
func (s *space) atomicProducer(ctx context.Context, o driver.ProducerOptions) (driver.Producer, error) {
	switch {
	case !s.d.settings.idempotent || o.NoAck:
		return nil, driver.Unsupported("transactions need acks=all and an idempotent producer")
	case len(s.topics) > topicsPerClient:
		return nil, driver.Unsupported("the transactions of one client are over %d topics at most here", topicsPerClient)
	}
	c, err := s.d.connect(ctx, o.Net, s.transactional(o.InFlight)...)
	if err != nil {
		return nil, err
	}
	if err := c.learnInTransaction(ctx, s.topics); err != nil {
		c.abandon()
		return nil, err
	}
	p := &atomicProducer{
		client: c, space: s, o: o, window: newWindow(o.InFlight),
		turn: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	p.turn <- struct{}{}
	return p, nil
}

// learnInTransaction is learn for a client that sends in transactions only.
func (c *client) learnInTransaction(ctx context.Context, topics []string) error {
	if _, _, err := c.ProducerID(ctx); err != nil {
		return fmt.Errorf("asking for a producer ID: %w", err)
	}
	if err := c.BeginTransaction(); err != nil {
		return err
	}
	return errors.Join(c.learn(ctx, topics), c.EndTransaction(ctx, kgo.TryAbort))
}

func (p *atomicProducer) Send(ctx context.Context, m driver.Message) error {
	if err := p.window.take(ctx, p.ended); err != nil {
		return err
	}
	if err := p.send(ctx, m); err != nil {
		p.window.give()
		return err
	}
	return nil
}

func (p *atomicProducer) send(ctx context.Context, m driver.Message) error {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	select {
	case <-p.ended:
		return kgo.ErrClientClosed
	default:
	}
	if !p.open {
		if err := p.client.BeginTransaction(); err != nil {
			return fmt.Errorf("beginning a transaction: %w", err)
		}
		p.open = true
		p.begun++
		n := p.begun
		time.AfterFunc(p.o.Atomic, func() { p.due(n) })
	}
	r := new(kgo.Record)
	p.space.record(r, make([]byte, 4), m)
	p.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) { p.kept(m.Tag, err) })
	return nil
}

// kept notes what became of a record.
func (p *atomicProducer) kept(tag uint64, err error) {
	p.mu.Lock()
	if !p.final {
		p.tags = append(p.tags, tag)
		if p.err == nil {
			p.err = err
		}
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.done(tag, errAborted)
}

func (p *atomicProducer) done(tag uint64, err error) {
	p.o.Done(tag, err)
	p.window.give()
}

// due ends the nth transaction, unless it has ended.
func (p *atomicProducer) due(n int64) {
	select {
	case <-p.turn:
	case <-p.ended:
		return
	}
	if p.begun == n {
		p.end(context.Background(), kgo.TryCommit)
	}
	p.turn <- struct{}{}
}

// end ends the transaction, if one is open, and tells what became of its messages. The caller has the turn.
func (p *atomicProducer) end(ctx context.Context, how kgo.TransactionEndTry) {
	if !p.open {
		return
	}
	p.open = false
	err := p.client.settle(ctx, how, p.failure)
	p.mu.Lock()
	tags := p.tags
	p.tags, p.err = nil, nil
	p.mu.Unlock()
	for _, tag := range tags {
		p.done(tag, err)
	}
}

func (p *atomicProducer) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

var errAborted = errors.New("the transaction was aborted")

// settle commits a transaction, or aborts it; a nil error says that it is committed. Failed tells, when all records are done,
// whether one was refused.
func (c *client) settle(ctx context.Context, how kgo.TransactionEndTry, failed func() error) error {
	err := errAborted
	if how == kgo.TryCommit {
		if err = c.Flush(ctx); err == nil {
			err = failed()
		}
		if err == nil {
			err = c.EndTransaction(ctx, kgo.TryCommit)
		}
		if err == nil {
			return nil
		}
		err = fmt.Errorf("committing a transaction: %w", err)
	}
	if aborted := errors.Join(c.AbortBufferedRecords(ctx), c.EndTransaction(ctx, kgo.TryAbort)); aborted != nil {
		return fmt.Errorf("%w; aborting it: %w", err, aborted)
	}
	return err
}

// Flush commits.
func (p *atomicProducer) Flush(ctx context.Context) error {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	p.end(ctx, kgo.TryCommit)
	p.turn <- struct{}{}
	return p.window.drained(ctx)
}

// Close aborts what is not committed.
func (p *atomicProducer) Close() (err error) {
	p.once.Do(func() {
		close(p.ended)
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		stop := context.AfterFunc(ctx, p.client.cancel) // whoever has the turn then gets an error
		<-p.turn
		p.mu.Lock()
		p.final = true
		p.mu.Unlock()
		p.end(ctx, kgo.TryAbort)
		p.turn <- struct{}{}
		stop()
		p.client.abandon()
		if err = p.window.drained(ctx); err != nil {
			err = fmt.Errorf("failing %d records: %w", p.window.open.Load(), err)
		}
	})
	return err
}
