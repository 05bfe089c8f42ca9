package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// acks checks producers that wait for less than all replicas, or, with 0, for no answer at all.
func (s *session) acks(ctx context.Context) {
	topic := s.topic("acks")
	err := s.createTopics(ctx, topic)
	for _, acks := range []string{"0", "1", "all"} {
		kcat, franz := err, err
		if err == nil {
			kcat = s.grows(ctx, topic, func() error { return s.kcatAcks(ctx, topic, acks) })
			franz = s.grows(ctx, topic, func() error { return s.franzAcks(ctx, topic, acks) })
		}
		s.report.add(check{group: "acks", name: "kcat, not idempotent, acks=" + acks, err: kcat})
		s.report.add(check{group: "acks", name: "franz-go, not idempotent, acks=" + acks, err: franz})
	}
}

// perProducer is how many records each producer of this part writes.
const perProducer = 500

// grows lets write run and waits until partition 0 has perProducer records more: with acks=0 they may arrive later.
func (s *session) grows(ctx context.Context, topic string, write func() error) error {
	before, err := s.end(ctx, topic)
	if err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	var after int64
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if after, err = s.end(ctx, topic); err != nil || after == before+perProducer {
			return err
		}
	}
	return fmt.Errorf("the end of the partition went from %d to %d, want %d records", before, after, perProducer)
}

func (s *session) kcatAcks(ctx context.Context, topic, acks string) error {
	_, err := run(ctx, []string{"kcat", "-P", "-b", s.broker, "-t", topic, "-p", "0", "-X", "acks=" + acks},
		[]byte(strings.Repeat("a line\n", perProducer)))
	return err
}

func (s *session) franzAcks(ctx context.Context, topic, acks string) error {
	wait := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[acks]
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.RequiredAcks(wait), kgo.DisableIdempotentWrite(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	rs := make([]*kgo.Record, perProducer)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: topic, Value: []byte("a record")}
	}
	return cl.ProduceSync(ctx, rs...).FirstErr()
}
