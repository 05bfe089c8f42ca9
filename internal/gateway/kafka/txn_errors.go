package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"godwit/internal/base"
)

// never is a version that no request has.
const never = 1 << 14

// txnVersions are the versions of a request from which its clients know codes of transactions; older ones get other codes, which say
// as much to them.
type txnVersions struct {
	fenced     int16 // PRODUCER_FENCED; before, INVALID_PRODUCER_EPOCH
	abortable  int16 // TRANSACTION_ABORTABLE (KIP-890); before, INVALID_TXN_STATE
	concurrent int16 // CONCURRENT_TRANSACTIONS; before, a coordinator that is not available, which they try again
}

// fail is the Kafka error code for an error of a transaction's coordinator; 0 for nil.
func (v txnVersions) fail(rc *request, err error) int16 {
	if err == nil {
		return 0
	}
	switch c := base.CodeOf(err); {
	case c == base.CodeProducerFenced && rc.version < v.fenced:
		return rc.reject(kerr.InvalidProducerEpoch)
	case c == base.CodeTxnAbortable && rc.version < v.abortable:
		return rc.reject(kerr.InvalidTxnState)
	case c == base.CodeConcurrentTxn && rc.version < v.concurrent, c == base.CodeTimeout, c == base.CodeUnverifiedTxn:
		return rc.reject(kerr.CoordinatorNotAvailable)
	}
	return rc.failGroup(err)
}
