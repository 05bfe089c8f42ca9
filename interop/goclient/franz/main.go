// Command franz is the interop client on franz-go.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/interop/canon"
)

func main() {
	os.Exit(canon.Main(os.Args[1:], func(broker string) canon.Client { return client{broker} }))
}

type client struct{ broker string }

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func (c client) Write(ctx context.Context, topic, codec string, next func() ([]canon.Record, bool), done func([]int64)) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(c.broker),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[codec]),
		kgo.ProducerLinger(20*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for batch, ok := next(); ok; batch, ok = next() {
		records := make([]*kgo.Record, len(batch))
		for i, r := range batch {
			records[i] = toRecord(r)
		}
		if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		offsets := make([]int64, len(records))
		for i, r := range records {
			offsets[i] = r.Offset
		}
		done(offsets)
	}
	return nil
}

func (c client) Read(ctx context.Context, count int, topics []string, out func(canon.Record)) error {
	assign := make(map[string]map[int32]kgo.Offset)
	for _, t := range topics {
		assign[t] = make(map[int32]kgo.Offset)
		for p := range int32(canon.Partitions) {
			assign[t][p] = kgo.NewOffset().At(0)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.broker), kgo.ConsumePartitions(assign))
	if err != nil {
		return err
	}
	defer cl.Close()
	left := count * len(topics)
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return fmt.Errorf("%d records missing: %w", left, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			out(fromRecord(r))
			left--
		})
	}
	return nil
}

func (c client) Group(ctx context.Context, count int, group, topic string, out func(canon.Record)) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(c.broker),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer cl.Close() // leaves the group
	for count > 0 {
		fs := cl.PollRecords(ctx, count)
		if err := fs.Err(); err != nil {
			return fmt.Errorf("%d records missing: %w", count, err)
		}
		records := fs.Records()
		for _, r := range records {
			out(fromRecord(r))
		}
		if err := cl.CommitRecords(ctx, records...); err != nil {
			return err
		}
		count -= len(records)
	}
	return nil
}

func toRecord(r canon.Record) *kgo.Record {
	out := &kgo.Record{Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return out
}

func fromRecord(r *kgo.Record) canon.Record {
	out := canon.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(),
		Key: r.Key, Value: r.Value, Headers: []canon.Header{},
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, canon.Header{Name: h.Key, Value: h.Value})
	}
	return out
}
