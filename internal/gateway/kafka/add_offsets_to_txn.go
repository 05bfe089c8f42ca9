package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
)

// AddOffsetsToTxn (25), versions 0 to 4: adds a group to a producer's transaction, so that its positions can be committed with it.
//
//   - 2: PRODUCER_FENCED
//   - 3: flexible
//   - 4: TRANSACTION_ABORTABLE (KIP-890)

var addOffsetsVersions = txnVersions{fenced: 2, abortable: 4}

func (s *Server) addOffsetsToTxn(ctx context.Context, rc *request, req *kmsg.AddOffsetsToTxnRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	err := checkTransactional(req.TransactionalID)
	if err == nil {
		err = s.backend.AddTxnOffsets(ctx, rc.txnProducer(req.TransactionalID, req.ProducerID, req.ProducerEpoch), rc.groupKey(req.Group))
	}
	resp.ErrorCode = addOffsetsVersions.fail(rc, err)
	return resp, nil
}

// checkTransactional refuses the empty transactional ID.
func checkTransactional(id string) error {
	if id == "" {
		return base.Errorf(base.CodeInvalidRequest, "the transactional ID is empty")
	}
	return nil
}
