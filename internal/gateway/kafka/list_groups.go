package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/group"
)

// ListGroups (16), versions 0 to 5.
//
//   - 4: states, and a filter for them (KIP-518)
//   - 5: types, and a filter for them (KIP-848)

func (s *Server) listGroups(ctx context.Context, rc *request, req *kmsg.ListGroupsRequest) (kmsg.Response, error) {
	out := s.backend.ListGroups(ctx, group.ListRequest{Namespace: rc.namespace, States: req.StatesFilter, Types: req.TypesFilter})
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	if out.Err != nil {
		resp.ErrorCode = rc.failGroup(out.Err)
		return resp, nil
	}
	for _, l := range out.Groups {
		g := kmsg.NewListGroupsResponseGroup()
		g.Group, g.ProtocolType, g.GroupState, g.GroupType = l.Group, l.ProtocolType, string(l.State), l.Type
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}
