package http

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/engine"
)

// fakeGroups knows one group, in one namespace.
type fakeGroups struct {
	err       error
	group     broker.GroupLag
	committed bool // of the last request
}

func (f *fakeGroups) Groups(_ context.Context, namespace string, committed bool) ([]broker.GroupLag, error) {
	if f.committed = committed; f.err != nil || namespace != base.DefaultNamespace {
		return nil, f.err
	}
	return []broker.GroupLag{f.group}, nil
}

func (f *fakeGroups) Group(_ context.Context, namespace, name string, committed bool) (*broker.GroupLag, error) {
	if f.committed = committed; f.err != nil {
		return nil, f.err
	}
	if namespace != base.DefaultNamespace || name != f.group.Group {
		return nil, base.Errorf(base.CodeUnknownGroup, "Group %s not found.", name)
	}
	return &f.group, nil
}

func place(topic string, p int32) broker.TopicPartition {
	return broker.TopicPartition{Topic: topic, Partition: p}
}

func aGroup() broker.GroupLag {
	return broker.GroupLag{
		Group: "a/b c", Type: "classic", State: "Stable", ProtocolType: "consumer", Protocol: "range",
		Members: []broker.GroupMember{{MemberID: "m", InstanceID: "i", ClientID: "c", ClientHost: "/h", Assigned: []broker.TopicPartition{place("t", 0)}}},
		Partitions: []broker.PartitionLag{
			{TopicPartition: place("t", 0), Member: "m", Committed: 0, Epoch: 3, Metadata: "x", Lag: engine.Lag{Start: 0, End: 9, Records: 5, Bytes: 70, Age: 1500}},
			{TopicPartition: place("t", 1), Committed: -1, Epoch: -1, Lag: engine.Lag{Start: 1, End: 2}},
			{TopicPartition: place("t", 2), Committed: 4, Epoch: -1, Lag: engine.Lag{Start: 1, End: 5, Records: 1, Bytes: 10, Age: 2500}},
		},
	}
}

func TestGroups(t *testing.T) {
	f := &fakeGroups{group: aGroup()}
	st := newStand(t, Options{Groups: f, Cluster: "the-cluster"})
	get := func(path string, want int) (out map[string]any) {
		t.Helper()
		status, body, kind := st.ask(t, "GET", path)
		if status != want {
			t.Fatalf("%s: %d, %s", path, status, body)
		}
		if status == 200 {
			if err := json.Unmarshal([]byte(body), &out); err != nil || kind != "application/json" {
				t.Fatalf("%s: %q, %v", path, kind, err)
			}
		}
		return out
	}
	lag := func(records, bytes, seconds float64) map[string]any {
		return map[string]any{"records": records, "bytes": bytes, "seconds": seconds}
	}
	want := map[string]any{"cluster": "the-cluster", "isolation": "read_uncommitted", "groups": []any{map[string]any{
		"group": "a/b c", "type": "classic", "protocolType": "consumer", "state": "Stable", "members": 1.0, "partitions": 3.0, "lag": lag(6, 80, 2.5)}}}
	if got := get("/v1/groups", 200); !reflect.DeepEqual(got, want) || f.committed {
		t.Errorf("listed %v, want %v", got, want)
	}
	if got := get("/v1/groups?isolation=read_committed&namespace=other", 200); got["isolation"] != "read_committed" || len(got["groups"].([]any)) != 0 || !f.committed {
		t.Errorf("listed %v", got)
	}
	got := get("/v1/groups/a%2Fb%20c?isolation=read_committed", 200)
	id := strings.Repeat("A", 22)
	want = map[string]any{"cluster": "the-cluster", "isolation": "read_committed", "group": "a/b c", "type": "classic", "protocolType": "consumer",
		"state": "Stable", "assignor": "range", "lag": lag(6, 80, 2.5),
		"members": []any{map[string]any{"memberId": "m", "instanceId": "i", "clientId": "c", "host": "/h", "assigned": []any{map[string]any{"topic": "t", "partition": 0.0}}}},
		"partitions": []any{
			map[string]any{"topic": "t", "topicId": id, "partition": 0.0, "member": "m", "committed": 0.0, "leaderEpoch": 3.0, "metadata": "x", "start": 0.0, "end": 9.0, "lag": lag(5, 70, 1.5)},
			map[string]any{"topic": "t", "topicId": id, "partition": 1.0, "committed": nil, "leaderEpoch": -1.0, "start": 1.0, "end": 2.0, "lag": nil},
			map[string]any{"topic": "t", "topicId": id, "partition": 2.0, "committed": 4.0, "leaderEpoch": -1.0, "start": 1.0, "end": 5.0, "lag": lag(1, 10, 2.5)},
		}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("described\n%v, want\n%v", got, want)
	}
	get("/v1/groups/other", 404)
	get("/v1/groups/a%2Fb%20c?namespace=other", 404)
	get("/v1/groups?isolation=none", 400)
	get("/v1/groups/a%2Fb%20c?isolation=none", 400)
	f.err = base.Errorf(base.CodeNotReady, "the shard does not answer")
	get("/v1/groups", 503)
	get("/v1/groups/a%2Fb%20c", 503)
}

// TestLagNotKnown tells what is missing, instead of a sum without it.
func TestLagNotKnown(t *testing.T) {
	f := &fakeGroups{group: aGroup()}
	st := newStand(t, Options{Groups: f})
	f.group.Partitions[0].Age = -1
	for _, path := range []string{"/v1/groups", "/v1/groups/a%2Fb%20c"} {
		if _, body, _ := st.ask(t, "GET", path); !strings.Contains(body, `"lag":{"records":6,"bytes":80,"seconds":null}`) {
			t.Errorf("without a timestamp: %s", body)
		}
	}
	f.group.Partitions[0] = broker.PartitionLag{TopicPartition: place("t", 0), Err: base.Errorf(base.CodeTimeout, "not in time")}
	if _, body, _ := st.ask(t, "GET", "/v1/groups"); !strings.Contains(body, `"lag":null`) {
		t.Errorf("with a partition missing: %s", body)
	}
	if _, body, _ := st.ask(t, "GET", "/v1/groups/a%2Fb%20c"); !strings.Contains(body, `"lag":null,"error":"not in time"`) {
		t.Errorf("with a partition missing: %s", body)
	}
}
