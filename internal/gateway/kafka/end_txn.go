package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/broker"
)

// EndTxn (26), versions 0 to 5: commits or aborts a producer's transaction. The answer says that the outcome is decided; logs and groups
// hear of it right after.
//
//   - 2: PRODUCER_FENCED
//   - 3: flexible
//   - 4: TRANSACTION_ABORTABLE (KIP-890)
//   - 5: transaction version 2: the epoch rises with each end, and the answer tells the next one

// endTxnBumps is the version from which the epoch rises.
const endTxnBumps = 5

var endTxnVersions = txnVersions{fenced: 2, abortable: 4}

func (s *Server) endTxn(ctx context.Context, rc *request, req *kmsg.EndTxnRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	err := checkTransactional(req.TransactionalID)
	var id int64
	var epoch int16
	if err == nil {
		id, epoch, err = s.backend.EndTxn(ctx, broker.EndTxn{
			TxnProducer: rc.txnProducer(req.TransactionalID, req.ProducerID, req.ProducerEpoch),
			Commit:      req.Commit,
			Bump:        req.Version >= endTxnBumps,
		})
	}
	if resp.ErrorCode = endTxnVersions.fail(rc, err); err == nil && req.Version >= endTxnBumps {
		resp.ProducerID, resp.ProducerEpoch = id, epoch
	}
	return resp, nil
}
