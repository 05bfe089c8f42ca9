package broker

import (
	"context"

	"godwit/internal/base"
	"godwit/internal/coord/group"
)

// TxnCheck asks a transaction's coordinator whether a producer may write to partitions (KIP-890).
type TxnCheck struct {
	Namespace     string
	Transactional string // transactional ID
	ProducerID    int64
	Epoch         int16
	Partitions    []group.Partition

	// Implicit adds the partitions to the transaction, which begins if none is open; without it they must have been
	// added before.
	Implicit bool
}

// VerifyTxn answers a check: nil for each partition that is in the open transaction of this producer and epoch, an error
// for each other one. Of the codes, CodeTxnAbortable says that there is no such transaction, CodeConcurrentTxn that the one
// before is still ending, CodeProducerFenced and CodeUnknownMapping that the producer is another; what says nothing about the transaction,
// such as CodeNotReady, has the producer try again.
func (b *Broker) VerifyTxn(_ context.Context, c *TxnCheck) []error {
	out := make([]error, len(c.Partitions))
	for i := range out {
		out[i] = base.Errorf(base.CodeTxnAbortable, "this broker has no transaction coordinator: produce without transactional.id")
	}
	return out
}
