package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/interop/canon"
)

// verify looks at the batches of a topic as they are stored: that the writer did use its codec (a client may leave a batch
// uncompressed that would only grow) and that every batch carries the identity of an idempotent producer.
func (s *session) verify(ctx context.Context, w *written) error {
	assign := make(map[int32]kgo.Offset)
	for p := range int32(canon.Partitions) {
		assign[p] = kgo.NewOffset().At(0)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.topic: assign}))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var compressed [canon.Partitions]bool
	for left := total(w.records); left > 0; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return fmt.Errorf("look at the stored batches, %d records missing: %w", left, err)
		}
		for _, r := range fs.Records() {
			left--
			if r.ProducerID < 0 {
				return fmt.Errorf("partition %d, offset %d: stored without a producer ID", r.Partition, r.Offset)
			}
			codec := codecs[r.Attrs.CompressionType()]
			if codec != "none" && codec != w.codec {
				return fmt.Errorf("partition %d, offset %d: stored in %s", r.Partition, r.Offset, codec)
			}
			compressed[r.Partition] = compressed[r.Partition] || codec == w.codec
		}
	}
	for p, ok := range compressed {
		if !ok {
			return fmt.Errorf("partition %d: no batch is stored in %s", p, w.codec)
		}
	}
	return nil
}
