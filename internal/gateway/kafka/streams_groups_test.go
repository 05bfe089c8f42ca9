package kafka

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/streams"
	"godwit/internal/meta"
)

// streamsNode is the part of a node that has streams groups. Internal topics are not made.
type streamsNode struct {
	state *streams.State
	coord *streams.Coordinator
}

// streamsTopics is the metadata as the coordinator of streams groups wants it.
type streamsTopics struct{ *meta.View }

func (v streamsTopics) ByName(namespace, name string) (streams.Topic, bool) {
	t, ok := viewTopic(v.Stream(namespace, name))
	return streams.Topic(t), ok
}

func (v streamsTopics) ByID(id base.StreamID) (streams.Topic, bool) {
	t, ok := viewTopic(v.StreamByID(id))
	return streams.Topic(t), ok
}

// streamsCall runs fn in the coordinator; it fails if the node's groups do.
func (n *node) streamsCall(fn func(c *streams.Coordinator)) *base.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down != nil {
		return n.down
	}
	h := &n.streams
	if h.coord == nil {
		h.state = streams.NewState()
		h.coord = streams.NewCoordinator(streams.DefaultOptions(), h.state, streamsTopics{n.meta.View}, n.now)
	}
	h.coord.SetTopics(streamsTopics{n.meta.View})
	fn(h.coord)
	for _, c := range h.coord.Changes() {
		h.state.Apply(c)
	}
	return nil
}

func (n *node) StreamsHeartbeat(_ context.Context, req streams.HeartbeatRequest) (out streams.HeartbeatResponse) {
	if err := n.streamsCall(func(c *streams.Coordinator) { c.Tick(n.now); out = c.Heartbeat(n.now, &req) }); err != nil {
		out.Err = err
	}
	return out
}

func (n *node) DescribeStreamsGroups(_ context.Context, namespace string, groups []string) (out []streams.Description) {
	for _, name := range groups {
		k := streams.Key{Namespace: namespace, Group: name}
		d := streams.Description{Group: name, State: streams.GroupDead}
		if err := n.streamsCall(func(c *streams.Coordinator) { d = c.Describe(k) }); err != nil {
			d.Err = err
		}
		out = append(out, d)
	}
	return out
}

func (n *node) ListStreamsGroups(_ context.Context, namespace string, states []string) (out []streams.Listing, err error) {
	if err := n.streamsCall(func(c *streams.Coordinator) { out = c.List(namespace, states) }); err != nil {
		return nil, err
	}
	return out, nil
}

func (n *node) DeleteStreamsGroup(_ context.Context, k streams.Key) error {
	var refused *base.Error
	if err := n.streamsCall(func(c *streams.Coordinator) { refused = c.Delete(k) }); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	return nil
}

// wordCount is a topology that reads t, with a repartition topic and a changelog of the number of partitions that t has.
func wordCount() *kmsg.StreamsGroupHeartbeatRequestTopology {
	return &kmsg.StreamsGroupHeartbeatRequestTopology{Epoch: 3, Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
		{SubtopologyID: "1", RepartitionSourceTopics: []kmsg.TopicInfo{{Topic: "r"}},
			StateChangelogTopics: []kmsg.TopicInfo{{Topic: "c", Configs: []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}}}},
		{SubtopologyID: "0", SourceTopics: []string{"t"}, RepartitionSinkTopics: []string{"r"}},
	}}
}

func streamsJoin(group, member string) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis, req.Topology = group, member, 60_000, wordCount()
	req.ProcessID = kmsg.StringPtr("p")
	req.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: "h", Port: 9}
	req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{{Key: "zone", Value: "a"}}
	req.TaskOffsets = []kmsg.TaskOffset{{SubtopologyID: "1", Partition: 1, Offset: 5}}
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	return req
}

func streamsBeat(st *stand, req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	st.t.Helper()
	return send[*kmsg.StreamsGroupHeartbeatResponse](st, 1, req)
}

func TestStreamsGroups(t *testing.T) {
	st := newStand(t)
	st.topic("t", 2, nil)
	out := streamsBeat(st, streamsJoin("g", "m"))
	wantCode(t, "join", out.ErrorCode, nil)
	if out.MemberID != "m" || out.MemberEpoch != 1 || out.HeartbeatIntervalMillis != 5_000 || out.TaskOffsetIntervalMillis != 60_000 || out.AcceptableRecoveryLag != 10_000 ||
		out.ActiveTasks == nil || len(out.ActiveTasks) != 0 || len(out.PartitionsByUserEndpoint) != 1 {
		t.Errorf("joined: %+v", out)
	}
	if s := out.Status; len(s) != 2 || s[0].StatusCode != 5 || s[1].StatusCode != 3 || s[1].StatusDetail != "Internal topics are missing: c, r" {
		t.Errorf("statuses: %+v", s)
	}
	st.topic("r", 2, nil)
	st.topic("c", 2, nil)
	st.n.now += 3_000
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.EndpointInformationEpoch = "g", "m", 1, 1
	if out = streamsBeat(st, req); len(out.Status) != 0 || len(out.ActiveTasks) != 2 || out.ActiveTasks[0].SubtopologyID != "0" || !slices.Equal(out.ActiveTasks[1].Partitions, []int32{0, 1}) ||
		out.StandbyTasks == nil || out.WarmupTasks == nil {
		t.Fatalf("assigned: %+v", out)
	}
	at := out.PartitionsByUserEndpoint
	if len(at) != 1 || at[0].UserEndpoint.Host != "h" || at[0].UserEndpoint.Port != 9 || len(at[0].ActivePartitions) != 2 || at[0].ActivePartitions[0].Topic != "t" {
		t.Errorf("endpoints: %+v", at)
	}
	testDescribedStreams(st, out.MemberEpoch)
	list := send[*kmsg.ListGroupsResponse](st, 5, kmsg.NewPtrListGroupsRequest()).Groups
	if len(list) != 1 || list[0].Group != "g" || list[0].GroupType != "streams" || list[0].ProtocolType != "streams" || list[0].GroupState != "Stable" {
		t.Errorf("listed: %+v", list)
	}
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"g"}
	wantCode(t, "delete with members", send[*kmsg.DeleteGroupsResponse](st, 2, remove).Groups[0].ErrorCode, kerr.NonEmptyGroup)
	req.MemberEpoch = -1
	if out = streamsBeat(st, req); out.ErrorCode != 0 || out.MemberEpoch != -1 || out.HeartbeatIntervalMillis != 0 {
		t.Errorf("left: %+v", out)
	}
	wantCode(t, "delete", send[*kmsg.DeleteGroupsResponse](st, 2, remove).Groups[0].ErrorCode, nil)
	wantCode(t, "delete again", send[*kmsg.DeleteGroupsResponse](st, 2, remove).Groups[0].ErrorCode, kerr.GroupIDNotFound)
}

func testDescribedStreams(st *stand, epoch int32) {
	st.t.Helper()
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups, req.IncludeAuthorizedOperations, req.IncludeTopologyDescription = []string{"g", "none", ""}, true, true
	groups := send[*kmsg.StreamsGroupDescribeResponse](st, 1, req).Groups
	wantCode(st.t, "describe none", groups[1].ErrorCode, kerr.GroupIDNotFound)
	wantCode(st.t, "describe without a name", groups[2].ErrorCode, kerr.InvalidGroupID)
	g := groups[0]
	if g.State != "Stable" || g.Epoch != epoch || g.AssignmentEpoch != epoch || *g.AssignorName != "sticky" || g.TopologyDescriptionStatus != topologyNotStored ||
		g.AuthorizedOperations != operationsGroup || len(g.Members) != 1 {
		st.t.Fatalf("described: %+v", g)
	}
	if s := g.Topology.Subtopologies; g.Topology.Epoch != 3 || len(s) != 2 || s[0].SubtopologyID != "0" || s[1].StateChangelogTopics[0].NumPartitions != 2 ||
		s[1].StateChangelogTopics[0].Configs[0].Value != "compact" {
		st.t.Errorf("topology: %+v", g.Topology)
	}
	m := g.Members[0]
	if m.MemberID != "m" || m.ClientHost != "/10.0.0.9" || m.ProcessID != "p" || m.TopologyEpoch != 3 || m.UserEndpoint == nil || m.ClientTags[0].Key != "zone" ||
		m.TaskOffsets[0].Offset != 5 || len(m.Assignment.ActiveTasks) != 2 || len(m.TargetAssignment.ActiveTasks) != 2 {
		st.t.Errorf("member: %+v", m)
	}
}

func TestStreamsGroupsRefuse(t *testing.T) {
	st := newStand(t)
	st.topic("t", 2, nil)
	refused := func(name string, want *kerr.Error, text string, edit func(*kmsg.StreamsGroupHeartbeatRequest)) {
		t.Helper()
		req := streamsJoin("g", "m")
		edit(req)
		out := streamsBeat(st, req)
		if wantCode(t, name, out.ErrorCode, want); out.ErrorMessage == nil || !strings.Contains(*out.ErrorMessage, text) {
			t.Errorf("%s: %v", name, out.ErrorMessage)
		}
	}
	refused("unknown group", kerr.GroupIDNotFound, "not found", func(r *kmsg.StreamsGroupHeartbeatRequest) { r.MemberEpoch, r.Topology = 3, nil })
	refused("pattern", kerr.InvalidRequest, "Regular expressions", func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.Topology.Subtopologies[1].SourceTopicRegex = []string{".*"}
	})
	refused("some tasks", kerr.InvalidRequest, "all must be", func(r *kmsg.StreamsGroupHeartbeatRequest) { r.WarmupTasks = nil })
	refused("internal topic", kerr.StreamsInvalidTopology, "__consumer_offsets", func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.Topology.Subtopologies[1].SourceTopics = []string{"__consumer_offsets"}
	})
	refused("bad name", kerr.StreamsInvalidTopology, "a b", func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.Topology.Subtopologies[0].StateChangelogTopics[0].Topic = "a b"
	})
	refused("loop", kerr.StreamsInvalidTopology, "loops", func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology.Subtopologies[1].SourceTopics = nil })
	st.n.down = base.Errorf(base.CodeNotReady, "not now")
	refused("no leader", kerr.CoordinatorLoadInProgress, "not now", func(*kmsg.StreamsGroupHeartbeatRequest) {})
}
