package base

import (
	"errors"
	"fmt"
)

// Code names a failure in the broker's own, protocol-neutral words. Each gateway maps codes to
// its protocol in one table.
type Code uint8

// The codes. A code is never renumbered: it is stored nowhere, but it is a metric label.
const (
	CodeUnknown              Code = iota // an unexpected failure of the broker
	CodeUnknownStream                    // no stream of that name or ID
	CodeUnknownPartition                 // the stream has no such partition
	CodeStreamExists                     // a stream of that name exists
	CodeInvalidName                      // the name breaks the naming rule
	CodeInvalidPartitions                // partition count out of range, or would shrink
	CodeInvalidReplication               // replication factor the cluster cannot serve
	CodeInvalidConfig                    // unknown key or value out of range
	CodeInvalidRequest                   // the request contradicts itself
	CodeOffsetOutOfRange                 // below the log start or above the high watermark
	CodeCorruptMessage                   // checksum or framing of a batch does not hold
	CodeInvalidRecord                    // the batch breaks a rule of the stream or the format
	CodeInvalidTimestamp                 // a record's timestamp is outside the stream's limits
	CodeMessageTooLarge                  // batch above max.message.bytes
	CodeUnsupportedFormat                // record format below magic 2
	CodeUnsupportedCodec                 // a codec that the broker does not know
	CodeOutOfOrderSequence               // idempotent producer skipped a sequence
	CodeDuplicateSequence                // a batch older than the window of 5 (KIP-98)
	CodeFencedProducer                   // producer epoch below the current one
	CodeUnknownProducer                  // no state for the producer and a first sequence above 0
	CodeStorage                          // a write or sync failed; retriable
	CodeDiskFull                         // no room for data; retriable once space returns
	CodeCorruption                       // stored data is damaged
	CodeNotReady                         // still starting, or the effect has not arrived yet; retriable
	CodeShutdown                         // the broker is stopping; retriable elsewhere
	CodeTimeout                          // not committed in the caller's time; the outcome is unknown
	CodeFencedEpoch                      // the caller's leader epoch is older than ours
	CodeUnknownEpoch                     // the caller's leader epoch is newer than ours
	CodeUnknownMember                    // group member unknown
	CodeIllegalGeneration                // group generation does not match
	CodeRebalanceInProgress              // the group is rebalancing
	CodeInconsistentProtocol             // no common group protocol
	CodeMemberIDRequired                 // join again with the ID handed out (KIP-394)
	CodeFencedInstance                   // static member replaced (KIP-345)
	CodeInvalidGroup                     // empty or malformed group name
	CodeInvalidSession                   // session time-out outside the broker's limits
	CodeGroupFull                        // group.max.size reached
	CodeUnknownGroup                     // no such group
	CodeNonEmptyGroup                    // the group still has members
	CodeGroupSubscribed                  // the group still reads the stream
	CodeMetadataTooLarge                 // offset metadata above offset.metadata.max.bytes
	CodePolicyViolation                  // refused by a limit of this broker
	CodeInvalidAssignment                // replicas assigned by hand that the cluster does not have
	CodeConcurrentTxn                    // the transactional ID's last step is still under way; retriable
	CodeInvalidTxnState                  // the transaction's state does not allow it
	CodeUnknownMapping                   // the transactional ID has another producer ID
	CodeInvalidTxnTimeout                // transaction time-out outside the broker's limit
	CodeFencedCoordinator                // a marker of an older transaction coordinator
	CodeProducerFenced                   // a newer producer has the transactional ID
	CodeUnknownTxn                       // no such transactional ID
	CodeTxnAbortable                     // the transaction must be aborted; the producer may go on (KIP-890)
	CodeUnverifiedTxn                    // the coordinator must confirm the partition first; within the broker (KIP-890)
	CodeUnstableOffset                   // a position waits for the end of a transaction; retriable
	CodeFencedMember                     // member epoch is not the current one (KIP-848)
	CodeUnreleasedInstance               // the static member's instance is still in use (KIP-848)
	CodeUnsupportedAssignor              // no server-side assignor of that name
	CodeStaleMember                      // a commit under an old member epoch (KIP-848)
	CodeInvalidRegex                     // a subscription that is no RE2 expression (KIP-848)
	CodeInvalidRecordState               // the record is not acquired by this consumer (KIP-932)
	CodeShareSessionNotFound             // the share session has ended
	CodeInvalidShareSession              // share session epoch out of order
	CodeShareSessionLimit                // no room for another share session; retriable
	CodeUnsupportedVersion               // this member must use a later version of the request
	CodeInvalidTopology                  // a topology that no topics could fit (KIP-1071)
	CodeTwoPhaseCommit                   // two-phase commit is not enabled (KIP-939)
)

// Error is a failure caused by a request or by the state of the world, fit to be shown to the
// client: Msg names the field or the object and what would be accepted.
type Error struct {
	Code Code
	Msg  string
}

func (e *Error) Error() string { return e.Msg }

// Errorf builds an Error; its text must make sense to the client's user.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// CodeOf finds the code in err's chain: CodeUnknown if it has none. err must not be nil.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeUnknown
}

// Retriable reports whether the same request may succeed later, unchanged.
func (c Code) Retriable() bool {
	switch c {
	case CodeStorage, CodeDiskFull, CodeNotReady, CodeShutdown, CodeTimeout, CodeRebalanceInProgress,
		CodeConcurrentTxn, CodeUnverifiedTxn, CodeUnstableOffset, CodeShareSessionLimit:
		return true
	}
	return false
}
