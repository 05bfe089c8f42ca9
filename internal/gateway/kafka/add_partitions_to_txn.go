package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/broker"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
)

// AddPartitionsToTxn (24), versions 0 to 5: adds partitions to a producer's transaction. Where one of them does not exist, the others are not
// attempted.
//
//   - 2: PRODUCER_FENCED
//   - 3: flexible
//   - 4: from brokers: several transactions at a time, and asking whether partitions are in one (KIP-890)
//   - 5: TRANSACTION_ABORTABLE, which Kafka sends to version 4 too

// addPartitionsBatched is the version from which a request has several transactions.
const addPartitionsBatched = 4

var addPartitionsVersions = txnVersions{fenced: 2, abortable: addPartitionsBatched}

func (s *Server) addPartitionsToTxn(ctx context.Context, rc *request, req *kmsg.AddPartitionsToTxnRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	view := s.backend.Meta()
	if req.Version >= addPartitionsBatched {
		for i := range req.Transactions {
			resp.Transactions = append(resp.Transactions, s.addToTxn(ctx, rc, view, &req.Transactions[i]))
		}
		return resp, nil
	}
	one := kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: req.TransactionalID, ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch}
	for _, t := range req.Topics {
		one.Topics = append(one.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	for _, t := range s.addToTxn(ctx, rc, view, &one).Topics {
		topic := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p.Partition, ErrorCode: p.ErrorCode})
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

// addToTxn adds partitions to one transaction, or asks whether they are in it.
func (s *Server) addToTxn(ctx context.Context, rc *request, view *meta.View, req *kmsg.AddPartitionsToTxnRequestTransaction) kmsg.AddPartitionsToTxnResponseTransaction {
	resp := kmsg.NewAddPartitionsToTxnResponseTransaction()
	resp.TransactionalID = req.TransactionalID
	var partitions []group.Partition
	var codes []*int16 // where the results of partitions go
	unknown := false
	for _, t := range req.Topics {
		st, err := rc.streamByName(view, t.Topic)
		topic := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.AddPartitionsToTxnResponseTransactionTopicPartition, len(t.Partitions))
		for i, p := range t.Partitions {
			topic.Partitions[i].Partition = p
			if err != nil || hasPartition(st, p) != nil {
				topic.Partitions[i].ErrorCode = rc.reject(kerr.UnknownTopicOrPartition)
				unknown = true
				continue
			}
			partitions = append(partitions, group.Partition{Stream: st.ID, Index: p})
			codes = append(codes, &topic.Partitions[i].ErrorCode)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if unknown {
		for _, code := range codes {
			*code = rc.reject(kerr.OperationNotAttempted)
		}
		return resp
	}
	for i, err := range s.joinTxn(ctx, rc, req, partitions) {
		*codes[i] = addPartitionsVersions.fail(rc, err)
	}
	return resp
}

// joinTxn has the coordinator add the partitions, or look for them: an error or nil for each.
func (s *Server) joinTxn(ctx context.Context, rc *request, req *kmsg.AddPartitionsToTxnRequestTransaction, partitions []group.Partition) []error {
	if req.VerifyOnly && req.TransactionalID != "" {
		return s.backend.VerifyTxn(ctx, &broker.TxnCheck{
			TxnProducer: rc.txnProducer(req.TransactionalID, req.ProducerID, req.ProducerEpoch), Partitions: partitions,
		})
	}
	err := checkTransactional(req.TransactionalID)
	if err == nil {
		err = s.backend.AddTxnPartitions(ctx, rc.txnProducer(req.TransactionalID, req.ProducerID, req.ProducerEpoch), partitions)
	}
	errs := make([]error, len(partitions))
	for i := range errs {
		errs[i] = err
	}
	return errs
}
