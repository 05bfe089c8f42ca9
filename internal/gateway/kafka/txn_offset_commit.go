package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/group"
)

// TxnOffsetCommit (28), versions 0 to 6: records a group's positions, which count when the producer's transaction is committed.
//
//   - 2: the leader epoch of the last record read (KIP-320); COORDINATOR_LOAD_IN_PROGRESS
//   - 3: flexible; the member and its generation, which are checked if they are said (KIP-447)
//   - 4: TRANSACTION_ABORTABLE (KIP-890)
//   - 5: transaction version 2: adds the group to the transaction by itself
//   - 6: topic IDs in place of names (KIP-848)

// Versions of TxnOffsetCommit in which something changes.
const (
	txnCommitLoading  = 2
	txnCommitImplicit = 5
	txnCommitByID     = 6
)

// A producer that is fenced has the same code in all versions.
var txnCommitVersions = txnVersions{fenced: never, abortable: 4, concurrent: txnCommitImplicit}

func (s *Server) txnOffsetCommit(ctx context.Context, rc *request, req *kmsg.TxnOffsetCommitRequest) (kmsg.Response, error) {
	in := broker.TxnOffsets{
		TxnProducer: rc.txnProducer(req.TransactionalID, req.ProducerID, req.ProducerEpoch),
		Implicit:    req.Version >= txnCommitImplicit,
		Commit: group.CommitRequest{
			Key: rc.groupKey(req.Group), Generation: req.Generation, MemberID: req.MemberID, InstanceID: textOf(req.InstanceID), Retention: -1,
		},
	}
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	view := s.backend.Meta()
	var codes []*int16 // where the results of in.Commit.Offsets go
	for _, t := range req.Topics {
		st, unknown := rc.streamOf(view, txnCommitByID, t.Topic, t.TopicID)
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		topic.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.Partitions))
		for i, p := range t.Partitions {
			result := &topic.Partitions[i]
			result.Partition = p.Partition
			switch {
			case unknown != nil:
				result.ErrorCode = rc.unknownTopic(txnCommitByID)
			case hasPartition(st, p.Partition) != nil:
				result.ErrorCode = rc.reject(kerr.UnknownTopicOrPartition)
			default:
				in.Commit.Offsets = append(in.Commit.Offsets, group.CommitOffset{
					Partition: group.Partition{Stream: st.ID, Index: p.Partition}, Offset: p.Offset, Epoch: p.LeaderEpoch, Metadata: textOf(p.Metadata),
				})
				codes = append(codes, &result.ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if len(codes) == 0 {
		return resp, nil
	}
	out := group.CommitResponse{}
	if err := checkTransactional(req.TransactionalID); err != nil {
		out.Err = base.Errorf(base.CodeInvalidRequest, "%v", err)
	} else {
		out = s.backend.CommitTxnOffsets(ctx, in)
	}
	for i, code := range codes {
		if out.Err != nil {
			*code = rc.failTxnCommit(out.Err)
		} else if out.Errs[i] != nil {
			*code = rc.failTxnCommit(out.Errs[i])
		}
	}
	return resp, nil
}

// failTxnCommit is the code of an error that is not nil. The first clients do not wait for a coordinator that is loading.
func (rc *request) failTxnCommit(err *base.Error) int16 {
	if err.Code == base.CodeNotReady && rc.version < txnCommitLoading {
		return rc.reject(kerr.CoordinatorNotAvailable)
	}
	return txnCommitVersions.fail(rc, err)
}
