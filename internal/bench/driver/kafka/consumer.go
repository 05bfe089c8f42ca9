package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/internal/bench/driver"
)

// recordsPerPoll is what Kafka's own consumer takes at once by default (max.poll.records).
const recordsPerPoll = 500

// Consumer joins the subscription's group, or reads all partitions by itself.
func (s *space) Consumer(ctx context.Context, sub driver.Subscription, o driver.ConsumerOptions) (driver.Consumer, error) {
	c := &consumer{space: s, o: o, ended: make(chan struct{}), next: make(map[place]int64)}
	if o.Commit != nil && (!sub.Durable || sub.AckEach) {
		return nil, driver.Unsupported("only members of a consumer group commit their place")
	}
	var options []kgo.Opt
	var err error
	if sub.Durable || sub.Shared || sub.AckEach {
		options, err = c.member(ctx, sub)
	} else {
		options, err = c.alone(ctx, sub)
	}
	if err != nil {
		return nil, err
	}
	if sub.Committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if c.client, err = s.d.connect(ctx, o.Net, options...); err != nil {
		return nil, err
	}
	polling, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.poll(polling)
	if err := c.assigned(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// place is a partition.
type place struct {
	topic     string
	partition int32
}

type consumer struct {
	space  *space
	o      driver.ConsumerOptions
	client *client
	group  *group // nil if it reads by itself
	id     string // the client's, in a share group
	stop   context.CancelFunc
	ended  chan struct{} // closed when poll has returned
	closed atomic.Bool

	next    map[place]int64 // offset after the last record that poll has seen of a partition
	unsaved []*kgo.Record   // where the client commits when it is told to: the last record handled of each partition since the last commit
}

// alone reads from where the partitions begin or, now, end, without a group.
func (c *consumer) alone(ctx context.Context, sub driver.Subscription) ([]kgo.Opt, error) {
	listed, err := c.space.bounds(ctx, sub.FromStart)
	if err != nil {
		return nil, err
	}
	from := make(map[string]map[int32]kgo.Offset, len(listed))
	for topic, partitions := range listed {
		from[topic] = make(map[int32]kgo.Offset, len(partitions))
		for p, o := range partitions {
			from[topic][p] = kgo.NewOffset().At(o.Offset)
			c.next[place{topic, p}] = o.Offset
		}
	}
	return []kgo.Opt{kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset().AtStart())}, nil
}

// member takes part in the subscription's group.
func (c *consumer) member(ctx context.Context, sub driver.Subscription) ([]kgo.Opt, error) {
	c.group = c.space.group(sub)
	if err := c.space.prepare(ctx, c.group, sub.FromStart); err != nil {
		return nil, err
	}
	options := []kgo.Opt{kgo.ConsumeTopics(c.space.topics...)}
	if c.group.share {
		// A description of the group tells members apart by their client IDs.
		c.id = clientID + "-" + strconv.FormatInt(c.space.d.members.Add(1), 10)
		options = append(options, kgo.ShareGroup(c.group.name), kgo.ClientID(c.id))
		if c.o.Prefetch > 0 {
			options = append(options, kgo.ShareMaxRecords(int32(c.o.Prefetch)), kgo.ShareMaxRecordsStrict())
		}
		return options, nil
	}
	options = append(options, c.group.options(c.space.d.settings.session)...)
	if c.o.Commit != nil {
		return append(options, kgo.DisableAutoCommit()), nil
	}
	return append(options, kgo.AutoCommitMarks()), nil
}

// options are those of every member of a consumer group.
func (g *group) options(session time.Duration) []kgo.Opt {
	options := []kgo.Opt{
		kgo.ConsumerGroup(g.name),
		kgo.ConsumeResetOffset(kgo.NoResetOffset().AtStart()),
		kgo.BlockRebalanceOnPoll(), // what was polled is handled and marked before anybody else gets the partition
	}
	if session > 0 {
		options = append(options, kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/10))
	}
	return options
}

// assigned waits until the group has settled with this consumer in it.
func (c *consumer) assigned(ctx context.Context) error {
	if c.group == nil {
		return nil
	}
	settled := c.settled
	if c.group.share {
		settled = c.shareSettled
	}
	for {
		state, ok, err := settled(ctx)
		if err == nil && ok {
			return nil
		}
		if err := c.Err(); err != nil {
			return err
		}
		if waited := pause(ctx, pollInterval); waited != nil {
			return fmt.Errorf("group %s has not settled, it is %s (%v): %w", c.group.name, state, err, waited)
		}
	}
}

// settled says whether all partitions have owners, and this consumer is a member. While members hand over
// partitions, some have none.
func (c *consumer) settled(ctx context.Context) (state string, ok bool, err error) {
	described, err := c.space.d.admin.DescribeGroups(ctx, c.group.name)
	if err == nil {
		err = described.Error()
	}
	if err != nil {
		return "unknown", false, err
	}
	g := described[c.group.name]
	me, _ := c.client.GroupMetadata()
	owned := 0
	for _, m := range g.Members {
		ok = ok || m.MemberID == me
		if a, is := m.Assigned.AsConsumer(); is {
			for _, t := range a.Topics {
				owned += len(t.Partitions)
			}
		}
	}
	return g.State, ok && g.State == "Stable" && owned == len(c.space.topics)*c.space.partitions, nil
}

// shareSettled says whether this consumer has partitions; in a share group, every member has.
func (c *consumer) shareSettled(ctx context.Context) (state string, ok bool, err error) {
	described, err := c.space.d.admin.DescribeShareGroups(ctx, c.group.name)
	if err == nil {
		err = described.Error()
	}
	if err != nil {
		return "unknown", false, err
	}
	g := described[c.group.name]
	for _, m := range g.Members {
		if m.ClientID == c.id {
			return g.GroupState, len(m.Assignment) > 0, nil
		}
	}
	return g.GroupState, false, nil
}

// poll hands records to the handler until ctx or the client ends.
func (c *consumer) poll(ctx context.Context) {
	defer close(c.ended)
	for {
		fetches := c.client.PollRecords(ctx, recordsPerPoll)
		if ctx.Err() != nil || fetches.IsClientClosed() || c.client.Err() != nil {
			break
		}
		for i := range fetches {
			for j := range fetches[i].Topics {
				t := &fetches[i].Topics[j]
				for k := range t.Partitions {
					c.take(ctx, t.Topic, &t.Partitions[k])
				}
			}
		}
		c.client.AllowRebalance()
	}
	c.client.AllowRebalance()
	if c.client.Err() != nil {
		c.client.finish() // nobody is left to tell
	}
}

// take handles what was fetched of a partition.
func (c *consumer) take(ctx context.Context, topic string, p *kgo.FetchPartition) {
	share := c.group != nil && c.group.share
	var last *kgo.Record
	for _, r := range p.Records {
		d := driver.Delivery{Payload: r.Value}
		if share {
			d.Redelivered = r.DeliveryCount() > 1
		}
		ok := c.o.Handle(d)
		switch {
		case share && ok:
			r.Ack(kgo.AckAccept)
		case share:
			r.Ack(kgo.AckRelease) // without that the client would accept it
		case ok:
			last = r
			if c.o.Commit != nil {
				c.handled(r)
			}
		}
	}
	if n := len(p.Records); n > 0 && !share {
		c.next[place{topic, p.Partition}] = p.Records[n-1].Offset + 1
	}
	if last != nil && c.group != nil && c.o.Commit == nil {
		c.client.MarkCommitRecords(last)
	}
	if p.Err != nil && c.client.Err() == nil && ctx.Err() == nil {
		c.trouble(ctx, topic, p)
	}
}

// handled notes a record that was, and commits if that is asked for.
func (c *consumer) handled(r *kgo.Record) {
	i := slices.IndexFunc(c.unsaved, func(u *kgo.Record) bool { return u.Partition == r.Partition && u.Topic == r.Topic })
	if i < 0 {
		c.unsaved = append(c.unsaved, r)
	} else {
		c.unsaved[i] = r
	}
	if !c.o.Commit() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout) // a commit under way is not given up when the consumer is closed
	defer cancel()
	begin := time.Now()
	err := c.save(ctx)
	c.o.Committed(time.Since(begin), err)
}

// save commits what is not committed yet, in one request.
func (c *consumer) save(ctx context.Context) error {
	if len(c.unsaved) == 0 {
		return nil
	}
	err := c.client.CommitRecords(ctx, c.unsaved...)
	c.unsaved = c.unsaved[:0]
	return err
}

// trouble reports what cannot be delivered, and goes on after it.
func (c *consumer) trouble(ctx context.Context, topic string, p *kgo.FetchPartition) {
	var loss *kgo.ErrDataLoss
	switch {
	case errors.As(p.Err, &loss):
		c.lost("%v", p.Err)
	case errors.Is(p.Err, kerr.OffsetOutOfRange):
		from, err := c.resume(ctx, place{topic, p.Partition})
		if err != nil {
			c.lost("%v", p.Err)
			c.space.d.o.Logf("reading on after %v: %v", p.Err, err)
			return
		}
		c.lost("%v (partition %d; goes on with offset %d)", p.Err, p.Partition, from)
	default:
		c.space.d.o.Logf("fetching: %v", p.Err)
	}
}

func (c *consumer) lost(format string, args ...any) {
	if c.o.Lost != nil {
		c.o.Lost(fmt.Sprintf(format, args...))
	}
}

// resume goes on with the first record that there is, or the next one if all are older than this consumer's position.
func (c *consumer) resume(ctx context.Context, at place) (from int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	admin := kadm.NewClient(c.client.Client)
	first, err := admin.ListStartOffsets(ctx, at.topic)
	if err != nil {
		return 0, err
	}
	end, err := admin.ListEndOffsets(ctx, at.topic)
	if err != nil {
		return 0, err
	}
	o, ok := first.Lookup(at.topic, at.partition)
	e, okEnd := end.Lookup(at.topic, at.partition)
	if !ok || !okEnd {
		return 0, kerr.UnknownTopicOrPartition
	}
	if err := errors.Join(o.Err, e.Err); err != nil {
		return 0, err
	}
	from = min(max(o.Offset, c.next[at]), e.Offset)
	c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{at.topic: {at.partition: {Epoch: -1, Offset: from}}})
	return from, nil
}

func (c *consumer) Err() error {
	err := c.client.Err()
	if c.closed.Load() && errors.Is(err, kgo.ErrClientClosed) {
		return nil // that was Close
	}
	return err
}

// Close commits or acknowledges what was handled, and leaves the group.
func (c *consumer) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	c.stop()
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case <-c.ended:
	case <-t.C:
		c.client.fail(kgo.ErrClientClosed) // poll frees it when it comes back
		return fmt.Errorf("the handler has not returned after %v", closeTimeout)
	}
	if c.client.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	switch {
	case c.group == nil || c.group.share:
	case c.o.Commit != nil:
		err = c.save(ctx)
	default:
		err = c.client.CommitMarkedOffsets(ctx)
	}
	if c.group != nil {
		err = errors.Join(err, c.client.LeaveGroupContext(ctx))
	}
	c.client.abandon()
	return err
}
