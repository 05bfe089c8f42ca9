package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a server over logs in memory that listens.
type wire struct {
	*fetchStand
	t    *testing.T
	addr string
}

func newWire(t *testing.T, change func(*Options)) *wire {
	f := newFetchStand(t, change)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := f.s.Close(ctx); err != nil {
			t.Errorf("closing: %v", err)
		}
		if n := f.s.inFlight(); n != 0 {
			t.Errorf("%d bytes are in flight after the end", n)
		}
	})
	return &wire{f, t, serve(t, f.s)}
}

func (w *wire) dial() *peer { return dial(w.t, w.addr) }

// ended waits until so many connections have ended for a reason.
func (w *wire) ended(reason string, n int) {
	w.t.Helper()
	eventually(w.t, reason, func() bool { return valueOf(w.s.metrics.ended.WithLabelValues(reason)) == float64(n) })
}

// valueOf reads a counter or gauge.
func valueOf(m prometheus.Metric) float64 {
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		panic(err)
	}
	return d.GetCounter().GetValue() + d.GetGauge().GetValue()
}

// closed waits for the end of the stream, and wants nothing before it.
func (p *peer) closed() {
	p.t.Helper()
	b, err := io.ReadAll(p.nc)
	if len(b) > 0 || isTimeout(err) {
		p.t.Fatalf("%d bytes, %v; want the end", len(b), err)
	}
}

func (p *peer) raw(b []byte) {
	p.t.Helper()
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// produceOf is a request with one batch for one partition.
func produceOf(topic string, index int32, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = index, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// TestProduceOverlapsAndIsAnsweredInOrder: produce requests are handed on while others wait; another request waits for
// them; all answers come in order.
func TestProduceOverlapsAndIsAnsweredInOrder(t *testing.T) {
	w := newWire(t, nil)
	w.topic("t", 1)
	w.m.hold = true
	p := w.dial()
	var ids []int32
	var reqs []kmsg.Request
	send := func(version int16, req kmsg.Request) {
		ids, reqs = append(ids, p.write(version, req)), append(reqs, req)
	}
	for range 5 {
		send(9, produceOf("t", 0, -1, batchOf(1, 10)))
	}
	send(12, kmsg.NewPtrMetadataRequest())
	send(9, produceOf("t", 0, 1, batchOf(1, 10)))
	eventually(t, "five requests in flight", func() bool {
		w.m.lm.Lock()
		defer w.m.lm.Unlock()
		return len(w.m.held) == 5
	})
	w.m.release() // the last first
	for i, id := range ids {
		resp := p.read(id, reqs[i])
		if r, ok := resp.(*kmsg.ProduceResponse); ok {
			got := r.Topics[0].Partitions[0]
			if wantBase := []int64{4, 3, 2, 1, 0, -1, 5}[i]; got.ErrorCode != 0 || got.BaseOffset != wantBase {
				t.Errorf("request %d: %+v, want offset %d", i, got, wantBase)
			}
		}
	}
}

func TestPipelineIsBounded(t *testing.T) {
	w := newWire(t, func(o *Options) { o.MaxPipelined = 3 })
	w.topic("t", 1)
	w.m.hold = true
	p := w.dial()
	req := produceOf("t", 0, -1, batchOf(1, 10))
	for range 8 {
		p.write(9, req)
	}
	eventually(t, "three requests in flight", func() bool {
		w.m.lm.Lock()
		defer w.m.lm.Unlock()
		return len(w.m.held) >= 3
	})
	w.m.lm.Lock()
	if n := len(w.m.held); n != 3 {
		t.Errorf("%d requests in flight", n)
	}
	w.m.lm.Unlock()
	w.m.release()
	for id := range int32(8) {
		p.read(id+1, req)
	}
}

func TestBadRequestsEndOnlyTheirConnection(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := newWire(t, func(o *Options) { o.Metrics, o.MaxRequestBytes, o.MaxControlBytes = reg, 1<<20, 1<<16 })
	good := w.dial()
	call[*kmsg.MetadataResponse](good, 12, kmsg.NewPtrMetadataRequest())
	head := func(size int32, key, version int16) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(size))
		b = binary.BigEndian.AppendUint16(b, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		return binary.BigEndian.AppendUint32(b, 1)
	}
	produce := int16(kmsg.Produce)
	cases := map[string][]byte{
		"negative length":        head(-1, 3, 1),
		"length of zero":         head(0, 3, 1),
		"length below a header":  head(7, 3, 1),
		"the largest length":     head(math.MaxInt32, produce, 9),
		"above the limit":        head(1<<20+1, produce, 9),
		"above that of others":   head(1<<16+1, 3, 9),
		"unknown API":            head(100, 999, 0),
		"negative API":           head(100, -1, 0),
		"API of brokers":         head(100, 4, 0),
		"version too low":        head(100, produce, 2),
		"version too high":       head(100, produce, 14),
		"negative version":       head(100, int16(kmsg.ApiVersions), -1),
		"no client ID":           head(8, 3, 1),
		"client ID too long":     append(head(10, 3, 1), 0x7f, 0xff),
		"client ID of -2":        append(head(10, 3, 1), 0xff, 0xfe),
		"tags missing":           append(head(10, 3, 12), 0xff, 0xff),
		"too many tags":          append(head(15, 3, 12), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"tag too long":           append(head(15, 3, 12), 0xff, 0xff, 1, 0, 0xff, 0xff, 0x7f),
		"body cut":               append(head(12, 3, 1), 0xff, 0xff, 0, 0),
		"array of many":          append(head(14, 3, 1), 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff),
		"produce cut":            append(head(12, produce, 9), 0xff, 0xff, 0, 0),
		"something else than us": []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
	}
	for name, b := range cases {
		p := w.dial()
		p.raw(b)
		p.t = failAs{t, name}
		p.closed()
	}
	w.ended(endedMalformed, len(cases))
	call[*kmsg.MetadataResponse](good, 12, kmsg.NewPtrMetadataRequest())
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}

// failAs names the case in a failure.
type failAs struct {
	testing.TB
	name string
}

func (f failAs) Fatalf(format string, args ...any) {
	f.TB.Helper()
	f.TB.Errorf(f.name+": "+format, args...)
}

func TestApiVersions(t *testing.T) {
	w := newWire(t, nil)
	p := w.dial()
	req := kmsg.NewPtrApiVersionsRequest()
	named := func(name, version string) *kmsg.ApiVersionsRequest {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
		return req
	}
	for version := int16(0); version <= 5; version++ {
		resp := call[*kmsg.ApiVersionsResponse](p, version, named("test", "1.0"))
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(listAPIs()) {
			t.Errorf("version %d: %+v", version, resp)
		}
		finalized := slices.IndexFunc(resp.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
			return f.Name == "group.version" && f.MinVersionLevel == 1 && f.MaxVersionLevel == 1
		})
		if (finalized >= 0) != (version >= 3) || (len(resp.SupportedFeatures) > 0) != (version >= 4) {
			t.Errorf("version %d: features %+v of %+v", version, resp.FinalizedFeatures, resp.SupportedFeatures)
		}
		if k := resp.ApiKeys[0]; k.ApiKey != 0 || k.MinVersion != 0 || k.MaxVersion != 13 {
			t.Errorf("Produce is announced as %+v", k)
		}
	}
	for _, bad := range []*kmsg.ApiVersionsRequest{named("", "1"), named("a", ""), named("a b", "1"), named("-a", "1"), named("a-", "1"), named("a", "1_0")} {
		wantCode(t, "software "+bad.ClientSoftwareName, call[*kmsg.ApiVersionsResponse](p, 3, bad).ErrorCode, kerr.InvalidRequest)
	}
	cluster, other := "cluster", "other"
	for _, tc := range []struct {
		cluster *string
		node    int32
		err     *kerr.Error
	}{{nil, -1, nil}, {&cluster, testNode, nil}, {&cluster, -1, kerr.InvalidRequest}, {nil, 1, kerr.InvalidRequest}, {&other, testNode, kerr.RebootstrapRequired}, {&cluster, 1, kerr.RebootstrapRequired}} {
		req := named("a", "1")
		req.ClusterID, req.NodeID = tc.cluster, tc.node
		wantCode(t, "cluster and node", call[*kmsg.ApiVersionsResponse](p, 5, req).ErrorCode, tc.err)
	}
	// A version of the future has a header that can be read and a body that cannot.
	b := frameOf(77, func() kmsg.Request { req.Version = 3; return req }())
	binary.BigEndian.PutUint16(b[6:], 99)
	p.raw(b)
	got := p.readFrame()
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(got[4:]); err != nil || binary.BigEndian.Uint32(got) != 77 {
		t.Fatalf("%x: %v", got, err)
	}
	if resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 5 {
		t.Errorf("%+v", resp)
	}
}

// unspeakable is a response that cannot be encoded.
type unspeakable struct{ *kmsg.ListGroupsResponse }

func (unspeakable) AppendTo([]byte) []byte { panic("another bug") }

func TestHandlersPanicForThemselves(t *testing.T) {
	w := newWire(t, nil)
	w.s.apis.find(int16(kmsg.DescribeCluster)).run = func(*Server, context.Context, *request, []byte) (any, error) { panic("a bug") }
	good := w.dial()
	bad := w.dial()
	bad.write(0, kmsg.NewPtrDescribeClusterRequest())
	bad.closed()
	w.ended(endedPanic, 1)
	w.s.apis.find(int16(kmsg.ListGroups)).run = func(*Server, context.Context, *request, []byte) (any, error) {
		return unspeakable{kmsg.NewPtrListGroupsResponse()}, nil
	}
	bad = w.dial()
	bad.write(4, kmsg.NewPtrListGroupsRequest())
	bad.closed()
	w.ended(endedPanic, 2)
	call[*kmsg.MetadataResponse](good, 12, kmsg.NewPtrMetadataRequest())
}

func TestConnectionsAreLimited(t *testing.T) {
	w := newWire(t, func(o *Options) { o.MaxConnections = 2 })
	a, b := w.dial(), w.dial()
	call[*kmsg.MetadataResponse](a, 12, kmsg.NewPtrMetadataRequest())
	call[*kmsg.MetadataResponse](b, 12, kmsg.NewPtrMetadataRequest())
	w.dial().closed()
	if n := valueOf(w.s.metrics.rejected); n != 1 {
		t.Errorf("%v connections were rejected", n)
	}
	a.nc.Close()
	w.ended(endedPeer, 1)
	call[*kmsg.MetadataResponse](w.dial(), 12, kmsg.NewPtrMetadataRequest())
}

func TestIdleConnectionsEnd(t *testing.T) {
	w := newWire(t, func(o *Options) { o.IdleTimeout = 30 * time.Millisecond })
	st := w.topic("t", 1)
	// A request that waits is not idle.
	busy := w.dial()
	req := fetchOf(st, want(0, 0))
	req.MaxWaitMillis = 200
	call[*kmsg.FetchResponse](busy, 12, req)
	w.dial().closed()
	busy.closed()
	w.ended(endedIdle, 2)
}

func TestHalfRequestsEnd(t *testing.T) {
	w := newWire(t, func(o *Options) { o.ReadTimeout = 30 * time.Millisecond })
	p := w.dial()
	p.raw(frameOf(1, kmsg.NewPtrMetadataRequest())[:13])
	p.closed()
	w.ended(endedSlow, 1)
}

// TestSlowReadersEnd: who asks for much and takes nothing is cut off.
func TestSlowReadersEnd(t *testing.T) {
	const size = 20 * 900_000
	// A reader has minutes for so much; all but a blink of them are over.
	w := newWire(t, func(o *Options) { o.WriteTimeout = 50*time.Millisecond - size*(time.Second/slowest) })
	st := w.topic("t", 1)
	for range 20 {
		w.m.put(st.Partitions[0].Log, batchOf(1, size/20))
	}
	p := w.dial()
	// A receive buffer that the system cannot grow, so that the rest stays with the server.
	p.nc.(*net.TCPConn).SetReadBuffer(4096)
	req := fetchOf(st, want(0, 0))
	req.Topics[0].Partitions[0].PartitionMaxBytes = 1 << 30
	p.write(12, req)
	w.ended(endedSlow, 1)
}

func TestCloseAnswersWhatWaits(t *testing.T) {
	w := newWire(t, nil)
	st := w.topic("t", 1)
	w.m.hold = true
	poll, writer := w.dial(), w.dial()
	fetch := fetchOf(st, want(0, 0))
	fetch.MaxWaitMillis = 3_600_000
	produce := produceOf("t", 0, -1, batchOf(1, 10))
	id := poll.write(12, fetch)
	w.waiters(1)
	writer.write(9, produce)
	eventually(t, "a produce request in flight", func() bool {
		w.m.lm.Lock()
		defer w.m.lm.Unlock()
		return len(w.m.held) == 1
	})
	done := make(chan error)
	go func() { done <- w.s.Close(context.Background()) }()
	poll.read(id, fetch)
	poll.closed()
	w.m.release()
	if got := writer.read(1, produce).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 {
		t.Errorf("%+v", got)
	}
	writer.closed()
	if err := <-done; err != nil {
		t.Error(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.s.Serve(context.Background(), ln); !errors.Is(err, errShutdown) {
		t.Errorf("serving after the end: %v", err)
	}
}

func TestCloseCutsWhatDoesNotEnd(t *testing.T) {
	w := newWire(t, nil)
	w.topic("t", 1)
	w.m.hold = true
	p := w.dial()
	p.write(9, produceOf("t", 0, -1, batchOf(1, 10)))
	eventually(t, "a produce request in flight", func() bool {
		w.m.lm.Lock()
		defer w.m.lm.Unlock()
		return len(w.m.held) == 1
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan error)
	go func() { done <- w.s.Close(ctx) }()
	p.closed()
	w.m.release()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("closed with %v", err)
	}
}

func TestFetchEndsWithItsPeer(t *testing.T) {
	w := newWire(t, nil)
	st := w.topic("t", 1)
	p := w.dial()
	req := fetchOf(st, want(0, 0))
	req.MaxWaitMillis = 3_600_000
	p.write(12, req)
	w.waiters(1)
	p.nc.Close()
	w.waiters(0)
	w.ended(endedPeer, 1)
}
