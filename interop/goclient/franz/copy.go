package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/interop/canon"
)

// Copy starts anew with a client of its own after each failure, as an application that was restarted would.
func (c client) Copy(ctx context.Context, group, in, out, id string, log canon.MemberLog) error {
	for ctx.Err() == nil {
		if err := c.copySession(ctx, group, in, out, id, log); err != nil && ctx.Err() == nil {
			log.Refused(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

func (c client) copySession(ctx context.Context, group, in, out, id string, log canon.MemberLog) error {
	s, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(c.broker),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(canon.TransactionTimeout),
		kgo.InstanceID(id),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(in),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(canon.MemberSession),
		kgo.RebalanceTimeout(canon.MemberRebalance),
		kgo.HeartbeatInterval(canon.MemberHeartbeat),
		kgo.FetchMaxWait(canon.MemberFetch),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DefaultProduceTopic(out),
	)
	if err != nil {
		return err
	}
	defer s.Close()
	for n := 1; ctx.Err() == nil; n++ {
		fs := s.PollRecords(ctx, canon.MemberBatch)
		if err := fs.Err0(); err != nil && ctx.Err() == nil {
			log.Refused(fmt.Errorf("poll: %w", err)) // and again: the broker may be away
		}
		if fs.NumRecords() == 0 {
			continue
		}
		if err := s.Begin(); err != nil {
			return err
		}
		first := kgo.AbortingFirstErrPromise(s.Client())
		fs.EachRecord(func(r *kgo.Record) {
			s.Produce(context.Background(), &kgo.Record{Partition: r.Partition, Key: r.Key, Value: r.Value}, first.Promise())
		})
		time.Sleep(canon.MemberWork)
		ended, cancel := context.WithTimeout(context.Background(), canon.TransactionTimeout)
		commit := first.Err() == nil && n%canon.AbortEvery != 0
		committed, err := s.End(ended, kgo.TransactionEndTry(commit))
		cancel()
		if err != nil {
			return err
		}
		log.Ended(committed, fs.NumRecords())
	}
	return nil
}
