package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/interop/canon"
)

// Own blocks rebalances from a poll until what was polled is committed, as Member does.
func (c client) Own(ctx context.Context, group, topics, protocol, assignor string, log canon.MemberLog) error {
	numbers := func(got map[string][]int32) (out []int32) {
		for topic, partitions := range got {
			for _, p := range partitions {
				out = append(out, canon.Number(topic, p))
			}
		}
		slices.Sort(out)
		return out
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.broker),
		kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.RebalanceTimeout(canon.MemberRebalance),
		kgo.FetchMaxWait(canon.MemberFetch),
		kgo.MetadataMaxAge(canon.MemberMetadata),
		kgo.MetadataMinAge(canon.MemberMetadata / 4),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { log.Gained(numbers(got)) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { log.Revoked(numbers(got)) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { log.Lost(numbers(got)) }),
	}
	switch {
	case protocol == "classic":
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(canon.MemberSession),
			kgo.HeartbeatInterval(canon.MemberHeartbeat))
	case assignor == "range":
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	default: // sticky stands for uniform
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	if strings.HasPrefix(topics, "^") {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(topics))
	} else {
		opts = append(opts, kgo.ConsumeTopics(strings.Split(topics, ",")...))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance() // leaves the group
	for ctx.Err() == nil {
		ownBatch(ctx, cl, log)
	}
	return nil
}

// ownBatch processes what one poll brings.
func ownBatch(ctx context.Context, cl *kgo.Client, log canon.MemberLog) {
	defer cl.AllowRebalance()
	fs := cl.PollRecords(ctx, canon.MemberBatch)
	last := map[int32]*kgo.Record{}
	fs.EachRecord(func(r *kgo.Record) {
		n := canon.Number(r.Topic, r.Partition)
		log.Processed(n, r.Offset, r.Value)
		last[n] = r
	})
	if err := fs.Err0(); err != nil && ctx.Err() == nil {
		log.Refused(fmt.Errorf("poll: %w", err)) // and again: the broker may be away
	}
	if len(last) == 0 {
		return
	}
	time.Sleep(canon.MemberWork)
	committing, cancel := context.WithTimeout(context.Background(), canon.MemberSession)
	defer cancel()
	if err := cl.CommitRecords(committing, slices.Collect(maps.Values(last))...); err != nil {
		log.Refused(err)
		return
	}
	for n, r := range last {
		log.Committed(n, r.Offset+1)
	}
}
