package streams

import (
	"cmp"
	"slices"
	"strings"

	"godwit/internal/base"
)

// Key names a group.
type Key = base.GroupKey

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
	GroupEmpty       GroupState = "Empty"
	GroupNotReady    GroupState = "NotReady"
	GroupAssigning   GroupState = "Assigning"
	GroupReconciling GroupState = "Reconciling"
	GroupStable      GroupState = "Stable"
	GroupDead        GroupState = "Dead" // no such group
)

// GroupState is where a group stands.
type GroupState string

// filterName is how a request names the state in a filter, in lower case.
func (s GroupState) filterName() string {
	if s == GroupNotReady {
		return "not_ready"
	}
	return strings.ToLower(string(s))
}

const (
	// Type is the type of all groups here.
	Type = "streams"
	// Assignor is the name of the only assignor.
	Assignor = "sticky"
)

// Member epochs of a request with a meaning of their own.
const (
	EpochJoin   int32 = 0
	EpochLeave  int32 = -1
	EpochStatic int32 = -2 // a static member leaves for a while
)

// HeartbeatRequest joins a group, keeps a member's session, or leaves.
type HeartbeatRequest struct {
	Key
	MemberID      string // chosen by the member
	Epoch         int32  // the member's, or EpochJoin, EpochLeave or EpochStatic
	EndpointEpoch int32  // of the endpoints that the member knows
	Instance      *string
	Rack          *string
	Rebalance     int32 // ms; -1: not said
	Topology      *Topology
	Regex         bool   // the topology has patterns for source topics
	Owned         *Owned // nil: not said
	Incomplete    bool   // only some of the kinds of tasks are said
	Process       *string
	Endpoint      *Endpoint
	Tagged        bool // Tags is said
	Tags          []Pair
	Offsets       []TaskOffset // of changelogs; nil: not said
	EndOffsets    []TaskOffset // likewise
	Shutdown      bool         // all of the application is to stop
	Version       int16        // of the request
	ClientID      string
	ClientHost    string
}

// Owned is what a member says that it has.
type Owned struct {
	Active, Standby, Warmup []TaskID
}

// TaskOffset is the sum of offsets of a task's changelogs.
type TaskOffset struct {
	TaskID
	Offset int64
}

// StatusCode tells a member what its group lacks.
type StatusCode int8

// The codes of statuses, as they go over the wire.
const (
	StaleTopology StatusCode = iota
	MissingSourceTopics
	IncorrectlyPartitioned
	MissingInternalTopics
	ShutdownApplication
	AssignmentDelayed
	MissingClientTags
)

// MemberStatus is one thing that a member should know.
type MemberStatus struct {
	Code   StatusCode
	Detail string
}

// EndpointTopics are the partitions whose state can be asked for at an endpoint.
type EndpointTopics struct {
	Endpoint
	Active, Standby []TopicPartitions
}

// TopicPartitions are partitions of a topic, in order.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}

// CreateTopic is an internal topic that is to be made.
type CreateTopic struct {
	Name       string
	Partitions int32
	Replicas   int16 // -1: the broker's default
	Configs    []Pair
}

// HeartbeatResponse tells a member its epoch and, if it should know, its tasks.
type HeartbeatResponse struct {
	Err            *base.Error
	MemberID       string
	Epoch          int32
	Interval       int64 // ms until the next heartbeat; 0 for a member that leaves
	OffsetInterval int64 // ms between two reports of offsets
	RecoveryLag    int64 // records
	Statuses       []MemberStatus
	Assigned       bool // Tasks is said
	Tasks          Tasks
	EndpointEpoch  int32
	Located        bool // Endpoints is said
	Endpoints      []EndpointTopics
	Create         []CreateTopic // internal topics that are missing, by name
}

// CommitCheck is what decides about a commit of offsets.
type CommitCheck struct {
	Key
	MemberID      string
	Epoch         int32 // the member's; below 0: none
	Anonymous     bool  // says nothing of a member
	Transactional bool
	Classic       bool // the request is of a version for members of the classic protocol only
	Partitions    []Partition
}

// Partition is one partition of a stream.
type Partition = base.Partition

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
	Topology        *Topology // with the numbers of partitions once they are known; nil: none
	Members         []MemberDescription
}

// MemberDescription is a member with what it reported. It is not to be written to.
type MemberDescription struct {
	Member
	Offsets    []TaskOffset      // by task
	EndOffsets []TaskOffset      // by task
	Reads      []TopicPartitions // of its active tasks
}

// notFound is the answer to who asks for a group that is not there.
func notFound(k Key) *base.Error {
	return base.Errorf(base.CodeUnknownGroup, "Streams group %s not found.", k.Group)
}

// NotStreams is the answer to who takes a group of another type for a streams group.
func NotStreams(k Key) *base.Error {
	return base.Errorf(base.CodeUnknownGroup, "Group %s is not a streams group.", k.Group)
}

func compareTasks(a, b TaskID) int {
	return cmp.Or(strings.Compare(a.Subtopology, b.Subtopology), cmp.Compare(a.Partition, b.Partition))
}

// has reports whether an ordered list holds a task.
func has(list []TaskID, t TaskID) bool {
	_, ok := slices.BinarySearchFunc(list, t, compareTasks)
	return ok
}

// find gives the place of an active task in an ordered list.
func find(list []Task, t TaskID) (int, bool) {
	return slices.BinarySearchFunc(list, t, func(a Task, t TaskID) int { return compareTasks(a.TaskID, t) })
}

func (t Tasks) equal(o Tasks) bool {
	return slices.Equal(t.Active, o.Active) && slices.Equal(t.Standby, o.Standby)
}

// running lists the active tasks.
func (t Tasks) running() []TaskID {
	out := make([]TaskID, len(t.Active))
	for i, a := range t.Active {
		out[i] = a.TaskID
	}
	return out
}

func (t Tasks) empty() bool { return len(t.Active)+len(t.Standby) == 0 }
