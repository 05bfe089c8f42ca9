package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/group"
)

// Heartbeat (12), versions 0 to 4: keeps a member's session; REBALANCE_IN_PROGRESS tells it to join again.
//
//   - 3: static members (KIP-345)

func (s *Server) heartbeat(ctx context.Context, rc *request, req *kmsg.HeartbeatRequest) (kmsg.Response, error) {
	out := s.backend.HeartbeatGroup(ctx, group.HeartbeatRequest{
		Key:        rc.groupKey(req.Group),
		Generation: req.Generation,
		MemberID:   req.MemberID,
		InstanceID: textOf(req.InstanceID),
	})
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	if out.Err != nil {
		resp.ErrorCode = rc.failGroup(out.Err)
	}
	return resp, nil
}
