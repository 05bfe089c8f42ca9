package txn

import "godwit/internal/base"

// Command changes State. It is one of *Update, *Confirm, *StreamDeleted and *Forget.
type Command interface {
	appendTo(dst []byte) []byte
}

// Status says where a transactional ID stands.
type Status uint8

// The statuses. The last two are only ever named.
const (
	Empty Status = iota
	Ongoing
	PrepareCommit
	PrepareAbort
	CompleteCommit
	CompleteAbort
	PrepareEpochFence
	Dead
)

var statusNames = [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead"}

// String is the name that Kafka shows.
func (s Status) String() string { return statusNames[s] }

// Head is what is stored of a transactional ID besides the partitions and groups of its transaction.
type Head struct {
	Status     Status
	ProducerID int64
	Epoch      int16 // of the producer; while preparing, of the markers
	// LastProducerID and LastEpoch are those of the producer that asked for the last step and was given others by it; its
	// request may come again, since the answer may have been lost. -1: there is none.
	LastProducerID int64
	LastEpoch      int16
	// NextProducerID is what the producer has, with epoch 0, from the end of the transaction on; -1: the same as now.
	NextProducerID int64
	TimeoutMs      int32
	Version        int16 // of the transaction, or of its end once that is decided
	Serial         int64 // of the last ending; rises with each, and is about the Unix ms of the decision
	Started        int64 // Unix ms at which the transaction began, or the last one; -1: none has since the producer initialized
	Updated        int64 // Unix ms of the last change
}

// Update changes a transactional ID, which exists from then on, and adds to its transaction. Preparing, it completes at once if there is nothing to do.
type Update struct {
	Key
	Head
	Partitions []Partition // added
	Groups     []string    // added
}

// Confirm notes that partitions have their markers and groups their outcome, for the ending of that serial number. What is of another ending, or
// is not outstanding, is left alone. With the last one the transaction is complete.
type Confirm struct {
	Key
	Serial     int64
	At         int64 // Unix ms
	Partitions []Partition
	Groups     []string
}

// StreamDeleted takes the partitions of a stream out of all transactions.
type StreamDeleted struct {
	Stream base.StreamID
}

// Forget forgets a transactional ID without a transaction.
type Forget struct {
	Key
}
