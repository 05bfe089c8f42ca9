package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/interop/canon"
)

// Member blocks rebalances from a poll until what was polled is committed, as at-least-once processing needs it.
func (c client) Member(ctx context.Context, group, topic string, log canon.MemberLog) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(c.broker),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(canon.MemberSession),
		kgo.RebalanceTimeout(canon.MemberRebalance),
		kgo.HeartbeatInterval(canon.MemberHeartbeat),
		kgo.FetchMaxWait(canon.MemberFetch),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			log.Assigned(slices.Sorted(slices.Values(got[topic])))
		}),
	)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance() // leaves the group
	for ctx.Err() == nil {
		fs := cl.PollRecords(ctx, canon.MemberBatch)
		next := map[int32]*kgo.Record{}
		fs.EachRecord(func(r *kgo.Record) {
			log.Processed(r.Partition, r.Offset, r.Value)
			next[r.Partition] = r
		})
		if len(next) > 0 {
			time.Sleep(canon.MemberWork)
			commit(cl, slices.Collect(maps.Values(next)), log)
		}
		cl.AllowRebalance()
		if err := fs.Err0(); err != nil && ctx.Err() == nil {
			log.Refused(fmt.Errorf("poll: %w", err)) // and again: the broker may be away
		}
	}
	return nil
}

func commit(cl *kgo.Client, last []*kgo.Record, log canon.MemberLog) {
	ctx, cancel := context.WithTimeout(context.Background(), canon.MemberSession)
	defer cancel()
	if err := cl.CommitRecords(ctx, last...); err != nil {
		log.Refused(err)
		return
	}
	for _, r := range last {
		log.Committed(r.Partition, r.Offset+1)
	}
}
