package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
)

// ListGroups (16), versions 0 to 5.
//
//   - 4: states, and a filter for them (KIP-518)
//   - 5: types, and a filter for them (KIP-848)
//
// Share groups come after the others, and streams groups after these.

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
	others := []struct {
		kind string
		list func() ([]string, []string, error) // names and states
	}{
		{share.Type, func() (names, states []string, err error) {
			list, err := s.backend.ListShareGroups(ctx, rc.namespace, req.StatesFilter)
			for _, l := range list {
				names, states = append(names, l.Group), append(states, string(l.State))
			}
			return names, states, err
		}},
		{streams.Type, func() (names, states []string, err error) {
			list, err := s.backend.ListStreamsGroups(ctx, rc.namespace, req.StatesFilter)
			for _, l := range list {
				names, states = append(names, l.Group), append(states, string(l.State))
			}
			return names, states, err
		}},
	}
	for _, o := range others {
		if len(req.TypesFilter) > 0 && !slices.ContainsFunc(req.TypesFilter, func(t string) bool { return strings.EqualFold(t, o.kind) }) {
			continue
		}
		names, states, err := o.list()
		if err != nil {
			resp.ErrorCode, resp.Groups = rc.failGroup(err), nil
			return resp, nil
		}
		for i := range names {
			g := kmsg.NewListGroupsResponseGroup()
			g.Group, g.ProtocolType, g.GroupState, g.GroupType = names[i], o.kind, states[i], o.kind
			resp.Groups = append(resp.Groups, g)
		}
	}
	return resp, nil
}
