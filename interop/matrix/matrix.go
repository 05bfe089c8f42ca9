package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"godwit/interop/canon"
)

// fill lets every client write the canonical set in every codec it knows, each into a topic of its own.
func (s *session) fill(ctx context.Context) {
	var all []*written
	for _, c := range s.clients {
		for _, codec := range c.codecs {
			all = append(all, &written{topic: s.topic(c.name + "-" + codec), client: c.name, codec: codec})
		}
	}
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.topic
	}
	if err := s.createTopics(ctx, names...); err != nil {
		fatal("create topics: %v", err)
	}
	filled := make([]bool, len(all))
	each(s.jobs, all, func(i int, w *written) {
		err := s.write(ctx, s.client(w.client), w)
		if err == nil {
			err = s.verify(ctx, w)
		}
		s.report.add(check{group: "write", name: w.client + " " + w.codec, err: err})
		filled[i] = err == nil
	})
	for i, w := range all {
		if filled[i] {
			s.written = append(s.written, w)
		}
	}
}

// write runs one writer and checks the offsets that it was acknowledged.
func (s *session) write(ctx context.Context, c *client, w *written) error {
	var set [][]canon.Record
	var in bytes.Buffer
	for _, b := range batches() {
		b = adapted(b, c.name, writing)
		set = append(set, b)
		in.Write(canon.Line(b))
	}
	w.records = byPartition(set)
	w.when.from = time.Now()
	out, err := c.run(ctx, in.Bytes(), "write", s.broker, w.topic, w.codec)
	w.when.to = time.Now()
	if err != nil {
		return err
	}
	var acked [][]int64
	err = canon.ReadLines(bytes.NewReader(out.stdout), func(line []int64) error {
		acked = append(acked, line)
		return nil
	})
	if err != nil {
		return fmt.Errorf("answer of the writer: %w", err)
	}
	return checkOffsets(set, acked)
}

// checkOffsets holds the acknowledged offsets of each batch against the order in which the records were sent.
func checkOffsets(set [][]canon.Record, acked [][]int64) error {
	if len(acked) != len(set) {
		return fmt.Errorf("%d batches acknowledged, %d sent", len(acked), len(set))
	}
	var next [canon.Partitions]int64
	for i, b := range set {
		if len(acked[i]) != len(b) {
			return fmt.Errorf("batch %d: %d records acknowledged, %d sent", i, len(acked[i]), len(b))
		}
		for j, r := range b {
			if acked[i][j] != next[r.Partition] {
				return fmt.Errorf("batch %d, record %d: acknowledged offset %d, want %d", i, j, acked[i][j], next[r.Partition])
			}
			next[r.Partition]++
		}
	}
	return nil
}

// readAll lets every client read every topic. One process reads all topics; if that goes wrong, each topic is read again by
// a process of its own, so that the report names what really failed.
func (s *session) readAll(ctx context.Context) {
	topics := s.written
	if len(topics) == 0 {
		return
	}
	each(s.jobs, s.clients, func(_ int, c client) {
		got, err := s.readTopics(ctx, &c, topics)
		for _, w := range topics {
			cerr := w.compare(c.name, got[w.topic])
			if cerr != nil && err != nil {
				_, cerr = s.readAgain(ctx, &c, w)
			}
			s.report.add(check{group: "read", name: c.name + " reads " + w.client + " " + w.codec,
				writer: w.client, reader: c.name, codec: w.codec, err: cerr})
		}
	})
}

func (s *session) readTopics(ctx context.Context, c *client, topics []*written) (map[string][]canon.Record, error) {
	args := []string{"read", s.broker, strconv.Itoa(total(batches()))}
	for _, w := range topics {
		args = append(args, w.topic)
	}
	rs, err := c.read(ctx, args...)
	got := make(map[string][]canon.Record)
	for _, r := range rs {
		if r.Error != "" {
			err = fmt.Errorf("%s: %s", r.Topic, r.Error)
			continue
		}
		got[r.Topic] = append(got[r.Topic], r)
	}
	return got, err
}

func (s *session) readAgain(ctx context.Context, c *client, w *written) ([]canon.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	got, err := s.readTopics(ctx, c, []*written{w})
	rs := got[w.topic]
	if cerr := w.compare(c.name, rs); cerr != nil {
		if err != nil {
			cerr = fmt.Errorf("%w; %w", cerr, err)
		}
		return rs, cerr
	}
	return rs, nil
}

// each calls f for all items, at most n at a time.
func each[T any](n int, items []T, f func(i int, item T)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, n)
	for i, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i, item)
		})
	}
	wg.Wait()
}
