package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/txn"
)

// DescribeTransactions (65), version 0: shows transactional IDs (KIP-664). Topics that are gone are left out; the groups of a transaction
// are no topics here.

func (s *Server) describeTransactions(ctx context.Context, rc *request, req *kmsg.DescribeTransactionsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range req.TransactionalIDs {
		resp.TransactionStates = append(resp.TransactionStates, s.describeTxn(ctx, rc, id))
	}
	return resp, nil
}

func (s *Server) describeTxn(ctx context.Context, rc *request, id string) kmsg.DescribeTransactionsResponseTransactionState {
	out := kmsg.NewDescribeTransactionsResponseTransactionState()
	out.TransactionalID = id
	if id == "" {
		out.ErrorCode = rc.reject(kerr.InvalidRequest)
		return out
	}
	d := s.backend.DescribeTxn(ctx, txn.Key{Namespace: rc.namespace, ID: id})
	if d.Err != nil {
		out.ErrorCode = rc.failGroup(d.Err)
		return out
	}
	out.State, out.TimeoutMillis, out.StartTimestamp = d.Status.String(), d.TimeoutMs, d.Started
	out.ProducerID, out.ProducerEpoch = d.ProducerID, d.Epoch
	view := s.backend.Meta()
	eachTopic(d.Partitions, func(id base.StreamID, partitions []int32) {
		if st, err := rc.streamByID(view, id); err == nil {
			out.Topics = append(out.Topics, kmsg.DescribeTransactionsResponseTransactionStateTopic{Topic: st.Name, Partitions: partitions})
		}
	})
	return out
}
