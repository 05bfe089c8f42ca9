package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
)

// failer is a test, or a run of a property.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// fetchStand is a server over logs in memory, whose fetches are called directly.
type fetchStand struct {
	t failer
	m *memLogs
	s *Server
}

func newFetchStand(t failer, change func(*Options)) *fetchStand {
	m := newMemLogs()
	o := Options{Backend: m}
	if change != nil {
		change(&o)
	}
	return &fetchStand{t: t, m: m, s: New(o)}
}

func (f *fetchStand) topic(name string, partitions int) *meta.Stream {
	st, err := f.m.CreateStream(context.Background(), meta.CreateStream{Namespace: base.DefaultNamespace, Name: name, Partitions: partitions, Replicas: 1})
	if err != nil {
		f.t.Fatal(err)
	}
	// The node's streams are ready at once.
	f.m.node.mu.Lock()
	defer f.m.node.mu.Unlock()
	f.m.node.meta.Apply(&meta.Command{Done: &meta.EffectDone{Stream: st.ID, Ready: partitions}})
	st, _ = f.m.node.meta.View.StreamByID(st.ID)
	return st
}

// run answers a request and decodes the response.
func (f *fetchStand) run(ctx context.Context, version int16, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	req.Version = version
	rc := &request{server: f.s, api: f.s.apis.find(int16(kmsg.Fetch)), version: version, namespace: base.DefaultNamespace,
		local: testHost, remote: testHost, received: time.Now()}
	out, err := f.s.fetch(ctx, rc, req.AppendTo(nil))
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = version
	return resp, resp.ReadFrom(spliced(out.(*fetchReply)))
}

func (f *fetchStand) fetch(version int16, req *kmsg.FetchRequest) *kmsg.FetchResponse {
	f.t.Helper()
	resp, err := f.run(context.Background(), version, req)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp
}

// want is a partition to fetch.
func want(index int32, offset int64) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = index, offset, 1<<20, -1, -1
	return p
}

// fetchOf is a request without a session that does not wait.
func fetchOf(st *meta.Stream, parts ...kmsg.FetchRequestTopicPartition) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MinBytes = 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = st.Name, st.ID, parts
	req.Topics = append(req.Topics, t)
	return req
}

// only is the one partition of a response.
func only(t failer, resp *kmsg.FetchResponse) *kmsg.FetchResponseTopicPartition {
	t.Helper()
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("not one partition: %+v", resp)
	}
	return &resp.Topics[0].Partitions[0]
}

// offsetsOf lists the base offsets of the batches.
func offsetsOf(t failer, b []byte) (out []int64) {
	t.Helper()
	for len(b) > 0 {
		info, err := recordbatch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.BaseOffset)
		b = b[info.Size:]
	}
	return out
}

func TestFetchErrors(t *testing.T) {
	f := newFetchStand(t, nil)
	st := f.topic("t", 2)
	f.m.put(st.Partitions[0].Log, batchOf(3, 10))
	gone := f.topic("gone", 1)
	f.m.drop(t, gone)
	with := func(change func(*kmsg.FetchRequestTopicPartition)) kmsg.FetchRequestTopicPartition {
		p := want(0, 0)
		change(&p)
		return p
	}
	for _, tc := range []struct {
		name    string
		version int16
		st      *meta.Stream
		part    kmsg.FetchRequestTopicPartition
		err     *kerr.Error
	}{
		{"records", 4, st, want(0, 0), nil},
		{"by ID", 18, st, want(0, 2), nil},
		{"the end", 17, st, want(0, 3), nil},
		{"no such topic", 12, &meta.Stream{Name: "none"}, want(0, 0), kerr.UnknownTopicOrPartition},
		{"no such ID", 13, &meta.Stream{ID: base.StreamID{9}}, want(0, 0), kerr.UnknownTopicID},
		{"deleted", 12, gone, want(0, 0), kerr.UnknownTopicOrPartition},
		{"deleted, by ID", 13, gone, want(0, 0), kerr.UnknownTopicID},
		{"no such partition", 12, st, want(2, 0), kerr.UnknownTopicOrPartition},
		{"negative partition", 13, st, want(-1, 0), kerr.UnknownTopicOrPartition},
		{"beyond the end", 13, st, want(0, 4), kerr.OffsetOutOfRange},
		{"before the start", 13, st, want(0, -1), kerr.OffsetOutOfRange},
		{"known epoch", 9, st, with(func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 5 }), nil},
		{"old epoch", 16, st, with(func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 4 }), kerr.FencedLeaderEpoch},
		{"new epoch", 16, st, with(func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 6 }), kerr.UnknownLeaderEpoch},
		{"old epoch, not told", 8, st, with(func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 4 }), nil},
		{"same last epoch", 12, st, with(func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset, p.LastFetchedEpoch = 2, 5 }), nil},
		{"last epoch of the future", 12, st, with(func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset, p.LastFetchedEpoch = 2, 6 }), kerr.OffsetOutOfRange},
	} {
		p := only(t, f.fetch(tc.version, fetchOf(tc.st, tc.part)))
		wantCode(t, tc.name, p.ErrorCode, tc.err)
		switch {
		case tc.err != nil && (p.HighWatermark != -1 || len(p.RecordBatches) > 0):
			t.Errorf("%s: %+v", tc.name, p)
		case tc.err == nil && (p.HighWatermark != 3 || p.LastStableOffset != 3 || tc.part.FetchOffset < 3 && len(p.RecordBatches) == 0):
			t.Errorf("%s: %+v", tc.name, p)
		}
	}
}

func TestFetchOfAFollower(t *testing.T) {
	f := newFetchStand(t, nil)
	st := f.topic("t", 1)
	for _, version := range []int16{12, 17} {
		req := fetchOf(st, want(0, 0))
		req.ReplicaID, req.ReplicaState.ID = 5, 5
		wantCode(t, "follower", only(t, f.fetch(version, req)).ErrorCode, kerr.NotLeaderForPartition)
	}
}

func TestFetchTellsDivergence(t *testing.T) {
	f := newFetchStand(t, nil)
	st := f.topic("t", 1)
	log := st.Partitions[0].Log
	f.m.put(log, batchOf(3, 10))
	f.m.log(log).epochs = []partlog.Epoch{{Epoch: 1, Start: 0}, {Epoch: 4, Start: 2}}
	p := want(0, 3)
	p.LastFetchedEpoch = 3
	got := only(t, f.fetch(12, fetchOf(st, p)))
	if got.ErrorCode != 0 || got.DivergingEpoch.Epoch != 1 || got.DivergingEpoch.EndOffset != 2 || len(got.RecordBatches) > 0 {
		t.Errorf("epoch 3 is not known here, and the client has an offset above the end of epoch 1: %+v", got)
	}
	p.LastFetchedEpoch = 1
	if got := only(t, f.fetch(12, fetchOf(st, p))); got.DivergingEpoch.EndOffset != 2 {
		t.Errorf("the client has more of epoch 1 than there is: %+v", got)
	}
	p.FetchOffset = 2
	if got := only(t, f.fetch(12, fetchOf(st, p))); got.DivergingEpoch.Epoch != -1 || len(got.RecordBatches) == 0 {
		t.Errorf("the client has all of epoch 1: %+v", got)
	}
}

func TestFetchTellsTheLeaderWithAnOldEpoch(t *testing.T) {
	f := newFetchStand(t, nil)
	p := want(0, 0)
	p.CurrentLeaderEpoch = 1
	resp := f.fetch(16, fetchOf(f.topic("t", 1), p))
	got := only(t, resp)
	if got.CurrentLeader.LeaderID != testNode || got.CurrentLeader.LeaderEpoch != 5 || len(resp.Brokers) != 1 || resp.Brokers[0].Host != "127.0.0.1" || resp.Brokers[0].Port != 9999 {
		t.Errorf("%+v", resp)
	}
}

func TestFetchLimits(t *testing.T) {
	f := newFetchStand(t, func(o *Options) { o.FetchMaxBytes = 5000 })
	st := f.topic("t", 3)
	one := len(batchOf(1, 1000))
	for _, p := range st.Partitions {
		for range 10 {
			f.m.put(p.Log, batchOf(1, 1000))
		}
	}
	for _, tc := range []struct {
		name     string
		max      int32 // of the response
		partsMax int32
		batches  []int // of each partition
	}{
		{"the first batch whatever the limits", 1, 1, []int{1, 0, 0}},
		{"zero is a limit like any other", 0, 0, []int{1, 0, 0}},
		{"partition limit", 1 << 30, int32(one), []int{1, 1, 1}},
		{"below one batch only the first has one", 1 << 30, int32(one) - 1, []int{1, 0, 0}},
		{"response limit", int32(3 * one), int32(2 * one), []int{2, 1, 0}},
		{"the broker's limit", 1 << 30, 1 << 30, []int{5000 / one, 0, 0}},
	} {
		req := fetchOf(st, want(0, 0), want(1, 0), want(2, 0))
		req.MaxBytes = tc.max
		for i := range req.Topics[0].Partitions {
			req.Topics[0].Partitions[i].PartitionMaxBytes = tc.partsMax
		}
		resp := f.fetch(13, req)
		for i, p := range resp.Topics[0].Partitions {
			if got := len(offsetsOf(t, p.RecordBatches)); got != tc.batches[i] || p.ErrorCode != 0 || p.HighWatermark != 10 {
				t.Errorf("%s: partition %d has %d batches, want %d: error %d, high watermark %d", tc.name, i, got, tc.batches[i], p.ErrorCode, p.HighWatermark)
			}
		}
	}
}

// TestFetchWaits: for the first byte, for many bytes, for its time, and for nothing when an error is there.
func TestFetchWaits(t *testing.T) {
	f := newFetchStand(t, nil)
	st := f.topic("t", 2)
	log := st.Partitions[1].Log
	poll := func(version int16, req *kmsg.FetchRequest, wait time.Duration) (chan *kmsg.FetchResponse, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		req.MaxWaitMillis = int32(wait.Milliseconds())
		c := make(chan *kmsg.FetchResponse, 1)
		go func() {
			resp, err := f.run(ctx, version, req)
			if err != nil {
				t.Error(err)
			}
			c <- resp
		}()
		return c, cancel
	}
	both := func() *kmsg.FetchRequest { return fetchOf(st, want(0, 0), want(1, 0)) }

	c, _ := poll(12, both(), time.Hour)
	f.waiters(1)
	f.m.put(log, batchOf(1, 10))
	if resp := <-c; len(resp.Topics[0].Partitions[1].RecordBatches) == 0 {
		t.Errorf("woken without records: %+v", resp)
	}

	many := both()
	many.MinBytes = 3000
	c, _ = poll(12, many, time.Hour)
	f.waiters(1)
	before := f.reads()
	for range 3 {
		f.m.put(log, batchOf(1, 800))
	}
	select {
	case resp := <-c:
		t.Fatalf("answered before there are 3000 bytes: %+v", resp)
	default:
	}
	f.m.put(log, batchOf(1, 800))
	if resp := <-c; len(offsetsOf(t, resp.Topics[0].Partitions[1].RecordBatches)) != 5 {
		t.Errorf("woken before there was enough: %+v", resp)
	}
	if n := f.reads() - before; n > 4 {
		t.Errorf("%d reads while waiting for bytes", n)
	}

	c, _ = poll(12, fetchOf(st, want(0, 0)), 20*time.Millisecond)
	if resp := <-c; only(t, resp).ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	bad := both()
	bad.Topics[0].Partitions[0].FetchOffset = 99
	c, _ = poll(12, bad, time.Hour)
	if resp := <-c; resp.Topics[0].Partitions[0].ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("%+v", resp)
	}
	c, cancel := poll(12, fetchOf(st, want(0, 0)), time.Hour)
	cancel()
	if resp := <-c; only(t, resp).ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
}

// waiters waits until so many watches are open.
func (f *fetchStand) waiters(n int) {
	eventually(f.t, fmt.Sprintf("%d watches", n), func() bool {
		f.m.lm.Lock()
		defer f.m.lm.Unlock()
		return len(f.m.watches) == n
	})
}

func (f *fetchStand) reads() int {
	f.m.lm.Lock()
	defer f.m.lm.Unlock()
	return f.m.reads
}

// eventually polls a state that has no event of its own.
func eventually(t failer, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("%s: did not happen", what)
		}
	}
}
