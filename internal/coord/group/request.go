package group

import "godwit/internal/base"

// Key names a group.
type Key = base.GroupKey

// Partition is one partition of a stream.
type Partition = base.Partition

// The states of a group, spelled as Kafka shows them.
const (
	Empty               State = "Empty"
	PreparingRebalance  State = "PreparingRebalance"
	CompletingRebalance State = "CompletingRebalance"
	Stable              State = "Stable"
	Dead                State = "Dead" // no such group
)

// State is where a group stands.
type State string

// TypeClassic is the type of groups of the protocol of JoinGroup and SyncGroup (KIP-848's word for it).
const TypeClassic = "classic"

// Reply answers the request with the token. Response is a *JoinResponse, *SyncResponse,
// *HeartbeatResponse or *LeaveResponse.
type Reply struct {
	Token    uint64
	Response any
}

// Protocol is one way of dividing the work that a member supports, with its metadata for the leader.
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinRequest asks to be a member of the next generation.
type JoinRequest struct {
	Key
	MemberID         string // empty for a member that has none yet
	InstanceID       string // static membership (KIP-345); empty for a dynamic member
	ClientID         string
	ClientHost       string
	SessionTimeout   int64 // ms; within Options.MinSession and Options.MaxSession
	RebalanceTimeout int64 // ms; below 0: the session time-out
	ProtocolType     string
	Protocols        []Protocol // in order of preference
	RequireKnownID   bool       // a dynamic member without an ID is only given one (KIP-394; JoinGroup 4 and above)
	CanSkip          bool       // the leader can be told to keep the assignment (KIP-814; JoinGroup 9 and above)
}

// JoinResponse says which generation the member belongs to. Members is filled for the leader.
type JoinResponse struct {
	Err            *base.Error
	MemberID       string
	Generation     int32 // -1 with an error
	ProtocolType   string
	Protocol       string
	Leader         string
	SkipAssignment bool
	Members        []JoinedMember
}

// JoinedMember is what the leader learns of a member.
type JoinedMember struct {
	MemberID   string
	InstanceID string
	Metadata   []byte
}

// SyncRequest asks for the member's assignment; the leader's brings all of them.
type SyncRequest struct {
	Key
	Generation   int32
	MemberID     string
	InstanceID   string
	ProtocolType string // checked unless empty
	Protocol     string // checked unless empty
	Assignments  []Assignment
}

// Assignment is the leader's word for one member.
type Assignment struct {
	MemberID string
	Data     []byte
}

// SyncResponse brings the assignment.
type SyncResponse struct {
	Err          *base.Error
	ProtocolType string
	Protocol     string
	Assignment   []byte
}

// HeartbeatRequest keeps a member's session.
type HeartbeatRequest struct {
	Key
	Generation int32
	MemberID   string
	InstanceID string
}

// HeartbeatResponse carries CodeRebalanceInProgress when the member should join again.
type HeartbeatResponse struct {
	Err *base.Error
}

// LeaveRequest ends memberships.
type LeaveRequest struct {
	Key
	Members []LeavingMember
}

// LeavingMember names a member by its ID, or a static one by its instance alone.
type LeavingMember struct {
	MemberID   string
	InstanceID string
}

// LeaveResponse has one result for each member of the request, in its order.
type LeaveResponse struct {
	Err     *base.Error
	Members []LeftMember
}

// LeftMember is the result for one member.
type LeftMember struct {
	LeavingMember
	Err *base.Error
}

// CommitRequest records positions. Generation -1 with an empty member is a consumer that manages its
// partitions itself; it may commit while the group is empty.
type CommitRequest struct {
	Key
	Generation int32
	MemberID   string
	InstanceID string
	Classic    bool  // the request's version is only for members of the classic protocol (OffsetCommit below 9)
	Retention  int64 // ms after which the offsets expire; -1 for the broker's rule
	Offsets    []CommitOffset

	transactional bool // see TxnCommitRequest
}

// Anonymous reports whether the request says nothing of a member.
func (r *CommitRequest) Anonymous() bool {
	return r.Generation < 0 && r.MemberID == "" && r.InstanceID == ""
}

// Transactional reports whether the commit is part of a transaction.
func (r *CommitRequest) Transactional() bool { return r.transactional }

// CommitOffset is the position of one partition.
type CommitOffset struct {
	Partition
	Offset   int64 // the next record to read
	Epoch    int32 // leader epoch of the last record read; -1 unknown (KIP-320)
	Metadata string
}

// CommitResponse has Err for the whole request, or one entry in Errs for each offset, nil where
// it was committed.
type CommitResponse struct {
	Err  *base.Error
	Errs []*base.Error
}

// FetchOffsetsRequest asks for committed positions: of the partitions, or all.
type FetchOffsetsRequest struct {
	Key
	MemberID   *string // checked by groups of the consumer protocol, with Epoch, unless nil with Epoch below 0
	Epoch      int32
	All        bool
	Stable     bool // refuses partitions whose position an open transaction may change (KIP-447)
	Partitions []Partition
}

// FetchOffsetsResponse has one entry for each partition asked for, in that order; all entries of
// the group, ordered by stream and partition, if All was set.
type FetchOffsetsResponse struct {
	Err     *base.Error
	Offsets []CommitOffset // Offset and Epoch are -1 where nothing is committed, or refused
	Errs    []*base.Error  // CodeUnstableOffset where it was refused; nil if nothing was
}

// ListRequest lists the groups of a namespace.
type ListRequest struct {
	Namespace string
	States    []string // any if empty; compared without regard to case (KIP-518)
	Types     []string // any if empty (KIP-848)
}

// ListResponse is ordered by name.
type ListResponse struct {
	Err    *base.Error
	Groups []Listing
}

// Listing is one group in a list.
type Listing struct {
	Group        string
	ProtocolType string
	State        State
	Type         string
}

// DescribeRequest asks about groups of a namespace.
type DescribeRequest struct {
	Namespace string
	Groups    []string
}

// DescribeResponse has one entry for each group asked for, in that order.
type DescribeResponse struct {
	Groups []Description
}

// Description is what an operator sees of a group. A group that does not exist is Dead and has
// CodeUnknownGroup in Err.
type Description struct {
	Group        string
	Err          *base.Error
	State        State
	ProtocolType string
	Protocol     string // while Stable
	Generation   int32
	EmptySince   int64 // Unix ms; 0 unless Empty after having had members
	Members      []MemberDescription
}

// MemberDescription is one member of a group. Metadata is filled while the group is stable.
type MemberDescription struct {
	MemberID   string
	InstanceID string
	ClientID   string
	ClientHost string
	Metadata   []byte
	Assignment []byte
}

// DeleteGroupsRequest deletes empty groups with their offsets.
type DeleteGroupsRequest struct {
	Namespace string
	Groups    []string
}

// DeleteGroupsResponse has one entry for each group asked for, nil where it was deleted.
type DeleteGroupsResponse struct {
	Errs []*base.Error
}

// DeleteOffsetsRequest forgets positions of a group.
type DeleteOffsetsRequest struct {
	Key
	Partitions []NamedPartition
}

// NamedPartition adds the stream's name, by which members subscribe.
type NamedPartition struct {
	Partition
	Name string
}

// DeleteOffsetsResponse has Err for the whole request, or one entry in Errs for each partition.
type DeleteOffsetsResponse struct {
	Err  *base.Error
	Errs []*base.Error
}
