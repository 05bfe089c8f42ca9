//go:build linux

package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestSinkAnswersAProducer sends through a real client and has the sink count by batch headers.
func TestSinkAnswersAProducer(t *testing.T) {
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(serveSink("127.0.0.1:0", 12, pw)) }()
	line := make([]byte, 64)
	n, err := pr.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "ready "))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := awaitMetadata(ctx, addr, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for want := range int64(3) {
		rec, err := cl.ProduceSync(ctx, &kgo.Record{Partition: 7, Value: []byte("v")}).First()
		if err != nil {
			t.Fatal(err)
		}
		if rec.Offset != want {
			t.Errorf("offset %d, want %d", rec.Offset, want)
		}
	}
}

func TestWalkBatches(t *testing.T) {
	batch := make([]byte, batchHeader+10)
	batch[7] = 40                     // base offset
	batch[11] = batchHeader + 10 - 12 // length
	batch[batchLastDelta+3] = 4       // last offset delta
	batch[batchRecordCount+3] = 3     // records, fewer than offsets after compaction
	two := append(append([]byte{}, batch...), batch...)
	two[len(batch)+7] = 45
	for _, c := range []struct {
		in            []byte
		records, next int64
	}{
		{two, 6, 50},
		{two[:len(two)-1], 3, 45}, // a batch cut at the end of a fetch
		{two[:20], 0, -1},
		{nil, 0, -1},
	} {
		if n, next := walkBatches(c.in); n != c.records || next != c.next {
			t.Errorf("%d bytes: %d records, next %d; want %d, %d", len(c.in), n, next, c.records, c.next)
		}
	}
}
