package group

import (
	"iter"
	"maps"
	"slices"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// Offsets is the journaled state of all groups of one shard: committed positions and what is saved of
// memberships. It has one owner.
type Offsets struct {
	groups map[Key]*holding
	// byPartition finds the groups that have a position in a partition, ordered by key. It holds
	// the same entries as the groups do.
	byPartition map[base.StreamID]map[int32][]*entry
	count       int                   // entries
	arrivals    uint64                // order of the last position that was kept aside
	dirty       map[dirtyKey]struct{} // what the next checkpoint has to write or delete
}

// holding is what is known of a group: it exists while something of its membership or an offset is saved, or kept aside by a
// transaction.
type holding struct {
	key       Key
	record    *Record    // of a classic group; never written in place
	consumers *consumers // of a group of the consumer protocol; not both
	offsets   map[Partition]*entry
	pending   pendingTxns
}

// hasMembers reports whether members are saved.
func (h *holding) hasMembers() bool {
	return h.record != nil && len(h.record.Members) > 0 || h.consumers != nil && len(h.consumers.members) > 0
}

// entry is one committed position.
type entry struct {
	owner     *holding
	partition Partition
	position
}

// position is the stored part of an entry.
type position struct {
	offset   int64
	epoch    int32
	time     int64 // commit, Unix ms
	expires  int64 // Unix ms; 0: by the broker's rule
	metadata string
}

// dirtyKey names a stored item: the group's record, its head or a member under the consumer protocol, its offset in the
// partition, or what a producer keeps aside there.
type dirtyKey struct {
	Key
	Partition
	record    bool
	consumers bool
	member    string // with consumers; empty: the head
	pending   bool
	producer  int64 // with pending
}

// NewOffsets is an empty state.
func NewOffsets() *Offsets {
	return &Offsets{
		groups:      map[Key]*holding{},
		byPartition: map[base.StreamID]map[int32][]*entry{},
		dirty:       map[dirtyKey]struct{}{},
	}
}

// Len is the number of committed positions.
func (o *Offsets) Len() int { return o.count }

// Positions iterates over the groups that have a position in the partition, ordered by key, with
// the offset that each will read next.
func (o *Offsets) Positions(p Partition) iter.Seq2[Key, int64] {
	return func(yield func(Key, int64) bool) {
		for _, e := range o.byPartition[p.Stream][p.Index] {
			if !yield(e.owner.key, e.offset) {
				return
			}
		}
	}
}

// Lowest finds the group that is furthest behind in the partition.
func (o *Offsets) Lowest(p Partition) (k Key, offset int64, ok bool) {
	for key, at := range o.Positions(p) {
		if !ok || at < offset {
			k, offset, ok = key, at, true
		}
	}
	return k, offset, ok
}

// Fetch answers with committed positions. A group that does not exist has none.
func (o *Offsets) Fetch(req *FetchOffsetsRequest) FetchOffsetsResponse {
	h := o.groups[req.Key]
	want := req.Partitions
	if req.All {
		want = nil
		if h != nil {
			want = h.partitions()
		}
	}
	out := FetchOffsetsResponse{Offsets: make([]CommitOffset, 0, len(want))}
	for _, p := range want {
		found := CommitOffset{Partition: p, Offset: -1, Epoch: -1}
		if h != nil && req.Stable && h.pending.unstable(p) {
			if out.Errs == nil {
				out.Errs = make([]*base.Error, len(want))
			}
			out.Errs[len(out.Offsets)] = base.Errorf(base.CodeUnstableOffset, "a transaction that is still open commits offsets of partition %d: try again", p.Index)
		} else if h != nil && h.offsets[p] != nil {
			e := h.offsets[p]
			found.Offset, found.Epoch, found.Metadata = e.offset, e.epoch, e.metadata
		}
		out.Offsets = append(out.Offsets, found)
	}
	return out
}

// partitions lists where the group has positions, in order.
func (h *holding) partitions() []Partition {
	return slices.SortedFunc(maps.Keys(h.offsets), Partition.Compare)
}

// put enters or replaces a position.
func (o *Offsets) put(k Key, p Partition, at position) {
	h := o.hold(k)
	if e := h.offsets[p]; e != nil {
		e.position = at
		return
	}
	e := &entry{owner: h, partition: p, position: at}
	h.offsets[p] = e
	o.count++
	of := o.byPartition[p.Stream]
	if of == nil {
		of = map[int32][]*entry{}
		o.byPartition[p.Stream] = of
	}
	i, _ := findEntry(of[p.Index], k)
	of[p.Index] = slices.Insert(of[p.Index], i, e)
}

// drop forgets a position, and its group when nothing else is known of it.
func (o *Offsets) drop(e *entry) {
	h, p := e.owner, e.partition
	delete(h.offsets, p)
	o.count--
	of := o.byPartition[p.Stream]
	i, ok := findEntry(of[p.Index], h.key)
	invariants.Check(ok, "group %v: offset of %v is not in the index", h.key, p)
	of[p.Index] = slices.Delete(of[p.Index], i, i+1)
	if len(of[p.Index]) == 0 {
		delete(of, p.Index)
	}
	if len(of) == 0 {
		delete(o.byPartition, p.Stream)
	}
	o.forgetUnused(h)
}

// forgetUnused drops a group of which nothing is left.
func (o *Offsets) forgetUnused(h *holding) {
	if h.record == nil && h.consumers == nil && len(h.offsets) == 0 && h.pending.len() == 0 {
		delete(o.groups, h.key)
	}
}

func findEntry(entries []*entry, k Key) (int, bool) {
	return slices.BinarySearchFunc(entries, k, func(e *entry, k Key) int { return e.owner.key.Compare(k) })
}

// record is what was saved of a group's membership, nil if nothing was.
func (o *Offsets) record(k Key) *Record {
	if h := o.groups[k]; h != nil {
		return h.record
	}
	return nil
}

// exists reports whether something is known of the group.
func (o *Offsets) exists(k Key) bool { return o.groups[k] != nil }

// Check verifies guarantee 7 and panics where it does not hold.
func (o *Offsets) Check() {
	seen := 0
	for k, h := range o.groups {
		invariants.Check(h.key == k, "group %v is filed under %v", h.key, k)
		invariants.Check(h.record != nil || h.consumers != nil || len(h.offsets) > 0 || h.pending.len() > 0, "group %v is kept for nothing", k)
		h.pending.check(k)
		for p, e := range h.offsets {
			invariants.Check(e.owner == h && e.partition == p, "group %v: offset of %v is filed under %v", k, e.partition, p)
			_, ok := findEntry(o.byPartition[p.Stream][p.Index], k)
			invariants.Check(ok, "group %v: offset of %v is not in the index", k, p)
			seen++
		}
	}
	indexed := 0
	for stream, of := range o.byPartition {
		invariants.Check(len(of) > 0, "stream %v is indexed without offsets", stream)
		for i, entries := range of {
			invariants.Check(len(entries) > 0, "partition %v/%d is indexed without offsets", stream, i)
			invariants.Check(slices.IsSortedFunc(entries, func(a, b *entry) int { return a.owner.key.Compare(b.owner.key) }),
				"partition %v/%d: groups out of order", stream, i)
			indexed += len(entries)
		}
	}
	invariants.Check(seen == indexed && seen == o.count, "%d offsets in groups, %d in the index, %d counted", seen, indexed, o.count)
}
