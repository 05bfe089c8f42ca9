package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/internal/bench/driver"
)

// transformer consumes, transforms and produces: as a member of a group with one client for both.
type transformer struct {
	member  consumer // its client, group and end
	session *kgo.GroupTransactSession
	to      *space
	o       driver.TransformOptions

	// Of poll.
	due  time.Time // when what is under way is to be completed; the zero time if nothing is
	mu   sync.Mutex
	fail error // guarded by mu; the first of what is under way
}

// Transform joins the subscription's group.
func (s *space) Transform(ctx context.Context, sub driver.Subscription, to driver.Space, o driver.TransformOptions) (driver.Consumer, error) {
	target, ok := to.(*space)
	switch {
	case !ok || target.d != s.d:
		return nil, errors.New("messages are passed on within one driver")
	case !sub.Durable || sub.AckEach:
		return nil, driver.Unsupported("only members of a consumer group commit their place")
	case o.Atomic && !s.d.settings.idempotent:
		return nil, driver.Unsupported("transactions need acks=all and an idempotent producer")
	}
	t := &transformer{member: consumer{space: s, group: s.group(sub), ended: make(chan struct{})}, to: target, o: o}
	if err := s.prepare(ctx, t.member.group, sub.FromStart); err != nil {
		return nil, err
	}
	options := append(t.member.group.options(s.d.settings.session), kgo.ConsumeTopics(s.topics...), kgo.DisableAutoCommit())
	connect := kgo.NewClient
	if o.Atomic {
		options = append(options, target.transactional(topicsPerClient)...)
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		connect = func(options ...kgo.Opt) (c *kgo.Client, err error) {
			if t.session, err = kgo.NewGroupTransactSession(options...); err == nil {
				c = t.session.Client()
			}
			return c, err
		}
	} else {
		options = append(options, s.d.settings.sender(false, topicsPerClient)...)
	}
	var err error
	if t.member.client, err = s.d.connectBy(ctx, connect, nil, options...); err != nil {
		return nil, err
	}
	polling, stop := context.WithCancel(context.Background())
	t.member.stop = stop
	go t.poll(polling)
	if err := t.member.assigned(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// poll passes records on until ctx or the client ends.
func (t *transformer) poll(ctx context.Context) {
	defer close(t.member.ended)
	c := t.member.client
	for ctx.Err() == nil && c.Err() == nil {
		fetches := t.fetch(ctx)
		if fetches.IsClientClosed() {
			break
		}
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.failed(fmt.Errorf("fetching: %w", err))
			}
		})
		for records := fetches.RecordIter(); !records.Done(); {
			t.pass(records.Next())
		}
		if !t.due.IsZero() && (ctx.Err() != nil || !time.Now().Before(t.due)) {
			t.complete()
		}
		if t.due.IsZero() {
			c.AllowRebalance() // not while records are under way whose place is not kept
		}
	}
	c.AllowRebalance()
	if c.Err() != nil {
		c.finish() // nobody is left to tell
	}
}

// fetch waits for records, not longer than until what is under way is due.
func (t *transformer) fetch(ctx context.Context) kgo.Fetches {
	if !t.due.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, t.due)
		defer cancel()
	}
	return t.member.client.PollRecords(ctx, recordsPerPoll)
}

// pass sends what is made of a record.
func (t *transformer) pass(r *kgo.Record) {
	m := t.o.Map(driver.Delivery{Payload: r.Value})
	if t.due.IsZero() {
		t.due = time.Now().Add(t.o.Every)
		if t.session != nil {
			if err := t.session.Begin(); err != nil {
				t.refused(fmt.Errorf("beginning a transaction: %w", err))
				return
			}
		}
	}
	out := new(kgo.Record)
	t.to.record(out, make([]byte, 4), m)
	t.member.client.Produce(context.Background(), out, func(_ *kgo.Record, err error) {
		if err != nil {
			t.refused(err)
		}
	})
}

// complete commits what is under way: what was sent, and the place after what it was made of.
func (t *transformer) complete() {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	t.due = time.Time{}
	c := t.member.client
	err := c.Flush(ctx)
	if err == nil {
		err = t.failure()
	}
	switch {
	case t.session != nil:
		var committed bool
		var ended error
		committed, ended = t.session.End(ctx, kgo.TransactionEndTry(err == nil))
		if err = errors.Join(err, ended); err == nil && !committed {
			err = errAborted
		}
	case err == nil:
		err = c.CommitUncommittedOffsets(ctx)
	}
	if err != nil {
		t.failed(err)
	}
}

// refused notes an error of what is under way.
func (t *transformer) refused(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fail == nil {
		t.fail = err
	}
}

// failure is the first error of what is under way, once.
func (t *transformer) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.fail
	t.fail = nil
	return err
}

// failed tells whoever measures.
func (t *transformer) failed(err error) {
	if t.o.Failed != nil && t.member.client.Err() == nil {
		t.o.Failed(err)
	}
}

func (t *transformer) Err() error { return t.member.Err() }

// Close completes what is under way, and leaves the group.
func (t *transformer) Close() error { return t.member.Close() }
