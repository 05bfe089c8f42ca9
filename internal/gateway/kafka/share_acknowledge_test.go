package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/share"
	"godwit/internal/gateway/kafka/sharesession"
)

// acknowledge answers an acknowledgement of the member's session, and counts its epoch if it was accepted. It shows the errors, of
// the request or of each partition.
func (f *shareStand) acknowledge(version int16, renew bool, parts []share.Partition, acks map[share.Partition][]sharesession.Ack) (out []string) {
	f.t.Helper()
	req := kmsg.NewPtrShareAcknowledgeRequest()
	group := "g"
	req.Version, req.GroupID, req.MemberID, req.ShareSessionEpoch, req.IsRenewAck = version, &group, &f.member, f.epoch, renew
	for _, p := range parts {
		t := kmsg.NewShareAcknowledgeRequestTopic()
		t.TopicID = p.Stream
		part := kmsg.NewShareAcknowledgeRequestTopicPartition()
		part.Partition = p.Index
		for _, a := range acks[p] {
			part.AcknowledgementBatches = append(part.AcknowledgementBatches,
				kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{FirstOffset: a.First, LastOffset: a.Last, AcknowledgeTypes: a.Types})
		}
		t.Partitions = append(t.Partitions, part)
		req.Topics = append(req.Topics, t)
	}
	answer, err := f.s.shareAcknowledge(context.Background(), f.request(kmsg.ShareAcknowledge, version), req)
	if err != nil {
		f.t.Fatal(err)
	}
	resp := answer.(*kmsg.ShareAcknowledgeResponse)
	name := func(code int16) string {
		if code == 0 {
			return "ok"
		}
		return kerr.ErrorForCode(code).(*kerr.Error).Message
	}
	if resp.ErrorCode != 0 {
		return []string{name(resp.ErrorCode)}
	}
	if f.epoch >= 0 {
		f.epoch++
	}
	if resp.AcquisitionLockTimeoutMillis != 30_000 {
		f.t.Fatalf("the lock holds %d ms", resp.AcquisitionLockTimeoutMillis)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out = append(out, name(p.ErrorCode))
		}
	}
	return out
}

func TestShareAcknowledge(t *testing.T) {
	f := newShareStand(t, nil)
	st := f.topic("t", 1)
	p := at(st, 0)
	f.m.putShared(p, batchOf(20, 1))
	want := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %q, want %q", what, got, want)
		}
	}
	one := func(first, last int64, types ...int8) map[share.Partition][]sharesession.Ack {
		return acksOf(p, ackOf(first, last, types...))
	}
	only := []share.Partition{p}
	want("no session begins with it", f.acknowledge(2, false, only, nil), "INVALID_SHARE_SESSION_EPOCH")
	f.epoch = 1
	want("no session", f.acknowledge(2, false, only, nil), "SHARE_SESSION_NOT_FOUND")
	f.epoch = 0
	f.want("fetch", shareReq{parts: only}, "0 0-19*1")
	want("settled", f.acknowledge(1, false, only, one(0, 5, sharesession.AckAccept)), "ok")
	want("settled before", f.acknowledge(1, false, only, one(0, 5, sharesession.AckAccept)), "ok")
	want("a type for each", f.acknowledge(2, false, only, one(6, 9, sharesession.AckGap, sharesession.AckReject, sharesession.AckReject, sharesession.AckAccept)), "ok")
	want("renewed", f.acknowledge(2, true, only, one(10, 11, sharesession.AckRenew)), "ok")
	want("not said to renew", f.acknowledge(2, false, only, one(10, 11, sharesession.AckRenew)), "INVALID_REQUEST")
	want("beyond the end", f.acknowledge(2, false, only, one(10, 90, sharesession.AckAccept)), "INVALID_REQUEST")
	want("nothing", f.acknowledge(2, false, only, nil))
	bad := share.Partition{Stream: st.ID, Index: 3}
	want("not there", f.acknowledge(2, false, []share.Partition{bad, p, {}}, map[share.Partition][]sharesession.Ack{bad: {ackOf(0, 0, 1)}, p: {ackOf(10, 10, 1)}, {}: {ackOf(0, 0, 1)}}),
		"UNKNOWN_TOPIC_OR_PARTITION", "ok", "UNKNOWN_TOPIC_ID")

	types := make([]int8, maxAckRanges+1)
	for i := range types {
		types[i] = int8(i % 2)
	}
	want("too many ranges", f.acknowledge(2, false, only, one(0, maxAckRanges, types...)), "INVALID_REQUEST")

	off := "false"
	if err := f.m.SetGroupConfig(context.Background(), testGroup, map[string]*string{"share.renew.acknowledge.enable": &off}, false, false); err != nil {
		t.Fatal(err)
	}
	want("renewals are switched off", f.acknowledge(2, true, only, one(11, 11, sharesession.AckRenew)), "INVALID_RECORD_STATE")

	offsets := send[*kmsg.DescribeShareGroupOffsetsResponse]
	describe := func(topics ...kmsg.DescribeShareGroupOffsetsRequestGroupTopic) []kmsg.DescribeShareGroupOffsetsResponseGroupTopic {
		req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
		req.Groups = []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: "g", Topics: topics}}
		resp := offsets(&stand{t: t, n: f.m.node, s: f.s}, 1, req)
		if len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 {
			t.Fatalf("described %+v", resp)
		}
		return resp.Groups[0].Topics
	}
	if got := describe(); len(got) != 1 || got[0].Topic != "t" || len(got[0].Partitions) != 1 || got[0].Partitions[0].StartOffset != 11 || got[0].Partitions[0].Lag != 9 {
		t.Errorf("all offsets: %+v", got)
	}
	named := kmsg.DescribeShareGroupOffsetsRequestGroupTopic{Topic: "t", Partitions: []int32{5, 0}}
	unknown := kmsg.DescribeShareGroupOffsetsRequestGroupTopic{Topic: "u", Partitions: []int32{0}}
	got := describe(unknown, named)
	if len(got) != 2 || got[0].Partitions[0].StartOffset != -1 || got[0].Partitions[0].Lag != -1 || got[0].Partitions[0].ErrorCode != 0 ||
		got[1].Partitions[0].StartOffset != -1 || got[1].Partitions[1].StartOffset != 11 {
		t.Errorf("named offsets: %+v", got)
	}

	f.epoch = -1
	want("the end", f.acknowledge(2, false, only, one(11, 11, sharesession.AckAccept)), "ok")
	if n := f.m.heldBy("m", p); n != 0 || f.s.shareSessions.Count() != 0 {
		t.Errorf("%d records are held, %d sessions are there", n, f.s.shareSessions.Count())
	}
}

// TestShareGroupOfFranz has real clients work off a topic, and the broker begin again in the middle.
func TestShareGroupOfFranz(t *testing.T) {
	t.Parallel() // members learn of their partitions by heartbeats, which are seconds apart
	l := newLife(t)
	ctx := testContext(t)
	const total = 2000
	producer := l.client(kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	adm := kadm.NewClient(producer)
	if _, err := adm.CreateTopic(ctx, 3, 1, nil, "jobs"); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "workers"
	res.Configs = append(res.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "share.auto.offset.reset", Value: kmsg.StringPtr("earliest")})
	req.Resources = append(req.Resources, res)
	if resp, err := req.RequestWith(ctx, producer); err != nil || resp.Resources[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
	write := func(from, to int) {
		t.Helper()
		var rs []*kgo.Record
		for i := from; i < to; i++ {
			rs = append(rs, &kgo.Record{Topic: "jobs", Value: fmt.Append(nil, i)})
		}
		if err := producer.ProduceSync(ctx, rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	write(0, total/2)
	members := []*kgo.Client{}
	for range 2 {
		members = append(members, l.client(kgo.ShareGroup("workers"), kgo.ConsumeTopics("jobs"), kgo.ShareMaxRecords(50)))
	}
	// Each record is released the first time and accepted the second.
	accepted := map[string]int{}
	work := func(until int) {
		t.Helper()
		for i := 0; len(accepted) < until; i++ {
			poll, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			fetches := members[i%2].PollFetches(poll)
			cancel()
			fetches.EachRecord(func(r *kgo.Record) {
				if r.DeliveryCount() == 1 {
					r.Ack(kgo.AckRelease)
					return
				}
				accepted[string(r.Value)]++
				r.Ack(kgo.AckAccept)
			})
			if ctx.Err() != nil {
				t.Fatalf("%d of %d records are accepted", len(accepted), until)
			}
		}
	}
	work(total / 2)
	for _, m := range members {
		if err := m.FlushAcks(ctx); err != nil {
			t.Fatal(err)
		}
	}
	l.stop()
	l.start()
	write(total/2, total)
	work(total)
	for value, n := range accepted {
		if n != 1 {
			t.Errorf("record %s was accepted %d times", value, n)
		}
	}
}
