package meta

import (
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/topicconf"
)

// Partition is one ordered part of a stream. It is immutable.
type Partition struct {
	Log       base.LogID   // never reused
	Shard     base.ShardID // recorded, never derived from a hash
	EpochBase int32        // leader epoch = EpochBase + the shard's term; never falls
}

// Stream is a named, partitioned durable log (Kafka: topic). It is immutable: a change makes
// a new value, so a reader keeps what it has as long as it likes.
type Stream struct {
	Namespace  string
	Name       string
	ID         base.StreamID
	Replicas   int16             // replication factor as asked for, at least 1
	Partitions []Partition       // index = partition number
	Overrides  map[string]string // explicit configuration, validated
	Config     *topicconf.Resolved
}

// CreateStream asks for a new stream.
type CreateStream struct {
	Namespace  string
	Name       string
	Partitions int               // 1 to 100,000; -1 = the broker's default
	Replicas   int16             // -1 = the broker's default
	Overrides  map[string]string // topic configuration by Kafka's names
	DryRun     bool              // validate only
}

// View is an immutable snapshot of the metadata.
type View struct {
	ClusterID string // 22 characters, Kafka's form
	byName    map[nameKey]*Stream
	byID      map[base.StreamID]*Stream
	version   uint64
}

type nameKey struct{ namespace, name string }

// Version rises with every change of the metadata.
func (v *View) Version() uint64 { return v.version }

// Stream finds a stream by name.
func (v *View) Stream(namespace, name string) (*Stream, bool) {
	s, ok := v.byName[nameKey{namespace, name}]
	return s, ok
}

// StreamByID finds a stream by its ID.
func (v *View) StreamByID(id base.StreamID) (*Stream, bool) {
	s, ok := v.byID[id]
	return s, ok
}

// Streams lists the streams of a namespace, ordered by name.
func (v *View) Streams(namespace string) []*Stream {
	var out []*Stream
	for k, s := range v.byName {
		if k.namespace == namespace {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *Stream) int { return strings.Compare(a.Name, b.Name) })
	return out
}
