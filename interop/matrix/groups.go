package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/interop/canon"
)

// perPartition is how many records each partition of a group's topic gets.
const perPartition = 20

// groups checks consumer groups: with each client alone, whose second run resumes where the first had committed, and with
// all clients taking turns in one group, each resuming behind the one before. The broker is killed between the two runs.
func (s *session) groups(ctx context.Context) {
	topic := s.topic("groups")
	if err := s.seed(ctx, topic); err != nil {
		s.report.add(check{group: "groups", name: "seed", err: err})
		return
	}
	const all = canon.Partitions * perPartition
	const part = all / 3
	next := make([]map[int32]int64, len(s.clients))
	errs := make([]error, len(s.clients))
	// Members wait more than they work.
	each(3*s.jobs, s.clients, func(i int, c client) {
		next[i] = make(map[int32]int64)
		errs[i] = s.turn(ctx, &c, s.topic("group-"+c.name), topic, part, next[i])
	})
	s.crash(ctx)
	each(3*s.jobs, s.clients, func(i int, c client) {
		if errs[i] == nil {
			errs[i] = s.turn(ctx, &c, s.topic("group-"+c.name), topic, all-part, next[i])
		}
		s.report.add(check{group: "groups", name: c.name + " resumes", err: errs[i]})
	})
	s.relay(ctx, topic)
}

func (s *session) seed(ctx context.Context, topic string) error {
	if err := s.createTopics(ctx, topic); err != nil {
		return err
	}
	var rs []*kgo.Record
	for p := range int32(canon.Partitions) {
		for i := range perPartition {
			rs = append(rs, &kgo.Record{Topic: topic, Partition: p, Value: fmt.Appendf(nil, "record %d of partition %d", i, p)})
		}
	}
	return s.kafka.ProduceSync(ctx, rs...).FirstErr()
}

// relay gives every client a turn in one group.
func (s *session) relay(ctx context.Context, topic string) {
	group := s.topic("relay")
	next := make(map[int32]int64)
	n := canon.Partitions * perPartition / len(s.clients)
	for i, c := range s.clients {
		name := c.name + " takes over"
		if i > 0 {
			name += " from " + s.clients[i-1].name
		}
		if err := s.turn(ctx, &c, group, topic, n, next); err != nil {
			s.report.add(check{group: "groups", name: name, err: err})
			return
		}
		s.report.add(check{group: "groups", name: name})
	}
}

// turn lets one client read n records as the only member of the group. next holds the position in each partition; the
// records must follow it without gap or repetition, be what was committed, and leave an empty group behind.
func (s *session) turn(ctx context.Context, c *client, group, topic string, n int, next map[int32]int64) error {
	got, err := c.read(ctx, "group", s.broker, strconv.Itoa(n), group, topic)
	if err != nil {
		return fmt.Errorf("after %d of %d records: %w", len(got), n, err)
	}
	if len(got) != n {
		return fmt.Errorf("%d records read, want %d", len(got), n)
	}
	for _, r := range got {
		if r.Offset != next[r.Partition] {
			return fmt.Errorf("offset %d of partition %d read, want %d", r.Offset, r.Partition, next[r.Partition])
		}
		want := fmt.Sprintf("record %d of partition %d", r.Offset, r.Partition)
		if string(r.Value) != want {
			return fmt.Errorf("offset %d of partition %d has value %s, want %q", r.Offset, r.Partition, short(r.Value), want)
		}
		next[r.Partition]++
	}
	return errors.Join(s.committed(ctx, group, topic, next), s.empty(ctx, group))
}

// committed checks that the committed offsets are the positions in next. A partition of which nothing was read yet may have
// none, or 0.
func (s *session) committed(ctx context.Context, group, topic string, next map[int32]int64) error {
	offsets, err := s.admin.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	got := make(map[int32]int64)
	for _, o := range offsets.Sorted() {
		if o.Topic == topic && o.At > 0 {
			got[o.Partition] = o.At
		}
	}
	if !maps.Equal(got, next) {
		return fmt.Errorf("committed offsets by partition are %v, want %v", got, next)
	}
	return nil
}

// empty checks that the member left the group when it was done, rather than leaving it to the session timeout.
func (s *session) empty(ctx context.Context, group string) error {
	var state string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		described, err := s.admin.DescribeGroups(ctx, group)
		if err != nil {
			return err
		}
		if state = described[group].State; state == "Empty" {
			return nil
		}
	}
	return fmt.Errorf("group is %s after its member left, want Empty", state)
}
