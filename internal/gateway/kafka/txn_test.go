package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/group"
	"godwit/internal/coord/txn"
)

// A node without more has no coordinator of transactions.
var errNoTxns = base.Errorf(base.CodeUnknownMapping, "this node has no transactions")

func (n *node) InitTransactional(context.Context, broker.InitTxn) (int64, int16, error) {
	return -1, -1, errNoTxns
}

func (n *node) AddTxnPartitions(context.Context, broker.TxnProducer, []group.Partition) error {
	return errNoTxns
}

func (n *node) VerifyTxn(_ context.Context, c *broker.TxnCheck) []error {
	return slices.Repeat([]error{errNoTxns}, len(c.Partitions))
}

func (n *node) AddTxnOffsets(context.Context, broker.TxnProducer, group.Key) error { return errNoTxns }

func (n *node) EndTxn(context.Context, broker.EndTxn) (int64, int16, error) {
	return -1, -1, errNoTxns
}

func (n *node) CommitTxnOffsets(context.Context, broker.TxnOffsets) group.CommitResponse {
	return group.CommitResponse{Err: errNoTxns}
}

func (n *node) DescribeTxn(_ context.Context, k txn.Key) txn.Description {
	return txn.Description{Key: k, Err: errNoTxns}
}

func (n *node) ListTxns(context.Context, string, txn.Filter) txn.List {
	return txn.List{Err: errNoTxns}
}

func (n *node) WriteTxnMarkers(_ context.Context, markers []broker.Marker) []error {
	return slices.Repeat([]error{errNoTxns}, len(markers))
}

// txnNode stands for the coordinator of transactions: it notes what it is asked and answers as it is told.
type txnNode struct {
	*node
	asked  []string
	answer error
	errs   []*base.Error // of the single offsets of a commit
}

// said notes a call.
func (n *txnNode) said(format string, args ...any) error {
	n.asked = append(n.asked, fmt.Sprintf(format, args...))
	return n.answer
}

func (n *txnNode) who(r *broker.TxnProducer) string {
	return fmt.Sprintf("%s/%s %d.%d", r.Namespace, r.Transactional, r.ProducerID, r.Epoch)
}

func (n *txnNode) InitTransactional(_ context.Context, r broker.InitTxn) (int64, int16, error) {
	return 70, 7, n.said("init %s timeout %d", n.who(&r.TxnProducer), r.Timeout)
}

func (n *txnNode) AddTxnPartitions(_ context.Context, p broker.TxnProducer, partitions []group.Partition) error {
	return n.said("add %s %d", n.who(&p), len(partitions))
}

func (n *txnNode) VerifyTxn(_ context.Context, c *broker.TxnCheck) []error {
	err := n.said("verify %s %d implicit %t", n.who(&c.TxnProducer), len(c.Partitions), c.Implicit)
	return slices.Repeat([]error{err}, len(c.Partitions))
}

func (n *txnNode) AddTxnOffsets(_ context.Context, p broker.TxnProducer, k group.Key) error {
	return n.said("group %s %s", n.who(&p), k.Group)
}

func (n *txnNode) EndTxn(_ context.Context, r broker.EndTxn) (int64, int16, error) {
	return 71, 8, n.said("end %s commit %t bump %t", n.who(&r.TxnProducer), r.Commit, r.Bump)
}

func (n *txnNode) CommitTxnOffsets(_ context.Context, r broker.TxnOffsets) group.CommitResponse {
	err := n.said("commit %s implicit %t %s %d/%s/%s %v", n.who(&r.TxnProducer), r.Implicit, r.Commit.Group, r.Commit.Generation, r.Commit.MemberID, r.Commit.InstanceID, r.Commit.Offsets)
	if err != nil {
		return group.CommitResponse{Err: err.(*base.Error)}
	}
	errs := make([]*base.Error, len(r.Commit.Offsets))
	copy(errs, n.errs)
	return group.CommitResponse{Errs: errs}
}

func (n *txnNode) WriteTxnMarkers(_ context.Context, markers []broker.Marker) []error {
	errs := make([]error, len(markers))
	for i, m := range markers {
		errs[i] = n.said("marker log %d shard %d %+v", m.Log, m.Shard, m.Marker)
	}
	return errs
}

func (n *txnNode) ListTxns(_ context.Context, namespace string, f txn.Filter) txn.List {
	if err := n.said("list %s %+v", namespace, f); err != nil {
		return txn.List{Err: err.(*base.Error)}
	}
	return txn.List{Unknown: []string{"Odd"}, Txns: []txn.Listing{{ID: "x", ProducerID: 70, Status: txn.PrepareCommit}}}
}

func newTxnStand(t *testing.T) (*stand, *txnNode) {
	st := newStand(t)
	n := &txnNode{node: st.n}
	st.s.backend = n
	return st, n
}

// asks compares what the coordinator was asked, and forgets it.
func (n *txnNode) asks(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(n.asked, want) {
		t.Errorf("the coordinator was asked %q, want %q", n.asked, want)
	}
	n.asked = nil
}

// TestTxnErrors gives each version of each request the codes that it knows.
func TestTxnErrors(t *testing.T) {
	requests := []struct {
		key  kmsg.Key
		call func(st *stand, version int16) int16
		// versions from which the clients know the codes; 0: all, never: none
		fenced, abortable, concurrent int16
	}{
		{kmsg.InitProducerID, func(st *stand, v int16) int16 {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID = kmsg.StringPtr("x")
			return send[*kmsg.InitProducerIDResponse](st, v, req).ErrorCode
		}, 4, 5, 0},
		{kmsg.AddPartitionsToTxn, func(st *stand, v int16) int16 { return addParts(st, v, "x", 0)[0] }, 2, 4, 0},
		{kmsg.AddOffsetsToTxn, func(st *stand, v int16) int16 {
			return send[*kmsg.AddOffsetsToTxnResponse](st, v, &kmsg.AddOffsetsToTxnRequest{TransactionalID: "x", Group: "g"}).ErrorCode
		}, 2, 4, 0},
		{kmsg.EndTxn, func(st *stand, v int16) int16 {
			return send[*kmsg.EndTxnResponse](st, v, &kmsg.EndTxnRequest{TransactionalID: "x"}).ErrorCode
		}, 2, 4, 0},
		{kmsg.TxnOffsetCommit, func(st *stand, v int16) int16 { return commitTxn(st, v, "x", 0)[0] }, never, 4, 5},
	}
	for _, r := range requests {
		st, n := newTxnStand(t)
		st.topic("t", 2, nil)
		a := st.s.apis.find(int16(r.key))
		for v := a.min; v <= a.max; v++ {
			for _, tc := range []struct {
				code base.Code
				want *kerr.Error
			}{
				{base.CodeProducerFenced, since(v, r.fenced, kerr.ProducerFenced, kerr.InvalidProducerEpoch)},
				{base.CodeTxnAbortable, since(v, r.abortable, kerr.TransactionAbortable, kerr.InvalidTxnState)},
				{base.CodeConcurrentTxn, since(v, r.concurrent, kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable)},
				{base.CodeInvalidTxnState, kerr.InvalidTxnState},
				{base.CodeFencedProducer, kerr.InvalidProducerEpoch},
				{base.CodeUnknownMapping, kerr.InvalidProducerIDMapping},
				{base.CodeInvalidTxnTimeout, kerr.InvalidTransactionTimeout},
				{base.CodeTimeout, kerr.CoordinatorNotAvailable},
				{base.CodeShutdown, kerr.NotCoordinator},
			} {
				n.answer = base.Errorf(tc.code, "no")
				wantCode(t, fmt.Sprintf("%s version %d, code %d", r.key.Name(), v, tc.code), r.call(st, v), tc.want)
			}
			n.answer = base.Errorf(base.CodeNotReady, "not yet")
			loading := since(v, 2, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable)
			if r.key != kmsg.TxnOffsetCommit {
				loading = kerr.CoordinatorLoadInProgress
			}
			wantCode(t, fmt.Sprintf("%s version %d, loading", r.key.Name(), v), r.call(st, v), loading)
			n.answer = nil
			wantCode(t, fmt.Sprintf("%s version %d", r.key.Name(), v), r.call(st, v), nil)
		}
	}
}

func since(version, from int16, then, before *kerr.Error) *kerr.Error {
	if version >= from {
		return then
	}
	return before
}

// addParts adds partitions of topic t, or of topic u where they are negative, and returns the codes in that order.
func addParts(st *stand, version int16, id string, partitions ...int32) (codes []int16) {
	st.t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, 5, 6
	in := kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: id, ProducerID: 5, ProducerEpoch: 6}
	for _, p := range partitions {
		name := "t"
		if p < 0 {
			name, p = "u", -p
		}
		req.Topics = append(req.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: name, Partitions: []int32{p}})
		in.Topics = append(in.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: name, Partitions: []int32{p}})
	}
	req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{in}
	resp := send[*kmsg.AddPartitionsToTxnResponse](st, version, req)
	for _, topic := range resp.Topics {
		codes = append(codes, topic.Partitions[0].ErrorCode)
	}
	for _, tx := range resp.Transactions {
		for _, topic := range tx.Topics {
			codes = append(codes, topic.Partitions[0].ErrorCode)
		}
	}
	return codes
}

func commitTxn(st *stand, version int16, id string, partitions ...int32) (codes []int16) {
	st.t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = id, "g", 5, 6
	req.Generation, req.MemberID, req.InstanceID = 3, "m", kmsg.StringPtr("i")
	view := st.n.Meta()
	for _, p := range partitions {
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		topic.Topic = "t"
		if p < 0 {
			topic.Topic, p = "u", -p
		}
		if s, ok := view.Stream(base.DefaultNamespace, topic.Topic); ok {
			topic.TopicID = s.ID
		}
		at := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		at.Partition, at.Offset, at.LeaderEpoch, at.Metadata = p, 10, 2, kmsg.StringPtr("note")
		topic.Partitions = append(topic.Partitions, at)
		req.Topics = append(req.Topics, topic)
	}
	for _, topic := range send[*kmsg.TxnOffsetCommitResponse](st, version, req).Topics {
		codes = append(codes, topic.Partitions[0].ErrorCode)
	}
	return codes
}

func wantCodes(t *testing.T, what string, got []int16, want ...*kerr.Error) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d codes, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		wantCode(t, fmt.Sprintf("%s, %d", what, i), got[i], want[i])
	}
}

func TestInitTransactional(t *testing.T) {
	st, n := newTxnStand(t)
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = kmsg.StringPtr("x"), 9, 5, 6
	out := send[*kmsg.InitProducerIDResponse](st, 5, req)
	n.asks(t, "init default/x 5.6 timeout 9")
	if out.ProducerID != 70 || out.ProducerEpoch != 7 {
		t.Errorf("answered %+v", out)
	}
	send[*kmsg.InitProducerIDResponse](st, 2, req) // which cannot say what the producer has
	n.asks(t, "init default/x -1.-1 timeout 9")
	n.answer = base.Errorf(base.CodeConcurrentTxn, "wait")
	if out := send[*kmsg.InitProducerIDResponse](st, 5, req); out.ProducerID != -1 || out.ProducerEpoch != -1 {
		t.Errorf("answered %+v", out)
	}
	n.asked = nil
	req.ProducerEpoch = -1
	wantCode(t, "ID without epoch", send[*kmsg.InitProducerIDResponse](st, 5, req).ErrorCode, kerr.InvalidRequest)
	req.ProducerID, req.TransactionalID = -1, kmsg.StringPtr("")
	wantCode(t, "no ID", send[*kmsg.InitProducerIDResponse](st, 5, req).ErrorCode, kerr.InvalidRequest)
	n.asks(t)
}

func TestAddPartitionsToTxn(t *testing.T) {
	st, n := newTxnStand(t)
	st.topic("t", 2, nil)
	for _, v := range []int16{0, 3, 4, 5} {
		wantCodes(t, "two", addParts(st, v, "x", 0, 1), nil, nil)
		n.asks(t, "add default/x 5.6 2")
		// As in Kafka one that is not there is enough, and is looked for first.
		wantCodes(t, "unknown topic", addParts(st, v, "", 0, -1), kerr.OperationNotAttempted, kerr.UnknownTopicOrPartition)
		wantCodes(t, "unknown partition", addParts(st, v, "x", 2, 1), kerr.UnknownTopicOrPartition, kerr.OperationNotAttempted)
		wantCodes(t, "no ID", addParts(st, v, "", 1), kerr.InvalidRequest)
		n.asks(t)
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	for i, id := range []string{"x", "", "y"} {
		req.Transactions = append(req.Transactions, kmsg.AddPartitionsToTxnRequestTransaction{
			TransactionalID: id, ProducerID: 5, ProducerEpoch: 6, VerifyOnly: i < 2,
			Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "t", Partitions: []int32{0, 1}}},
		})
	}
	n.answer = base.Errorf(base.CodeTxnAbortable, "no")
	out := send[*kmsg.AddPartitionsToTxnResponse](st, 4, req)
	n.asks(t, "verify default/x 5.6 2 implicit false", "add default/y 5.6 2")
	for i, want := range []*kerr.Error{kerr.TransactionAbortable, kerr.InvalidRequest, kerr.TransactionAbortable} {
		wantCode(t, "several", out.Transactions[i].Topics[0].Partitions[1].ErrorCode, want)
	}
}

func TestEndTxnVersions(t *testing.T) {
	for v := int16(0); v <= 5; v++ {
		st, n := newTxnStand(t)
		out := send[*kmsg.EndTxnResponse](st, v, &kmsg.EndTxnRequest{TransactionalID: "x", ProducerID: 5, ProducerEpoch: 6, Commit: true})
		n.asks(t, fmt.Sprintf("end default/x 5.6 commit true bump %t", v >= 5))
		if v >= 5 && (out.ProducerID != 71 || out.ProducerEpoch != 8) {
			t.Errorf("version %d: %+v", v, out)
		}
		wantCode(t, "no ID", send[*kmsg.EndTxnResponse](st, v, &kmsg.EndTxnRequest{}).ErrorCode, kerr.InvalidRequest)
		n.asks(t)
	}
}

func TestTxnOffsetCommit(t *testing.T) {
	st, n := newTxnStand(t)
	s := st.topic("t", 2, nil)
	for v := int16(0); v <= 6; v++ {
		unknown := since(v, 6, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition)
		n.errs = []*base.Error{nil, base.Errorf(base.CodeMetadataTooLarge, "long")}
		wantCodes(t, "commit", commitTxn(st, v, "x", 0, -1, 1, 5), nil, unknown, kerr.OffsetMetadataTooLarge, kerr.UnknownTopicOrPartition)
		member, epoch := "3/m/i", int32(2)
		if v < 3 {
			member = "-1//"
		}
		if v < 2 {
			epoch = -1
		}
		var at []group.CommitOffset
		for i := range int32(2) {
			at = append(at, group.CommitOffset{Partition: group.Partition{Stream: s.ID, Index: i}, Offset: 10, Epoch: epoch, Metadata: "note"})
		}
		n.asks(t, fmt.Sprintf("commit default/x 5.6 implicit %t g %s %v", v >= 5, member, at))
		wantCodes(t, "no ID", commitTxn(st, v, "", 0), kerr.InvalidRequest)
		wantCodes(t, "nothing known", commitTxn(st, v, "x", -1), unknown)
		n.asks(t)
	}
}

func TestWriteTxnMarkers(t *testing.T) {
	st, n := newTxnStand(t)
	s := st.topic("t", 2, nil)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
		ProducerID: 5, ProducerEpoch: 6, Committed: true, CoordinatorEpoch: 3, TransactionVersion: 2,
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "u", Partitions: []int32{0}}, {Topic: "t", Partitions: []int32{7, 1}}},
	}}
	for v, version := range map[int16]int{1: 0, 2: 2} {
		for code, want := range map[base.Code]*kerr.Error{base.CodeFencedProducer: kerr.InvalidProducerEpoch, base.CodeFencedCoordinator: kerr.TransactionCoordinatorFenced} {
			n.answer = base.Errorf(code, "no")
			out := send[*kmsg.WriteTxnMarkersResponse](st, v, req)
			n.asks(t, fmt.Sprintf("marker log %d shard %d {ProducerID:5 Epoch:6 CoordinatorEpoch:3 Commit:true Version:%d}", s.Partitions[1].Log, s.Partitions[1].Shard, version))
			topics := out.Markers[0].Topics
			wantCode(t, "unknown topic", topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
			wantCode(t, "unknown partition", topics[1].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
			wantCode(t, "marker", topics[1].Partitions[1].ErrorCode, want)
		}
	}
}

func TestListTransactions(t *testing.T) {
	st, n := newTxnStand(t)
	req := kmsg.NewPtrListTransactionsRequest()
	req.StateFilters, req.ProducerIDFilters, req.DurationFilterMillis, req.TransactionalIDPattern = []string{"Odd"}, []int64{7}, 5, kmsg.StringPtr("x.*")
	for v, want := range []string{
		"list default {Statuses:[Odd] ProducerIDs:[7] Duration:-1 Pattern:}", "list default {Statuses:[Odd] ProducerIDs:[7] Duration:5 Pattern:}",
		"list default {Statuses:[Odd] ProducerIDs:[7] Duration:5 Pattern:x.*}",
	} {
		out := send[*kmsg.ListTransactionsResponse](st, int16(v), req)
		n.asks(t, want)
		if len(out.TransactionStates) != 1 || out.TransactionStates[0].TransactionState != "PrepareCommit" || !slices.Equal(out.UnknownStateFilters, []string{"Odd"}) {
			t.Errorf("listed %+v", out)
		}
	}
	n.answer = base.Errorf(base.CodeInvalidRegex, "no expression")
	wantCode(t, "bad expression", send[*kmsg.ListTransactionsResponse](st, 2, req).ErrorCode, kerr.InvalidRegularExpression)
}

// TestUnstableOffsets holds back what a transaction may change, in each form of OffsetFetch.
func TestUnstableOffsets(t *testing.T) {
	st := newStand(t)
	s := st.topic("t", 2, nil)
	k := group.Key{Namespace: base.DefaultNamespace, Group: "g"}
	at := func(p int32, offset int64) []group.CommitOffset {
		return []group.CommitOffset{{Partition: group.Partition{Stream: s.ID, Index: p}, Offset: offset, Epoch: -1}}
	}
	st.n.offsets.Apply(&group.CommitOffsets{Key: k, Offsets: append(at(0, 3), at(1, 4)...)})
	st.n.offsets.Apply(&group.TxnCommitOffsets{Key: k, ProducerID: 5, Offsets: at(1, 9)})
	for v := int16(1); v <= 10; v++ {
		for _, stable := range []bool{false, true} {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Group, req.RequireStable = "g", stable
			req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}
			req.Groups = []kmsg.OffsetFetchRequestGroup{{
				Group: "g", MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: s.ID, Partitions: []int32{0, 1}}},
			}, {Group: "g", MemberEpoch: -1}}
			out := send[*kmsg.OffsetFetchResponse](st, v, req)
			var found []string
			for _, topic := range out.Topics {
				for _, p := range topic.Partitions {
					found = append(found, fmt.Sprint(p.Partition, p.Offset, p.ErrorCode))
				}
			}
			want := []string{"0 3 0", "1 4 0"}
			if stable && v >= 7 {
				want[1] = fmt.Sprint("1 -1 ", kerr.UnstableOffsetCommit.Code)
			}
			for _, g := range out.Groups {
				for _, topic := range g.Topics {
					for _, p := range topic.Partitions {
						found = append(found, fmt.Sprint(p.Partition, p.Offset, p.ErrorCode))
					}
				}
			}
			if v >= 8 { // named, and all
				want = append(want, want...)
			}
			if !slices.Equal(found, want) {
				t.Errorf("version %d, stable %t: %v, want %v", v, stable, found, want)
			}
		}
	}
}
