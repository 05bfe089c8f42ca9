package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerID: versions 0 to 5 (KIP-98).
//
// An idempotent producer gets a new ID with epoch 0, also when it asks for the next epoch of the one it
// has (KIP-360): that is what Kafka does without a transactional ID. A transactional ID is refused with
// UNSUPPORTED_VERSION, since transactions are not served.
//
//   - 2: flexible
//   - 3: the ID and epoch that the producer has (KIP-360)
//   - 4, 5: errors of transactions
func (s *Server) initProducerID(ctx context.Context, rc *request, req *kmsg.InitProducerIDRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "":
		resp.ErrorCode = rc.reject(kerr.InvalidRequest)
	case req.TransactionalID != nil:
		resp.ErrorCode = rc.reject(kerr.UnsupportedVersion)
	case req.Version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		resp.ErrorCode = rc.reject(kerr.InvalidRequest)
	default:
		id, err := s.backend.AllocateProducerID(ctx)
		if err != nil {
			// A coordinator's error is one that all clients retry.
			resp.ErrorCode = rc.failGroup(err)
			return resp, nil
		}
		resp.ProducerID, resp.ProducerEpoch = id, 0
	}
	return resp, nil
}
