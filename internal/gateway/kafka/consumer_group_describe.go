package kafka

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
)

// ConsumerGroupDescribe (69), versions 0 and 1: shows groups of the consumer protocol, what their members have, and what
// they should have (KIP-848). Topics that are gone are left out.
//
//   - 1: which protocol a member speaks (KIP-1099)

// The member types of version 1.
const (
	memberClassic  int8 = 0
	memberConsumer int8 = 1
)

func (s *Server) consumerGroupDescribe(ctx context.Context, rc *request, req *kmsg.ConsumerGroupDescribeRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	view := s.backend.Meta()
	for _, d := range s.backend.DescribeConsumerGroups(ctx, group.DescribeRequest{Namespace: rc.namespace, Groups: req.Groups}) {
		g := kmsg.NewConsumerGroupDescribeResponseGroup()
		g.Group, g.AuthorizedOperations = d.Group, operationsUnknown
		switch {
		case d.Group == "":
			g.ErrorCode = rc.reject(kerr.InvalidGroupID)
		case d.Err != nil:
			g.ErrorCode, g.ErrorMessage = rc.failGroup(d.Err), message(d.Err)
		default:
			g.State, g.Epoch, g.AssignmentEpoch, g.AssignorName = string(d.State), d.Epoch, d.AssignmentEpoch, d.Assignor
			if req.IncludeAuthorizedOperations {
				g.AuthorizedOperations = operationsGroup
			}
			for i := range d.Members {
				g.Members = append(g.Members, describedConsumer(view, &d.Members[i]))
			}
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

func describedConsumer(view *meta.View, m *group.Consumer) kmsg.ConsumerGroupDescribeResponseGroupMember {
	out := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	out.MemberID, out.InstanceID, out.RackID, out.MemberEpoch = m.MemberID, nullable(m.InstanceID), nullable(m.Rack), m.Epoch
	out.ClientID, out.ClientHost, out.SubscribedTopics, out.SubscribedTopicRegex = m.ClientID, m.ClientHost, m.Topics, &m.Regex
	out.MemberType = memberConsumer
	if m.Classic != nil {
		out.MemberType = memberClassic
	}
	has := make([]group.Partition, 0, len(m.Assigned)+len(m.Revoking))
	for _, list := range [][]group.Owned{m.Assigned, m.Revoking} {
		for _, o := range list {
			has = append(has, o.Partition)
		}
	}
	slices.SortFunc(has, func(a, b group.Partition) int {
		return cmp.Or(bytes.Compare(a.Stream[:], b.Stream[:]), cmp.Compare(a.Index, b.Index))
	})
	out.Assignment.TopicPartitions = assignedTopics(view, has)
	out.TargetAssignment.TopicPartitions = assignedTopics(view, m.Target)
	return out
}

func assignedTopics(view *meta.View, list []group.Partition) (out []kmsg.AssignmentTopicPartition) {
	eachTopic(list, func(id base.StreamID, partitions []int32) {
		if st, ok := view.StreamByID(id); ok {
			out = append(out, kmsg.AssignmentTopicPartition{TopicID: id, Topic: st.Name, Partitions: partitions})
		}
	})
	return out
}
