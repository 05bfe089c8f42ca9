package txn

import (
	"maps"
	"slices"

	"godwit/internal/invariants"
)

// State is the journaled state of all transactional IDs of one shard. It has one owner.
type State struct {
	txns  map[Key]*txn
	busy  map[Key]struct{} // those that are Ongoing or preparing
	dirty map[Key]struct{} // what the next checkpoint has to write or delete
}

// txn is one transactional ID. The sets hold what is in its transaction; while preparing, what is still to be told of the outcome.
type txn struct {
	Head
	partitions map[Partition]struct{}
	groups     map[string]struct{}
}

// NewState is an empty state.
func NewState() *State {
	return &State{txns: map[Key]*txn{}, busy: map[Key]struct{}{}, dirty: map[Key]struct{}{}}
}

// clone is a copy that changes by itself.
func (s *State) clone() *State {
	out := NewState()
	for k, t := range s.txns {
		out.txns[k] = &txn{t.Head, maps.Clone(t.partitions), maps.Clone(t.groups)}
	}
	maps.Copy(out.busy, s.busy)
	return out
}

// Exists reports whether there is such a transactional ID.
func (s *State) Exists(k Key) bool { return s.txns[k] != nil }

// Outstanding lists the transactional IDs for which something is to be done in other shards, ordered.
func (s *State) Outstanding() (out []Key) {
	for k := range s.busy {
		if s.txns[k].Status.preparing() {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}

// Standing is how many transactions are not over.
type Standing struct {
	Open   int   // nothing is decided
	Ending int   // decided, and something is outstanding
	Oldest int64 // when the first of either began, Unix ms; -1 if there is none
}

// Standing counts the transactions that are not over; it costs as many steps.
func (s *State) Standing() Standing {
	out := Standing{Oldest: -1}
	for k := range s.busy {
		t := s.txns[k]
		if t.Status == Ongoing {
			out.Open++
		} else {
			out.Ending++
		}
		if out.Oldest < 0 || t.Started < out.Oldest {
			out.Oldest = t.Started
		}
	}
	return out
}

// Ending is what is to be done for a transactional ID; false if nothing is.
func (s *State) Ending(k Key) (Ending, bool) {
	t := s.txns[k]
	if t == nil || !t.Status.preparing() {
		return Ending{}, false
	}
	return Ending{
		Serial: t.Serial, ProducerID: t.ProducerID, Epoch: t.Epoch, Commit: t.Status == PrepareCommit, Version: t.Version,
		Partitions: t.partitionList(), Groups: slices.Sorted(maps.Keys(t.groups)),
	}, true
}

func (t *txn) partitionList() []Partition {
	return slices.SortedFunc(maps.Keys(t.partitions), Partition.Compare)
}

func (t *txn) participants() int { return len(t.partitions) + len(t.groups) }

func (s Status) preparing() bool { return s == PrepareCommit || s == PrepareAbort }

func (s Status) busy() bool { return s == Ongoing || s.preparing() }

// Check verifies guarantee 3 and what is true of each field, and panics where that does not hold.
func (s *State) Check() {
	for k, t := range s.txns {
		_, busy := s.busy[k]
		invariants.Check(k.ID != "", "a transactional ID without a name")
		invariants.Check(t.Status <= CompleteAbort, "%v has status %d", k, t.Status)
		invariants.Check(busy == t.Status.busy(), "%v is %v, listed as busy: %v", k, t.Status, busy)
		invariants.Check(busy || t.participants() == 0, "%v is %v with %d participants", k, t.Status, t.participants())
		invariants.Check(!t.Status.preparing() || t.participants() > 0, "%v is %v with nothing outstanding", k, t.Status)
		invariants.Check(t.ProducerID >= 0 && t.Epoch >= 0, "%v has producer %d, epoch %d", k, t.ProducerID, t.Epoch)
		invariants.Check(t.Status != Ongoing || t.Epoch < fencingEpoch, "%v is open with epoch %d", k, t.Epoch)
		invariants.Check(t.NextProducerID < 0 || t.Status.preparing(), "%v is %v with a next producer", k, t.Status)
		invariants.Check((t.LastProducerID < 0) == (t.LastEpoch < 0), "%v had producer %d, epoch %d", k, t.LastProducerID, t.LastEpoch)
		invariants.Check(t.LastProducerID != t.ProducerID || t.LastEpoch < t.Epoch, "%v: producer %d had epoch %d, now %d", k, t.ProducerID, t.LastEpoch, t.Epoch)
		invariants.Check(!busy || t.Started >= 0, "%v is %v since %d", k, t.Status, t.Started)
		invariants.Check(t.TimeoutMs > 0, "%v has a time-out of %d ms", k, t.TimeoutMs)
	}
	for k := range s.busy {
		invariants.Check(s.txns[k] != nil, "%v is listed as busy and gone", k)
	}
}

// equal reports whether two states are the same, leaving aside what is dirty.
func (s *State) equal(o *State) bool {
	return maps.Equal(s.busy, o.busy) && maps.EqualFunc(s.txns, o.txns, func(a, b *txn) bool {
		return a.Head == b.Head && maps.Equal(a.partitions, b.partitions) && maps.Equal(a.groups, b.groups)
	})
}
