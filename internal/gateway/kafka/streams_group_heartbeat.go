package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/streams"
	"godwit/internal/meta"
)

// StreamsGroupHeartbeat (88), versions 0 and 1: joins a streams group with a topology, keeps a member's session, or leaves; the answer
// brings the member's tasks and what the group lacks (KIP-1071).
//
//   - 1: a 64-bit recovery lag; members are told of client tags that they lack
//
// No description of the topology is asked for, as in a Kafka without a plugin for them (KIP-1331).

func (s *Server) streamsGroupHeartbeat(ctx context.Context, rc *request, req *kmsg.StreamsGroupHeartbeatRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
	if msg := wrongTopics(req.Topology); msg != "" {
		resp.ErrorCode, resp.ErrorMessage = rc.reject(kerr.StreamsInvalidTopology), &msg
		return resp, nil
	}
	out := s.backend.StreamsHeartbeat(ctx, streamsRequest(rc, req))
	if out.Err != nil {
		resp.ErrorCode, resp.ErrorMessage = rc.failGroup(out.Err), message(out.Err)
		return resp, nil
	}
	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = out.MemberID, out.Epoch, int32(out.Interval)
	resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	for _, st := range out.Statuses {
		resp.Status = append(resp.Status, kmsg.StreamsGroupHeartbeatResponseStatus{StatusCode: int8(st.Code), StatusDetail: st.Detail})
	}
	if out.Epoch < 0 {
		return resp, nil // it has left
	}
	resp.TaskOffsetIntervalMillis, resp.AcceptableRecoveryLag = int32(out.OffsetInterval), out.RecoveryLag
	if out.Assigned {
		a := streamsAssignment(out.Tasks)
		resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = a.ActiveTasks, a.StandbyTasks, a.WarmupTasks
	}
	resp.EndpointInformationEpoch = out.EndpointEpoch
	if out.Located {
		resp.PartitionsByUserEndpoint = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{}
	}
	for i := range out.Endpoints {
		resp.PartitionsByUserEndpoint = append(resp.PartitionsByUserEndpoint, endpointPartitions(&out.Endpoints[i]))
	}
	return resp, nil
}

// internalTopics are those of Kafka itself, which no application may read or write this way.
var internalTopics = []string{"__consumer_offsets", "__transaction_state", "__share_group_state"}

// wrongTopics says which topics of a topology cannot be; empty if all can.
func wrongTopics(t *kmsg.StreamsGroupHeartbeatRequestTopology) string {
	if t == nil {
		return ""
	}
	var internal, invalid []string
	check := func(name string) {
		switch {
		case slices.Contains(internalTopics, name):
			internal = append(internal, name)
		case meta.ValidName(name) != nil:
			invalid = append(invalid, name)
		}
	}
	for i := range t.Subtopologies {
		sub := &t.Subtopologies[i]
		for _, name := range slices.Concat(sub.SourceTopics, sub.RepartitionSinkTopics) {
			check(name)
		}
		for _, info := range slices.Concat(sub.RepartitionSourceTopics, sub.StateChangelogTopics) {
			check(info.Topic)
		}
	}
	switch {
	case len(internal) > 0:
		return fmt.Sprintf("Use of Kafka internal topics %s in a Kafka Streams topology is prohibited.", strings.Join(internal, ","))
	case len(invalid) > 0:
		return fmt.Sprintf("Topic names %s are not valid topic names.", strings.Join(invalid, ","))
	}
	return ""
}

// streamsRequest takes the request over.
func streamsRequest(rc *request, req *kmsg.StreamsGroupHeartbeatRequest) streams.HeartbeatRequest {
	out := streams.HeartbeatRequest{
		Key: rc.groupKey(req.Group), MemberID: req.MemberID, Epoch: req.MemberEpoch, EndpointEpoch: req.EndpointInformationEpoch,
		Instance: req.InstanceID, Rack: req.RackID, Rebalance: req.RebalanceTimeoutMillis, Process: req.ProcessID,
		Tagged: req.ClientTags != nil, Offsets: taskOffsets(req.TaskOffsets), EndOffsets: taskOffsets(req.TaskEndOffsets),
		Shutdown: req.ShutdownApplication, Version: req.Version, ClientID: rc.clientID, ClientHost: rc.clientHost(),
	}
	if t := req.Topology; t != nil {
		out.Topology, out.Regex = topologyOf(t)
	}
	said := []bool{req.ActiveTasks != nil, req.StandbyTasks != nil, req.WarmupTasks != nil}
	if slices.Contains(said, true) {
		out.Incomplete = slices.Contains(said, false)
		out.Owned = &streams.Owned{Active: taskIDs(req.ActiveTasks), Standby: taskIDs(req.StandbyTasks), Warmup: taskIDs(req.WarmupTasks)}
	}
	if e := req.UserEndpoint; e != nil {
		out.Endpoint = &streams.Endpoint{Host: e.Host, Port: e.Port}
	}
	for _, t := range req.ClientTags {
		out.Tags = append(out.Tags, streams.Pair{Key: t.Key, Value: t.Value})
	}
	return out
}

// topologyOf takes a topology over; regex says that it has patterns for topics.
func topologyOf(t *kmsg.StreamsGroupHeartbeatRequestTopology) (out *streams.Topology, regex bool) {
	out = &streams.Topology{Epoch: t.Epoch}
	for i := range t.Subtopologies {
		sub := &t.Subtopologies[i]
		regex = regex || len(sub.SourceTopicRegex) > 0
		s := streams.Subtopology{
			ID: sub.SubtopologyID, Sources: sub.SourceTopics, Sinks: sub.RepartitionSinkTopics,
			Changelogs: topicInfos(sub.StateChangelogTopics), Repartitions: topicInfos(sub.RepartitionSourceTopics),
		}
		for _, c := range sub.CopartitionGroups {
			s.Copartitions = append(s.Copartitions, streams.Copartition{Sources: c.SourceTopics, Repartitions: c.RepartitionSourceTopics})
		}
		out.Subtopologies = append(out.Subtopologies, s)
	}
	slices.SortStableFunc(out.Subtopologies, func(a, b streams.Subtopology) int { return strings.Compare(a.ID, b.ID) })
	return out, regex
}

func topicInfos(list []kmsg.TopicInfo) (out []streams.TopicInfo) {
	for _, t := range list {
		info := streams.TopicInfo{Name: t.Topic, Partitions: t.NumPartitions, Replicas: t.ReplicationFactor}
		for _, c := range t.Configs {
			info.Configs = append(info.Configs, streams.Pair{Key: c.Key, Value: c.Value})
		}
		out = append(out, info)
	}
	return out
}

// taskIDs flattens tasks; their order means nothing.
func taskIDs(list []kmsg.TaskIDs) (out []streams.TaskID) {
	for _, t := range list {
		for _, p := range t.Partitions {
			out = append(out, streams.TaskID{Subtopology: t.SubtopologyID, Partition: p})
		}
	}
	return out
}

// taskOffsets takes reported offsets over; nil if none are said.
func taskOffsets(list []kmsg.TaskOffset) (out []streams.TaskOffset) {
	if list == nil {
		return nil
	}
	out = make([]streams.TaskOffset, len(list))
	for i, t := range list {
		out[i] = streams.TaskOffset{TaskID: streams.TaskID{Subtopology: t.SubtopologyID, Partition: t.Partition}, Offset: t.Offset}
	}
	return out
}

// streamsAssignment groups tasks by subtopology. No list is nil.
func streamsAssignment(t streams.Tasks) kmsg.StreamsAssignment {
	active := make([]streams.TaskID, len(t.Active))
	for i, a := range t.Active {
		active[i] = a.TaskID
	}
	return kmsg.StreamsAssignment{ActiveTasks: tasksOf(active), StandbyTasks: tasksOf(t.Standby), WarmupTasks: []kmsg.TaskIDs{}}
}

func tasksOf(list []streams.TaskID) []kmsg.TaskIDs {
	out := []kmsg.TaskIDs{}
	for _, id := range list {
		if n := len(out); n == 0 || out[n-1].SubtopologyID != id.Subtopology {
			out = append(out, kmsg.TaskIDs{SubtopologyID: id.Subtopology})
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, id.Partition)
	}
	return out
}

func endpointPartitions(e *streams.EndpointTopics) kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint {
	out := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
	out.UserEndpoint.Host, out.UserEndpoint.Port = e.Host, e.Port
	for _, t := range e.Active {
		out.ActivePartitions = append(out.ActivePartitions, kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition{Topic: t.Topic, Partitions: t.Partitions})
	}
	for _, t := range e.Standby {
		out.StandbyPartitions = append(out.StandbyPartitions, kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition{Topic: t.Topic, Partitions: t.Partitions})
	}
	return out
}
