package share

import (
	"godwit/internal/base"
)

// Key names a group.
type Key = base.GroupKey

// Partition is one partition of a stream.
type Partition = base.Partition

// Topic is what the coordinator needs to know of a topic.
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
}

// The states of a group, spelled as Kafka shows them.
const (
	Empty  GroupState = "Empty"
	Stable GroupState = "Stable"
	Dead   GroupState = "Dead" // no such group
)

// GroupState is where a group stands.
type GroupState string

const (
	// Type is the type of all groups here.
	Type = "share"
	// Assignor is the name of the only assignor.
	Assignor = "simple"
)

// Member epochs of a request with a meaning of their own.
const (
	EpochJoin  int32 = 0
	EpochLeave int32 = -1
)

// HeartbeatRequest joins a group, keeps a member's session, or leaves.
type HeartbeatRequest struct {
	Key
	MemberID   string // chosen by the member
	Epoch      int32  // the member's, or EpochJoin or EpochLeave
	Rack       *string
	Subscribed bool     // Topics is said; nothing has changed otherwise
	Topics     []string // names
	ClientID   string
	ClientHost string
}

// HeartbeatResponse tells a member its epoch and, if it should know, its assignment.
type HeartbeatResponse struct {
	Err        *base.Error
	MemberID   string
	Epoch      int32
	Interval   int64       // ms until the next heartbeat; 0 for a member that leaves
	Assigned   bool        // Assignment is said
	Assignment []Partition // ordered
}

// Listing is one group in a list.
type Listing struct {
	Group string
	State GroupState
}

// Description is what an operator sees of a group. A group that does not exist is Dead and has CodeUnknownGroup
// in Err.
type Description struct {
	Group           string
	Err             *base.Error
	State           GroupState
	Epoch           int32
	AssignmentEpoch int32
	Members         []Member // by ID; shared, not to be written to
}

// NamedPartitions are partitions of a topic by its name.
type NamedPartitions struct {
	Topic      string
	Partitions []int32
}

// SetOffset is where a group is to begin in a partition.
type SetOffset struct {
	Index int32
	Start int64 // below 0: where a group that never read the topic begins
}

// SetTopicOffsets is where a group is to begin in a topic.
type SetTopicOffsets struct {
	Topic      string
	Partitions []SetOffset
}

// TopicResult is the outcome for one topic of a request.
type TopicResult struct {
	Topic string
	ID    base.StreamID // zero if there is no such topic
	Err   *base.Error
	Errs  []*base.Error // one for each partition of the request, nil where it worked
}

// unknownGroup is the answer to who asks for a group that is not there.
func unknownGroup(k Key) *base.Error {
	return base.Errorf(base.CodeUnknownGroup, "Group %s not found.", k.Group)
}
