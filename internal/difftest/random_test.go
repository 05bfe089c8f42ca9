package difftest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// steps is the number of requests of one random case.
const steps = 150

// wander plays random requests about two partitions, so that both sides have to be in the same state all the way.
func wander(x *exchange) {
	w := &walk{x: x, rng: rand.New(rand.NewPCG(seed, uint64(x.version))), topic: x.topic("t", 2, nil), group: x.name("g")}
	for range steps {
		w.step()
	}
}

// walk is a random case under way.
type walk struct {
	x     *exchange
	rng   *rand.Rand
	topic string
	group string
	next  [2]int32 // sequences of the producer of each partition
	end   [2]int64 // offsets
}

func (w *walk) step() {
	x, p := w.x, w.rng.Int32N(2)
	switch w.rng.IntN(10) {
	case 0, 1, 2, 3:
		w.produce(p)
	case 4, 5:
		offset := w.rng.Int64N(w.end[p] + 1)
		size := 1 + w.rng.Int32N(2000)
		x.each("fetch", func(_ int, s *side) kmsg.Request {
			return x.fetchRequest(s, w.topic, want{partition: p, offset: offset, max: size})
		})
	case 6:
		stamp := x.base + w.rng.Int64N(200) - 5
		x.same("list", listRequest(w.topic, p, stamp))
		special := -1 - w.rng.Int64N(3)
		x.same(fmt.Sprint("list ", special), listRequest(w.topic, p, special))
	case 7:
		if w.rng.IntN(4) == 0 && w.end[p] > 0 {
			x.same("list -2", listRequest(w.topic, p, -2))
			x.same("trim", trimRequest(w.topic, p, w.end[p]-w.rng.Int64N(3)-1))
		}
	case 8:
		offset := w.rng.Int64N(1000)
		x.commit("commit", w.group, w.topic, func(r *kmsg.OffsetCommitRequest, _ int) {
			r.Topics[0].Partitions[0].Partition, r.Topics[0].Partitions[0].Offset = p, offset
		})
	case 9:
		x.committed("committed", w.group, w.topic, 0, 1)
	}
}

// produce writes a batch, mostly the one whose turn it is, sometimes one before or behind.
func (w *walk) produce(p int32) {
	values := make([]string, 1+w.rng.IntN(4))
	for i := range values {
		values[i] = strings.Repeat(fmt.Sprint(w.rng.IntN(10)), w.rng.IntN(200))
	}
	b := w.x.plain(values...)
	b.base += w.rng.Int64N(200)
	b.codec = []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression()}[w.rng.IntN(4)]
	label := "produce"
	if w.rng.IntN(2) == 0 {
		b.producer, b.epoch, b.sequence = w.x.producer(int(p)), 0, w.next[p]
		if w.rng.IntN(5) == 0 && w.next[p] > 0 {
			b.sequence, label = max(b.sequence+w.rng.Int32N(9)-4, 0), "produce out of order"
		}
	}
	for _, r := range w.x.each(label, func(_ int, s *side) kmsg.Request { return w.x.produce(s, w.topic, p, b.encode()) })[:1] {
		out := r.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if out.ErrorCode != 0 || out.BaseOffset < w.end[p] {
			continue // refused, or a duplicate
		}
		w.end[p] = out.BaseOffset + int64(len(values))
		if b.producer >= 0 {
			w.next[p] = b.sequence + int32(len(values))
		}
	}
}

func listRequest(topic string, partition int32, stamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = partition, stamp, -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func trimRequest(topic string, partition int32, before int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, before
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.TimeoutMillis, req.Topics = 10_000, append(req.Topics, rt)
	return req
}
