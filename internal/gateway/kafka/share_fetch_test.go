package kafka

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/share"
	"godwit/internal/gateway/kafka/sharesession"
	"godwit/internal/meta"
	"godwit/internal/queue"
)

// shareStand is a member of group g at a server over queues in memory.
type shareStand struct {
	*fetchStand
	member string
	epoch  int32
	conn   *conn
}

func newShareStand(t *testing.T, change func(*Options)) *shareStand {
	return &shareStand{fetchStand: newFetchStand(t, change), member: "m"}
}

// at names a partition.
func at(st *meta.Stream, index int32) share.Partition {
	return share.Partition{Stream: st.ID, Index: index}
}

// shareReq is a request of group g.
type shareReq struct {
	parts, forget []share.Partition
	acks          map[share.Partition][]sharesession.Ack
	renew         bool
	change        func(*kmsg.ShareFetchRequest)
}

func (f *shareStand) request(key kmsg.Key, version int16) *request {
	return &request{server: f.s, conn: f.conn, api: f.s.apis.find(int16(key)), version: version, namespace: base.DefaultNamespace,
		local: testHost, remote: testHost, received: time.Now()}
}

// shareFetch answers a fetch of the member's session, and counts its epoch if it was accepted.
func (f *shareStand) shareFetch(ctx context.Context, r shareReq) *kmsg.ShareFetchResponse {
	f.t.Helper()
	req := kmsg.NewPtrShareFetchRequest()
	group := "g"
	req.Version, req.GroupID, req.MemberID, req.ShareSessionEpoch = 2, &group, &f.member, f.epoch
	req.MinBytes, req.MaxBytes, req.MaxRecords, req.BatchSize, req.IsRenewAck = 1, 1<<20, 100, 100, r.renew
	for _, p := range r.parts {
		t := kmsg.NewShareFetchRequestTopic()
		t.TopicID = p.Stream
		part := kmsg.NewShareFetchRequestTopicPartition()
		part.Partition = p.Index
		for _, a := range r.acks[p] {
			part.AcknowledgementBatches = append(part.AcknowledgementBatches,
				kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{FirstOffset: a.First, LastOffset: a.Last, AcknowledgeTypes: a.Types})
		}
		t.Partitions = append(t.Partitions, part)
		req.Topics = append(req.Topics, t)
	}
	for _, p := range r.forget {
		t := kmsg.NewShareFetchRequestForgottenTopicsData()
		t.TopicID, t.Partitions = p.Stream, []int32{p.Index}
		req.ForgottenTopicsData = append(req.ForgottenTopicsData, t)
	}
	if r.renew {
		req.MinBytes, req.MaxBytes, req.MaxRecords = 0, 0, 0
	}
	if r.change != nil {
		r.change(req)
	}
	out, err := f.s.shareFetch(ctx, f.request(kmsg.ShareFetch, req.Version), req.AppendTo(nil))
	if err != nil {
		f.t.Fatal(err)
	}
	resp := kmsg.NewPtrShareFetchResponse()
	resp.Version = req.Version
	if err := resp.ReadFrom(spliced(out.(recordsReply))); err != nil {
		f.t.Fatal(err)
	}
	if resp.ErrorCode == 0 && req.ShareSessionEpoch >= 0 {
		f.epoch = req.ShareSessionEpoch + 1
	}
	return resp
}

// told shows a response: of each partition its index, error, the error of its acknowledgements, and what was acquired.
func toldShare(resp *kmsg.ShareFetchResponse) (out []string) {
	if resp.ErrorCode != 0 {
		out = append(out, kerr.ErrorForCode(resp.ErrorCode).(*kerr.Error).Message)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			line := fmt.Sprint(p.Partition)
			for _, code := range []int16{p.ErrorCode, p.AcknowledgeErrorCode} {
				if code != 0 {
					line += " " + kerr.ErrorForCode(code).(*kerr.Error).Message
				}
			}
			for _, a := range p.AcquiredRecords {
				line += fmt.Sprintf(" %d-%d*%d", a.FirstOffset, a.LastOffset, a.DeliveryCount)
			}
			if (len(p.Records) > 0) != (len(p.AcquiredRecords) > 0) {
				line += fmt.Sprintf(" with %d bytes of records", len(p.Records))
			}
			out = append(out, line)
		}
	}
	return out
}

// want fetches and compares what is told.
func (f *shareStand) want(what string, r shareReq, want ...string) {
	f.t.Helper()
	if got := toldShare(f.shareFetch(context.Background(), r)); !slices.Equal(got, want) {
		f.t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func ackOf(first, last int64, types ...int8) sharesession.Ack {
	return sharesession.Ack{First: first, Last: last, Types: types}
}

func acksOf(p share.Partition, acks ...sharesession.Ack) map[share.Partition][]sharesession.Ack {
	return map[share.Partition][]sharesession.Ack{p: acks}
}

func TestShareFetchAcquiresAndSettles(t *testing.T) {
	f := newShareStand(t, nil)
	st := f.topic("t", 2)
	a, b, gone := at(st, 0), at(st, 1), share.Partition{Stream: base.StreamID{9}}
	f.m.putShared(a, batchOf(10, 10))
	f.m.putShared(b, batchOf(3, 10))
	f.want("bad partitions", shareReq{parts: []share.Partition{a, {Stream: st.ID, Index: 7}, gone}},
		"7 UNKNOWN_TOPIC_OR_PARTITION", "0 0-9*1", "0 UNKNOWN_TOPIC_ID")
	f.want("another partition", shareReq{parts: []share.Partition{b}, forget: []share.Partition{{Stream: st.ID, Index: 7}, gone}}, "1 0-2*1")
	f.want("what is released comes again", shareReq{parts: []share.Partition{a}, acks: acksOf(a, ackOf(0, 3, sharesession.AckAccept), ackOf(4, 6, sharesession.AckAccept, sharesession.AckReject, sharesession.AckRelease))}, "0 6-6*2")
	f.want("a wrong acknowledgement", shareReq{parts: []share.Partition{a}, acks: acksOf(a, ackOf(0, 20, sharesession.AckAccept))}, "0 INVALID_REQUEST")
	f.want("what is settled", shareReq{parts: []share.Partition{b}, acks: acksOf(b, ackOf(0, 0, sharesession.AckAccept))}, "1")
	f.want("is not settled again", shareReq{parts: []share.Partition{b}, acks: acksOf(b, ackOf(1, 1, sharesession.AckAccept), ackOf(1, 2, sharesession.AckAccept))}, "1 INVALID_RECORD_STATE")
	f.m.putShared(a, batchOf(2, 10))
	f.want("a renewal fetches nothing", shareReq{parts: []share.Partition{a}, renew: true, acks: acksOf(a, ackOf(7, 7, sharesession.AckRenew))}, "0")
	f.want("fetches", shareReq{}, "0 10-11*1")

	f.epoch = -1
	f.want("the end", shareReq{parts: []share.Partition{a}, acks: acksOf(a, ackOf(7, 8, sharesession.AckAccept))}, "0")
	if n := f.m.heldBy("m", a) + f.m.heldBy("m", b); n != 0 || f.s.shareSessions.Count() != 0 {
		t.Fatalf("%d records are held and %d sessions are there", n, f.s.shareSessions.Count())
	}
	f.member, f.epoch = "n", 0
	f.want("another member", shareReq{parts: []share.Partition{a, b}}, "0 6-6*3 9-11*2", "1 1-2*2")
}

func TestShareFetchIsRefused(t *testing.T) {
	f := newShareStand(t, func(o *Options) { o.ShareSessions = 1 })
	st := f.topic("t", 1)
	long := "0123456789012345678901234567890123456"
	for what, change := range map[string]func(*kmsg.ShareFetchRequest){
		"no group":    func(r *kmsg.ShareFetchRequest) { r.GroupID = nil },
		"no member":   func(r *kmsg.ShareFetchRequest) { r.MemberID = nil },
		"a long name": func(r *kmsg.ShareFetchRequest) { r.MemberID = &long },
		"a mode":      func(r *kmsg.ShareFetchRequest) { r.ShareAcquireMode = 2 },
		"renewal":     func(r *kmsg.ShareFetchRequest) { r.IsRenewAck = true },
		"a first acks": func(r *kmsg.ShareFetchRequest) {
			r.Topics[0].Partitions[0].AcknowledgementBatches = make([]kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch, 1)
		},
	} {
		f.want(what, shareReq{parts: []share.Partition{at(st, 0)}, change: change}, "INVALID_REQUEST")
	}
	f.want("a session", shareReq{parts: []share.Partition{at(st, 0)}})
	f.epoch = 5
	f.want("a wrong epoch", shareReq{}, "INVALID_SHARE_SESSION_EPOCH")
	f.member = "n"
	f.want("no session", shareReq{}, "SHARE_SESSION_NOT_FOUND")
	f.epoch = 0
	began := time.Now()
	f.want("the limit", shareReq{change: func(r *kmsg.ShareFetchRequest) { r.MaxWaitMillis = 20 }}, "SHARE_SESSION_LIMIT_REACHED")
	if time.Since(began) < 20*time.Millisecond {
		t.Error("who gets no session may ask again at once")
	}
}

func TestShareFetchWaits(t *testing.T) {
	f := newShareStand(t, nil)
	st := f.topic("t", 2)
	wait := func(r *kmsg.ShareFetchRequest) { r.MaxWaitMillis = 20_000 }
	answer := make(chan []string)
	begin := func(r shareReq) {
		r.change = wait
		go func() { answer <- toldShare(f.shareFetch(context.Background(), r)) }()
		eventually(t, "it waits", func() bool {
			f.m.lm.Lock()
			defer f.m.lm.Unlock()
			return len(f.m.shareQueues.watches) == 1
		})
	}
	begin(shareReq{parts: []share.Partition{at(st, 0), at(st, 1), {Stream: st.ID, Index: 9}}})
	f.m.putShared(at(st, 1), batchOf(2, 10))
	if got := <-answer; !slices.Equal(got, []string{"9 UNKNOWN_TOPIC_OR_PARTITION", "1 0-1*1"}) {
		t.Fatalf("records that came: %q", got)
	}
	// What one member releases another waits for.
	other := &shareStand{fetchStand: f.fetchStand, member: "n"}
	f, other = other, f
	begin(shareReq{parts: []share.Partition{at(st, 1)}})
	other.want("released", shareReq{parts: []share.Partition{at(st, 1)}, renew: true, acks: acksOf(at(st, 1), ackOf(1, 1, sharesession.AckRelease))}, "1")
	if got := <-answer; !slices.Equal(got, []string{"1 1-1*2"}) {
		t.Fatalf("a record that was released: %q", got)
	}
	// Nobody waits where nothing can come.
	f.want("only errors", shareReq{forget: []share.Partition{at(st, 1)}, parts: []share.Partition{{Stream: st.ID, Index: 9}}, change: wait}, "9 UNKNOWN_TOPIC_OR_PARTITION")
	f.want("no records wanted", shareReq{parts: []share.Partition{at(st, 0)}, change: func(r *kmsg.ShareFetchRequest) { wait(r); r.MaxRecords = 0 }}, "9 UNKNOWN_TOPIC_OR_PARTITION")
	f.m.shareQueues.without = map[string]bool{"g": true}
	f.want("no queue", shareReq{change: wait, forget: []share.Partition{{Stream: st.ID, Index: 9}}}, "0 UNKNOWN_TOPIC_OR_PARTITION")
	f.m.shareQueues.without = nil
}

func TestShareFetchKeepsToItsLimits(t *testing.T) {
	f := newShareStand(t, nil)
	st := f.topic("t", 3)
	parts := []share.Partition{at(st, 0), at(st, 1), at(st, 2)}
	for _, p := range parts {
		f.m.putShared(p, batchOf(5, 10))
		f.m.putShared(p, batchOf(5, 10))
	}
	records := func(n int32, mode int8) func(*kmsg.ShareFetchRequest) {
		return func(r *kmsg.ShareFetchRequest) { r.MaxRecords, r.ShareAcquireMode = n, mode }
	}
	f.want("whole batches", shareReq{parts: parts, change: records(3, acquireBatches)}, "0 0-4*1")
	// The partition that had records comes last.
	f.want("the next partition", shareReq{change: records(3, acquireRecordLimit)}, "1 0-2*1")
	f.want("the one behind, and more", shareReq{change: records(12, acquireRecordLimit)}, "2 0-9*1", "0 5-6*1")
	f.want("a byte", shareReq{change: func(r *kmsg.ShareFetchRequest) { r.MaxBytes = 1 }}, "1 3-4*1")
}

// TestShareSessionEndsWithItsConnection goes through real connections, and by way of a response that is sent in pieces.
func TestShareSessionEndsWithItsConnection(t *testing.T) {
	f := newShareStand(t, nil)
	st := f.topic("t", 1)
	big := batchOf(100, 2*copyBelow/100)
	f.m.putShared(at(st, 0), big)
	addr := serve(t, f.s)
	defer f.s.Close(context.Background())
	fetch := func(p *peer, member string) *kmsg.ShareFetchResponse {
		req := kmsg.NewPtrShareFetchRequest()
		group := "g"
		req.GroupID, req.MemberID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.MaxRecords = &group, &member, 20_000, 1, 1<<20, 500
		topic := kmsg.NewShareFetchRequestTopic()
		topic.TopicID, topic.Partitions = st.ID, make([]kmsg.ShareFetchRequestTopicPartition, 1)
		req.Topics = append(req.Topics, topic)
		return call[*kmsg.ShareFetchResponse](p, 2, req)
	}
	p := dial(t, addr)
	resp := fetch(p, "m")
	if got := toldShare(resp); !slices.Equal(got, []string{"0 0-99*1"}) {
		t.Fatalf("acquired %q", got)
	}
	if got := resp.Topics[0].Partitions[0].Records; !bytes.Equal(got[61:], big[61:]) {
		t.Fatal("the records are not those that were written")
	}
	p.nc.Close()
	if got := toldShare(fetch(dial(t, addr), "n")); !slices.Equal(got, []string{"0 0-99*2"}) {
		t.Fatalf("after the first member's connection ended, another acquired %q", got)
	}
}

// TestShareFetchEncodingIsKmsgs: kmsg encodes what it decodes from our bytes to the same bytes.
func TestShareFetchEncodingIsKmsgs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &shareFetchReply{rc: &request{version: rapid.Int16Range(1, 2).Draw(t, "version"), server: &Server{}, local: testHost},
			code: rapid.SampledFrom([]int16{0, kerr.InvalidRequest.Code}).Draw(t, "code"), lock: rapid.Int32().Draw(t, "lock"), leader: 3}
		text := rapid.Map(rapid.StringN(0, 10, -1), func(s string) *string { return nullable(s) })
		r.message = text.Draw(t, "message")
		for i := range rapid.IntRange(0, 8).Draw(t, "partitions") {
			p := shareResult{Partition: share.Partition{Stream: base.StreamID{byte(i / 3)}, Index: int32(i)},
				code:    rapid.SampledFrom([]int16{0, kerr.NotLeaderForPartition.Code, kerr.UnknownTopicID.Code}).Draw(t, "error"),
				ackCode: rapid.SampledFrom([]int16{0, kerr.InvalidRecordState.Code}).Draw(t, "ack error"), epoch: 4,
				message: text.Draw(t, "text"), ackMessage: text.Draw(t, "ack text")}
			for range rapid.IntRange(0, 3).Draw(t, "ranges") {
				first := rapid.Int64().Draw(t, "first")
				p.ranges = append(p.ranges, broker.TakenRange{Span: queue.Span{First: first, Last: first + 1}, Deliveries: rapid.Int32Range(1, 1<<20).Draw(t, "deliveries")})
			}
			if len(p.ranges) > 0 {
				p.records = &memory{b: rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "records")}
			}
			r.parts = append(r.parts, p)
		}
		got := spliced(r)
		resp := kmsg.NewPtrShareFetchResponse()
		resp.Version = r.rc.version
		if err := resp.ReadFrom(got); err != nil {
			t.Fatal(err)
		}
		if again := resp.AppendTo(nil); !bytes.Equal(got, again) {
			t.Fatalf("encoded\n%x, kmsg has\n%x", got, again)
		}
		n := 0
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				want := &r.parts[n]
				n++
				led := p.CurrentLeader.LeaderID == 3 && p.CurrentLeader.LeaderEpoch == 4
				if p.Partition != want.Index || p.ErrorCode != want.code || p.AcknowledgeErrorCode != want.ackCode || len(p.AcquiredRecords) != len(want.ranges) || led != want.tellsLeader() {
					t.Fatalf("decoded %+v, meant %+v", p, want)
				}
			}
		}
		if n != len(r.parts) {
			t.Fatalf("%d partitions, want %d", n, len(r.parts))
		}
	})
}
