package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/group"
)

// JoinGroup (11), versions 0 to 9: waits until the group's next generation begins.
//
//   - 1: a time-out for the rebalance beside that of the session
//   - 4: a new member is first given its ID (KIP-394)
//   - 5: static members (KIP-345)
//   - 7: the protocol type in the response
//   - 8: the client's reason, which changes nothing
//   - 9: the leader can be told to keep the assignment (KIP-814)

func (s *Server) joinGroup(ctx context.Context, rc *request, req *kmsg.JoinGroupRequest) (kmsg.Response, error) {
	in := group.JoinRequest{
		Key:              rc.groupKey(req.Group),
		MemberID:         req.MemberID,
		InstanceID:       textOf(req.InstanceID),
		ClientID:         rc.clientID,
		ClientHost:       rc.clientHost(),
		SessionTimeout:   int64(req.SessionTimeoutMillis),
		RebalanceTimeout: int64(req.RebalanceTimeoutMillis),
		ProtocolType:     req.ProtocolType,
		RequireKnownID:   req.Version >= 4,
		CanSkip:          req.Version >= 9,
	}
	if req.Version < 1 {
		in.RebalanceTimeout = -1
	}
	for _, p := range req.Protocols {
		in.Protocols = append(in.Protocols, group.Protocol{Name: p.Name, Metadata: p.Metadata})
	}
	out := s.backend.JoinGroup(ctx, in)

	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.MemberID, resp.Generation, resp.LeaderID, resp.SkipAssignment = out.MemberID, out.Generation, out.Leader, out.SkipAssignment
	if out.Err != nil {
		resp.ErrorCode, resp.Generation = rc.failGroup(out.Err), -1
		return resp, nil
	}
	resp.ProtocolType, resp.Protocol = &out.ProtocolType, &out.Protocol
	for _, m := range out.Members {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID, member.InstanceID, member.ProtocolMetadata = m.MemberID, nullable(m.InstanceID), m.Metadata
		resp.Members = append(resp.Members, member)
	}
	return resp, nil
}
