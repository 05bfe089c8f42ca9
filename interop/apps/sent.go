package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sent is what the producer was told is written: the values by place. They are numbers unless value says otherwise.
type sent struct {
	topic      string
	first      int // partition
	partitions int
	rate       int // records a second
	value      func(n int) string

	mu     sync.Mutex
	values map[int32]map[int64]string
	err    error
}

func newSent(topic string, partitions, rate int) *sent {
	return &sent{topic: topic, partitions: partitions, rate: rate, value: strconv.Itoa, values: map[int32]map[int64]string{}}
}

// produce writes numbered records at an even rate until ctx ends, and waits for all acknowledgements.
func (s *sent) produce(ctx context.Context, b *broker) error {
	cl, err := b.client(kgo.DefaultProduceTopic(s.topic), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	const ticks = 50 // a second
	tick := time.NewTicker(time.Second / ticks)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; {
		for range s.rate / ticks {
			cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Partition: int32(s.first + n%s.partitions), Value: []byte(s.value(n))}, s.acked)
			n++
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return cl.Flush(ctx)
}

func (s *sent) acked(r *kgo.Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = err
		return
	}
	if s.values[r.Partition] == nil {
		s.values[r.Partition] = map[int64]string{}
	}
	if v, ok := s.values[r.Partition][r.Offset]; ok {
		s.err = fmt.Errorf("records %s and %s were both acknowledged at offset %d of partition %d", v, r.Value, r.Offset, r.Partition)
	}
	s.values[r.Partition][r.Offset] = string(r.Value)
}

// all are the values by partition and offset. Nothing else writes to the topic, so that the offsets have no gap.
func (s *sent) all() (map[int32][]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	out := map[int32][]string{}
	for p, values := range s.values {
		for o := range int64(len(values)) {
			v, ok := values[o]
			if !ok {
				return nil, fmt.Errorf("partition %d: %d records were acknowledged, none of them at offset %d", p, len(values), o)
			}
			out[p] = append(out[p], v)
		}
	}
	return out, nil
}
