package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/group"
)

// LeaveGroup (13), versions 0 to 5: ends memberships.
//
//   - 3: several members, also static ones by their instance (KIP-345); before, the result of the only one
//     is that of the request
//   - 5: the client's reason, which changes nothing

func (s *Server) leaveGroup(ctx context.Context, rc *request, req *kmsg.LeaveGroupRequest) (kmsg.Response, error) {
	in := group.LeaveRequest{Key: rc.groupKey(req.Group)}
	if req.Version < 3 {
		in.Members = []group.LeavingMember{{MemberID: req.MemberID}}
	}
	for _, m := range req.Members {
		in.Members = append(in.Members, group.LeavingMember{MemberID: m.MemberID, InstanceID: textOf(m.InstanceID)})
	}
	out := s.backend.LeaveGroup(ctx, in)

	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	if out.Err != nil {
		resp.ErrorCode = rc.failGroup(out.Err)
		return resp, nil
	}
	for _, m := range out.Members {
		member := kmsg.NewLeaveGroupResponseMember()
		member.MemberID, member.InstanceID = m.MemberID, nullable(m.InstanceID)
		if m.Err != nil {
			member.ErrorCode = rc.failGroup(m.Err)
		}
		resp.Members = append(resp.Members, member)
	}
	if req.Version < 3 && len(resp.Members) > 0 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	return resp, nil
}
