package group

import "godwit/internal/base"

// Command changes Offsets. It is one of *CommitOffsets, *DeleteOffsets, *DeleteGroup, *StreamDeleted,
// *SaveGroup, *SaveConsumers, *DropConsumers, *TxnCommitOffsets and *EndTxnOffsets.
type Command interface {
	appendTo(dst []byte) []byte
}

// CommitOffsets records positions of a group, which exists from then on.
type CommitOffsets struct {
	Key
	Time    int64 // shard time, Unix ms
	Expires int64 // Unix ms; 0: by the broker's rule
	Offsets []CommitOffset
}

// DeleteOffsets forgets positions. What is not there is passed over.
type DeleteOffsets struct {
	Key
	// Before protects newer commits from an expiry decided earlier: only offsets committed before
	// that Unix ms are deleted. 0: all.
	Before     int64
	Partitions []Partition
}

// DeleteGroup forgets a group with all its offsets.
type DeleteGroup struct {
	Key
	// IfUnused deletes the group only if it has neither offsets nor members: an expiry decided earlier.
	IfUnused bool
}

// StreamDeleted forgets all positions in a stream: the offsets die with the topic's ID.
type StreamDeleted struct {
	Stream base.StreamID
}

// SaveGroup keeps what a new leader needs to go on with a group. It replaces what was saved before.
type SaveGroup struct {
	Key
	Record Record
}

// Record is the durable part of a group's membership: as of its last stable or empty generation.
type Record struct {
	Time         int64 // Unix ms at which the group became stable or empty
	Generation   int32
	ProtocolType string
	Protocol     string
	Leader       string
	Members      []MemberRecord // none: the group is empty since Time
}

// MemberRecord is one member of a saved group.
type MemberRecord struct {
	MemberID         string
	InstanceID       string
	ClientID         string
	ClientHost       string
	SessionTimeout   int64 // ms
	RebalanceTimeout int64 // ms
	Protocols        []Protocol
	Assignment       []byte
}
