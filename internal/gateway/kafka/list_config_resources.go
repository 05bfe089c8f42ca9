package kafka

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListConfigResources (74), versions 0 and 1: what can be configured.
//
//   - 0: subscriptions to client metrics, of which there are none (KIP-714)
//   - 1: resources of the types asked for, of all types if none is (KIP-1142)

func (s *Server) listConfigResources(_ context.Context, rc *request, req *kmsg.ListConfigResourcesRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if req.Version < 1 {
		return resp, nil
	}
	types := req.ResourceTypes
	if len(types) == 0 {
		for _, t := range []kmsg.ConfigResourceType{
			kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
			kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
		} {
			types = append(types, int8(t))
		}
	}
	for _, t := range types {
		names, known := s.resources(rc, kmsg.ConfigResourceType(t))
		if !known {
			resp.ErrorCode, resp.ConfigResources = rc.reject(kerr.UnsupportedVersion), nil
			return resp, nil
		}
		for _, name := range names {
			resp.ConfigResources = append(resp.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: t})
		}
	}
	return resp, nil
}

// resources lists what of a type can be configured; false for a type that does not exist.
func (s *Server) resources(rc *request, t kmsg.ConfigResourceType) (names []string, known bool) {
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		for _, st := range s.backend.Meta().Streams(rc.namespace) {
			names = append(names, st.Name)
		}
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		names = []string{strconv.Itoa(int(s.backend.NodeID()))}
	case kmsg.ConfigResourceTypeGroupConfig:
		names = s.backend.ConfiguredGroups(rc.namespace)
	case kmsg.ConfigResourceTypeClientMetrics:
	default:
		return nil, false
	}
	return names, true
}
