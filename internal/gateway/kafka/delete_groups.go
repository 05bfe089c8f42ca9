package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/group"
)

// DeleteGroups (42), versions 0 to 3: deletes groups without members, with their offsets. A name
// without a group of another type may be that of a share or streams group.
//
//   - 3: error messages

func (s *Server) deleteGroups(ctx context.Context, rc *request, req *kmsg.DeleteGroupsRequest) (kmsg.Response, error) {
	out := s.backend.DeleteGroups(ctx, group.DeleteGroupsRequest{Namespace: rc.namespace, Groups: req.Groups})
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	for i, name := range req.Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group = name
		var err error
		if refused := out.Errs[i]; refused != nil {
			err = refused
		}
		if err != nil && base.CodeOf(err) == base.CodeUnknownGroup {
			err = s.backend.DeleteShareGroup(ctx, rc.groupKey(name))
		}
		if err != nil && base.CodeOf(err) == base.CodeUnknownGroup {
			err = s.backend.DeleteStreamsGroup(ctx, rc.groupKey(name))
		}
		if err != nil {
			g.ErrorCode, g.ErrorMessage = rc.failGroup(err), message(err)
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}
