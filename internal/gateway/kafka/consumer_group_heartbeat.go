package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/group"
)

// ConsumerGroupHeartbeat (68), versions 0 and 1: joins a group of the consumer protocol, keeps a member's session, or leaves; the
// answer brings what is assigned to the member (KIP-848).
//
//   - 1: the member chooses its ID; topics by regular expression

func (s *Server) consumerGroupHeartbeat(ctx context.Context, rc *request, req *kmsg.ConsumerGroupHeartbeatRequest) (kmsg.Response, error) {
	in := group.ConsumerHeartbeatRequest{
		Key:              rc.groupKey(req.Group),
		MemberID:         req.MemberID,
		MemberIDRequired: req.Version >= 1,
		Epoch:            req.MemberEpoch,
		InstanceID:       req.InstanceID,
		Rack:             req.RackID,
		RebalanceTimeout: int64(req.RebalanceTimeoutMillis),
		Topics:           req.SubscribedTopicNames,
		Regex:            req.SubscribedTopicRegex,
		Assignor:         req.ServerAssignor,
		OwnedSaid:        req.Topics != nil,
		ClientID:         rc.clientID,
		ClientHost:       rc.clientHost(),
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			in.Owned = append(in.Owned, group.Partition{Stream: t.TopicID, Index: p})
		}
	}
	out := s.backend.ConsumerHeartbeat(ctx, in)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	if out.Err != nil {
		resp.ErrorCode, resp.ErrorMessage = rc.failGroup(out.Err), message(out.Err)
		return resp, nil
	}
	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = &out.MemberID, out.Epoch, int32(out.Interval)
	if out.Assigned {
		a := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
		eachTopic(out.Assignment, func(id base.StreamID, partitions []int32) {
			a.Topics = append(a.Topics, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: id, Partitions: partitions})
		})
		resp.Assignment = &a
	}
	return resp, nil
}
