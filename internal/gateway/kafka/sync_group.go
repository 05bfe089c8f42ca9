package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/group"
)

// SyncGroup (14), versions 0 to 5: waits for the member's assignment; the leader's request brings all of
// them.
//
//   - 3: static members (KIP-345)
//   - 5: the protocol type and name are checked (KIP-559)

func (s *Server) syncGroup(ctx context.Context, rc *request, req *kmsg.SyncGroupRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	if req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		resp.ErrorCode = rc.failGroup(base.Errorf(base.CodeInconsistentProtocol, "the protocol type or name is missing"))
		return resp, nil
	}
	in := group.SyncRequest{
		Key:          rc.groupKey(req.Group),
		Generation:   req.Generation,
		MemberID:     req.MemberID,
		InstanceID:   textOf(req.InstanceID),
		ProtocolType: textOf(req.ProtocolType),
		Protocol:     textOf(req.Protocol),
	}
	for _, a := range req.GroupAssignment {
		in.Assignments = append(in.Assignments, group.Assignment{MemberID: a.MemberID, Data: a.MemberAssignment})
	}
	out := s.backend.SyncGroup(ctx, in)
	if out.Err != nil {
		resp.ErrorCode = rc.failGroup(out.Err)
		return resp, nil
	}
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &out.ProtocolType, &out.Protocol, out.Assignment
	return resp, nil
}
