package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/compress"
	"godwit/internal/meta"
	"godwit/internal/recordbatch"
)

// drawProduce draws a request of a version.
func drawProduce(t *rapid.T, version int16) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = version
	if rapid.Bool().Draw(t, "transactional") {
		id := rapid.StringMatching("[a-z]{0,200}").Draw(t, "id")
		req.TransactionID = &id
	}
	req.Acks, req.TimeoutMillis = rapid.Int16().Draw(t, "acks"), rapid.Int32().Draw(t, "timeout")
	for range rapid.IntRange(0, 4).Draw(t, "topics") {
		topic := kmsg.NewProduceRequestTopic()
		if version >= 13 {
			topic.TopicID = [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic"))
		} else {
			topic.Topic = rapid.StringMatching("[a-z]{0,200}").Draw(t, "topic")
		}
		for range rapid.IntRange(0, 3).Draw(t, "partitions") {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition = rapid.Int32().Draw(t, "index")
			if rapid.Bool().Draw(t, "records") {
				p.Records = rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
			}
			if version >= 9 && rapid.Bool().Draw(t, "tagged") {
				p.UnknownTags.Set(9, []byte("unknown"))
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// TestProduceIsDecodedAsByKmsg: what kmsg encodes comes out, for every version; cut short, it is refused.
func TestProduceIsDecodedAsByKmsg(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		rapid.Check(t, func(t *rapid.T) {
			req := drawProduce(t, version)
			body := req.AppendTo(nil)
			got, err := decodeProduce(body, version)
			if err != nil {
				t.Fatal(err)
			}
			if (got.txnID != nil) != (req.TransactionID != nil) || got.txnID != nil && *got.txnID != *req.TransactionID || got.acks != req.Acks || got.timeout != req.TimeoutMillis || len(got.topics) != len(req.Topics) {
				t.Fatalf("version %d: %+v from %+v", version, got, req)
			}
			i := 0
			for k, topic := range req.Topics {
				if got.topics[k].name != topic.Topic || got.topics[k].id != base.StreamID(topic.TopicID) || got.topics[k].items != len(topic.Partitions) {
					t.Fatalf("version %d: %+v from %+v", version, got.topics[k], topic)
				}
				for _, p := range topic.Partitions {
					if got.items[i].index != p.Partition || !bytes.Equal(got.items[i].records, p.Records) {
						t.Fatalf("version %d: %+v from %+v", version, got.items[i], p)
					}
					i++
				}
			}
			if cut := rapid.IntRange(0, len(body)-1).Draw(t, "cut"); cut < len(body) {
				if _, err := decodeProduce(body[:cut], version); err == nil {
					t.Fatalf("version %d: %d of %d bytes are accepted", version, cut, len(body))
				}
			}
		})
	}
}

// TestProduceResponseIsKmsgs compares the encoding of responses with kmsg's, for every version.
func TestProduceResponseIsKmsgs(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		rapid.Check(t, func(t *rapid.T) {
			p := &produce{rc: &request{version: version}}
			want := kmsg.NewPtrProduceResponse()
			want.Version = version
			for range rapid.IntRange(0, 3).Draw(t, "topics") {
				topic := kmsg.NewProduceResponseTopic()
				in := produceTopic{items: rapid.IntRange(0, 3).Draw(t, "partitions")}
				if version >= 13 {
					in.id = base.StreamID{1, 2, byte(rapid.IntRange(0, 9).Draw(t, "id"))}
				} else {
					in.name = rapid.StringMatching("[a-z]{0,200}").Draw(t, "name")
				}
				topic.Topic, topic.TopicID = in.name, in.id
				for range in.items {
					item, r, k := drawResult(t, version)
					p.items, p.results = append(p.items, item), append(p.results, r)
					topic.Partitions = append(topic.Partitions, k)
				}
				p.topics, want.Topics = append(p.topics, in), append(want.Topics, topic)
			}
			got := p.appendResponse(nil)
			if b := want.AppendTo(nil); !bytes.Equal(b, got) {
				t.Fatalf("version %d: want\n%x\ngot\n%x", version, b, got)
			}
		})
	}
}

// drawResult draws the result of an item, and what kmsg calls it.
func drawResult(t *rapid.T, version int16) (produceItem, produceResult, kmsg.ProduceResponseTopicPartition) {
	item := produceItem{index: rapid.Int32().Draw(t, "index")}
	r := produceResult{base: rapid.Int64().Draw(t, "base"), stamp: rapid.Int64().Draw(t, "stamp"), logStart: rapid.Int64().Draw(t, "start")}
	if rapid.Bool().Draw(t, "failed") {
		text := rapid.StringMatching("[a-z]{0,200}").Draw(t, "text")
		r.code, r.message = kerr.InvalidRecord.Code, &text
		for i := range rapid.IntRange(0, 3).Draw(t, "records") {
			r.records = append(r.records, recordbatch.RecordError{Index: i, Msg: text})
		}
	}
	k := kmsg.NewProduceResponseTopicPartition()
	k.Partition, k.ErrorCode, k.BaseOffset, k.LogAppendTime, k.LogStartOffset = item.index, r.code, r.base, r.stamp, r.logStart
	k.ErrorMessage = r.message
	for i := range r.records {
		k.ErrorRecords = append(k.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{RelativeOffset: int32(r.records[i].Index), ErrorMessage: &r.records[i].Msg})
	}
	return item, r, k
}

func TestProduceErrors(t *testing.T) {
	w := newWire(t, nil)
	st := w.topic("t", 1)
	compacted, err := w.m.CreateStream(context.Background(), meta.CreateStream{Namespace: base.DefaultNamespace, Name: "compacted", Partitions: 1, Replicas: 1, Overrides: map[string]string{"cleanup.policy": "compact"}})
	if err != nil {
		t.Fatal(err)
	}
	w.m.node.meta.Apply(&meta.Command{Done: &meta.EffectDone{Stream: compacted.ID, Ready: 1}})
	making, err := w.m.CreateStream(context.Background(), meta.CreateStream{Namespace: base.DefaultNamespace, Name: "making", Partitions: 1, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	damaged := batchOf(1, 10)
	damaged[len(damaged)-1]++
	transactional := codedBatch(recordbatch.Info{Attributes: 0x10, ProducerID: 1})
	zstd := codedBatch(recordbatch.Info{Attributes: int16(compress.Zstd), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
	byID := func(id base.StreamID) *kmsg.ProduceRequest {
		req := produceOf("", 0, -1, batchOf(1, 10))
		req.Topics[0].TopicID = id
		return req
	}
	p := w.dial()
	for _, tc := range []struct {
		name    string
		version int16
		req     *kmsg.ProduceRequest
		err     *kerr.Error
		text    bool // there is a message
	}{
		{"written", 3, produceOf("t", 0, 1, batchOf(1, 10)), nil, false},
		{"written by ID", 13, byID(st.ID), nil, false},
		{"no such topic", 9, produceOf("none", 0, 1, batchOf(1, 10)), kerr.UnknownTopicOrPartition, false},
		{"no such ID", 13, byID(base.StreamID{1}), kerr.UnknownTopicID, false},
		{"no such partition", 9, produceOf("t", 1, 1, batchOf(1, 10)), kerr.UnknownTopicOrPartition, false},
		{"negative partition", 9, produceOf("t", -1, 1, batchOf(1, 10)), kerr.UnknownTopicOrPartition, false},
		{"a topic in the making", 9, produceOf(making.Name, 0, 1, batchOf(1, 10)), kerr.NotLeaderForPartition, false},
		{"acks of 2", 9, produceOf("t", 0, 2, batchOf(1, 10)), kerr.InvalidRequiredAcks, false},
		{"null", 9, produceOf("t", 0, 1, nil), kerr.InvalidRecord, true},
		{"nothing", 9, produceOf("t", 0, 1, []byte{}), kerr.InvalidRecord, true},
		{"damaged", 9, produceOf("t", 0, 1, damaged), kerr.CorruptMessage, true},
		{"two batches", 9, produceOf("t", 0, 1, append(batchOf(1, 10), batchOf(1, 10)...)), kerr.InvalidRecord, true},
		{"too large", 9, produceOf("t", 0, 1, batchOf(1, 2_000_000)), kerr.MessageTooLarge, true},
		{"transactional without an ID", 9, produceOf("t", 0, 1, transactional), kerr.TransactionalIDAuthorizationFailed, false},
		{"zstd of old", 6, produceOf("t", 0, 1, zstd), kerr.UnsupportedCompressionType, false},
		{"no key", 9, produceOf("compacted", 0, 1, batchOf(2, 10)), kerr.InvalidRecord, true},
	} {
		got := call[*kmsg.ProduceResponse](p, tc.version, tc.req).Topics[0].Partitions[0]
		wantCode(t, tc.name, got.ErrorCode, tc.err)
		if tc.text != (got.ErrorMessage != nil) || (tc.err == nil) != (got.BaseOffset >= 0) || got.LogAppendTime != -1 {
			t.Errorf("%s: %+v", tc.name, got)
		}
		if tc.name == "no key" && (len(got.ErrorRecords) != 2 || got.ErrorRecords[1].RelativeOffset != 1 || got.ErrorRecords[1].ErrorMessage == nil) {
			t.Errorf("%s: records %+v", tc.name, got.ErrorRecords)
		}
	}
}

// codedBatch is a batch with one record and the attributes of info.
func codedBatch(info recordbatch.Info) []byte {
	var b recordbatch.Builder
	b.Begin(info, info.Codec(), compress.DefaultLevel)
	b.Add(&recordbatch.Record{Timestamp: 1, Value: []byte("value")})
	out, err := b.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return out
}

// TestProduceOneFailsAlone: partitions of one request succeed and fail each for itself.
func TestProduceOneFailsAlone(t *testing.T) {
	w := newWire(t, nil)
	w.topic("t", 3)
	req := produceOf("t", 0, -1, batchOf(1, 10))
	for i := int32(1); i < 4; i++ {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = i, batchOf(1, 10)
		if i == 1 {
			part.Records[20]++
		}
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
	}
	resp := call[*kmsg.ProduceResponse](w.dial(), 12, req)
	for i, e := range []*kerr.Error{nil, kerr.CorruptMessage, nil, kerr.UnknownTopicOrPartition} {
		got := resp.Topics[0].Partitions[i]
		wantCode(t, fmt.Sprint("partition ", i), got.ErrorCode, e)
		if got.Partition != int32(i) {
			t.Errorf("%+v", got)
		}
	}
}

func TestProduceWithoutAcks(t *testing.T) {
	w := newWire(t, nil)
	st := w.topic("t", 1)
	p := w.dial()
	p.write(9, produceOf("t", 0, 0, batchOf(1, 10)))
	// The next answer is that of the next request.
	call[*kmsg.MetadataResponse](p, 12, kmsg.NewPtrMetadataRequest())
	if s, _ := w.m.State(st.Partitions[0].Log); s.HighWatermark != 1 {
		t.Errorf("%+v", s)
	}
	p.write(9, produceOf("none", 0, 0, batchOf(1, 10)))
	p.closed()
	w.ended(endedRefused, 1)
	// What a client sends and goes away from is written.
	gone := w.dial()
	for range 5 {
		gone.write(9, produceOf("t", 0, 0, batchOf(1, 10)))
	}
	gone.nc.Close()
	eventually(t, "all records", func() bool {
		s, _ := w.m.State(st.Partitions[0].Log)
		return s.HighWatermark == 6
	})
}

// TestNothingIsProducedBehindABrokenRequest: records of later requests would overtake those of the broken one.
func TestNothingIsProducedBehindABrokenRequest(t *testing.T) {
	w := newWire(t, nil)
	st := w.topic("t", 1)
	good := produceOf("t", 0, -1, batchOf(1, 10))
	good.Version = 9
	frame := frameOf(2, good)
	bad := frameOf(1, good)
	bad = bad[:len(bad)-20]
	binary.BigEndian.PutUint32(bad, uint32(len(bad)-4))
	p := w.dial()
	p.raw(append(append(bad, frame...), frame...))
	p.closed()
	w.ended(endedMalformed, 1)
	if s, _ := w.m.State(st.Partitions[0].Log); s.HighWatermark != 0 {
		t.Errorf("%+v", s)
	}
}

func TestProduceTimesOut(t *testing.T) {
	w := newWire(t, nil)
	w.topic("t", 1)
	w.m.hold = true
	p := w.dial()
	req := produceOf("t", 0, -1, batchOf(1, 10))
	req.TimeoutMillis = 10
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = 9, batchOf(1, 10)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
	got := call[*kmsg.ProduceResponse](p, 9, req).Topics[0].Partitions
	wantCode(t, "late", got[0].ErrorCode, kerr.RequestTimedOut)
	wantCode(t, "refused before", got[1].ErrorCode, kerr.UnknownTopicOrPartition)
	if w.s.inFlight() == 0 {
		t.Error("the memory is given back while the journal still has it")
	}
	w.m.release()
	eventually(t, "memory given back", func() bool { return w.s.inFlight() == 0 })
}

func TestProduceWithLogAppendTime(t *testing.T) {
	w := newWire(t, nil)
	st, err := w.m.CreateStream(context.Background(), meta.CreateStream{Namespace: base.DefaultNamespace, Name: "t", Partitions: 1, Replicas: 1, Overrides: map[string]string{"message.timestamp.type": "LogAppendTime"}})
	if err != nil {
		t.Fatal(err)
	}
	w.m.node.meta.Apply(&meta.Command{Done: &meta.EffectDone{Stream: st.ID, Ready: 1}})
	before := time.Now().UnixMilli()
	got := call[*kmsg.ProduceResponse](w.dial(), 9, produceOf("t", 0, -1, batchOf(1, 10))).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || got.LogAppendTime < before || got.LogAppendTime > time.Now().UnixMilli() {
		t.Errorf("%+v", got)
	}
}
