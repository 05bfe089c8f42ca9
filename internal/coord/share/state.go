package share

import (
	"bytes"
	"maps"
	"slices"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// State is the journaled state of all share groups of one shard, and the configurations of all its groups. It has one
// owner.
type State struct {
	groups  map[Key]*group
	queues  map[Key]map[base.StreamID]topicQueues // also what is to be deleted of groups that are gone
	configs map[Key]map[string]string             // values are never written in place
	dirty   map[dirtyKey]struct{}                 // what the next checkpoint has to write or delete
}

// group is one share group.
type group struct {
	Head
	members map[string]Member
}

// topicQueues are a group's queues in one stream, by partition.
type topicQueues map[int32]Queue

// dirtyKey names a stored item.
type dirtyKey struct {
	Key
	kind   byte
	member string        // of keyMember
	stream base.StreamID // of keyQueues
}

// NewState is an empty state.
func NewState() *State {
	return &State{
		groups:  map[Key]*group{},
		queues:  map[Key]map[base.StreamID]topicQueues{},
		configs: map[Key]map[string]string{},
		dirty:   map[dirtyKey]struct{}{},
	}
}

// clone is a copy that changes by itself.
func (s *State) clone() *State {
	out := NewState()
	for k, g := range s.groups {
		out.groups[k] = &group{Head: g.Head, members: maps.Clone(g.members)}
	}
	for k, of := range s.queues {
		out.queues[k] = make(map[base.StreamID]topicQueues, len(of))
		for id, q := range of {
			out.queues[k][id] = maps.Clone(q)
		}
	}
	maps.Copy(out.configs, s.configs)
	return out
}

// Exists reports whether there is a share group of the name.
func (s *State) Exists(k Key) bool { return s.groups[k] != nil }

// Config is the explicit configuration of a group, whatever its type; not to be written to.
func (s *State) Config(k Key) map[string]string { return s.configs[k] }

// Configured calls fn for every group with a configuration, ordered by key.
func (s *State) Configured(fn func(Key, map[string]string)) {
	for _, k := range slices.SortedFunc(maps.Keys(s.configs), Key.Compare) {
		fn(k, s.configs[k])
	}
}

// Queue is a group's queue in a partition; false if it has none.
func (s *State) Queue(k Key, p Partition) (Queue, bool) {
	q, ok := s.queues[k][p.Stream][p.Index]
	return q, ok
}

// Ready lists the partitions in which the group has a queue that is ready, in order.
func (s *State) Ready(k Key) []Partition { return s.partitions(k, Ready) }

// partitions lists where the group has a queue of one of the statuses, in order.
func (s *State) partitions(k Key, statuses ...QueueStatus) (out []Partition) {
	for id, of := range s.queues[k] {
		for i, q := range of {
			if slices.Contains(statuses, q.Status) {
				out = append(out, Partition{Stream: id, Index: i})
			}
		}
	}
	slices.SortFunc(out, Partition.Compare)
	return out
}

// Outstanding lists the groups for which something is to be done in the shards of partitions, ordered by key.
func (s *State) Outstanding() (out []Key) {
	for k, of := range s.queues {
		if slices.ContainsFunc(slices.Collect(maps.Values(of)), topicQueues.outstanding) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, Key.Compare)
	return out
}

func (t topicQueues) outstanding() bool {
	for _, q := range t {
		if q.Status != Ready {
			return true
		}
	}
	return false
}

// Effects lists what is to be done for a group, ordered by partition: queues that are Initializing or Deleting.
func (s *State) Effects(k Key) (out []QueueChange) {
	for _, p := range s.partitions(k, Initializing, Deleting) {
		out = append(out, QueueChange{p, s.queues[k][p.Stream][p.Index]})
	}
	return out
}

// members lists a group's members by ID.
func (g *group) list() []Member {
	out := make([]Member, 0, len(g.members))
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		out = append(out, g.members[id])
	}
	return out
}

func (g *group) state() GroupState {
	if len(g.members) == 0 {
		return Empty
	}
	return Stable
}

// Check verifies guarantee 1 and the order of lists, and panics where they do not hold.
func (s *State) Check() {
	for k, g := range s.groups {
		invariants.Check(k.Group != "", "a group without a name")
		invariants.Check(g.AssignmentEpoch <= g.Epoch, "group %v: assignment epoch %d above %d", k, g.AssignmentEpoch, g.Epoch)
		for id, m := range g.members {
			invariants.Check(m.ID == id && id != "", "group %v: member %q is filed under %q", k, m.ID, id)
			invariants.Check(m.Epoch <= g.AssignmentEpoch, "group %v: member %s at epoch %d above %d", k, id, m.Epoch, g.AssignmentEpoch)
			invariants.Check(m.Previous <= m.Epoch, "group %v: member %s was at epoch %d before %d", k, id, m.Previous, m.Epoch)
			for _, list := range [][]Partition{m.Assigned, m.Target} {
				invariants.Check(slices.IsSortedFunc(list, Partition.Compare), "group %v: partitions of %s are out of order", k, id)
			}
			invariants.Check(slices.IsSorted(m.Topics), "group %v: topics of %s are out of order", k, id)
		}
	}
	for k, of := range s.queues {
		invariants.Check(len(of) > 0, "group %v: no queues are kept", k)
		for id, t := range of {
			invariants.Check(len(t) > 0, "group %v: no queues of %v are kept", k, id)
			for i, q := range t {
				invariants.Check(q.Status >= Initializing && q.Status <= Deleting, "group %v: queue %v/%d has status %d", k, id, i, q.Status)
				invariants.Check(q.Status == Deleting || s.groups[k] != nil, "group %v: queue %v/%d has no group", k, id, i)
			}
		}
	}
	for k, c := range s.configs {
		invariants.Check(len(c) > 0, "group %v: no configuration is kept", k)
	}
}

// equal reports whether two states are the same, leaving aside what is dirty.
func (s *State) equal(o *State) bool {
	return maps.EqualFunc(s.groups, o.groups, func(a, b *group) bool {
		return a.Head == b.Head && maps.EqualFunc(a.members, b.members, sameMember)
	}) && maps.EqualFunc(s.queues, o.queues, func(a, b map[base.StreamID]topicQueues) bool {
		return maps.EqualFunc(a, b, func(a, b topicQueues) bool { return maps.Equal(a, b) })
	}) && maps.EqualFunc(s.configs, o.configs, maps.Equal)
}

// sameMember compares by what members hold.
func sameMember(a, b Member) bool {
	return bytes.Equal(a.appendTo(nil), b.appendTo(nil))
}
