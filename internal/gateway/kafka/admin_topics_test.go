package kafka

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
)

// wantCode compares an error code with a Kafka error; nil for none.
func wantCode(t *testing.T, what string, got int16, want *kerr.Error) {
	t.Helper()
	if want == nil && got != 0 || want != nil && got != want.Code {
		t.Errorf("%s: %v, want %v", what, kerr.ErrorForCode(got), want)
	}
}

func newTopic(name string, partitions int32, replicas int16) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	return t
}

func assigned(name string, replicas ...[]int32) kmsg.CreateTopicsRequestTopic {
	t := newTopic(name, -1, -1)
	for i, r := range replicas {
		t.ReplicaAssignment = append(t.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: r})
	}
	return t
}

func configured(name string, pairs ...string) kmsg.CreateTopicsRequestTopic {
	t := newTopic(name, 1, 1)
	for i := 0; i < len(pairs); i += 2 {
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: pairs[i], Value: &pairs[i+1]})
	}
	return t
}

func TestCreateTopics(t *testing.T) {
	gap := assigned("gap", []int32{testNode}, []int32{testNode})
	gap.ReplicaAssignment[1].Partition = 2
	twice := assigned("twice-assigned", []int32{testNode}, []int32{testNode})
	twice.ReplicaAssignment[1].Partition = 0
	both := assigned("both", []int32{testNode})
	both.ReplicationFactor = 1
	counted := assigned("counted", []int32{testNode})
	counted.NumPartitions = 1
	null := configured("null", "retention.ms", "1")
	null.Configs[0].Value = nil
	for _, tc := range []struct {
		topic      kmsg.CreateTopicsRequestTopic
		err        *kerr.Error
		text       string
		partitions int32
	}{
		{topic: newTopic("plain", 2, 1), partitions: 2},
		{topic: newTopic("default", -1, -1), partitions: 3},
		{topic: configured("set", "retention.ms", "5"), partitions: 1},
		{topic: assigned("placed", []int32{testNode}, []int32{testNode}), partitions: 2},
		{topic: newTopic("old", 1, 1), err: kerr.TopicAlreadyExists, text: "Topic 'old' already exists."},
		{topic: newTopic("a.b", 1, 1), err: kerr.InvalidTopicException, text: "collides with existing topic: a_b"},
		{topic: newTopic("", 1, 1), err: kerr.InvalidTopicException},
		{topic: newTopic("..", 1, 1), err: kerr.InvalidTopicException},
		{topic: newTopic("sp ace", 1, 1), err: kerr.InvalidTopicException},
		{topic: newTopic(strings.Repeat("x", 250), 1, 1), err: kerr.InvalidTopicException},
		{topic: newTopic("many", 1, 3), err: kerr.InvalidReplicationFactor},
		{topic: newTopic("none", 1, 0), err: kerr.InvalidReplicationFactor},
		{topic: newTopic("zero", 0, 1), err: kerr.InvalidPartitions},
		{topic: newTopic("negative", -2, 1), err: kerr.InvalidPartitions},
		{topic: newTopic("huge", 1<<30, 1), err: kerr.InvalidPartitions},
		{topic: assigned("elsewhere", []int32{1}), err: kerr.InvalidReplicaAssignment, text: "no such broker"},
		{topic: assigned("pair", []int32{testNode, 8}), err: kerr.InvalidReplicaAssignment},
		{topic: assigned("doubled", []int32{testNode, testNode}), err: kerr.InvalidReplicaAssignment, text: "more than once"},
		{topic: assigned("nowhere", []int32{}), err: kerr.InvalidReplicaAssignment, text: "empty replica list"},
		{topic: gap, err: kerr.InvalidReplicaAssignment},
		{topic: twice, err: kerr.InvalidReplicaAssignment, text: "multiple"},
		{topic: both, err: kerr.InvalidRequest},
		{topic: counted, err: kerr.InvalidRequest},
		{topic: configured("unknown", "no.such", "1"), err: kerr.InvalidConfig, text: "no.such"},
		{topic: configured("range", "retention.ms", "x"), err: kerr.InvalidConfig},
		{topic: null, err: kerr.InvalidConfig, text: "Null value not supported for topic configs: retention.ms"},
	} {
		st := newStand(t)
		st.topic("old", 1, nil)
		st.topic("a_b", 1, nil)
		for _, dry := range []bool{true, false} {
			for version := int16(2); version <= 7; version++ {
				if !dry && version != 7 {
					continue
				}
				req := kmsg.NewPtrCreateTopicsRequest()
				req.Topics, req.ValidateOnly, req.TimeoutMillis = []kmsg.CreateTopicsRequestTopic{tc.topic}, dry, 1000
				out := send[*kmsg.CreateTopicsResponse](st, version, req).Topics[0]
				wantCode(t, tc.topic.Topic, out.ErrorCode, tc.err)
				if tc.text != "" && (out.ErrorMessage == nil || !strings.Contains(*out.ErrorMessage, tc.text)) {
					t.Errorf("%s: message %q, want %q", tc.topic.Topic, textOf(out.ErrorMessage), tc.text)
				}
				if version >= 5 && tc.err == nil && (out.NumPartitions != tc.partitions || out.ReplicationFactor != 1 || len(out.Configs) < 20) {
					t.Errorf("%s: %d partitions, %d replicas, %d configurations", tc.topic.Topic, out.NumPartitions, out.ReplicationFactor, len(out.Configs))
				}
			}
			_, made := st.n.Meta().Stream(base.DefaultNamespace, tc.topic.Topic)
			if want := tc.err == nil && !dry || tc.err == kerr.TopicAlreadyExists; made != want {
				t.Errorf("%s, validate only %t: exists %t, want %t", tc.topic.Topic, dry, made, want)
			}
		}
	}
}

func TestCreateTopicsTellsConfigs(t *testing.T) {
	st := newStand(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = []kmsg.CreateTopicsRequestTopic{configured("set", "retention.ms", "5")}
	out := send[*kmsg.CreateTopicsResponse](st, 7, req).Topics[0]
	made, _ := st.n.Meta().Stream(base.DefaultNamespace, "set")
	if out.TopicID != made.ID {
		t.Errorf("ID %x, want %x", out.TopicID, made.ID)
	}
	want := map[string]kmsg.CreateTopicsResponseTopicConfig{
		"retention.ms":      {Value: kmsg.StringPtr("5"), Source: int8(kmsg.ConfigSourceDynamicTopicConfig)},
		"max.message.bytes": {Value: kmsg.StringPtr("2000000"), Source: int8(kmsg.ConfigSourceStaticBrokerConfig)},
		"cleanup.policy":    {Value: kmsg.StringPtr("delete"), Source: int8(kmsg.ConfigSourceDefaultConfig)},
	}
	for _, c := range out.Configs {
		if w, ok := want[c.Name]; ok {
			if *c.Value != *w.Value || c.Source != w.Source {
				t.Errorf("%s is %s from %d, want %s from %d", c.Name, *c.Value, c.Source, *w.Value, w.Source)
			}
			delete(want, c.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
}

func TestCreateTopicsRepeated(t *testing.T) {
	st := newStand(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = []kmsg.CreateTopicsRequestTopic{newTopic("twice", 1, 1), newTopic("once", 1, 1), newTopic("twice", 2, 1)}
	out := send[*kmsg.CreateTopicsResponse](st, 7, req).Topics
	if len(out) != 2 || out[0].Topic != "twice" || out[1].Topic != "once" {
		t.Fatalf("results %+v", out)
	}
	wantCode(t, "twice", out[0].ErrorCode, kerr.InvalidRequest)
	wantCode(t, "once", out[1].ErrorCode, nil)
	if _, made := st.n.Meta().Stream(base.DefaultNamespace, "twice"); made {
		t.Error("the repeated topic was made")
	}
	// Many topics are made at a time.
	req = kmsg.NewPtrCreateTopicsRequest()
	for i := range 300 {
		req.Topics = append(req.Topics, newTopic("many-"+string(rune('a'+i/26))+string(rune('a'+i%26)), 1, 1))
	}
	for i, r := range send[*kmsg.CreateTopicsResponse](st, 7, req).Topics {
		if r.Topic != req.Topics[i].Topic {
			t.Fatalf("result %d is of %s, want %s", i, r.Topic, req.Topics[i].Topic)
		}
		wantCode(t, r.Topic, r.ErrorCode, nil)
	}
}

func TestDeleteTopics(t *testing.T) {
	st := newStand(t)
	ids := map[string]base.StreamID{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		ids[name] = st.topic(name, 1, nil).ID
	}
	foreign, err := st.n.CreateStream(context.Background(), meta.CreateStream{Namespace: "tenant", Name: "a", Partitions: 1, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	old := kmsg.NewPtrDeleteTopicsRequest()
	old.TopicNames = []string{"a", "none", "none", "f", "f"}
	out := send[*kmsg.DeleteTopicsResponse](st, 5, old).Topics
	if len(out) != 3 {
		t.Fatalf("results %+v", out)
	}
	for i, want := range []*kerr.Error{nil, kerr.InvalidRequest, kerr.InvalidRequest} {
		wantCode(t, *out[i].Topic, out[i].ErrorCode, want)
	}

	name := func(s string) *string { return &s }
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics = []kmsg.DeleteTopicsRequestTopic{
		{Topic: name("b")},
		{TopicID: ids["c"]},
		{TopicID: [16]byte{99}},
		{Topic: name("gone")},
		{Topic: name("d"), TopicID: ids["d"]},
		{},
		{Topic: name("e")},
		{TopicID: ids["e"]},
		{TopicID: foreign.ID},
	}
	out = send[*kmsg.DeleteTopicsResponse](st, 6, req).Topics
	for i, want := range []*kerr.Error{
		nil, nil, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition, kerr.InvalidRequest, kerr.InvalidRequest,
		kerr.InvalidRequest, kerr.InvalidRequest, kerr.UnknownTopicID,
	} {
		wantCode(t, textOf(out[i].Topic), out[i].ErrorCode, want)
	}
	if out[0].TopicID != ids["b"] || textOf(out[1].Topic) != "c" {
		t.Errorf("told %x and %s", out[0].TopicID, textOf(out[1].Topic))
	}
	for name, want := range map[string]bool{"a": false, "b": false, "c": false, "d": true, "e": true, "f": true} {
		if _, there := st.n.Meta().Stream(base.DefaultNamespace, name); there != want {
			t.Errorf("%s exists: %t, want %t", name, there, want)
		}
	}
}

func TestCreatePartitions(t *testing.T) {
	for _, tc := range []struct {
		topic      string
		count      int32
		assignment [][]int32
		dry        bool
		err        *kerr.Error
		want       int
	}{
		{topic: "t", count: 5, want: 5},
		{topic: "t", count: 5, dry: true, want: 2},
		{topic: "t", count: 2, err: kerr.InvalidPartitions, want: 2},
		{topic: "t", count: 1, err: kerr.InvalidPartitions, want: 2},
		{topic: "t", count: -1, err: kerr.InvalidPartitions, want: 2},
		{topic: "t", count: 1 << 30, err: kerr.InvalidPartitions, want: 2},
		{topic: "none", count: 5, err: kerr.UnknownTopicOrPartition, want: 2},
		{topic: "t", count: 4, assignment: [][]int32{{testNode}, {testNode}}, want: 4},
		{topic: "t", count: 4, assignment: [][]int32{{testNode}}, err: kerr.InvalidReplicaAssignment, want: 2},
		{topic: "t", count: 3, assignment: [][]int32{{1}}, err: kerr.InvalidReplicaAssignment, want: 2},
	} {
		st := newStand(t)
		st.topic("t", 2, nil)
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.ValidateOnly = tc.dry
		r := kmsg.NewCreatePartitionsRequestTopic()
		r.Topic, r.Count = tc.topic, tc.count
		for _, a := range tc.assignment {
			r.Assignment = append(r.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: a})
		}
		req.Topics = append(req.Topics, r)
		wantCode(t, tc.topic, send[*kmsg.CreatePartitionsResponse](st, 3, req).Topics[0].ErrorCode, tc.err)
		if s, _ := st.n.Meta().Stream(base.DefaultNamespace, "t"); len(s.Partitions) != tc.want {
			t.Errorf("%+v: %d partitions", tc, len(s.Partitions))
		}
	}
	st := newStand(t)
	st.topic("t", 2, nil)
	req := kmsg.NewPtrCreatePartitionsRequest()
	for range 2 {
		r := kmsg.NewCreatePartitionsRequestTopic()
		r.Topic, r.Count = "t", 3
		req.Topics = append(req.Topics, r)
	}
	out := send[*kmsg.CreatePartitionsResponse](st, 3, req).Topics
	if len(out) != 1 {
		t.Fatalf("results %+v", out)
	}
	wantCode(t, "t", out[0].ErrorCode, kerr.InvalidRequest)
}

func TestDeleteRecords(t *testing.T) {
	st := newStand(t)
	st.topic("t", 2, nil)
	st.topic("keys", 1, map[string]string{"cleanup.policy": "compact"})
	st.topic("both", 1, map[string]string{"cleanup.policy": "compact,delete"})
	req := kmsg.NewPtrDeleteRecordsRequest()
	add := func(topic string, pairs ...int64) {
		r := kmsg.NewDeleteRecordsRequestTopic()
		r.Topic = topic
		for i := 0; i < len(pairs); i += 2 {
			r.Partitions = append(r.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: int32(pairs[i]), Offset: pairs[i+1]})
		}
		req.Topics = append(req.Topics, r)
	}
	add("t", 0, 10, 1, -1, 2, 5)
	add("none", 0, 1)
	add("keys", 0, 1)
	add("both", 0, 1)
	add("t", 0, 101)
	var got []kmsg.DeleteRecordsResponseTopicPartition
	for _, r := range send[*kmsg.DeleteRecordsResponse](st, 2, req).Topics {
		got = append(got, r.Partitions...)
	}
	for i, want := range []struct {
		low int64
		err *kerr.Error
	}{
		{10, nil}, {100, nil}, {-1, kerr.UnknownTopicOrPartition}, {-1, kerr.UnknownTopicOrPartition}, {-1, kerr.PolicyViolation}, {1, nil}, {-1, kerr.OffsetOutOfRange},
	} {
		wantCode(t, "entry", got[i].ErrorCode, want.err)
		if got[i].LowWatermark != want.low {
			t.Errorf("entry %d: low watermark %d, want %d", i, got[i].LowWatermark, want.low)
		}
	}
}

func TestDescribeLogDirs(t *testing.T) {
	st := newStand(t)
	a := st.topic("a", 2, nil)
	st.topic("b", 1, nil)
	for version := int16(1); version <= 5; version++ {
		out := send[*kmsg.DescribeLogDirsResponse](st, version, kmsg.NewPtrDescribeLogDirsRequest())
		if len(out.Dirs) != 1 || out.Dirs[0].Dir != "/data" || len(out.Dirs[0].Topics) != 2 || out.Dirs[0].IsCordoned {
			t.Fatalf("version %d: %+v", version, out)
		}
		p := out.Dirs[0].Topics[0].Partitions
		if len(p) != 2 || p[1].Size != 1000+int64(a.Partitions[1].Log) {
			t.Errorf("version %d: %+v", version, p)
		}
		if version >= 4 && (out.Dirs[0].TotalBytes != 1000 || out.Dirs[0].UsableBytes != 400) {
			t.Errorf("version %d: %d of %d bytes", version, out.Dirs[0].UsableBytes, out.Dirs[0].TotalBytes)
		}
	}
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{1, 5}}, {Topic: "none", Partitions: []int32{0}}, {Topic: "b", Partitions: []int32{9}}}
	out := send[*kmsg.DescribeLogDirsResponse](st, 5, req).Dirs[0].Topics
	if len(out) != 1 || len(out[0].Partitions) != 1 || out[0].Partitions[0].Partition != 1 {
		t.Errorf("told %+v", out)
	}
}

func TestDescribeProducers(t *testing.T) {
	st := newStand(t)
	a := st.topic("a", 1, nil)
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "a", Partitions: []int32{0, 1}}, {Topic: "none", Partitions: []int32{0}}}
	out := send[*kmsg.DescribeProducersResponse](st, 0, req).Topics
	wantCode(t, "a/0", out[0].Partitions[0].ErrorCode, nil)
	wantCode(t, "a/1", out[0].Partitions[1].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "none/0", out[1].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	p := out[0].Partitions[0].ActiveProducers[0]
	if p.ProducerID != 1000+int64(a.Partitions[0].Log) || p.ProducerEpoch != 2 || p.LastSequence != 3 || p.LastTimestamp != 4 || p.CoordinatorEpoch != 5 || p.CurrentTxnStartOffset != 6 {
		t.Errorf("told %+v", p)
	}
}

func TestDescribeACLs(t *testing.T) {
	st := newStand(t)
	for version := int16(1); version <= 3; version++ {
		out := send[*kmsg.DescribeACLsResponse](st, version, kmsg.NewPtrDescribeACLsRequest())
		wantCode(t, "DescribeAcls", out.ErrorCode, kerr.SecurityDisabled)
	}
}
