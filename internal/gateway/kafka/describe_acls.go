package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeAcls (29), versions 1 to 3. There are no rules, and the answer is Kafka's when it has no authorizer.

func (s *Server) describeACLs(_ context.Context, rc *request, req *kmsg.DescribeACLsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
	resp.ErrorCode, resp.ErrorMessage = rc.reject(kerr.SecurityDisabled), kmsg.StringPtr("No Authorizer is configured.")
	return resp, nil
}
