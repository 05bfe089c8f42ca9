package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/share"
)

// ShareGroupHeartbeat (76), version 1: joins a share group, keeps a member's session, or leaves; the answer brings what is
// assigned to the member (KIP-932).

// maxMemberID is the longest ID that a member may choose: that of a UUID in any writing.
const maxMemberID = 36

func (s *Server) shareGroupHeartbeat(ctx context.Context, rc *request, req *kmsg.ShareGroupHeartbeatRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
	if req.MemberID == "" || len(req.MemberID) > maxMemberID {
		resp.ErrorCode = rc.reject(kerr.InvalidRequest)
		return resp, nil
	}
	out := s.backend.ShareHeartbeat(ctx, share.HeartbeatRequest{
		Key:        rc.groupKey(req.GroupID),
		MemberID:   req.MemberID,
		Epoch:      req.MemberEpoch,
		Rack:       req.RackID,
		Subscribed: req.SubscribedTopicNames != nil,
		Topics:     req.SubscribedTopicNames,
		ClientID:   rc.clientID,
		ClientHost: rc.clientHost(),
	})
	if out.Err != nil {
		resp.ErrorCode, resp.ErrorMessage = rc.failGroup(out.Err), message(out.Err)
		return resp, nil
	}
	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = &out.MemberID, out.Epoch, int32(out.Interval)
	if out.Assigned {
		a := kmsg.NewShareGroupHeartbeatResponseAssignment()
		eachTopic(out.Assignment, func(id base.StreamID, partitions []int32) {
			a.TopicPartitions = append(a.TopicPartitions, kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition{TopicID: id, Partitions: partitions})
		})
		resp.Assignment = &a
	}
	return resp, nil
}
