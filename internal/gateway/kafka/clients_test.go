package kafka

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sample is a record with what clients have in common.
type sample struct {
	key, value []byte // nil: null
	headers    []kgo.RecordHeader
}

// samples are records that are easily got wrong.
func samples() []sample {
	all := []sample{
		{nil, nil, nil},
		{[]byte{}, []byte{}, nil},
		{nil, []byte("value"), nil},
		{[]byte("key"), nil, nil},
		{[]byte("k"), []byte("v"), []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "", Value: []byte{}}}},
		{[]byte{0, 255}, bytes.Repeat([]byte{0, 1, 2}, 100_000), nil},
		{[]byte("ü"), []byte("\xff\xfe"), []kgo.RecordHeader{{Key: "ü", Value: []byte{0}}}},
	}
	for i := range 300 {
		all = append(all, sample{[]byte(fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, i), nil})
	}
	return all
}

func (s *sample) check(t *testing.T, what string, key, value []byte, headers []kgo.RecordHeader) {
	t.Helper()
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	if !same(s.key, key) || !same(s.value, value) || len(headers) != len(s.headers) {
		t.Errorf("%s: wrote key %.40q, value %.40q and %d headers, read %.40q, %.40q and %d", what, s.key, s.value, len(s.headers), key, value, len(headers))
		return
	}
	for i, h := range headers {
		if h.Key != s.headers[i].Key || !bytes.Equal(h.Value, s.headers[i].Value) {
			t.Errorf("%s: wrote header %+v, read %+v", what, s.headers[i], h)
		}
	}
}

// writer writes samples to partition 0 of a topic.
type writer struct {
	name  string
	codec string
	write func(t *testing.T, l *life, topic string, all []sample)
}

func franzWriter(name string, codec kgo.CompressionCodec) writer {
	return writer{"franz", name, func(t *testing.T, l *life, topic string, all []sample) {
		cl := l.client(kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation())
		var rs []*kgo.Record
		for _, s := range all {
			rs = append(rs, &kgo.Record{Topic: topic, Key: s.key, Value: s.value, Headers: s.headers})
		}
		if err := cl.ProduceSync(testContext(t), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}}
}

func saramaConfig(version sarama.KafkaVersion) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = version
	c.Consumer.MaxWaitTime = 20 * time.Millisecond // closing waits for the last poll
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Partitioner = sarama.NewManualPartitioner
	return c
}

func encoderOf(b []byte) sarama.Encoder {
	if b == nil {
		return nil
	}
	return sarama.ByteEncoder(b)
}

func saramaWriter(name string, codec sarama.CompressionCodec, version sarama.KafkaVersion) writer {
	return writer{"sarama " + version.String(), name, func(t *testing.T, l *life, topic string, all []sample) {
		c := saramaConfig(version)
		c.Producer.Compression = codec
		p, err := sarama.NewSyncProducer([]string{l.addr}, c)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var ms []*sarama.ProducerMessage
		for _, s := range all {
			m := &sarama.ProducerMessage{Topic: topic, Key: encoderOf(s.key), Value: encoderOf(s.value)}
			for _, h := range s.headers {
				m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
			}
			ms = append(ms, m)
		}
		if err := p.SendMessages(ms); err != nil {
			t.Fatal(err)
		}
	}}
}

func readFranz(t *testing.T, l *life, topic string, all []sample) {
	cl := l.client(kgo.ConsumeTopics(topic))
	for i := 0; i < len(all); {
		fs := cl.PollFetches(testContext(t))
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset != int64(i) {
				t.Fatalf("offset %d, want %d", r.Offset, i)
			}
			all[i].check(t, "franz", r.Key, r.Value, r.Headers)
			i++
		})
	}
}

func readSarama(version sarama.KafkaVersion) func(t *testing.T, l *life, topic string, all []sample) {
	return func(t *testing.T, l *life, topic string, all []sample) {
		c, err := sarama.NewConsumer([]string{l.addr}, saramaConfig(version))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		pc, err := c.ConsumePartition(topic, 0, sarama.OffsetOldest)
		if err != nil {
			t.Fatal(err)
		}
		defer pc.Close()
		for i := range all {
			select {
			case m := <-pc.Messages():
				var headers []kgo.RecordHeader
				for _, h := range m.Headers {
					headers = append(headers, kgo.RecordHeader{Key: string(h.Key), Value: h.Value})
				}
				all[i].check(t, "sarama", m.Key, m.Value, headers)
			case <-testContext(t).Done():
				t.Fatalf("record %d did not come", i)
			}
		}
	}
}

// TestClientsReadEachOther: what each client writes with each codec, each client reads, byte for byte.
func TestClientsReadEachOther(t *testing.T) {
	l := newLife(t)
	writers := []writer{
		franzWriter("none", kgo.NoCompression()), franzWriter("gzip", kgo.GzipCompression()), franzWriter("snappy", kgo.SnappyCompression()),
		franzWriter("lz4", kgo.Lz4Compression()), franzWriter("zstd", kgo.ZstdCompression()),
		saramaWriter("none", sarama.CompressionNone, sarama.V0_11_0_0), saramaWriter("gzip", sarama.CompressionGZIP, sarama.MaxVersion),
		saramaWriter("snappy", sarama.CompressionSnappy, sarama.MaxVersion), saramaWriter("lz4", sarama.CompressionLZ4, sarama.MaxVersion),
		saramaWriter("zstd", sarama.CompressionZSTD, sarama.MaxVersion),
	}
	all := samples()
	for i, w := range writers {
		t.Run(w.name+"/"+w.codec, func(t *testing.T) {
			topic := fmt.Sprintf("t%d", i)
			w.write(t, l, topic, all)
			readFranz(t, l, topic, all)
			readSarama(sarama.MaxVersion)(t, l, topic, all)
			if w.codec != "zstd" {
				readSarama(sarama.V0_11_0_0)(t, l, topic, all)
			}
		})
	}
}

// TestIdempotentProducersKeepOrder: several requests in flight on each connection, several producers, nothing lost, doubled or out
// of order.
func TestIdempotentProducersKeepOrder(t *testing.T) {
	l := newLife(t)
	const producers, records, partitions = 3, 4000, 4
	if _, err := kadm.NewClient(l.client()).CreateTopic(testContext(t), partitions, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for p := range producers {
		cl := l.client(kgo.ProducerBatchMaxBytes(4000), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
		for i := range records {
			r := &kgo.Record{Topic: "t", Partition: int32(i % partitions), Key: []byte{byte(p)}, Value: fmt.Appendf(nil, "%d", i)}
			cl.Produce(testContext(t), r, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		defer func() {
			if err := cl.Flush(testContext(t)); err != nil { // a record may be read before its producer hears of it
				t.Error(err)
			}
			cl.Close()
		}()
	}
	cl := l.client(kgo.ConsumeTopics("t"), kgo.FetchMaxPartitionBytes(5000))
	next := map[[2]int]int{}
	for got := 0; got < producers*records; {
		fs := cl.PollFetches(testContext(t))
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			k := [2]int{int(r.Key[0]), int(r.Partition)}
			want := fmt.Sprint(next[k]*partitions + int(r.Partition))
			if string(r.Value) != want {
				t.Fatalf("producer %d, partition %d: record %s, want %s", k[0], k[1], r.Value, want)
			}
			next[k]++
			got++
		})
	}
}

// TestConsumersAreWoken: a consumer that waits at the end of many partitions learns at once of a record.
func TestConsumersAreWoken(t *testing.T) {
	l := newLife(t)
	const partitions = 200
	if _, err := kadm.NewClient(l.client()).CreateTopic(testContext(t), partitions, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	// With the offsets known from the beginning, no fetch leaves out a partition that the client is still asking about: such a
	// fetch would wait its minute for the others.
	from := make(map[int32]kgo.Offset)
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().At(0)
	}
	cl := l.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": from}), kgo.FetchMaxWait(time.Minute))
	producer := l.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	poll := func() []*kgo.Record {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		return fs.Records()
	}
	// A record in each shows that the client asks for all of them.
	var first []*kgo.Record
	for i := range partitions {
		first = append(first, &kgo.Record{Topic: "t", Partition: int32(i)})
	}
	if err := producer.ProduceSync(testContext(t), first...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < partitions; got += len(poll()) {
	}
	for i := range 20 {
		r := &kgo.Record{Topic: "t", Partition: int32(i * 7), Value: []byte{byte(i)}}
		if err := producer.ProduceSync(testContext(t), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if rs := poll(); len(rs) != 1 || rs[0].Value[0] != byte(i) {
			t.Fatalf("%d: %d records", i, len(rs))
		}
	}
}

func TestListedOffsets(t *testing.T) {
	l := newLife(t)
	ctx := testContext(t)
	cl := l.client(kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(0))
	now := time.Now().Truncate(time.Millisecond)
	for _, at := range []int{10, 30, 20} {
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte("v"), Timestamp: now.Add(time.Duration(at) * time.Millisecond)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	adm := kadm.NewClient(cl)
	if _, err := adm.DeleteRecords(ctx, kadm.Offsets{"t": {0: {Topic: "t", At: 1}}}); err != nil {
		t.Fatal(err)
	}
	list := func(what string, got kadm.ListedOffsets, err error) kadm.ListedOffset {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		o, _ := got.Lookup("t", 0)
		return o
	}
	start, err := adm.ListStartOffsets(ctx, "t")
	if o := list("start", start, err); o.Offset != 1 || o.LeaderEpoch < 1 || o.Err != nil {
		t.Errorf("start: %+v", o)
	}
	end, err := adm.ListEndOffsets(ctx, "t")
	if o := list("end", end, err); o.Offset != 3 || o.Err != nil {
		t.Errorf("end: %+v", o)
	}
	top, err := adm.ListMaxTimestampOffsets(ctx, "t")
	if o := list("max timestamp", top, err); o.Offset != 1 || o.Timestamp != now.Add(30*time.Millisecond).UnixMilli() {
		t.Errorf("max timestamp: %+v", o)
	}
	for _, tc := range [][2]int64{{0, 1}, {10, 1}, {30, 1}, {31, 3}} { // kadm turns "none" into the end
		after, err := adm.ListOffsetsAfterMilli(ctx, now.UnixMilli()+tc[0], "t")
		if o := list("after", after, err); o.Offset != tc[1] {
			t.Errorf("after %d ms: %+v, want offset %d", tc[0], o, tc[1])
		}
	}
	if !slices.ContainsFunc(start.Offsets().Sorted(), func(o kadm.Offset) bool { return o.Topic == "t" }) {
		t.Error("the topic is not listed")
	}
}
