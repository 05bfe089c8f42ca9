package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/txn"
)

// ListTransactions (66), versions 0 to 2: lists transactional IDs (KIP-664).
//
//   - 1: only those that have been open for longer (KIP-994)
//   - 2: only those that match an expression (KIP-1152)

func (s *Server) listTransactions(ctx context.Context, rc *request, req *kmsg.ListTransactionsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
	list := s.backend.ListTxns(ctx, rc.namespace, txn.Filter{
		Statuses: req.StateFilters, ProducerIDs: req.ProducerIDFilters, Duration: req.DurationFilterMillis, Pattern: textOf(req.TransactionalIDPattern),
	})
	if list.Err != nil {
		resp.ErrorCode = rc.failGroup(list.Err)
		return resp, nil
	}
	resp.UnknownStateFilters = list.Unknown
	for _, t := range list.Txns {
		out := kmsg.NewListTransactionsResponseTransactionState()
		out.TransactionalID, out.ProducerID, out.TransactionState = t.ID, t.ProducerID, t.Status.String()
		resp.TransactionStates = append(resp.TransactionStates, out)
	}
	return resp, nil
}
