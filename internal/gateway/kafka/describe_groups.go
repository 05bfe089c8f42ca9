package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/group"
)

// DescribeGroups (15), versions 0 to 6.
//
//   - 3: operations that the client may use
//   - 4: static members (KIP-345)
//   - 6: GROUP_ID_NOT_FOUND with a message; before, a group that does not exist is Dead without an
//     error (KIP-1043)

func (s *Server) describeGroups(ctx context.Context, rc *request, req *kmsg.DescribeGroupsRequest) (kmsg.Response, error) {
	out := s.backend.DescribeGroups(ctx, group.DescribeRequest{Namespace: rc.namespace, Groups: req.Groups})
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, d := range out.Groups {
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.State, g.ProtocolType, g.Protocol = d.Group, string(d.State), d.ProtocolType, d.Protocol
		g.AuthorizedOperations = operationsUnknown
		switch {
		case d.Err != nil && d.Err.Code == base.CodeUnknownGroup && req.Version < 6:
		case d.Err != nil:
			g.ErrorCode, g.ErrorMessage = rc.failGroup(d.Err), message(d.Err)
		case req.IncludeAuthorizedOperations:
			g.AuthorizedOperations = operationsGroup
		}
		for _, m := range d.Members {
			member := kmsg.NewDescribeGroupsResponseGroupMember()
			member.MemberID, member.InstanceID, member.ClientID, member.ClientHost = m.MemberID, nullable(m.InstanceID), m.ClientID, m.ClientHost
			member.ProtocolMetadata, member.MemberAssignment = m.Metadata, m.Assignment
			g.Members = append(g.Members, member)
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}
