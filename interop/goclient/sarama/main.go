// Command sarama is the interop client on IBM/sarama. SARAMA_VERSION, for example 0.11.0.0, makes it speak the request versions
// of that release of Kafka, as programs do that never set a newer one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"

	"godwit/interop/canon"
)

func main() {
	os.Exit(canon.Main(os.Args[1:], func(broker string) canon.Client { return client{[]string{broker}} }))
}

type client struct{ brokers []string }

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.ClientID = "interop-sarama"
	c.Version = sarama.MaxVersion
	if v, err := sarama.ParseKafkaVersion(os.Getenv("SARAMA_VERSION")); err == nil {
		c.Version = v
	}
	return c
}

func (c client) Write(ctx context.Context, topic, codec string, next func() ([]canon.Record, bool), done func([]int64)) error {
	cfg := config()
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Idempotent = true
	cfg.Net.MaxOpenRequests = 1
	cfg.Producer.Return.Successes = true
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	cfg.Producer.Compression = codecs[codec]
	cfg.Producer.Flush.Frequency = 20 * time.Millisecond
	p, err := sarama.NewSyncProducer(c.brokers, cfg)
	if err != nil {
		return err
	}
	defer p.Close()
	for batch, ok := next(); ok; batch, ok = next() {
		messages := make([]*sarama.ProducerMessage, len(batch))
		for i, r := range batch {
			messages[i] = toMessage(topic, r)
		}
		if err := p.SendMessages(messages); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		offsets := make([]int64, len(messages))
		for i, m := range messages {
			offsets[i] = m.Offset
		}
		done(offsets)
	}
	return nil
}

func (c client) Read(ctx context.Context, count int, topics []string, out func(canon.Record)) error {
	cfg := config()
	cfg.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer(c.brokers, cfg)
	if err != nil {
		return err
	}
	defer consumer.Close()
	for _, t := range topics {
		if err := readTopic(ctx, consumer, t, count, out); err != nil {
			out(canon.Record{Topic: t, Error: err.Error()})
		}
	}
	return nil
}

// readTopic reads all partitions of a topic at once.
func readTopic(ctx context.Context, consumer sarama.Consumer, topic string, count int, out func(canon.Record)) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	got := make(chan *sarama.ConsumerMessage)
	failed := make(chan error, canon.Partitions)
	for p := range int32(canon.Partitions) {
		pc, err := consumer.ConsumePartition(topic, p, 0)
		if err != nil {
			return err
		}
		defer pc.AsyncClose()
		go func() {
			for err := range pc.Errors() {
				select {
				case failed <- err:
				default: // one error is enough
				}
			}
		}()
		go func() {
			for m := range pc.Messages() {
				select {
				case got <- m:
				case <-ctx.Done():
				}
			}
		}()
	}
	for ; count > 0; count-- {
		select {
		case m := <-got:
			out(fromMessage(m))
		case err := <-failed:
			return fmt.Errorf("%d records missing: %w", count, err)
		case <-ctx.Done():
			return fmt.Errorf("%d records missing: %w", count, ctx.Err())
		}
	}
	return nil
}

func (c client) Group(ctx context.Context, count int, group, topic string, out func(canon.Record)) error {
	cfg := config()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	cfg.Consumer.Offsets.AutoCommit.Enable = false
	g, err := sarama.NewConsumerGroup(c.brokers, group, cfg)
	if err != nil {
		return err
	}
	defer g.Close() // leaves the group
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &handler{left: count, out: out, turn: make(chan struct{}, 1), stop: cancel}
	h.turn <- struct{}{}
	for h.left > 0 {
		if err := g.Consume(ctx, []string{topic}, h); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if h.left > 0 && ctx.Err() != nil {
			return fmt.Errorf("%d records missing: %w", h.left, ctx.Err())
		}
	}
	return nil
}

// handler takes records of all claims, one at a time, until enough were seen. The holder of turn owns left.
type handler struct {
	left int
	out  func(canon.Record)
	turn chan struct{}
	stop context.CancelFunc
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup commits what was marked, before the partitions are given up.
func (h *handler) Cleanup(s sarama.ConsumerGroupSession) error {
	s.Commit()
	return nil
}

func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		<-h.turn
		if h.left > 0 {
			h.out(fromMessage(m))
			s.MarkMessage(m, "")
			h.left--
		}
		enough := h.left == 0
		h.turn <- struct{}{}
		if enough {
			h.stop()
			return nil
		}
	}
	return nil
}

func toMessage(topic string, r canon.Record) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Topic: topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp)}
	// A nil ByteEncoder in the interface would still be written as an empty value, so null stays the nil interface.
	if r.Key != nil {
		m.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		m.Value = sarama.ByteEncoder(r.Value)
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
	}
	return m
}

func fromMessage(m *sarama.ConsumerMessage) canon.Record {
	r := canon.Record{
		Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(),
		Key: m.Key, Value: m.Value, Headers: []canon.Header{},
	}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, canon.Header{Name: string(h.Key), Value: h.Value})
	}
	return r
}
