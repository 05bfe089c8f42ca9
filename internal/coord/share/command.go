package share

import "godwit/internal/base"

// Command changes State. It is one of *Update, *ConfirmQueues, *DeleteGroup, *StreamDeleted and *SetConfig.
type Command interface {
	appendTo(dst []byte) []byte
}

// Update changes a group, which exists from then on.
type Update struct {
	Key
	Head
	Members []Member      // new, or in place of what they were
	Removed []string      // member IDs
	Queues  []QueueChange // what is wanted of queues now
}

// Head is what is stored of a group besides its members and queues.
type Head struct {
	Epoch           int32  // rises when members, subscriptions or topics change
	AssignmentEpoch int32  // the group's epoch that the members' targets are for
	AssignedAt      int64  // Unix ms of that assignment; 0: none with members
	Hash            uint64 // of the topics that the members subscribe to, as they were at Epoch
}

// newHead is that of a group that nobody has joined yet.
var newHead = Head{Epoch: 1, AssignmentEpoch: 1}

// Member is one member of a group. The slices are not written to in place.
type Member struct {
	ID         string
	Epoch      int32 // assignment epoch that it has been told
	Previous   int32 // epoch before that; still accepted, since the answer may have been lost
	Rack       string
	ClientID   string
	ClientHost string
	Topics     []string    // subscribed names, ordered, each once
	Assigned   []Partition // as told, ordered
	Target     []Partition // as of the group's assignment epoch, ordered
}

// QueueStatus says where a queue stands.
type QueueStatus uint8

// The statuses of a queue.
const (
	Initializing QueueStatus = 1 + iota // to be made or set back
	Ready
	Deleting
)

// QueueChange is what is wanted of a queue.
type QueueChange struct {
	Partition
	Queue
}

// Queue is a group's queue in a partition.
type Queue struct {
	Status  QueueStatus
	Version int64 // rises with each change of what is wanted; about the Unix ms of the decision
	Start   Start // while Initializing
}

// StartKind says how a queue finds its first record.
type StartKind uint8

// The kinds of starts.
const (
	StartLatest   StartKind = iota // at the end of the partition as the queue is made
	StartEarliest                  // at the start of the partition
	StartAtTime                    // at the first record with a timestamp of at least Value, Unix ms
	StartAtOffset                  // at offset Value, or the nearest that is there
)

// Start is where a queue begins.
type Start struct {
	Kind  StartKind
	Value int64
}

// ConfirmQueues notes what the shards of partitions have done: queues that were Initializing at the version are Ready, those that
// were Deleting are gone. What has changed since is left alone.
type ConfirmQueues struct {
	Key
	Done []QueueVersion
}

// QueueVersion is one state of a queue.
type QueueVersion struct {
	Partition
	Version int64
}

// DeleteGroup forgets a group. Its queues are to be deleted; its configuration stays.
type DeleteGroup struct {
	Key
	Version int64 // of the deletion of its queues
}

// StreamDeleted forgets all queues in a stream.
type StreamDeleted struct {
	Stream base.StreamID
}

// SetConfig replaces the configuration of a group, which need not exist. Without values, it has none any more.
type SetConfig struct {
	Key
	Values map[string]string // valid values of package groupconf
}
