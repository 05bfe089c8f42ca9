package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/engine"
	"godwit/internal/meta"
	"godwit/internal/storage/wal"
	"godwit/internal/vfs"
)

// benchNode serves a topic of 12 partitions, without syncs: what is measured is the way through this process.
func benchNode(b *testing.B) (addr string, st *meta.Stream) {
	limits := meta.Limits{DefaultPartitions: 1, DefaultReplicas: 1, MaxReplicas: 1}
	e, err := engine.Open(engine.Options{FS: vfs.Default, Dir: b.TempDir(), Rand: rand.New(rand.NewPCG(1, 2)), Limits: limits,
		Durability: wal.OS, TopicDefaults: map[string]string{"retention.ms": "-1", "retention.bytes": "100000000"}})
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Start(); err != nil {
		b.Fatal(err)
	}
	br := broker.New(e, broker.Options{Node: 1, Limits: limits})
	st, err = br.CreateStream(context.Background(), meta.CreateStream{Namespace: base.DefaultNamespace, Name: "t", Partitions: 12, Replicas: 1})
	if err != nil {
		b.Fatal(err)
	}
	s := New(Options{Backend: Broker(br)})
	b.Cleanup(func() {
		s.Close(context.Background())
		e.Close(context.Background())
	})
	return serve(b, s), st
}

// BenchmarkProduce pipelines requests of 12 batches on one connection.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10} {
		b.Run(sizeName(size), func(b *testing.B) {
			addr, st := benchNode(b)
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TimeoutMillis, req.Version = -1, 30_000, 13
			t := kmsg.NewProduceRequestTopic()
			t.TopicID = st.ID
			batch := batchOf(size>>10, 1000)
			for i := range st.Partitions {
				p := kmsg.NewProduceRequestTopicPartition()
				p.Partition, p.Records = int32(i), batch
				t.Partitions = append(t.Partitions, p)
			}
			req.Topics = append(req.Topics, t)
			exchange(b, addr, req, 5)
		})
	}
}

// BenchmarkFetch reads 1 MiB from each of 12 partitions by every request.
func BenchmarkFetch(b *testing.B) {
	addr, st := benchNode(b)
	p := dial(b, addr)
	for i := range st.Partitions {
		for range 16 {
			req := produceOf("", int32(i), -1, batchOf(64, 1000))
			req.Topics[0].TopicID = st.ID
			call[*kmsg.ProduceResponse](p, 13, req)
		}
	}
	for _, n := range []int32{1 << 10, 64 << 10, 1 << 20} {
		b.Run(sizeName(int(n)), func(b *testing.B) {
			var parts []kmsg.FetchRequestTopicPartition
			for i := range st.Partitions {
				w := want(int32(i), 0)
				w.PartitionMaxBytes = n
				parts = append(parts, w)
			}
			req := fetchOf(st, parts...)
			req.Version = 17
			exchange(b, addr, req, 1)
		})
	}
}

func sizeName(n int) string {
	if n >= 1<<20 {
		return "1MiB"
	}
	return map[int]string{1 << 10: "1KiB", 16 << 10: "16KiB", 64 << 10: "64KiB", 128 << 10: "128KiB"}[n]
}

// exchange sends a request b.N times, with so many on their way, and reads the responses away.
func exchange(b *testing.B, addr string, req kmsg.Request, window int) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	frame := frameOf(1, req)
	slots := make(chan struct{}, window)
	received := int64(0)
	done := make(chan error, 1)
	go func() {
		var size [4]byte
		buf := make([]byte, 1<<20)
		for range b.N {
			if _, err := io.ReadFull(nc, size[:]); err != nil {
				done <- err
				return
			}
			n := int64(binary.BigEndian.Uint32(size[:]))
			received += n
			for n > 0 {
				k, err := nc.Read(buf[:min(n, int64(len(buf)))])
				if err != nil {
					done <- err
					return
				}
				n -= int64(k)
			}
			<-slots
		}
		done <- nil
	}()
	b.ReportAllocs()
	begin := time.Now()
	b.ResetTimer()
	for range b.N {
		slots <- struct{}{}
		if _, err := nc.Write(frame); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	moved := float64(len(frame))*float64(b.N) + float64(received)
	b.ReportMetric(moved/1e6/time.Since(begin).Seconds(), "MB/s")
}
