package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/meta"
)

// ShareGroupDescribe (77), version 1: shows share groups and what is assigned to their members (KIP-932). Topics that are
// gone are left out.

func (s *Server) shareGroupDescribe(ctx context.Context, rc *request, req *kmsg.ShareGroupDescribeRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ShareGroupDescribeResponse)
	view := s.backend.Meta()
	for _, d := range s.backend.DescribeShareGroups(ctx, rc.namespace, req.GroupIDs) {
		g := kmsg.NewShareGroupDescribeResponseGroup()
		g.GroupID, g.AuthorizedOperations = d.Group, operationsUnknown
		switch {
		case d.Group == "":
			g.ErrorCode = rc.reject(kerr.InvalidGroupID)
		case d.Err != nil:
			g.ErrorCode, g.ErrorMessage = rc.failGroup(d.Err), message(d.Err)
		default:
			g.GroupState, g.GroupEpoch, g.AssignmentEpoch, g.Assignor = string(d.State), d.Epoch, d.AssignmentEpoch, share.Assignor
			if req.IncludeAuthorizedOperations {
				g.AuthorizedOperations = operationsGroup
			}
			for i := range d.Members {
				g.Members = append(g.Members, describedShareMember(view, &d.Members[i]))
			}
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

func describedShareMember(view *meta.View, m *share.Member) kmsg.ShareGroupDescribeResponseGroupMember {
	out := kmsg.NewShareGroupDescribeResponseGroupMember()
	out.MemberID, out.RackID, out.MemberEpoch = m.ID, nullable(m.Rack), m.Epoch
	out.ClientID, out.ClientHost, out.SubscribedTopicNames = m.ClientID, m.ClientHost, m.Topics
	eachTopic(m.Assigned, func(id base.StreamID, partitions []int32) {
		if st, ok := view.StreamByID(id); ok {
			out.Assignment.TopicPartitions = append(out.Assignment.TopicPartitions, kmsg.ShareGroupDescribeResponseGroupMemberAssignmentTopicPartition{
				TopicID: id, Topic: st.Name, Partitions: partitions,
			})
		}
	})
	return out
}
