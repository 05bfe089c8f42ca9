package broker

import (
	"context"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/txn"
	"godwit/internal/engine"
)

// Marker ends a producer's transaction in one log; see engine.Marker.
type Marker = engine.Marker

// TxnProducer is who asks the coordinator of a transactional ID.
type TxnProducer struct {
	Namespace     string
	Transactional string // transactional ID, never empty
	ProducerID    int64
	Epoch         int16
}

// InitTxn asks for a producer ID and epoch under which no producer of the same transactional ID has written. ProducerID and
// Epoch are -1, or what the producer has had, which must be current (KIP-360).
type InitTxn struct {
	TxnProducer
	Timeout int64 // ms that a transaction may be open
}

// EndTxn commits or aborts the open transaction.
type EndTxn struct {
	TxnProducer
	Commit bool

	// Bump raises the epoch with the end (transaction version 2, KIP-890); without it the producer goes on under its epoch.
	Bump bool
}

// TxnOffsets commits positions of a group with the transaction.
type TxnOffsets struct {
	TxnProducer
	Implicit bool // adds the group to the transaction, which begins if none is open (transaction version 2)
	Commit   group.CommitRequest
}

var errTxns = base.Errorf(base.CodeNotReady, "transactions are not served yet: try again")

// InitTransactional answers InitTxn: an open transaction of the transactional ID is aborted first, for which CodeConcurrentTxn asks to
// come again. CodeInvalidTxnTimeout, CodeProducerFenced and CodeUnknownMapping are final.
func (b *Broker) InitTransactional(_ context.Context, r InitTxn) (id int64, epoch int16, err error) {
	return -1, -1, errTxns
}

// AddTxnPartitions adds partitions to the transaction, which begins if none is open. It does all or nothing.
func (b *Broker) AddTxnPartitions(_ context.Context, p TxnProducer, partitions []group.Partition) error {
	return errTxns
}

// AddTxnOffsets adds a group to the transaction, so that its positions can be committed with it.
func (b *Broker) AddTxnOffsets(_ context.Context, p TxnProducer, k group.Key) error {
	return errTxns
}

// EndTxn returns when the decision is durable; the logs and groups hear of it afterwards. It answers with the producer ID and epoch to go
// on with.
func (b *Broker) EndTxn(_ context.Context, r EndTxn) (id int64, epoch int16, err error) {
	return -1, -1, errTxns
}

// CommitTxnOffsets records positions that count when the transaction is committed.
func (b *Broker) CommitTxnOffsets(_ context.Context, r TxnOffsets) group.CommitResponse {
	return group.CommitResponse{Err: errTxns}
}

// DescribeTxn shows a transactional ID.
func (b *Broker) DescribeTxn(_ context.Context, k txn.Key) txn.Description {
	return txn.Description{Key: k, Status: txn.Dead, Err: errTxns}
}

// ListTxns lists the transactional IDs of a namespace.
func (b *Broker) ListTxns(_ context.Context, namespace string, f txn.Filter) txn.List {
	return txn.List{Err: errTxns}
}

// WriteTxnMarkers ends transactions in single logs, past their coordinator: for an operator who aborts one that hangs. The
// errors are those of engine.Engine.WriteMarkers, one for each marker.
func (b *Broker) WriteTxnMarkers(ctx context.Context, markers []Marker) []error {
	done := make(chan []error, 1)
	b.engine.WriteMarkers(markers, func(errs []error) { done <- errs })
	select {
	case errs := <-done:
		return errs
	case <-ctx.Done():
		errs := make([]error, len(markers))
		for i := range errs {
			errs[i] = base.Errorf(base.CodeTimeout, "the marker was not written in time: %v", ctx.Err())
		}
		return errs
	}
}
