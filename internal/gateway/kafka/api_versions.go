package kafka

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions: versions 0 to 5.
//
// Its response header is version 0 always, since the client does not know yet what the broker
// speaks. A version above 5 is answered in version 0 with UNSUPPORTED_VERSION and the range of
// ApiVersions itself (KIP-511).
//
//   - 1: throttle time
//   - 3: flexible; the client's software, checked as Kafka does; features (KIP-584)
//   - 4: features whose versions begin at 0 are shown among those that are supported
//   - 5: the cluster and node that the client means to talk to (KIP-1242)

// features are those that clients and tools look for, in the version that is in force always; each could be at 0, which is off.
var features = []struct {
	name    string
	version int16
}{
	{"group.version", 1},       // groups of the consumer protocol (KIP-848)
	{"share.version", 2},       // share groups (KIP-932) with dead-letter queues (KIP-1191)
	{"streams.version", 1},     // streams groups (KIP-1071)
	{"transaction.version", 2}, // the epoch rises with each end of a transaction (KIP-890)
}

// softwareName is Kafka's rule for the name and the version of a client's software.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (s *Server) apiVersions(_ context.Context, rc *request, req *kmsg.ApiVersionsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if e := s.checkApiVersions(req); e != nil {
		resp.ErrorCode = rc.reject(e)
		return resp, nil
	}
	if req.Version >= 3 {
		rc.software = software{req.ClientSoftwareName, req.ClientSoftwareVersion}
	}
	for _, a := range s.apis {
		if a == nil {
			continue
		}
		resp.ApiKeys = append(resp.ApiKeys, apiRange(&a.api))
	}
	resp.FinalizedFeaturesEpoch = 0
	for _, f := range features {
		if req.Version >= 4 {
			resp.SupportedFeatures = append(resp.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: f.name, MaxVersion: f.version})
		}
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: f.name, MaxVersionLevel: f.version, MinVersionLevel: f.version})
	}
	return resp, nil
}

func apiRange(a *api) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = int16(a.key), a.min, a.max
	if a.lower {
		k.MinVersion = 0
	}
	return k
}

func (s *Server) checkApiVersions(req *kmsg.ApiVersionsRequest) *kerr.Error {
	if req.Version >= 3 && !(softwareName.MatchString(req.ClientSoftwareName) && softwareName.MatchString(req.ClientSoftwareVersion)) {
		return kerr.InvalidRequest
	}
	if req.Version < 5 {
		return nil
	}
	switch hasCluster, hasNode := req.ClusterID != nil, req.NodeID != -1; {
	case hasCluster != hasNode:
		return kerr.InvalidRequest
	case hasCluster && (*req.ClusterID != s.backend.Meta().ClusterID || req.NodeID != s.backend.NodeID()):
		return kerr.RebootstrapRequired
	}
	return nil
}

// unsupportedApiVersions answers a version that is not served. body is not looked at.
func (s *Server) unsupportedApiVersions(rc *request) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = rc.reject(kerr.UnsupportedVersion)
	resp.ApiKeys = append(resp.ApiKeys, apiRange(&rc.api.api))
	return resp
}
