package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator (10), versions 0 to 6: which node runs a group. One node runs them all.
//
//   - 1: the type of the key; error messages
//   - 4: several keys at a time (KIP-699)
//   - 6: share groups (KIP-932)
//
// Transactions and share groups have no coordinator here. Their errors are final, so that a client says
// at once that it cannot work, instead of looking for one until its time-out.

// The types of coordinator keys.
const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	coordinatorShare       = 2
)

func (s *Server) findCoordinator(_ context.Context, rc *request, req *kmsg.FindCoordinatorRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if req.Version < 4 {
		c := s.coordinator(rc, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port
		return resp, nil
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, s.coordinator(rc, req.CoordinatorType, key))
	}
	return resp, nil
}

func (s *Server) coordinator(rc *request, keyType int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key = key
	c.NodeID, c.Port = -1, -1
	switch keyType {
	case coordinatorGroup:
		c.NodeID = s.backend.NodeID()
		c.Host, c.Port = rc.host()
	case coordinatorTransaction:
		c.ErrorCode = rc.reject(kerr.UnsupportedVersion)
		c.ErrorMessage = kmsg.StringPtr("This broker does not serve transactions.")
	case coordinatorShare:
		c.ErrorCode = rc.reject(kerr.InvalidRequest)
		c.ErrorMessage = kmsg.StringPtr("This broker does not serve share groups.")
	default:
		c.ErrorCode = rc.reject(kerr.InvalidRequest)
		c.ErrorMessage = kmsg.StringPtr("Unknown coordinator key type.")
	}
	return c
}
