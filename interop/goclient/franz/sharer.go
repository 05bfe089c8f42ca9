package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/interop/canon"
)

// sharer is a member of a share group.
type sharer struct {
	cl   *kgo.Client
	fate *canon.Fate
	log  canon.MemberLog

	mu     sync.Mutex
	failed map[int32]error // by partition, since the last flush began
}

// Share fetches only when it polls, and only as much as it processes then.
func (c client) Share(ctx context.Context, group, topic string, fate *canon.Fate, log canon.MemberLog) error {
	s := &sharer{fate: fate, log: log, failed: map[int32]error{}}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(c.broker),
		kgo.ShareGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ShareMaxRecords(canon.ShareBatch),
		kgo.ShareMaxRecordsStrict(),
		kgo.FetchMaxWait(canon.MemberFetch),
		kgo.ShareAckCallback(s.answered),
	)
	if err != nil {
		return err
	}
	s.cl = cl
	defer cl.Close() // leaves the group
	for ctx.Err() == nil {
		s.batch(ctx)
	}
	return nil
}

func (s *sharer) answered(_ *kgo.Client, results kgo.ShareAckResults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range results {
		if r.Err != nil {
			s.failed[r.Partition] = r.Err
		}
	}
}

// batch processes what one poll brings.
func (s *sharer) batch(ctx context.Context) {
	s.log.Polling()
	fs := s.cl.PollRecords(ctx, canon.ShareBatch)
	if err := fs.Err0(); err != nil && ctx.Err() == nil {
		s.log.Refused(fmt.Errorf("poll: %w", err)) // and again: the broker may be away
	}
	answers := map[*kgo.Record]int{}
	fs.EachRecord(func(r *kgo.Record) {
		s.log.Delivered(r.Partition, r.Offset, r.DeliveryCount(), r.Value)
		answers[r] = s.fate.Answer()
	})
	if len(answers) == 0 {
		return
	}
	time.Sleep(s.fate.Work())
	s.answer(answers)
	again := map[*kgo.Record]int{}
	for r, a := range answers {
		if a == canon.Renew {
			again[r] = canon.Accept
		}
	}
	if len(again) > 0 {
		time.Sleep(canon.ShareWork)
		s.answer(again)
	}
}

// answer sends answers and waits for what the broker says.
func (s *sharer) answer(answers map[*kgo.Record]int) {
	s.mu.Lock()
	clear(s.failed)
	s.mu.Unlock()
	for r, a := range answers {
		s.log.Answering(r.Partition, r.Offset, a)
		r.Ack(kgo.AckStatus(a))
	}
	ctx, cancel := context.WithTimeout(context.Background(), canon.MemberSession)
	defer cancel()
	err := s.cl.FlushAcks(ctx)
	s.mu.Lock()
	failed := maps.Clone(s.failed)
	s.mu.Unlock()
	for r, a := range answers {
		if err := errors.Join(err, failed[r.Partition]); err != nil {
			s.log.Unsure(r.Partition, r.Offset, a, err)
		} else {
			s.log.Answered(r.Partition, r.Offset, a)
		}
	}
}
