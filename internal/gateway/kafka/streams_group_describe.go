package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/streams"
)

// StreamsGroupDescribe (89), versions 0 and 1: shows streams groups, their topologies, and the tasks of their members (KIP-1071).
//
//   - 1: the assignor (KIP-1357), and a description of the topology, of which none is ever stored (KIP-1331)

// topologyNotStored is the status of a description that was asked for and is not there.
const topologyNotStored = 1

func (s *Server) streamsGroupDescribe(ctx context.Context, rc *request, req *kmsg.StreamsGroupDescribeRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
	for _, d := range s.backend.DescribeStreamsGroups(ctx, rc.namespace, req.Groups) {
		g := kmsg.NewStreamsGroupDescribeResponseGroup()
		g.Group, g.AuthorizedOperations = d.Group, operationsUnknown
		switch {
		case d.Group == "":
			g.ErrorCode = rc.reject(kerr.InvalidGroupID)
		case d.Err != nil:
			g.ErrorCode, g.ErrorMessage = rc.failGroup(d.Err), message(d.Err)
		default:
			assignor := streams.Assignor
			g.State, g.Epoch, g.AssignmentEpoch, g.AssignorName = string(d.State), d.Epoch, d.AssignmentEpoch, &assignor
			g.Topology = describedTopology(d.Topology)
			if req.IncludeAuthorizedOperations {
				g.AuthorizedOperations = operationsGroup
			}
			if req.IncludeTopologyDescription {
				g.TopologyDescriptionStatus = topologyNotStored
			}
			for i := range d.Members {
				g.Members = append(g.Members, describedStreamsMember(&d.Members[i]))
			}
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

func describedTopology(t *streams.Topology) *kmsg.StreamsGroupDescribeResponseGroupTopology {
	if t == nil {
		return nil
	}
	out := &kmsg.StreamsGroupDescribeResponseGroupTopology{Epoch: t.Epoch, Subtopologies: []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{}}
	for i := range t.Subtopologies {
		sub := &t.Subtopologies[i]
		out.Subtopologies = append(out.Subtopologies, kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{
			SubtopologyID: sub.ID, SourceTopics: sub.Sources, RepartitionSinkTopics: sub.Sinks,
			StateChangelogTopics: describedInfos(sub.Changelogs), RepartitionSourceTopics: describedInfos(sub.Repartitions),
		})
	}
	return out
}

func describedInfos(list []streams.TopicInfo) (out []kmsg.TopicInfo) {
	for _, t := range list {
		info := kmsg.TopicInfo{Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: t.Replicas}
		for _, c := range t.Configs {
			info.Configs = append(info.Configs, kmsg.TopicInfoConfig{Key: c.Key, Value: c.Value})
		}
		out = append(out, info)
	}
	return out
}

func describedStreamsMember(m *streams.MemberDescription) kmsg.StreamsGroupDescribeResponseGroupMember {
	out := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	out.MemberID, out.MemberEpoch, out.InstanceID, out.RackID = m.ID, m.Epoch, nullable(m.Instance), nullable(m.Rack)
	out.ClientID, out.ClientHost, out.TopologyEpoch, out.ProcessID = m.ClientID, m.ClientHost, m.TopologyEpoch, m.Process
	if m.Endpoint != (streams.Endpoint{}) {
		out.UserEndpoint = &kmsg.StreamsGroupDescribeResponseGroupMemberUserEndpoint{Host: m.Endpoint.Host, Port: m.Endpoint.Port}
	}
	for _, t := range m.Tags {
		out.ClientTags = append(out.ClientTags, kmsg.StreamsGroupDescribeResponseGroupMemberClientTag{Key: t.Key, Value: t.Value})
	}
	out.TaskOffsets, out.TaskEndOffsets = describedOffsets(m.Offsets), describedOffsets(m.EndOffsets)
	out.Assignment, out.TargetAssignment = streamsAssignment(m.Assigned), streamsAssignment(m.Target)
	return out
}

func describedOffsets(list []streams.TaskOffset) (out []kmsg.TaskOffset) {
	for _, t := range list {
		out = append(out, kmsg.TaskOffset{SubtopologyID: t.Subtopology, Partition: t.Partition, Offset: t.Offset})
	}
	return out
}
