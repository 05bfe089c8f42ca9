package base

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
)

// DefaultNamespace is the tenant boundary of every name that states none.
const DefaultNamespace = "default"

// StreamID identifies a stream for ever: it is random (RFC 9562 version 4) and never reused.
// Kafka calls it the topic ID (KIP-516).
type StreamID [16]byte

// IsZero reports whether the ID is the unset one.
func (id StreamID) IsZero() bool { return id == StreamID{} }

// String writes the ID as Kafka does: URL-safe base64 without padding, 22 characters.
func (id StreamID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Partition is one partition of a stream, by the ID that is never reused.
type Partition struct {
	Stream StreamID
	Index  int32
}

// Compare orders partitions by stream, then by index.
func (p Partition) Compare(o Partition) int {
	return cmp.Or(bytes.Compare(p.Stream[:], o.Stream[:]), cmp.Compare(p.Index, o.Index))
}

// GroupKey names a group: the name is unique within its namespace, among groups of all types.
type GroupKey struct {
	Namespace string
	Group     string // never empty for a group with members; at most MaxGroupName bytes
}

// MaxGroupName is the length of the longest group name, bytes: what a string of Kafka's protocol holds in every version.
const MaxGroupName = 32_767

// Check refuses a name that no group can have, with CodeInvalidGroup.
func (k GroupKey) Check() *Error {
	switch n := len(k.Group); {
	case n == 0:
		return Errorf(CodeInvalidGroup, "the group name is empty")
	case n > MaxGroupName:
		return Errorf(CodeInvalidGroup, "the group name has %d bytes, at most %d are allowed", n, MaxGroupName)
	}
	return nil
}

// Compare orders groups by namespace, then by name.
func (k GroupKey) Compare(o GroupKey) int {
	return cmp.Or(strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Group, o.Group))
}

// LogID identifies the log of one partition. Shard 0 allocates it when the partition is
// created; it is at least 1 and never reused, so storage needs no names.
type LogID uint64

// ShardID numbers a shard: 0 holds the metadata, 1 and above hold data.
type ShardID uint32

// MetaShard is the shard that holds the cluster's metadata.
const MetaShard ShardID = 0

// Position is a place in a node's write-ahead log: file number in the high 32 bits, byte offset
// in that file in the low 32. Positions of one node compare in the order of writing.
type Position uint64

// At builds a position from its parts.
func At(file, offset uint32) Position { return Position(uint64(file)<<32 | uint64(offset)) }

// File is the number of the file the position lies in.
func (p Position) File() uint32 { return uint32(p >> 32) }

// Offset is the byte offset in the file.
func (p Position) Offset() uint32 { return uint32(p) }

// String prints file:offset.
func (p Position) String() string { return fmt.Sprintf("%d:%d", p.File(), p.Offset()) }
