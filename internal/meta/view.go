package meta

import (
	"maps"
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/topicconf"
)

// Partition is one ordered part of a stream. It is immutable.
type Partition struct {
	Log   base.LogID   // never reused
	Shard base.ShardID // recorded, never derived from a hash
}

// Stream is a named, partitioned durable log (Kafka: topic). It is immutable: a change makes
// a new value, so a reader keeps what it has as long as it likes.
type Stream struct {
	Namespace  string
	Name       string
	ID         base.StreamID
	Replicas   int16             // replication factor as asked for, at least 1
	Partitions []Partition       // index = partition number
	Ready      int               // so many partitions have their log in its shard
	Overrides  map[string]string `json:",omitempty"` // explicit configuration, validated
	Created    int64             // Unix milliseconds

	Config *topicconf.Resolved `json:"-"`
}

// View is an immutable snapshot of the metadata.
type View struct {
	ClusterID  string         // 22 characters, Kafka's form
	Version    uint64         // rises with every change
	GroupSlots []base.ShardID // which shard has the groups of a slot; see GroupShard

	names [buckets]map[nameKey]*Stream
	ids   [buckets]map[base.StreamID]*Stream
	count int
}

// buckets bounds what a change copies: 1/256 of the index.
const buckets = 256

type nameKey struct{ namespace, name string }

// bucket puts names that collide in Kafka's metrics into the same bucket.
func (k nameKey) bucket() uint32 { return hash(k.namespace, flat(k.name)) % buckets }

// flat maps names that differ only in '.' against '_' to one.
func flat(name string) string { return strings.ReplaceAll(name, ".", "_") }

// hash is FNV-1a over the parts, each closed by a zero byte.
func hash(parts ...string) uint32 {
	h := uint32(2166136261)
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint32(p[i])) * 16777619
		}
		h *= 16777619
	}
	return h
}

// Stream finds a stream by name.
func (v *View) Stream(namespace, name string) (*Stream, bool) {
	k := nameKey{namespace, name}
	s, ok := v.names[k.bucket()][k]
	return s, ok
}

// StreamByID finds a stream by its ID.
func (v *View) StreamByID(id base.StreamID) (*Stream, bool) {
	s, ok := v.ids[id[0]][id]
	return s, ok
}

// Len is the number of streams of all namespaces.
func (v *View) Len() int { return v.count }

// All calls fn for every stream, in no order, until it returns false.
func (v *View) All(fn func(*Stream) bool) {
	for _, b := range v.ids {
		for _, s := range b {
			if !fn(s) {
				return
			}
		}
	}
}

// Streams lists the streams of a namespace, ordered by name.
func (v *View) Streams(namespace string) []*Stream {
	var out []*Stream
	v.All(func(s *Stream) bool {
		if s.Namespace == namespace {
			out = append(out, s)
		}
		return true
	})
	slices.SortFunc(out, func(a, b *Stream) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// GroupShard is the shard that keeps a group: the group's name picks a slot, and which shard has the
// slot is recorded.
func (v *View) GroupShard(namespace, group string) base.ShardID {
	if len(v.GroupSlots) == 0 {
		return base.MetaShard
	}
	return v.GroupSlots[hash(namespace, group)%uint32(len(v.GroupSlots))]
}

// GroupShards lists the shards that may keep groups, each once, in the order of their first slots.
func (v *View) GroupShards() []base.ShardID {
	seen := map[base.ShardID]bool{}
	var out []base.ShardID
	for _, id := range v.GroupSlots {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// with is a new view in which the stream is s; nil removes the stream old.
func (v *View) with(old, s *Stream) *View {
	n := *v
	n.Version++
	key := s
	if key == nil {
		key = old
	}
	nk := nameKey{key.Namespace, key.Name}
	names, ids := cloned(v.names[nk.bucket()]), cloned(v.ids[key.ID[0]])
	if s != nil {
		names[nk], ids[s.ID] = s, s
	} else {
		delete(names, nk)
		delete(ids, old.ID)
	}
	if old == nil {
		n.count++
	} else if s == nil {
		n.count--
	}
	n.names[nk.bucket()], n.ids[key.ID[0]] = names, ids
	return &n
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// add enters a stream in place, while the view is not shared yet.
func (v *View) add(s *Stream, defaults map[string]string) {
	s.Config = topicconf.Resolve(s.Overrides, defaults)
	nk := nameKey{s.Namespace, s.Name}
	if v.names[nk.bucket()] == nil {
		v.names[nk.bucket()] = map[nameKey]*Stream{}
	}
	if v.ids[s.ID[0]] == nil {
		v.ids[s.ID[0]] = map[base.StreamID]*Stream{}
	}
	v.names[nk.bucket()][nk], v.ids[s.ID[0]][s.ID] = s, s
	v.count++
}
