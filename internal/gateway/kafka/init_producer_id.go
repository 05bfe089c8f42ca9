package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/broker"
)

// InitProducerID (22), versions 0 to 5 (KIP-98): a producer ID and epoch.
//
// An idempotent producer gets a new ID with epoch 0, also when it asks for the next epoch of the one it
// has (KIP-360): that is what Kafka does without a transactional ID. With one, the producers before are fenced, and their open
// transaction is aborted.
//
//   - 2: flexible
//   - 3: the ID and epoch that the producer has (KIP-360)
//   - 4: PRODUCER_FENCED
//   - 5: TRANSACTION_ABORTABLE (KIP-890)

var initVersions = txnVersions{fenced: 4, abortable: 5}

func (s *Server) initProducerID(ctx context.Context, rc *request, req *kmsg.InitProducerIDRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "", (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		resp.ErrorCode = rc.reject(kerr.InvalidRequest)
	case req.TransactionalID != nil:
		id, epoch, err := s.backend.InitTransactional(ctx, broker.InitTxn{
			TxnProducer: rc.txnProducer(*req.TransactionalID, req.ProducerID, req.ProducerEpoch),
			Timeout:     int64(req.TransactionTimeoutMillis),
		})
		if resp.ErrorCode = initVersions.fail(rc, err); err == nil {
			resp.ProducerID, resp.ProducerEpoch = id, epoch
		}
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

// txnProducer names a producer of the request's namespace.
func (rc *request) txnProducer(transactional string, id int64, epoch int16) broker.TxnProducer {
	return broker.TxnProducer{Namespace: rc.namespace, Transactional: transactional, ProducerID: id, Epoch: epoch}
}
