package kafka

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
	"godwit/internal/partlog"
)

// node is a broker without logs: the real state machines of metadata and groups, called directly.
// Time stands still unless a test moves it, and partitions have the states that a test gives them.
type node struct {
	Backend

	mu      sync.Mutex
	meta    *meta.State
	offsets *group.Offsets
	coord   *group.Coordinator
	shares  shareNode
	streams streamsNode
	now     int64
	made    uint16 // streams made, for their IDs
	token   uint64
	waiting map[uint64]chan any
	states  map[base.LogID]broker.LogState
	down    *base.Error // if set, groups fail with it
}

const testNode = 7

func newNode() *node {
	n := &node{meta: meta.NewState(nil), offsets: group.NewOffsets(), now: 1_000_000, waiting: map[uint64]chan any{}, states: map[base.LogID]broker.LogState{}}
	n.meta.Apply(&meta.Command{Bootstrap: &meta.Bootstrap{ClusterID: "cluster", DataShards: 1}})
	opts := group.DefaultOptions()
	opts.InitialDelay = 0
	n.coord = group.NewCoordinator(opts, n.offsets, n.now)
	return n
}

func (n *node) Meta() *meta.View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.meta.View
}

func (n *node) NodeID() int32 { return testNode }

func (n *node) Disk() broker.DiskInfo { return broker.DiskInfo{Total: 1000, Usable: 400} }

// decide applies what fn decides.
func (n *node) decide(fn func() (*meta.Command, error), dry bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, err := fn()
	if err == nil && !dry {
		n.meta.Apply(c)
	}
	return err
}

var testLimits = meta.Limits{DefaultPartitions: 3, DefaultReplicas: 1, MaxReplicas: 1}

func (n *node) CreateStream(_ context.Context, r meta.CreateStream) (st *meta.Stream, err error) {
	err = n.decide(func() (*meta.Command, error) {
		n.made++
		c, err := n.meta.DecideCreate(&r, base.StreamID{byte(n.made), byte(n.made >> 8), 1}, n.now, testLimits)
		if err == nil {
			st = n.meta.Resolved(c.Create)
		}
		return c, err
	}, r.DryRun)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range st.Partitions {
		n.states[p.Log] = broker.LogState{HighWatermark: 100, Size: 1000 + int64(p.Log)}
	}
	return st, nil
}

func (n *node) DeleteStream(_ context.Context, id base.StreamID) error {
	return n.decide(func() (*meta.Command, error) { return n.meta.DecideDelete(id) }, false)
}

func (n *node) AddPartitions(_ context.Context, id base.StreamID, total int, dry bool) error {
	return n.decide(func() (*meta.Command, error) { return n.meta.DecideGrow(id, total, testLimits) }, dry)
}

func (n *node) SetConfig(_ context.Context, id base.StreamID, values map[string]*string, replace, dry bool) error {
	return n.decide(func() (*meta.Command, error) { return n.meta.DecideConfig(id, values, replace) }, dry)
}

func (n *node) State(log base.LogID) (broker.LogState, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	st, ok := n.states[log]
	return st, ok
}

func (n *node) DeleteRecords(_ context.Context, s *meta.Stream, partition int32, before int64) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	log := s.Partitions[partition].Log
	st := n.states[log]
	if before == -1 {
		before = st.HighWatermark
	}
	if before < 0 || before > st.HighWatermark {
		return 0, base.Errorf(base.CodeOffsetOutOfRange, "offset %d is above %d", before, st.HighWatermark)
	}
	st.Start = max(st.Start, before)
	n.states[log] = st
	return st.Start, nil
}

func (n *node) Producers(_ context.Context, p meta.Partition) ([]partlog.ProducerState, error) {
	return []partlog.ProducerState{{ID: 1000 + int64(p.Log), Epoch: 2, LastSequence: 3, LastTimestamp: 4, CoordinatorEpoch: 5, TxnStart: 6}}, nil
}

// call runs a request in the coordinator and waits for its answer.
func (n *node) call(ctx context.Context, fn func(token uint64) []group.Reply) (any, *base.Error) {
	n.mu.Lock()
	if n.down != nil {
		n.mu.Unlock()
		return nil, n.down
	}
	n.token++
	token, answer := n.token, make(chan any, 1)
	n.waiting[token] = answer
	n.deliver(fn(token))
	n.mu.Unlock()
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		n.mu.Lock()
		defer n.mu.Unlock()
		n.deliver(n.coord.Cancel(n.now, token))
		return nil, base.Errorf(base.CodeTimeout, "gone")
	}
}

func (n *node) deliver(replies []group.Reply) {
	for _, c := range n.coord.Changes() {
		n.offsets.Apply(c)
	}
	for _, r := range replies {
		if answer := n.waiting[r.Token]; answer != nil {
			delete(n.waiting, r.Token)
			answer <- r.Response
		}
	}
}

// tick moves the node's time.
func (n *node) tick(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now += d.Milliseconds()
	n.deliver(n.coord.Tick(n.now))
}

func (n *node) JoinGroup(ctx context.Context, req group.JoinRequest) group.JoinResponse {
	a, err := n.call(ctx, func(token uint64) []group.Reply { return n.coord.Join(n.now, token, &req, fmt.Sprint(token)) })
	if err != nil {
		return group.JoinResponse{Err: err}
	}
	return *a.(*group.JoinResponse)
}

func (n *node) SyncGroup(ctx context.Context, req group.SyncRequest) group.SyncResponse {
	a, err := n.call(ctx, func(token uint64) []group.Reply { return n.coord.Sync(n.now, token, &req) })
	if err != nil {
		return group.SyncResponse{Err: err}
	}
	return *a.(*group.SyncResponse)
}

// decideGroup runs fn in the coordinator and applies its command.
func (n *node) decideGroup(fn func() group.Command) *base.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down != nil {
		return n.down
	}
	if c := fn(); c != nil {
		n.offsets.Apply(c)
	}
	return nil
}

func (n *node) HeartbeatGroup(_ context.Context, req group.HeartbeatRequest) (out group.HeartbeatResponse) {
	if err := n.decideGroup(func() group.Command { out = n.coord.Heartbeat(n.now, &req); return nil }); err != nil {
		out.Err = err
	}
	return out
}

func (n *node) LeaveGroup(_ context.Context, req group.LeaveRequest) (out group.LeaveResponse) {
	err := n.decideGroup(func() group.Command {
		var replies []group.Reply
		out, replies = n.coord.Leave(n.now, &req)
		n.deliver(replies)
		return nil
	})
	if err != nil {
		out.Err = err
	}
	return out
}

func (n *node) CommitOffsets(_ context.Context, req group.CommitRequest) (out group.CommitResponse) {
	err := n.decideGroup(func() group.Command {
		var c *group.CommitOffsets
		if c, out = n.coord.Commit(n.now, &req); c != nil {
			return c
		}
		return nil
	})
	if err != nil {
		out.Err = err
	}
	return out
}

func (n *node) FetchOffsets(_ context.Context, req group.FetchOffsetsRequest) (out group.FetchOffsetsResponse) {
	if err := n.decideGroup(func() group.Command { out = n.offsets.Fetch(&req); return nil }); err != nil {
		out.Err = err
	}
	return out
}

func (n *node) ConsumerHeartbeat(_ context.Context, req group.ConsumerHeartbeatRequest) (out group.ConsumerHeartbeatResponse) {
	err := n.decideGroup(func() group.Command {
		var replies []group.Reply
		n.coord.SetTopics(testTopics{n.meta.View})
		out, replies = n.coord.ConsumerHeartbeat(n.now, &req, "made")
		n.deliver(replies)
		return nil
	})
	if err != nil {
		out.Err = err
	}
	return out
}

func (n *node) DescribeConsumerGroups(_ context.Context, req group.DescribeRequest) (out []group.ConsumerDescription) {
	for _, name := range req.Groups {
		var d group.ConsumerDescription
		k := group.Key{Namespace: req.Namespace, Group: name}
		if err := n.decideGroup(func() group.Command { d = n.coord.DescribeConsumers(k); return nil }); err != nil {
			d = group.ConsumerDescription{Group: name, Err: err}
		}
		out = append(out, d)
	}
	return out
}

func (n *node) DeleteOffsets(_ context.Context, req group.DeleteOffsetsRequest) (out group.DeleteOffsetsResponse) {
	err := n.decideGroup(func() group.Command {
		var c *group.DeleteOffsets
		if c, out = n.coord.DeleteOffsets(&req); c != nil {
			return c
		}
		return nil
	})
	if err != nil {
		out.Err = err
	}
	return out
}

func (n *node) ListGroups(_ context.Context, req group.ListRequest) (out group.ListResponse) {
	if err := n.decideGroup(func() group.Command { out = n.coord.List(&req); return nil }); err != nil {
		out.Err = err
	}
	return out
}

func (n *node) DescribeGroups(_ context.Context, req group.DescribeRequest) (out group.DescribeResponse) {
	for _, name := range req.Groups {
		d := group.Description{Group: name, State: group.Dead}
		err := n.decideGroup(func() group.Command {
			d = n.coord.Describe(group.Key{Namespace: req.Namespace, Group: name})
			return nil
		})
		if err != nil {
			d.Err = err
		}
		out.Groups = append(out.Groups, d)
	}
	return out
}

func (n *node) DeleteGroups(_ context.Context, req group.DeleteGroupsRequest) (out group.DeleteGroupsResponse) {
	for _, name := range req.Groups {
		var refused *base.Error
		err := n.decideGroup(func() group.Command {
			var c *group.DeleteGroup
			if c, refused = n.coord.DeleteGroup(group.Key{Namespace: req.Namespace, Group: name}); c != nil {
				return c
			}
			return nil
		})
		if err != nil {
			refused = err
		}
		out.Errs = append(out.Errs, refused)
	}
	return out
}

// stand is a server over a node, called below its connections.
type stand struct {
	t      *testing.T
	n      *node
	s      *Server
	client string
}

func newStand(t *testing.T) *stand {
	n := newNode()
	s := New(Options{
		Backend: n, LogDir: "/data",
		TopicDefaults: map[string]string{"max.message.bytes": "2000000"},
		BrokerConfigs: func() []ConfigEntry {
			return []ConfigEntry{
				{Name: "log.dirs", Value: "/data", Type: "LIST", Doc: "Where the data is.", Set: true},
				{Name: "ssl.keystore.password", Value: "secret", Type: "PASSWORD", Sensitive: true},
				{Name: "num.partitions", Value: "1", Default: "1", Type: "INT"},
			}
		},
	})
	t.Cleanup(func() { s.Close(context.Background()) })
	return &stand{t: t, n: n, s: s, client: "client"}
}

// send lets a request of a version go through its encoding to the handler, and back.
func send[R kmsg.Response](st *stand, version int16, req kmsg.Request) R {
	st.t.Helper()
	resp, err := sendContext[R](context.Background(), st, version, req)
	if err != nil {
		st.t.Fatal(err)
	}
	return resp
}

func sendContext[R kmsg.Response](ctx context.Context, st *stand, version int16, req kmsg.Request) (R, error) {
	var none R
	a := st.s.apis.find(req.Key())
	if a == nil || version < a.min || version > a.max {
		return none, fmt.Errorf("%T version %d is not served", req, version)
	}
	req.SetVersion(version)
	local, remote := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9999}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 1234}
	rc := &request{server: st.s, api: a, version: version, namespace: base.DefaultNamespace, clientID: st.client, local: local, remote: remote}
	out, err := a.run(st.s, ctx, rc, req.AppendTo(nil))
	if err != nil {
		return none, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if err := resp.ReadFrom(out.(kmsg.Response).AppendTo(nil)); err != nil {
		return none, fmt.Errorf("%T version %d: %w", resp, version, err)
	}
	typed, ok := resp.(R)
	if !ok {
		return none, errors.New("a response of another type")
	}
	return typed, nil
}

// topic makes a topic.
func (st *stand) topic(name string, partitions int, configs map[string]string) *meta.Stream {
	st.t.Helper()
	s, err := st.n.CreateStream(context.Background(), meta.CreateStream{Namespace: base.DefaultNamespace, Name: name, Partitions: partitions, Replicas: 1, Overrides: configs})
	if err != nil {
		st.t.Fatal(err)
	}
	return s
}

// testTopics is the metadata as the coordinator of groups wants it.
type testTopics struct{ view *meta.View }

func (t testTopics) ByName(namespace, name string) (group.Topic, bool) {
	return testTopic(t.view.Stream(namespace, name))
}

func (t testTopics) ByID(id base.StreamID) (group.Topic, bool) {
	return testTopic(t.view.StreamByID(id))
}

func (t testTopics) Names(namespace string) iter.Seq[string] {
	return func(yield func(string) bool) {
		t.view.All(func(s *meta.Stream) bool { return s.Namespace != namespace || yield(s.Name) })
	}
}

func testTopic(s *meta.Stream, ok bool) (group.Topic, bool) {
	if !ok {
		return group.Topic{}, false
	}
	return group.Topic{ID: s.ID, Name: s.Name, Partitions: len(s.Partitions)}, true
}
