package meta

import (
	"encoding/json"

	"godwit/internal/base"
)

// CreateStream asks for a new stream.
type CreateStream struct {
	Namespace  string
	Name       string
	Partitions int               // 1 to MaxPartitions; -1 = the broker's default
	Replicas   int16             // -1 = the broker's default
	Overrides  map[string]string // topic configuration by Kafka's names
	DryRun     bool              // validate only
}

// Limits of a stream.
const (
	MaxPartitions = 100_000 // of one stream
	MaxNameLength = 249     // Kafka's: room for the partition number in a file name
)

// Command is one decision of the metadata leader as it stands in the journal: JSON, exactly one field set. All
// random and allocated values are in it.
type Command struct {
	Bootstrap *Bootstrap     `json:"bootstrap,omitempty"`
	Create    *Stream        `json:"create,omitempty"`
	Delete    *base.StreamID `json:"delete,omitempty"`
	Grow      *Grow          `json:"grow,omitempty"`
	Config    *SetConfig     `json:"config,omitempty"`
	Producers *ProducerBlock `json:"producers,omitempty"`
	Done      *EffectDone    `json:"done,omitempty"`
}

// Bootstrap is the first entry of a cluster.
type Bootstrap struct {
	ClusterID  string
	DataShards uint32         // shards 1 to DataShards hold data
	GroupSlots []base.ShardID // see View.GroupShard
}

// Grow adds partitions to a stream.
type Grow struct {
	Stream     base.StreamID
	Partitions []Partition
}

// SetConfig replaces the explicit configuration of a stream.
type SetConfig struct {
	Stream    base.StreamID
	Overrides map[string]string
}

// ProducerBlock hands out producer IDs below Next.
type ProducerBlock struct{ Next int64 }

// EffectDone records that shards have carried out what a stream asked of them: they have the logs of
// its first Ready partitions, or have dropped them all.
type EffectDone struct {
	Stream  base.StreamID
	Ready   int  `json:",omitempty"`
	Dropped bool `json:",omitempty"`
}

// Encode writes the command for the journal.
func (c *Command) Encode() []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // only plain values
	}
	return b
}

// DecodeCommand reads what Encode wrote; anything else is a CodeCorruption error.
func DecodeCommand(b []byte) (*Command, error) {
	var c Command
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, base.Errorf(base.CodeCorruption, "metadata command: %v", err)
	}
	return &c, nil
}

// Effect is what the metadata asks of another shard. Outstanding effects are derived from the state, so they
// are sent again after a restart; a shard that has carried one out before answers at once.
type Effect struct {
	Stream base.StreamID
	Shard  base.ShardID
	Create []base.LogID
	Drop   []base.LogID
	Forget bool // group offsets of the stream go too
}
