package streams

// Command changes State. It is one of *Update and *DeleteGroup.
type Command interface {
	appendTo(dst []byte) []byte
}

// Update changes a group, which exists from then on.
type Update struct {
	Key
	Head
	Topology *Topology // in place of what it was; nil: unchanged
	Members  []Member  // new, or in place of what they were
	Removed  []string  // member IDs; may be those of Members' predecessors
}

// Head is what is stored of a group besides its topology and members.
type Head struct {
	Epoch           int32  // rises when members, topics or what the assignor is told change
	AssignmentEpoch int32  // the group's epoch that the members' targets are for
	AssignedAt      int64  // Unix ms of that assignment; 0: none with members
	Hash            uint64 // of the topology's topics as they were at Epoch
	Validated       int32  // epoch of the topology whose topics are all there; -1: none
	Standbys        int32  // standby tasks for each task, as of Epoch
	Tags            string // client tags for standby tasks, as of Epoch
}

// newHead is that of a group that nobody has joined yet.
var newHead = Head{Epoch: 1, AssignmentEpoch: 1, Validated: -1}

// Status says where a member stands on its way to its target.
type Status uint8

// The statuses of a member.
const (
	Stable     Status = 1 + iota // has all that it can have of its assignment epoch
	Unrevoked                    // has to give up tasks first
	Unreleased                   // waits for tasks that others have to give up
)

// Member is one member of a group. The slices are not written to in place.
type Member struct {
	ID       string
	Epoch    int32 // assignment epoch that it has been told; EpochStatic for a static member that is away
	Previous int32 // epoch before that; still accepted, since the answer may have been lost
	Status   Status

	Instance      string // static membership (KIP-345); empty: none
	Rack          string
	ClientID      string
	ClientHost    string
	Rebalance     int32 // ms to give up tasks
	TopologyEpoch int32 // epoch of the topology that it runs
	Process       string
	Endpoint      Endpoint // where it can be asked for its state; zero: nowhere
	Tags          []Pair   // by key, each once

	Assigned Tasks // as told, including what it has to give up no longer
	Revoking Tasks // what it has to give up
	Target   Tasks // as of the group's assignment epoch
}

// Tasks are tasks of a member, ordered, each once.
type Tasks struct {
	Active  []Task
	Standby []TaskID
}

// Task is an active task.
type Task struct {
	TaskID
	Epoch int32 // assignment epoch at which the member got it; 0 in a target
}

// TaskID names a task.
type TaskID struct {
	Subtopology string
	Partition   int32
}

// Endpoint is an address at which applications can be asked (interactive queries).
type Endpoint struct {
	Host string
	Port uint16
}

// Pair is a client tag, or a configuration of a topic.
type Pair struct{ Key, Value string }

// Topology is what the application of a group is made of.
type Topology struct {
	Epoch         int32
	Subtopologies []Subtopology // by ID, each once
}

// Subtopology is a part of a topology that shares no state with the rest.
type Subtopology struct {
	ID           string
	Sources      []string      // topics that it reads, besides Repartitions
	Sinks        []string      // repartition topics that it writes
	Changelogs   []TopicInfo   // of its stores
	Repartitions []TopicInfo   // repartition topics that it reads
	Copartitions []Copartition // topics that must have the same number of partitions
}

// TopicInfo describes an internal topic.
type TopicInfo struct {
	Name       string
	Partitions int32 // 0: as the topology demands
	Replicas   int16 // 0: the broker's default
	Configs    []Pair
}

// Copartition names topics by their indexes in the lists of the subtopology.
type Copartition struct {
	Sources      []int16
	Repartitions []int16
}

// DeleteGroup forgets a group.
type DeleteGroup struct{ Key }
