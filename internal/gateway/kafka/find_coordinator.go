package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator (10), versions 0 to 6: which node runs a group or the transactions of a transactional ID. One node runs them all.
//
//   - 1: the type of the key; error messages
//   - 4: several keys at a time (KIP-699)
//   - 6: share groups (KIP-932)
//
// The state of share groups' partitions, for which Kafka's brokers look up a coordinator, has none here; its error is final.

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
	case coordinatorGroup, coordinatorTransaction:
		c.NodeID = s.backend.NodeID()
		c.Host, c.Port = rc.host()
	case coordinatorShare:
		c.ErrorCode = rc.reject(kerr.InvalidRequest)
		c.ErrorMessage = kmsg.StringPtr("This broker serves no coordinators of share-partition state to others.")
	default:
		c.ErrorCode = rc.reject(kerr.InvalidRequest)
		c.ErrorMessage = kmsg.StringPtr("Unknown coordinator key type.")
	}
	return c
}
