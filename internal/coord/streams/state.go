package streams

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"godwit/internal/invariants"
)

// State is the journaled state of all streams groups of one shard. It has one owner.
type State struct {
	groups map[Key]*group
	dirty  map[dirtyKey]struct{} // what the next checkpoint has to write or delete
}

// group is one streams group.
type group struct {
	Head
	topology *Topology // nil only while a checkpoint is read back
	members  map[string]Member
}

// dirtyKey names a stored item.
type dirtyKey struct {
	Key
	kind   byte
	member string // of keyMember
}

// NewState is an empty state.
func NewState() *State {
	return &State{groups: map[Key]*group{}, dirty: map[dirtyKey]struct{}{}}
}

// clone is a copy that changes by itself.
func (s *State) clone() *State {
	out := NewState()
	for k, g := range s.groups {
		out.groups[k] = &group{Head: g.Head, topology: g.topology, members: maps.Clone(g.members)}
	}
	return out
}

// Exists reports whether there is a streams group of the name.
func (s *State) Exists(k Key) bool { return s.groups[k] != nil }

// list lists a group's members by ID.
func (g *group) list() []Member {
	out := make([]Member, 0, len(g.members))
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		out = append(out, g.members[id])
	}
	return out
}

// static finds the member of an instance; nil if there is none.
func (g *group) static(instance string) *Member {
	for _, m := range g.members {
		if m.Instance == instance && instance != "" {
			return &m
		}
	}
	return nil
}

func (g *group) state() GroupState {
	switch {
	case len(g.members) == 0:
		return GroupEmpty
	case g.topology == nil || g.topology.Epoch != g.Validated:
		return GroupNotReady
	case g.Epoch > g.AssignmentEpoch:
		return GroupAssigning
	}
	for _, m := range g.members {
		if !m.reconciled(g.AssignmentEpoch) {
			return GroupReconciling
		}
	}
	return GroupStable
}

// reconciled reports whether the member has its target of an assignment epoch.
func (m *Member) reconciled(epoch int32) bool { return m.Status == Stable && m.Epoch == epoch }

// Check verifies guarantees 1, 3 and 5 and the order of lists, and panics where they do not hold.
func (s *State) Check() {
	for k, g := range s.groups {
		invariants.Check(k.Group != "", "a streams group without a name")
		invariants.Check(g.AssignmentEpoch <= g.Epoch, "group %v: assignment epoch %d above %d", k, g.AssignmentEpoch, g.Epoch)
		invariants.Check(g.topology != nil || len(g.members) == 0, "group %v: members without a topology", k)
		actives, instances := map[TaskID]string{}, map[string]string{}
		for id, m := range g.members {
			invariants.Check(m.ID == id && id != "", "group %v: member %q is filed under %q", k, m.ID, id)
			invariants.Check(m.Epoch <= g.AssignmentEpoch, "group %v: member %s at epoch %d above %d", k, id, m.Epoch, g.AssignmentEpoch)
			invariants.Check(m.Status >= Stable && m.Status <= Unreleased, "group %v: member %s has status %d", k, id, m.Status)
			m.check(k)
			for _, list := range [][]Task{m.Assigned.Active, m.Revoking.Active} {
				for _, t := range list {
					other, taken := actives[t.TaskID]
					invariants.Check(!taken, "group %v: %s and %s have task %v", k, id, other, t.TaskID)
					actives[t.TaskID] = id
				}
			}
			if m.Instance != "" {
				other, taken := instances[m.Instance]
				invariants.Check(!taken, "group %v: %s and %s are instance %s", k, id, other, m.Instance)
				instances[m.Instance] = id
			}
		}
	}
}

// check verifies the order of a member's lists.
func (m *Member) check(k Key) {
	byTask := func(a, b Task) int { return compareTasks(a.TaskID, b.TaskID) }
	for _, t := range []Tasks{m.Assigned, m.Revoking, m.Target} {
		invariants.Check(slices.IsSortedFunc(t.Active, byTask), "group %v: active tasks of %s are out of order", k, m.ID)
		invariants.Check(slices.IsSortedFunc(t.Standby, compareTasks), "group %v: standby tasks of %s are out of order", k, m.ID)
	}
	invariants.Check(slices.IsSortedFunc(m.Tags, comparePairs), "group %v: tags of %s are out of order", k, m.ID)
}

func comparePairs(a, b Pair) int { return strings.Compare(a.Key, b.Key) }

// equal reports whether two states are the same, leaving aside what is dirty.
func (s *State) equal(o *State) bool {
	return maps.EqualFunc(s.groups, o.groups, func(a, b *group) bool {
		return a.Head == b.Head && a.topology.equal(b.topology) && maps.EqualFunc(a.members, b.members, sameMember)
	})
}

// sameMember compares by what members hold.
func sameMember(a, b Member) bool { return bytes.Equal(a.appendTo(nil), b.appendTo(nil)) }

// equal compares by what topologies hold; either may be nil.
func (t *Topology) equal(o *Topology) bool {
	if t == nil || o == nil || t == o {
		return t == o
	}
	return bytes.Equal(t.appendTo(nil), o.appendTo(nil))
}
