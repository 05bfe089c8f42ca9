package txn

import (
	"cmp"
	"strings"

	"godwit/internal/base"
)

// Key names a transactional ID, which is unique within its namespace.
type Key struct {
	Namespace string
	ID        string // never empty; at most MaxID bytes
}

// MaxID is the length of the longest transactional ID and group name, bytes.
const MaxID = 32_767

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.ID, b.ID))
}

// Partition is one partition of a stream.
type Partition = base.Partition

// The versions of transactions (transaction.version).
const (
	Version1 int16 = 1 // the epoch stays over the end of a transaction
	Version2 int16 = 2 // each end raises the epoch; what is written joins by itself (KIP-890)
)

// InitRequest makes its sender the producer of a transactional ID, or raises its epoch (KIP-360).
type InitRequest struct {
	Key
	TimeoutMs  int32  // of each transaction, from its first partition or group on
	ProducerID int64  // that the sender has; -1: none
	Epoch      int16  // that the sender has; -1: none
	Fresh      *int64 // a producer ID that was never given out; nil: none at hand
	TwoPhase   bool   // wants two-phase commit, which is refused (KIP-939)
	Keep       bool   // wants to keep a prepared transaction, which is refused (KIP-939)
}

// InitResult is the answer: what the sender has to use from now on.
type InitResult struct {
	ProducerID int64 // -1 with an error
	Epoch      int16 // -1 with an error
	Err        *base.Error
	NeedsID    bool // nothing was decided: ask again with a fresh producer ID
}

// Joining says how partitions and groups come into a transaction.
type Joining uint8

// The ways into a transaction.
const (
	Verify   Joining = iota // they must be in it already
	Add                     // by a request of their own (version 1)
	Implicit                // by what is written (version 2)
)

// AddPartitionsRequest adds partitions to the open transaction, which begins if none is open, or asks whether they are in it.
type AddPartitionsRequest struct {
	Key
	ProducerID int64
	Epoch      int16
	Partitions []Partition
	Joining    Joining
}

// AddOffsetsRequest is AddPartitionsRequest for a group of the same namespace, whose offsets are to be committed with the transaction.
type AddOffsetsRequest struct {
	Key
	ProducerID int64
	Epoch      int16
	Group      string
	Joining    Joining
}

// EndRequest ends the open transaction.
type EndRequest struct {
	Key
	ProducerID int64
	Epoch      int16
	Commit     bool
	Version    int16  // Version1 or Version2, by the version of the request
	Fresh      *int64 // a producer ID that was never given out; nil: none at hand
}

// EndResult is the answer: what the sender has to use from now on. With version 1 that is what it had.
type EndResult struct {
	ProducerID int64 // -1 with an error
	Epoch      int16 // -1 with an error
	Err        *base.Error
	NeedsID    bool // nothing was decided: ask again with a fresh producer ID
}

// Ending is what is to be done for a transaction whose outcome is decided, in its partitions and groups.
type Ending struct {
	Serial     int64 // rises with each ending of the transactional ID, also over its being forgotten; a confirmation names it
	ProducerID int64
	Epoch      int16 // of the markers
	Commit     bool
	Version    int16       // of the markers: Version2 where the epoch was raised for them
	Partitions []Partition // that are to get a marker, ordered
	Groups     []string    // whose pending offsets are to be committed or dropped, ordered
}

// Description is what an operator sees of a transactional ID.
type Description struct {
	Key
	Err        *base.Error // CodeUnknownTxn if there is no such ID; Status is Dead then
	Status     Status
	ProducerID int64
	Epoch      int16
	TimeoutMs  int32
	Started    int64       // Unix ms at which the transaction began, or the last one; -1: none has since the producer initialized
	Partitions []Partition // ordered
	Groups     []string    // ordered
}

// Filter chooses transactional IDs of a namespace; they match all of what is said.
type Filter struct {
	Statuses    []string // names as Kafka spells them; none: all
	ProducerIDs []int64  // none: all
	Duration    int64    // only where Description.Started is longer ago, ms; below 0: all (KIP-994)
	Pattern     string   // an RE2 expression for the whole transactional ID (KIP-1152); empty: all
}

// Listing is one transactional ID in a list.
type Listing struct {
	ID         string
	ProducerID int64
	Status     Status
}

// List is what a filter found.
type List struct {
	Err     *base.Error // CodeInvalidRegex
	Unknown []string    // statuses of the filter that there are not
	Txns    []Listing   // by ID
}
