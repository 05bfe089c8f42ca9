package difftest

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dataPlays are the cases about records and offsets.
func dataPlays() []play {
	return []play{
		{kmsg.Produce, "codecs", produceCodecs},
		{kmsg.Produce, "refused", produceRefused},
		{kmsg.Produce, "config", produceByConfig},
		{kmsg.Produce, "unknown", produceUnknown},
		{kmsg.Produce, "acks", produceAcks},
		{kmsg.Produce, "idempotent", produceIdempotent},
		{kmsg.Fetch, "sessionless", fetchSessionless},
		{kmsg.Fetch, "unknown", fetchUnknown},
		{kmsg.Fetch, "session", fetchSession},
		{kmsg.ListOffsets, "specials", listOffsets},
		{kmsg.OffsetForLeaderEpoch, "epochs", leaderEpochs},
		{kmsg.DeleteRecords, "delete", deleteRecords},
		{kmsg.InitProducerID, "init", initProducer},
		{kmsg.DescribeProducers, "producers", describeProducers},
		{kmsg.Produce, "random", wander},
		{kmsg.Fetch, "random", wander},
		{kmsg.ListOffsets, "random", wander},
	}
}

// produce makes a request for one partition.
func (x *exchange) produce(s *side, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = topic, s.id(topic), append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func (x *exchange) write(label, topic string, partition int32, b batch) {
	x.t.Helper()
	x.send(label, topic, partition, b.encode())
}

func (x *exchange) send(label, topic string, partition int32, records []byte) {
	x.t.Helper()
	x.each(label, func(_ int, s *side) kmsg.Request { return x.produce(s, topic, partition, records) })
}

func produceCodecs(x *exchange) {
	t := x.topic("t", 1, nil)
	values := []string{strings.Repeat("a", 300), "b", ""}
	for _, c := range []struct {
		name  string
		codec kgo.CompressionCodec
	}{{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()}, {"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()}} {
		b := x.plain(values...)
		b.codec = c.codec
		x.write(c.name, t, 0, b)
	}
	x.fetch("read", t, 0, 0)
}

// producer is the ID of a producer of the case.
func (x *exchange) producer(i int) int64 { return 4_000_000 + int64(10*x.number+i) }

// produceRefused has a topic for each batch, so that one that only one side takes does not show in what follows.
func produceRefused(x *exchange) {
	topics := 0
	fresh := func() string {
		topics++
		return x.topic(fmt.Sprint("t", topics), 1, nil)
	}
	good := func() batch { return x.plain("a", "b") }
	for _, c := range []struct {
		name string
		edit func(*batch)
	}{
		{"bad crc", func(b *batch) { b.spoil = func(raw []byte) { raw[17] ^= 1 } }},
		{"flipped bit", func(b *batch) { b.spoil = func(raw []byte) { raw[len(raw)-2] ^= 1 } }},
		{"too many announced", func(b *batch) { b.count, b.lastDelta = 1, 1 }},
		{"too few announced", func(b *batch) { b.count, b.lastDelta = -1, -1 }},
		{"count and delta differ", func(b *batch) { b.lastDelta = 3 }},
		{"no records", func(b *batch) { b.values, b.lastDelta = nil, 1 }},
		{"first offset", func(b *batch) { b.firstOffset = 7 }},
		{"control", func(b *batch) { b.attrs = 0x20 }},
		{"codec 5", func(b *batch) { b.attrs = 5 }},
		{"log append time", func(b *batch) { b.attrs = 8 }},
		{"length too large", func(b *batch) { b.spoil = func(raw []byte) { raw[11]++ } }},
		{"length too small", func(b *batch) { b.spoil = func(raw []byte) { raw[11]-- } }},
		{"magic 3", func(b *batch) { b.spoil = func(raw []byte) { raw[16] = 3 } }},
		{"sequence without producer", func(b *batch) { b.sequence = 4 }},
		{"producer without sequence", func(b *batch) { b.producer, b.epoch = 9, 0 }},
		{"future", func(b *batch) { b.base += 2 * 3_600_000 }},
		{"no timestamp", func(b *batch) { b.base = -1 }},
	} {
		b := good()
		c.edit(&b)
		x.write(c.name, fresh(), 0, b)
	}
	x.send("magic 0", fresh(), 0, oldSet(0, x.base))
	x.send("magic 1", fresh(), 0, oldSet(1, x.base))
	x.send("two batches", fresh(), 0, append(good().encode(), good().encode()...))
	x.send("short", fresh(), 0, good().encode()[:40])
	x.send("empty", fresh(), 0, []byte{})
	if !x.sides[1].lags || x.version == 3 { // Kafka never answers it, which takes its time
		x.send("null", fresh(), 0, nil)
	}
	x.write("good", fresh(), 0, good())
}

func produceByConfig(x *exchange) {
	small := x.topic("small", 1, map[string]string{"max.message.bytes": "200"})
	x.write("oversize", small, 0, x.plain(strings.Repeat("x", 200)))
	x.write("small", small, 0, x.plain("x"))
	stamped := x.topic("stamped", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	x.write("log append time", stamped, 0, x.plain("x"))
	b := x.plain("x")
	b.attrs = 8
	x.write("log append time of the client", stamped, 0, b)
	keyed := x.topic("keyed", 1, map[string]string{"cleanup.policy": "compact"})
	x.write("with keys", keyed, 0, x.plain("x"))
	b = x.plain("x", "y")
	b.keyless = true
	x.write("without keys", keyed, 0, b)
}

func produceUnknown(x *exchange) {
	t := x.topic("t", 1, nil)
	x.write("topic", x.name("nothing"), 0, x.plain("x"))
	x.write("partition", t, 1, x.plain("x"))
	x.write("negative partition", t, -1, x.plain("x"))
	x.each("none", func(int, *side) kmsg.Request {
		req := kmsg.NewPtrProduceRequest()
		req.Acks = 1
		return req
	})
}

func produceAcks(x *exchange) {
	t := x.topic("t", 1, nil)
	for _, acks := range []int16{1, 2, -2} {
		x.each(fmt.Sprint(acks), func(_ int, s *side) kmsg.Request {
			req := x.produce(s, t, 0, x.plain("x").encode())
			req.Acks = acks
			return req
		})
	}
}

func produceIdempotent(x *exchange) {
	t := x.topic("t", 1, nil)
	send := func(label string, epoch int16, sequence int32, values ...string) {
		b := x.plain(values...)
		b.producer, b.epoch, b.sequence = x.producer(0), epoch, sequence
		x.write(label, t, 0, b)
	}
	send("first", 1, 0, "a", "b")
	send("next", 1, 2, "c")
	send("duplicate", 1, 0, "a", "b")
	send("duplicate of the last", 1, 2, "c")
	send("part of a duplicate", 1, 0, "a")
	send("gap", 1, 5, "d")
	for i := range int32(5) {
		send("more", 1, 3+i, "e")
	}
	send("duplicate beyond the window", 1, 0, "a", "b")
	send("old epoch", 0, 8, "f")
	send("new epoch, wrong sequence", 2, 4, "g")
	send("new epoch", 2, 0, "g")
	send("old epoch again", 1, 8, "h")
	b := x.plain("z")
	b.producer, b.epoch, b.sequence = x.producer(1), 0, 7
	x.write("unknown producer in the middle", t, 0, b)
	x.fetch("read", t, 0, 0)
}

// fetch reads one partition without a session.
func (x *exchange) fetch(label, topic string, partition int32, offset int64) {
	x.t.Helper()
	x.each(label, func(_ int, s *side) kmsg.Request {
		return x.fetchRequest(s, topic, want{partition: partition, offset: offset})
	})
}

// want is a partition in a fetch request.
type want struct {
	partition int32
	offset    int64
	epoch     int32 // 0: unknown
	max       int32 // 0: a mebibyte
}

func (x *exchange) fetchRequest(s *side, topic string, wants ...want) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch = 1<<20, -1
	if topic == "" {
		return req
	}
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, s.id(topic)
	for _, w := range wants {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = w.partition, w.offset, 1<<20, -1
		if w.epoch != 0 {
			rp.CurrentLeaderEpoch = w.epoch
		}
		if w.max != 0 {
			rp.PartitionMaxBytes = w.max
		}
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// filled makes a topic with three batches in partition 0: offsets 0 to 5.
func (x *exchange) filled(name string, partitions int32) string {
	t := x.topic(name, partitions, nil)
	for i := range 3 {
		b := x.plain("a", "b")
		b.base += int64(10 * i)
		for k, s := range x.sides {
			x.quietly(k, x.produce(s, t, 0, b.encode()))
		}
	}
	return t
}

func fetchSessionless(x *exchange) {
	t := x.filled("t", 2)
	x.fetch("all", t, 0, 0)
	x.fetch("middle of a batch", t, 0, 3)
	x.fetch("end", t, 0, 6)
	x.fetch("above", t, 0, 7)
	x.fetch("negative", t, 0, -1)
	x.fetch("empty partition", t, 1, 0)
	x.each("two", func(_ int, s *side) kmsg.Request { return x.fetchRequest(s, t, want{}, want{partition: 1}) })
	x.each("one byte", func(_ int, s *side) kmsg.Request { return x.fetchRequest(s, t, want{max: 1}) })
	x.each("one batch", func(_ int, s *side) kmsg.Request { return x.fetchRequest(s, t, want{max: 100}) })
	x.each("future epoch", func(_ int, s *side) kmsg.Request { return x.fetchRequest(s, t, want{epoch: 1 << 20}) })
	x.each("read committed", func(_ int, s *side) kmsg.Request {
		req := x.fetchRequest(s, t, want{})
		req.IsolationLevel = 1
		return req
	})
}

func fetchUnknown(x *exchange) {
	t := x.filled("t", 1)
	x.fetch("topic", x.name("nothing"), 0, 0)
	x.fetch("partition", t, 5, 0)
	x.each("nothing asked", func(_ int, s *side) kmsg.Request { return x.fetchRequest(s, "") })
	if x.version >= 7 {
		x.each("session", func(_ int, s *side) kmsg.Request {
			req := x.fetchRequest(s, t, want{})
			req.SessionID, req.SessionEpoch = 123_456, 1
			return req
		})
	}
}

func fetchSession(x *exchange) {
	t := x.filled("t", 2)
	if x.version < 7 {
		return
	}
	ids := make([]int32, len(x.sides))
	step := func(label string, epoch int32, edit func(*kmsg.FetchRequest, *side)) {
		x.t.Helper()
		for i, r := range x.each(label, func(i int, s *side) kmsg.Request {
			req := x.fetchRequest(s, "")
			req.SessionID, req.SessionEpoch = ids[i], epoch
			if edit != nil {
				edit(req, s)
			}
			return req
		}) {
			if r := r.(*kmsg.FetchResponse); epoch == 0 && r.ErrorCode == 0 {
				ids[i] = r.SessionID
			}
		}
	}
	ask := func(w ...want) func(*kmsg.FetchRequest, *side) {
		return func(req *kmsg.FetchRequest, s *side) { req.Topics = x.fetchRequest(s, t, w...).Topics }
	}
	step("begin", 0, ask(want{}, want{partition: 1}))
	step("same again", 1, nil)
	step("moved", 2, ask(want{offset: 6}))
	step("nothing new", 3, nil)
	for k, s := range x.sides {
		x.quietly(k, x.produce(s, t, 1, x.plain("new").encode()))
	}
	step("new records", 4, nil)
	step("wrong epoch", 9, nil)
	step("right epoch", 5, nil)
	step("forget", 6, func(req *kmsg.FetchRequest, s *side) {
		ft := kmsg.NewFetchRequestForgottenTopic()
		ft.Topic, ft.TopicID, ft.Partitions = t, s.id(t), []int32{1}
		req.ForgottenTopics = append(req.ForgottenTopics, ft)
	})
	step("close", -1, ask(want{}))
	step("after the close", 7, nil)
}

func listOffsets(x *exchange) {
	t := x.filled("t", 2)
	ask := func(label, topic string, partition int32, stamp int64, epoch int32) {
		x.t.Helper()
		req := listRequest(topic, partition, stamp)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		x.same(label, req)
	}
	for stamp := int64(-1); stamp >= -6; stamp-- {
		ask(fmt.Sprint("special ", stamp), t, 0, stamp, -1)
		ask(fmt.Sprint("empty ", stamp), t, 1, stamp, -1)
	}
	ask("special -100", t, 0, -100, -1)
	ask("zero", t, 0, 0, -1)
	ask("first", t, 0, x.base, -1)
	ask("inside a batch", t, 0, x.base+1, -1)
	ask("between batches", t, 0, x.base+5, -1)
	ask("last", t, 0, x.base+21, -1)
	ask("behind the last", t, 0, x.base+22, -1)
	ask("future epoch", t, 0, -1, 1<<20)
	ask("topic", x.name("nothing"), 0, -1, -1)
	ask("partition", t, 9, -1, -1)
}

func leaderEpochs(x *exchange) {
	t := x.filled("t", 2)
	ask := func(label, topic string, partition int32, epoch func(s *side) int32) {
		x.t.Helper()
		x.each(label, func(_ int, s *side) kmsg.Request {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.ReplicaID = -1
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.CurrentLeaderEpoch = partition, epoch(s), -1
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			return req
		})
	}
	fixed := func(e int32) func(*side) int32 { return func(*side) int32 { return e } }
	current := func(s *side) int32 {
		for e := range s.epochs {
			return e
		}
		return 0
	}
	ask("current", t, 0, current)
	ask("empty partition", t, 1, current)
	ask("future", t, 0, fixed(1<<20))
	ask("negative", t, 0, fixed(-1))
	ask("topic", x.name("nothing"), 0, fixed(0))
	ask("partition", t, 9, fixed(0))
}

func deleteRecords(x *exchange) {
	t := x.filled("t", 1)
	ask := func(label, topic string, partition int32, before int64) {
		x.t.Helper()
		x.same(label, trimRequest(topic, partition, before))
	}
	ask("three", t, 0, 3)
	ask("less than before", t, 0, 1)
	ask("above the end", t, 0, 7)
	ask("negative", t, 0, -2)
	ask("topic", x.name("nothing"), 0, 1)
	ask("partition", t, 4, 1)
	x.fetch("below the start", t, 0, 2)
	x.fetch("at the start", t, 0, 3)
	ask("all", t, 0, -1)
	x.fetch("at the end", t, 0, 6)
}

func initProducer(x *exchange) {
	ask := func(label string, id int64, epoch int16, txn *string, timeout int32) {
		x.t.Helper()
		x.each(label, func(int, *side) kmsg.Request {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch, req.TransactionalID, req.TransactionTimeoutMillis = id, epoch, txn, timeout
			return req
		})
	}
	ask("new", -1, -1, nil, 60_000)
	ask("another", -1, -1, nil, 60_000)
	ask("bumped", 5, 0, nil, 60_000)
	empty := ""
	ask("empty transactional", -1, -1, &empty, 60_000)
	txn := x.name("txn")
	ask("transactional", -1, -1, &txn, 60_000)
}

func describeProducers(x *exchange) {
	t := x.topic("t", 2, nil)
	for i := range int32(3) {
		b := x.plain("a", "b")
		b.producer, b.epoch, b.sequence = x.producer(0), 3, 2*i
		for k, s := range x.sides {
			x.quietly(k, x.produce(s, t, 0, b.encode()))
		}
	}
	ask := func(label, topic string, partition int32) {
		x.t.Helper()
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic, rt.Partitions = topic, []int32{partition}
		req := kmsg.NewPtrDescribeProducersRequest()
		req.Topics = append(req.Topics, rt)
		x.same(label, req)
	}
	ask("one", t, 0)
	ask("none", t, 1)
	ask("topic", x.name("nothing"), 0)
	ask("partition", t, 7)
}
