package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/bench/driver"
)

// The sizes of administrative requests.
const (
	topicsAtOnce  = 1000
	recordsAtOnce = 8000 // of cluster metadata that one creation may make: Kafka's limit is 10,000
	offsetsAtOnce = 2000 // that one commit may contain: they must fit into one batch of the offsets topic
	adminTimeout  = time.Minute
	pollInterval  = 100 * time.Millisecond
)

type space struct {
	d          *kafka
	layout     string
	topics     []string // by destination
	partitions int

	mu     sync.Mutex
	groups map[string]*group // guarded by mu; by name
}

// group is a consumer group or a share group of a subscription.
type group struct {
	name  string
	share bool

	mu    sync.Mutex // held while it is prepared
	ready bool       // guarded by mu; it has its beginning
}

// Open creates the topics and gives durable subscriptions their beginning.
func (d *kafka) Open(ctx context.Context, l driver.Layout) (driver.Space, error) {
	s := &space{
		d: d, layout: l.Name, partitions: max(l.Partitions, 1),
		groups: make(map[string]*group),
	}
	if slices.ContainsFunc(l.Subscriptions, func(sub driver.Subscription) bool { return sub.AckEach }) {
		if err := d.needShareGroups(ctx); err != nil {
			return nil, err
		}
	}
	for i := range l.Destinations {
		s.topics = append(s.topics, fmt.Sprintf("%s-%06d", l.Name, i))
	}
	err := s.create(ctx)
	for _, sub := range l.Subscriptions {
		if err == nil && sub.Durable {
			err = s.prepare(ctx, s.group(sub), true)
		}
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
		defer cancel()
		if err := s.Remove(clean); err != nil {
			d.o.Logf("removing what was made: %v", err)
		}
		return nil, err
	}
	return s, nil
}

// create creates all topics and waits until brokers know them.
func (s *space) create(ctx context.Context) error {
	atOnce := max(1, min(topicsAtOnce, recordsAtOnce/(s.partitions+1)))
	for names := range slices.Chunk(s.topics, atOnce) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = int32(adminTimeout.Milliseconds())
		for _, name := range names {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(s.partitions), s.d.settings.replicas
			req.Topics = append(req.Topics, t)
		}
		resp, err := req.RequestWith(ctx, s.d.client)
		if err != nil {
			return fmt.Errorf("creating topics: %w", err)
		}
		for _, t := range resp.Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				return fmt.Errorf("creating topic %s: %w", t.Topic, withMessage(err, t.ErrorMessage))
			}
		}
	}
	for names := range slices.Chunk(s.topics, topicsAtOnce) {
		if err := s.known(ctx, names); err != nil {
			return err
		}
	}
	return nil
}

// withMessage adds what a broker says besides its error code.
func withMessage(err error, message *string) error {
	if message == nil || *message == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *message)
}

// known waits until all partitions of topics have leaders.
func (s *space) known(ctx context.Context, names []string) error {
	for {
		meta, err := s.d.admin.Metadata(ctx, names...)
		if err != nil {
			return fmt.Errorf("asking for topics: %w", err)
		}
		missing := 0
		for _, t := range meta.Topics {
			ok := t.Err == nil && len(t.Partitions) == s.partitions
			for _, p := range t.Partitions {
				ok = ok && p.Err == nil && p.Leader >= 0
			}
			if !ok {
				missing++
			}
		}
		if missing == 0 && len(meta.Topics) == len(names) {
			return nil
		}
		if err := pause(ctx, pollInterval); err != nil {
			return fmt.Errorf("%d topics are created, %d of them have no leaders yet: %w", len(names), missing, err)
		}
	}
}

// pause waits a little.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Discard deletes the records of all of a topic's partitions up to their high watermarks.
func (s *space) Discard(ctx context.Context, destination int) error {
	upTo := make(kadm.Offsets)
	for p := range int32(s.partitions) {
		upTo.Add(kadm.Offset{Topic: s.topics[destination], Partition: p, At: -1})
	}
	deleted, err := s.d.admin.DeleteRecords(ctx, upTo)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("deleting records of %s: %w", s.topics[destination], err)
	}
	return nil
}

// Remove deletes the groups and the topics.
func (s *space) Remove(ctx context.Context) error {
	s.mu.Lock()
	groups := s.groups
	s.groups = make(map[string]*group)
	s.mu.Unlock()
	var errs []error
	for _, g := range groups {
		errs = append(errs, s.removeGroup(ctx, g))
	}
	for names := range slices.Chunk(s.topics, topicsAtOnce) {
		deleted, err := s.d.admin.DeleteTopics(ctx, names...)
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting topics: %w", err))
			break
		}
		for _, t := range deleted {
			if t.Err != nil && !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
				errs = append(errs, fmt.Errorf("deleting topic %s: %w", t.Topic, t.Err))
				break
			}
		}
	}
	return errors.Join(errs...)
}
