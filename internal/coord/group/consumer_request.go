package group

import (
	"iter"

	"godwit/internal/base"
)

// TypeConsumer is the type of groups of the consumer protocol (KIP-848).
const TypeConsumer = "consumer"

// The states that only groups of the consumer protocol have; they share Empty and Stable with classic ones.
const (
	Assigning   State = "Assigning"   // what the members should have is to be computed
	Reconciling State = "Reconciling" // members are on their way to what they should have
)

// Member epochs of a heartbeat with a meaning of their own.
const (
	EpochJoin  int32 = 0
	EpochLeave int32 = -1
	EpochPause int32 = -2 // a static member goes, and comes back soon
)

// Topic is what the coordinator needs to know of a stream.
type Topic struct {
	ID         base.StreamID
	Name       string
	Partitions int
}

// Topics is a view of the metadata, which does not change.
type Topics interface {
	// ByName finds a topic of a namespace.
	ByName(namespace, name string) (Topic, bool)
	// ByID finds a topic whatever its namespace.
	ByID(id base.StreamID) (Topic, bool)
	// Names iterates over the names of a namespace's topics, in any order.
	Names(namespace string) iter.Seq[string]
}

// noTopics is the view of a coordinator that was not given one.
type noTopics struct{}

func (noTopics) ByName(string, string) (Topic, bool) { return Topic{}, false }
func (noTopics) ByID(base.StreamID) (Topic, bool)    { return Topic{}, false }
func (noTopics) Names(string) iter.Seq[string]       { return func(func(string) bool) {} }

// ConsumerHeartbeatRequest joins a group of the consumer protocol, keeps a member's session, or leaves. What is nil, or not
// said, has not changed since the member's last request.
type ConsumerHeartbeatRequest struct {
	Key
	MemberID         string // chosen by the member; empty: to be chosen here, as version 0 does
	MemberIDRequired bool   // version 1 and above
	Epoch            int32  // the member's, or one of EpochJoin, EpochLeave and EpochPause
	InstanceID       *string
	Rack             *string
	RebalanceTimeout int64 // ms in which the member gives up partitions; -1: not said
	Topics           []string
	Regex            *string // RE2, matches whole names
	Assignor         *string
	Owned            []Partition
	OwnedSaid        bool
	ClientID         string
	ClientHost       string
}

// ConsumerHeartbeatResponse tells a member its epoch and, if it should know, its assignment.
type ConsumerHeartbeatResponse struct {
	Err        *base.Error
	MemberID   string
	Epoch      int32
	Interval   int64       // ms until the next heartbeat; 0 for a member that leaves
	Assigned   bool        // Assignment is said
	Assignment []Partition // ordered
}

// ConsumerDescription is what an operator sees of a group of the consumer protocol. A group that does not exist, or is of
// another type, has CodeUnknownGroup in Err.
type ConsumerDescription struct {
	Group           string
	Err             *base.Error
	State           State
	Epoch           int32
	AssignmentEpoch int32
	Assignor        string
	Members         []Consumer // by ID; shared, not to be written to
}
