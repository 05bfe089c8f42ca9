package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
)

// serverStand is a stand whose fake node has logs.
func serverStand(t *testing.T, change func(*Options)) (*stand, *fetchStand) {
	f := newFetchStand(t, change)
	return &stand{t: t, n: f.m.node, s: f.s, client: "client"}, f
}

func askFor(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, n := range names {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &n})
	}
	return req
}

func namesOf(topics []kmsg.MetadataResponseTopic) []string {
	out := []string{}
	for i := range topics {
		out = append(out, textOf(topics[i].Topic))
	}
	return out
}

func TestMetadataSelectsTopics(t *testing.T) {
	s, f := serverStand(t, nil)
	a, b := f.topic("a", 2), f.topic("b", 1)
	all := kmsg.NewPtrMetadataRequest()
	for version := int16(0); version <= 13; version++ {
		// Version 0 knows no null, and its empty list means all.
		resp := send[*kmsg.MetadataResponse](s, version, all)
		if got := namesOf(resp.Topics); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("version %d: all topics are %q", version, got)
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != testNode || resp.Brokers[0].Host != "127.0.0.1" || resp.Brokers[0].Port != 9999 {
			t.Errorf("version %d: brokers %+v", version, resp.Brokers)
		}
		if version >= 2 && (resp.ClusterID == nil || *resp.ClusterID != "cluster" || resp.ControllerID != testNode) {
			t.Errorf("version %d: %+v", version, resp)
		}
		p := resp.Topics[0].Partitions
		if len(p) != 2 || p[1].Partition != 1 || p[1].Leader != testNode || !slices.Equal(p[1].Replicas, []int32{testNode}) || !slices.Equal(p[1].ISR, []int32{testNode}) {
			t.Errorf("version %d: partitions %+v", version, p)
		}
		if version >= 7 && p[1].LeaderEpoch != f.m.epoch || version >= 10 && resp.Topics[0].TopicID != a.ID {
			t.Errorf("version %d: %+v", version, resp.Topics[0])
		}
		if version > 0 {
			if resp := send[*kmsg.MetadataResponse](s, version, askFor()); len(resp.Topics) != 0 {
				t.Errorf("version %d: no topics are %q", version, namesOf(resp.Topics))
			}
		}
		if got := namesOf(send[*kmsg.MetadataResponse](s, version, askFor("b", "b")).Topics); !slices.Equal(got, []string{"b"}) {
			t.Errorf("version %d: asked for b, got %q", version, got)
		}
	}
	byID := kmsg.NewPtrMetadataRequest()
	byID.Topics = []kmsg.MetadataRequestTopic{{TopicID: b.ID}, {TopicID: base.StreamID{9}}, {TopicID: b.ID}}
	resp := send[*kmsg.MetadataResponse](s, 12, byID)
	if len(resp.Topics) != 2 || textOf(resp.Topics[0].Topic) != "b" || resp.Topics[1].Topic != nil || resp.Topics[1].TopicID != (base.StreamID{9}) {
		t.Errorf("by ID: %+v", resp.Topics)
	}
	wantCode(t, "an ID that nobody has", resp.Topics[1].ErrorCode, kerr.UnknownTopicID)
	for _, version := range []int16{10, 11} {
		early := send[*kmsg.MetadataResponse](s, version, byID)
		wantCode(t, fmt.Sprint("an ID in version ", version), early.Topics[0].ErrorCode, kerr.InvalidRequest)
	}
}

func TestMetadataCreatesTopics(t *testing.T) {
	s, f := serverStand(t, nil)
	forbid := askFor("forbidden")
	resp := send[*kmsg.MetadataResponse](s, 12, forbid)
	wantCode(t, "not allowed by the request", resp.Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
	if len(f.m.Meta().Streams(base.DefaultNamespace)) != 0 {
		t.Error("a topic was made all the same")
	}
	allow := askFor("made", "not/valid")
	allow.AllowAutoTopicCreation = true
	resp = send[*kmsg.MetadataResponse](s, 12, allow)
	wantCode(t, "made", resp.Topics[0].ErrorCode, nil)
	wantCode(t, "not/valid", resp.Topics[1].ErrorCode, kerr.InvalidTopicException)
	if len(resp.Topics[0].Partitions) != testLimits.DefaultPartitions {
		t.Errorf("%+v", resp.Topics[0])
	}
	// Before version 4 a client cannot forbid it.
	wantCode(t, "version 3", send[*kmsg.MetadataResponse](s, 3, askFor("old")).Topics[0].ErrorCode, nil)
	wantCode(t, "collision", send[*kmsg.MetadataResponse](s, 3, askFor("a.b")).Topics[0].ErrorCode, nil)
	wantCode(t, "collision", send[*kmsg.MetadataResponse](s, 3, askFor("a_b")).Topics[0].ErrorCode, kerr.InvalidTopicException)

	s, _ = serverStand(t, func(o *Options) { o.DisableAutoCreate = true })
	allow = askFor("made", "not/valid")
	allow.AllowAutoTopicCreation = true
	resp = send[*kmsg.MetadataResponse](s, 12, allow)
	wantCode(t, "switched off", resp.Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "not/valid", resp.Topics[1].ErrorCode, kerr.InvalidTopicException)
}

func TestMetadataOfWhatIsBeingMade(t *testing.T) {
	s, f := serverStand(t, nil)
	if _, err := f.m.CreateStream(context.Background(), meta.CreateStream{Namespace: base.DefaultNamespace, Name: "t", Partitions: 1, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	p := send[*kmsg.MetadataResponse](s, 12, askFor("t")).Topics[0].Partitions[0]
	wantCode(t, "metadata", p.ErrorCode, kerr.LeaderNotAvailable)
	if p.Leader != -1 || p.LeaderEpoch != -1 {
		t.Errorf("%+v", p)
	}
	lo := kmsg.NewPtrListOffsetsRequest()
	lo.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1, CurrentLeaderEpoch: -1}}}}
	wantCode(t, "list offsets", send[*kmsg.ListOffsetsResponse](s, 9, lo).Topics[0].Partitions[0].ErrorCode, kerr.NotLeaderForPartition)
	st, _ := f.m.Meta().Stream(base.DefaultNamespace, "t")
	wantCode(t, "fetch", only(t, f.fetch(12, fetchOf(st, want(0, 0)))).ErrorCode, kerr.NotLeaderForPartition)
}

func TestAuthorizedOperations(t *testing.T) {
	s, f := serverStand(t, nil)
	f.topic("t", 1)
	f.topic("__consumer_offsets", 1)
	req := askFor("t", "__consumer_offsets")
	for _, asked := range []bool{false, true} {
		req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = asked, asked
		resp := send[*kmsg.MetadataResponse](s, 9, req)
		topic, cluster := operationsUnknown, operationsUnknown
		if asked {
			topic, cluster = 3576, 8096 // as Kafka 4.4 answers without an authorizer
		}
		if resp.Topics[0].AuthorizedOperations != topic || resp.AuthorizedOperations != cluster {
			t.Errorf("asked %v: topic %d, cluster %d", asked, resp.Topics[0].AuthorizedOperations, resp.AuthorizedOperations)
		}
		if resp.Topics[0].IsInternal || !resp.Topics[1].IsInternal {
			t.Error("what is internal is told wrongly")
		}
	}
}

func TestAdvertisedAddress(t *testing.T) {
	for advertise, wanted := range map[string]string{
		"": "127.0.0.1:9999", "broker.example:1234": "broker.example:1234", "broker.example": "broker.example:9999", "[::1]:1234": "::1:1234",
	} {
		s, _ := serverStand(t, func(o *Options) { o.Advertise = advertise })
		b := send[*kmsg.MetadataResponse](s, 12, askFor()).Brokers[0]
		if got := fmt.Sprintf("%s:%d", b.Host, b.Port); got != wanted {
			t.Errorf("advertise %q: clients are told %s", advertise, got)
		}
		c := send[*kmsg.DescribeClusterResponse](s, 0, kmsg.NewPtrDescribeClusterRequest()).Brokers[0]
		if got := fmt.Sprintf("%s:%d", c.Host, c.Port); got != wanted {
			t.Errorf("advertise %q: DescribeCluster tells %s", advertise, got)
		}
	}
}

func TestDescribeCluster(t *testing.T) {
	s, _ := serverStand(t, nil)
	for version := int16(0); version <= 2; version++ {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeClusterAuthorizedOperations = true
		resp := send[*kmsg.DescribeClusterResponse](s, version, req)
		if resp.ErrorCode != 0 || resp.ClusterID != "cluster" || resp.ControllerID != testNode || len(resp.Brokers) != 1 || resp.ClusterAuthorizedOperations != operationsCluster {
			t.Errorf("version %d: %+v", version, resp)
		}
	}
	for kind, e := range map[int8]*kerr.Error{2: kerr.MismatchedEndpointType, 3: kerr.UnsupportedEndpointType} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = kind
		resp := send[*kmsg.DescribeClusterResponse](s, 1, req)
		wantCode(t, fmt.Sprint("endpoint type ", kind), resp.ErrorCode, e)
		if resp.ErrorMessage == nil || len(resp.Brokers) != 0 {
			t.Errorf("%+v", resp)
		}
	}
}

// TestDescribeTopicPartitionsPages walks over pages of any size: together they are the whole.
func TestDescribeTopicPartitionsPages(t *testing.T) {
	s, f := serverStand(t, func(o *Options) { o.PartitionsPerPage = 5 })
	sizes := map[string]int{"a": 3, "b": 1, "c": 7}
	for name, n := range sizes {
		f.topic(name, n)
	}
	for limit := int32(-1); limit < 9; limit++ {
		for _, named := range []bool{false, true} {
			got, missing := map[string][]int32{}, 0
			req := kmsg.NewPtrDescribeTopicPartitionsRequest()
			req.ResponsePartitionLimit = limit
			if named {
				for _, name := range []string{"c", "b", "missing", "a", "b"} {
					req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
				}
			}
			for pages := 0; ; pages++ {
				resp := send[*kmsg.DescribeTopicPartitionsResponse](s, 0, req)
				n := 0
				for _, topic := range resp.Topics {
					if topic.ErrorCode == kerr.UnknownTopicOrPartition.Code {
						missing++
						continue
					}
					for _, p := range topic.Partitions {
						got[*topic.Topic] = append(got[*topic.Topic], p.Partition)
						n++
					}
				}
				if most := max(1, min(5, int(limit))); n > most || pages > 20 {
					t.Fatalf("limit %d: page %d has %d partitions", limit, pages, n)
				}
				if resp.NextCursor == nil {
					break
				}
				req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
			}
			for name, n := range sizes {
				if len(got[name]) != n || !slices.IsSorted(got[name]) {
					t.Errorf("limit %d: topic %s has partitions %v", limit, name, got[name])
				}
			}
			if named != (missing == 1) {
				t.Errorf("limit %d: %d topics are missing", limit, missing)
			}
		}
	}
	bad := kmsg.NewPtrDescribeTopicPartitionsRequest()
	bad.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "a"}}
	for _, c := range []kmsg.DescribeTopicPartitionsRequestCursor{{Topic: "b"}, {Topic: "a", Partition: -1}} {
		bad.Cursor = &c
		wantCode(t, "cursor", send[*kmsg.DescribeTopicPartitionsResponse](s, 0, bad).Topics[0].ErrorCode, kerr.InvalidRequest)
	}
}
