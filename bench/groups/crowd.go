package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// quiet is for how long nothing may move before a group counts as settled; longer than a heartbeat interval of either protocol.
const quiet = 7 * time.Second

// limit is how long a group may take to settle.
const limit = 3 * time.Minute

// crowd is the members of one group of one topic.
type crowd struct {
	addr, topic string
	consumer    bool // protocol

	mu      sync.Mutex
	members []*kgo.Client
	parts   []part
	changed time.Time // the last time that a partition was assigned or taken
}

// part is one partition.
type part struct {
	owner *kgo.Client
	moved bool      // since the window began
	last  time.Time // a record of it was read
	gap   time.Duration
}

// play measures one group and takes it away again.
func play(ctx context.Context, addr string, consumer bool, members, partitions int) (f figures, err error) {
	c := &crowd{addr: addr, topic: fmt.Sprint("groups-", time.Now().UnixNano()), consumer: consumer, parts: make([]part, partitions)}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return f, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(ctx, int32(partitions), 1, nil, c.topic); err != nil {
		return f, err
	}
	defer func() {
		c.leave(len(c.members))
		_, _ = adm.DeleteGroups(context.WithoutCancel(ctx), c.topic)
		_, _ = adm.DeleteTopics(context.WithoutCancel(ctx), c.topic)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.produce(ctx, cl)
	if f.join, _, err = c.window(ctx, func() error { return c.join(ctx, members) }); err != nil {
		return f, err
	}
	if f.more, f.gapMore, err = c.window(ctx, func() error { return c.join(ctx, 1) }); err != nil {
		return f, err
	}
	f.less, f.gapLess, err = c.window(ctx, func() error { c.leave(1); return nil })
	return f, err
}

// produce writes to each partition ten times a second.
func (c *crowd) produce(ctx context.Context, cl *kgo.Client) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		for p := range c.parts {
			cl.Produce(ctx, &kgo.Record{Topic: c.topic, Partition: int32(p), Value: []byte("x")}, nil)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// join starts members.
func (c *crowd) join(ctx context.Context, n int) error {
	for range n {
		opts := []kgo.Opt{
			kgo.SeedBrokers(c.addr), kgo.ConsumerGroup(c.topic), kgo.ConsumeTopics(c.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, got map[string][]int32) { c.own(cl, got[c.topic]) }),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { c.own(nil, got[c.topic]) }),
			kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { c.own(nil, got[c.topic]) }),
		}
		if c.consumer {
			opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			return err
		}
		c.members = append(c.members, cl)
		go func() {
			for ctx.Err() == nil {
				fs := cl.PollFetches(ctx)
				if fs.IsClientClosed() {
					return
				}
				c.read(fs)
			}
		}()
	}
	return nil
}

// leave ends the members that came first.
func (c *crowd) leave(n int) {
	gone := c.members[:n]
	c.members = c.members[n:]
	var all sync.WaitGroup
	for _, cl := range gone {
		all.Go(cl.Close)
	}
	all.Wait()
}

func (c *crowd) own(cl *kgo.Client, list []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range list {
		c.parts[p].owner, c.parts[p].moved = cl, true
	}
	if len(list) > 0 {
		c.changed = time.Now()
	}
}

func (c *crowd) read(fs kgo.Fetches) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	fs.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) > 0 {
			at := &c.parts[p.Partition]
			at.gap, at.last = max(at.gap, now.Sub(at.last)), now
		}
	})
}

// window has something happen to the group and waits until each partition has a member, the numbers of partitions differ by one at most,
// and nothing moves any more. It tells how long that took, and the longest gap in a partition that stayed where it was.
func (c *crowd) window(ctx context.Context, happen func() error) (took, gap time.Duration, err error) {
	start := time.Now()
	c.mu.Lock()
	for i := range c.parts {
		c.parts[i].moved, c.parts[i].gap = false, 0
		if c.parts[i].last.IsZero() {
			c.parts[i].last = start
		}
	}
	c.changed = start
	c.mu.Unlock()
	if err := happen(); err != nil {
		return 0, 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		c.mu.Lock()
		settled := c.even() && time.Since(c.changed) > quiet
		took = c.changed.Sub(start)
		c.mu.Unlock()
		if settled {
			break
		}
		if time.Since(start) > limit {
			return 0, 0, fmt.Errorf("%d members are not settled after %v", len(c.members), limit)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.parts {
		if !c.parts[i].moved {
			gap = max(gap, c.parts[i].gap)
		}
	}
	return took, gap, nil
}

// even reports whether every partition is with a member, and all members have as many, give or take one.
func (c *crowd) even() bool {
	counts := map[*kgo.Client]int{}
	for i := range c.parts {
		if c.parts[i].owner == nil {
			return false
		}
		counts[c.parts[i].owner]++
	}
	least := len(c.parts) / len(c.members)
	for _, cl := range c.members {
		if n := counts[cl]; n < least || n > least+1 {
			return false
		}
	}
	return true
}
