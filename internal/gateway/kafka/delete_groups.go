package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/group"
)

// DeleteGroups (42), versions 0 to 3: deletes groups without members, with their offsets.
//
//   - 3: error messages

func (s *Server) deleteGroups(ctx context.Context, rc *request, req *kmsg.DeleteGroupsRequest) (kmsg.Response, error) {
	out := s.backend.DeleteGroups(ctx, group.DeleteGroupsRequest{Namespace: rc.namespace, Groups: req.Groups})
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	for i, name := range req.Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group = name
		if err := out.Errs[i]; err != nil {
			g.ErrorCode, g.ErrorMessage = rc.failGroup(err), message(err)
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}
