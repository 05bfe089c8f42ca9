package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"godwit/interop/canon"
)

// Member commits by requests of its own to the group's coordinator: a session's Commit does not tell whether it succeeded.
func (c client) Member(ctx context.Context, group, topic string, log canon.MemberLog) error {
	cfg := config()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	cfg.Consumer.Offsets.AutoCommit.Enable = false
	cfg.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	cfg.Consumer.Group.Session.Timeout = canon.MemberSession
	cfg.Consumer.Group.Rebalance.Timeout = canon.MemberRebalance
	cfg.Consumer.Group.Heartbeat.Interval = canon.MemberHeartbeat
	cfg.Consumer.MaxWaitTime = canon.MemberFetch
	cfg.Metadata.Retry.Max = 20
	cl, err := sarama.NewClient(c.brokers, cfg)
	if err != nil {
		return err
	}
	defer cl.Close()
	g, err := sarama.NewConsumerGroupFromClient(group, cl)
	if err != nil {
		return err
	}
	defer g.Close() // leaves the group
	m := &member{client: cl, group: group, topic: topic, log: log}
	for ctx.Err() == nil {
		err := g.Consume(ctx, []string{topic}, m)
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			log.Refused(fmt.Errorf("session: %w", err)) // and again: the broker may be away
		}
	}
	return nil
}

// member is the handler of the sessions. mu keeps the lines of one claim apart from a commit of another.
type member struct {
	client sarama.Client
	group  string
	topic  string
	log    canon.MemberLog
	mu     sync.Mutex
}

func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.log.Assigned(s.Claims()[m.topic])
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for r := range claim.Messages() {
		if s.Context().Err() != nil {
			return nil
		}
		m.process(s, claim, r)
	}
	return nil
}

// process processes r and what waits behind it, and commits.
func (m *member) process(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim, r *sarama.ConsumerMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := r.Offset
	for n := 0; r != nil && n < canon.MemberBatch; n++ {
		m.log.Processed(r.Partition, r.Offset, r.Value)
		next = r.Offset + 1
		select {
		case r = <-claim.Messages():
		default:
			r = nil
		}
	}
	if r != nil { // one too many was taken
		m.log.Processed(r.Partition, r.Offset, r.Value)
		next = r.Offset + 1
	}
	time.Sleep(canon.MemberWork)
	if err := m.commit(s, claim.Partition(), next); err != nil {
		m.log.Refused(err)
		return
	}
	m.log.Committed(claim.Partition(), next)
}

func (m *member) commit(s sarama.ConsumerGroupSession, partition int32, offset int64) error {
	b, err := m.client.Coordinator(m.group)
	if err != nil {
		return err
	}
	r := &sarama.OffsetCommitRequest{
		Version: 5, ConsumerGroup: m.group, ConsumerGroupGeneration: s.GenerationID(), ConsumerID: s.MemberID(),
	}
	r.AddBlockWithLeaderEpoch(m.topic, partition, offset, 0, 0, "")
	answer, err := b.CommitOffset(r)
	if err != nil {
		_ = m.client.RefreshCoordinator(m.group)
		return err
	}
	for _, codes := range answer.Errors {
		for _, code := range codes {
			if code != sarama.ErrNoError {
				return code
			}
		}
	}
	return nil
}
