package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The endpoint types of KIP-919.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// DescribeCluster: versions 0 to 2 (KIP-700).
//
//   - 1: the client says whether it means brokers or controllers (KIP-919); here are brokers
//   - 2: fenced brokers (KIP-1073); there are none
func (s *Server) describeCluster(_ context.Context, rc *request, req *kmsg.DescribeClusterRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ControllerID, resp.ClusterAuthorizedOperations = -1, operationsUnknown
	resp.EndpointType = endpointBrokers
	if req.EndpointType != endpointBrokers {
		e, text := kerr.UnsupportedEndpointType, fmt.Sprintf("Unsupported endpoint type %d", req.EndpointType)
		if req.EndpointType == endpointControllers {
			e, text = kerr.MismatchedEndpointType, "This endpoint is for brokers; the request is for controllers."
		}
		resp.ErrorCode, resp.ErrorMessage = rc.reject(e), &text
		return resp, nil
	}
	b := kmsg.NewDescribeClusterResponseBroker()
	b.NodeID = s.backend.NodeID()
	b.Host, b.Port = rc.host()
	resp.Brokers = append(resp.Brokers, b)
	resp.ClusterID, resp.ControllerID = s.backend.Meta().ClusterID, b.NodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = operationsCluster
	}
	return resp, nil
}
