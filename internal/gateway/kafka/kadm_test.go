package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/broker"
	"godwit/internal/coord/group"
	"godwit/internal/engine"
	"godwit/internal/meta"
	"godwit/internal/vfs"
)

// life is a broker that can be stopped and started again on its data and its address.
type life struct {
	t    *testing.T
	dir  string
	addr string
	stop func()
}

func newLife(t *testing.T) *life {
	l := &life{t: t, dir: t.TempDir(), addr: "127.0.0.1:0"}
	l.start()
	t.Cleanup(func() { l.stop() })
	return l
}

func (l *life) start() {
	l.t.Helper()
	limits := meta.Limits{DefaultPartitions: 1, DefaultReplicas: 1, MaxReplicas: 1}
	groups := group.DefaultOptions()
	groups.InitialDelay = 100
	e, err := engine.Open(engine.Options{
		FS: vfs.Default, Dir: l.dir, Rand: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))), Shards: 4, FileSize: 64 << 20, Limits: limits, Groups: groups,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if err := e.Start(); err != nil {
		l.t.Fatal(err)
	}
	s := New(Options{Backend: Broker(broker.New(e, broker.Options{Node: 1, Limits: limits})), LogDir: l.dir})
	ln, err := net.Listen("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	l.addr = ln.Addr().String()
	go s.Serve(context.Background(), ln)
	l.stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := errors.Join(s.Close(ctx), e.Close(ctx)); err != nil {
			l.t.Error(err)
		}
	}
}

func (l *life) client(opts ...kgo.Opt) *kgo.Client {
	l.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(l.addr), kgo.RetryTimeout(20 * time.Second)}, opts...)...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(cl.Close)
	return cl
}

func must[T any](t *testing.T, what string) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestKadmTopics(t *testing.T) {
	l, ctx := newLife(t), testContext(t)
	cl := l.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	adm := kadm.NewClient(cl)

	made := must[kadm.CreateTopicResponses](t, "create")(adm.CreateTopics(ctx, 3, 1, map[string]*string{"retention.ms": kadm.StringPtr("5000")}, "a", "b"))
	for name, r := range made {
		if r.Err != nil || r.NumPartitions != 3 || r.ReplicationFactor != 1 || r.ID == (kadm.TopicID{}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := must[kadm.CreateTopicResponses](t, "create")(adm.CreateTopics(ctx, 1, 1, nil, "a")); !errors.Is(r["a"].Err, kerr.TopicAlreadyExists) {
		t.Errorf("created twice: %v", r["a"].Err)
	}
	if r := must[kadm.CreateTopicResponses](t, "validate")(adm.ValidateCreateTopics(ctx, 1, 1, nil, "c")); r["c"].Err != nil {
		t.Errorf("validated: %v", r["c"].Err)
	}
	if r := must[kadm.CreatePartitionsResponses](t, "grow")(adm.CreatePartitions(ctx, 2, "a")); r["a"].Err != nil {
		t.Errorf("grown: %v", r["a"].Err)
	}
	topics := must[kadm.TopicDetails](t, "list")(adm.ListTopics(ctx))
	if !slices.Equal(topics.Names(), []string{"a", "b"}) || len(topics["a"].Partitions) != 5 {
		t.Errorf("topics %v, a has %d partitions", topics.Names(), len(topics["a"].Partitions))
	}

	for i := range 10 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "a", Partition: 4, Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var before kadm.Offsets
	before.Add(kadm.Offset{Topic: "a", Partition: 4, At: 6})
	before.Add(kadm.Offset{Topic: "a", Partition: 0, At: 1})
	deleted := must[kadm.DeleteRecordsResponses](t, "delete records")(adm.DeleteRecords(ctx, before))
	if r, _ := deleted.Lookup("a", 4); r.Err != nil || r.LowWatermark != 6 {
		t.Errorf("deleted records: %+v", r)
	}
	if r, _ := deleted.Lookup("a", 0); !errors.Is(r.Err, kerr.OffsetOutOfRange) {
		t.Errorf("deleted records beyond the end: %+v", r)
	}
	start := must[kadm.ListedOffsets](t, "start offsets")(adm.ListStartOffsets(ctx, "a"))
	if o, _ := start.Lookup("a", 4); o.Offset != 6 {
		t.Errorf("start is %d after deletion", o.Offset)
	}
	dirs := must[kadm.DescribedAllLogDirs](t, "log dirs")(adm.DescribeAllLogDirs(ctx, nil))
	if d := dirs[1][l.dir]; d.Err != nil || d.Size() == 0 || len(d.Topics["a"]) != 5 {
		t.Errorf("log dirs: %+v", dirs)
	}
	if r := must[kadm.DeleteTopicResponses](t, "delete")(adm.DeleteTopics(ctx, "b", "none")); r["b"].Err != nil || !errors.Is(r["none"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("deleted: %+v", r)
	}
	// Another client: this one remembers topics for a while.
	if topics := must[kadm.TopicDetails](t, "list")(kadm.NewClient(l.client()).ListTopics(ctx)); !slices.Equal(topics.Names(), []string{"a"}) {
		t.Errorf("topics %v are left", topics.Names())
	}
}

func TestKadmConfigs(t *testing.T) {
	l, ctx := newLife(t), testContext(t)
	adm := kadm.NewClient(l.client())
	must[kadm.CreateTopicResponses](t, "create")(adm.CreateTopics(ctx, 1, 1, nil, "t"))
	alter := func(changes ...kadm.AlterConfig) error {
		t.Helper()
		return must[kadm.AlterConfigsResponses](t, "alter")(adm.AlterTopicConfigs(ctx, changes, "t"))[0].Err
	}
	for _, tc := range []struct {
		change kadm.AlterConfig
		err    error
	}{
		{kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("77")}, nil},
		{kadm.AlterConfig{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}, nil},
		{kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("soon")}, kerr.InvalidConfig},
	} {
		if err := alter(tc.change); !errors.Is(err, tc.err) {
			t.Errorf("%+v: %v, want %v", tc.change, err, tc.err)
		}
	}
	got := map[string]string{}
	described := must[kadm.ResourceConfigs](t, "describe")(adm.DescribeTopicConfigs(ctx, "t"))
	for _, c := range described[0].Configs {
		got[c.Key] = c.MaybeValue()
	}
	if got["retention.ms"] != "77" || got["cleanup.policy"] != "delete,compact" || got["max.message.bytes"] != "1048588" {
		t.Errorf("described %v", got)
	}
	full := must[kadm.AlterConfigsResponses](t, "alter state")(adm.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "retention.bytes", Value: kadm.StringPtr("5")}}, "t"))
	if full[0].Err != nil {
		t.Error(full[0].Err)
	}
	described = must[kadm.ResourceConfigs](t, "describe")(adm.DescribeTopicConfigs(ctx, "t"))
	for _, c := range described[0].Configs {
		got[c.Key] = c.MaybeValue()
	}
	if got["retention.ms"] != "604800000" || got["cleanup.policy"] != "delete" || got["retention.bytes"] != "5" {
		t.Errorf("described %v", got)
	}
	if r := must[kadm.ResourceConfigs](t, "describe broker")(adm.DescribeBrokerConfigs(ctx, 1)); r[0].Err != nil {
		t.Error(r[0].Err)
	}
}

func TestKadmGroups(t *testing.T) {
	l, ctx := newLife(t), testContext(t)
	adm := kadm.NewClient(l.client())
	must[kadm.CreateTopicResponses](t, "create")(adm.CreateTopics(ctx, 2, 1, nil, "t"))
	var at kadm.Offsets
	at.Add(kadm.Offset{Topic: "t", Partition: 0, At: 5, LeaderEpoch: -1, Metadata: "note"})
	at.Add(kadm.Offset{Topic: "t", Partition: 1, At: 6, LeaderEpoch: -1})
	if err := adm.CommitAllOffsets(ctx, "g", at); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		fetched := must[kadm.OffsetResponses](t, "fetch")(adm.FetchOffsets(ctx, "g"))
		if o, _ := fetched.Lookup("t", 0); o.At != 5 || o.Metadata != "note" || len(fetched["t"]) != 2 {
			t.Errorf("fetched %+v", fetched)
		}
	}
	check()
	l.stop()
	l.start()
	check()
	groups := must[kadm.ListedGroups](t, "list")(adm.ListGroups(ctx))
	if g := groups["g"]; g.State != "Empty" || g.Coordinator != 1 {
		t.Errorf("listed %+v", groups)
	}
	described := must[kadm.DescribedGroups](t, "describe")(adm.DescribeGroups(ctx, "g"))
	if g := described["g"]; g.Err != nil || g.State != "Empty" || len(g.Members) != 0 {
		t.Errorf("described %+v", g)
	}
	var gone kadm.TopicsSet
	gone.Add("t", 1)
	if r := must[kadm.DeleteOffsetsResponses](t, "delete offsets")(adm.DeleteOffsets(ctx, "g", gone)); r.Error() != nil {
		t.Error(r.Error())
	}
	if fetched := must[kadm.OffsetResponses](t, "fetch")(adm.FetchOffsets(ctx, "g")); len(fetched["t"]) != 1 {
		t.Errorf("left is %+v", fetched)
	}
	if r := must[kadm.DeleteGroupResponses](t, "delete")(adm.DeleteGroups(ctx, "g", "none")); r["g"].Err != nil || !errors.Is(r["none"].Err, kerr.GroupIDNotFound) {
		t.Errorf("deleted %+v", r)
	}
	if groups := must[kadm.ListedGroups](t, "list")(adm.ListGroups(ctx)); len(groups) != 0 {
		t.Errorf("listed %+v", groups)
	}
	// A deleted topic takes its offsets along, also when one of the same name comes after it.
	if err := adm.CommitAllOffsets(ctx, "h", at); err != nil {
		t.Fatal(err)
	}
	must[kadm.DeleteTopicResponses](t, "delete")(adm.DeleteTopics(ctx, "t"))
	must[kadm.CreateTopicResponses](t, "create")(adm.CreateTopics(ctx, 2, 1, nil, "t"))
	if fetched := must[kadm.OffsetResponses](t, "fetch")(adm.FetchOffsetsForTopics(ctx, "h", "t")); fetched["t"][0].At != -1 {
		t.Errorf("offsets of a topic that is gone: %+v", fetched)
	}
}

// consumer is a member of a group that counts what it is told.
type consumer struct {
	cl             *kgo.Client
	records        atomic.Int64
	assigned, lost atomic.Int64
	done           chan struct{}
}

func (l *life) consume(ctx context.Context, seen func(*kgo.Record), opts ...kgo.Opt) *consumer {
	c := &consumer{done: make(chan struct{})}
	c.cl = l.client(append([]kgo.Opt{
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { c.assigned.Add(int64(len(m["t"]))) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { c.assigned.Add(-int64(len(m["t"]))) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			c.assigned.Add(-int64(len(m["t"])))
			c.lost.Add(1)
		}),
	}, opts...)...)
	go func() {
		defer close(c.done)
		for {
			fetches := c.cl.PollFetches(ctx)
			if ctx.Err() != nil || fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(r *kgo.Record) {
				c.records.Add(1)
				seen(r)
				c.cl.MarkCommitRecords(r)
			})
		}
	}()
	return c
}

// comesTrue polls until ok holds.
func comesTrue(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("did not come true: %s", what)
		}
	}
}

func TestConsumerGroup(t *testing.T) {
	for _, balancer := range []kgo.GroupBalancer{kgo.CooperativeStickyBalancer(), kgo.RangeBalancer()} {
		t.Run(balancer.ProtocolName(), func(t *testing.T) { consumerGroup(t, kgo.Balancers(balancer)) })
	}
}

// consumerGroup has members come and go while records flow: every record is seen, and those after the last
// commit by whoever takes over.
func consumerGroup(t *testing.T, balancers kgo.Opt) {
	l, ctx := newLife(t), testContext(t)
	producer := l.client(kgo.DefaultProduceTopic("t"))
	adm := kadm.NewClient(producer)
	must[kadm.CreateTopicResponses](t, "create")(adm.CreateTopics(ctx, 12, 1, nil, "t"))

	const n = 2400
	var seen [n]atomic.Int64
	see := func(r *kgo.Record) {
		var i int
		fmt.Sscan(string(r.Value), &i)
		seen[i].Add(1)
	}
	produce := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			producer.Produce(ctx, &kgo.Record{Value: fmt.Append(nil, i), Key: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := producer.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	all := func(to int) func() bool {
		return func() bool {
			for i := range to {
				if seen[i].Load() == 0 {
					return false
				}
			}
			return true
		}
	}
	a := l.consume(ctx, see, balancers)
	produce(0, 800)
	comesTrue(ctx, t, "one member reads everything", all(800))
	b, c := l.consume(ctx, see, balancers), l.consume(ctx, see, balancers)
	comesTrue(ctx, t, "three members share the partitions", func() bool {
		return a.assigned.Load() == 4 && b.assigned.Load() == 4 && c.assigned.Load() == 4
	})
	produce(800, 1600)
	comesTrue(ctx, t, "three members read everything", all(1600))
	described := must[kadm.DescribedGroups](t, "describe")(adm.DescribeGroups(ctx, "g"))
	if g := described["g"]; g.State != "Stable" || len(g.Members) != 3 || len(g.AssignedPartitions()["t"]) != 12 {
		t.Errorf("described %+v", g)
	}
	b.cl.Close()
	<-b.done
	comesTrue(ctx, t, "two members share the partitions", func() bool { return a.assigned.Load() == 6 && c.assigned.Load() == 6 })
	produce(1600, n)
	comesTrue(ctx, t, "two members read everything", all(n))
	comesTrue(ctx, t, "everything is committed", func() bool {
		lag := must[kadm.DescribedGroupLags](t, "lag")(adm.Lag(ctx, "g"))
		return lag["g"].Lag.Total() == 0
	})
	for _, member := range []*consumer{a, c} {
		member.cl.Close()
		<-member.done
	}
	comesTrue(ctx, t, "the group is empty", func() bool {
		return must[kadm.DescribedGroups](t, "describe")(adm.DescribeGroups(ctx, "g"))["g"].State == "Empty"
	})
	if lost := a.lost.Load() + b.lost.Load() + c.lost.Load(); lost > 0 {
		t.Errorf("members lost their partitions %d times", lost)
	}
}

// TestGroupSurvivesRestart has the broker go away under a member: it goes on in its generation, with its
// assignment.
func TestGroupSurvivesRestart(t *testing.T) {
	l, ctx := newLife(t), testContext(t)
	cl := l.client()
	must[kadm.CreateTopicResponses](t, "create")(kadm.NewClient(cl).CreateTopics(ctx, 4, 1, nil, "t"))
	join := joinRequest("g", "", kmsg.StringPtr("i"))
	joined := must[*kmsg.JoinGroupResponse](t, "join")(join.RequestWith(ctx, cl))
	wantCode(t, "join", joined.ErrorCode, nil)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.InstanceID, sync.Generation = "g", joined.MemberID, join.InstanceID, joined.Generation
	sync.ProtocolType, sync.Protocol = joined.ProtocolType, joined.Protocol
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("part")}}
	wantCode(t, "sync", must[*kmsg.SyncGroupResponse](t, "sync")(sync.RequestWith(ctx, cl)).ErrorCode, nil)
	l.stop()
	l.start()
	cl = l.client()
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.InstanceID, beat.Generation = "g", joined.MemberID, join.InstanceID, joined.Generation
	wantCode(t, "heartbeat", must[*kmsg.HeartbeatResponse](t, "heartbeat")(beat.RequestWith(ctx, cl)).ErrorCode, nil)
	sync.GroupAssignment = nil
	again := must[*kmsg.SyncGroupResponse](t, "sync")(sync.RequestWith(ctx, cl))
	if again.ErrorCode != 0 || string(again.MemberAssignment) != "part" {
		t.Errorf("%+v", again)
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.MemberID, commit.InstanceID, commit.Generation = "g", joined.MemberID, join.InstanceID, joined.Generation
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "t"
	topic.TopicID = must[kadm.TopicDetails](t, "list")(kadm.NewClient(cl).ListTopics(ctx))["t"].ID
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = 3, 1
	topic.Partitions = append(topic.Partitions, p)
	commit.Topics = append(commit.Topics, topic)
	wantCode(t, "commit", must[*kmsg.OffsetCommitResponse](t, "commit")(commit.RequestWith(ctx, cl)).Topics[0].Partitions[0].ErrorCode, nil)
}
