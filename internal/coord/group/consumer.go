package group

import (
	"bytes"
	"slices"

	"godwit/internal/base"
)

// The states of a member on its way to its target assignment.
const (
	Settled    MemberState = 1 // it has what it should have (Kafka: STABLE)
	Unrevoked  MemberState = 2 // it has to give up partitions before it gets on (UNREVOKED_PARTITIONS)
	Unreleased MemberState = 3 // it waits for partitions that others have not given up (UNRELEASED_PARTITIONS)
)

// MemberState is where a member stands.
type MemberState uint8

// Consumer is one member of a group of the consumer protocol. Its slices are never written in place.
type Consumer struct {
	MemberID   string
	InstanceID string // empty: dynamic
	Rack       string
	ClientID   string
	ClientHost string
	Rebalance  int64    // ms that the member has to give up partitions
	Topics     []string // subscribed by name; ordered
	Regex      string   // subscribed by expression; empty: none
	Assignor   string   // that the member prefers; empty: none
	Epoch      int32    // of the assignment that it has reached; EpochPause for a static member that is away
	Previous   int32    // epoch before that
	State      MemberState
	Assigned   []Owned     // ordered
	Revoking   []Owned     // which it has to give up; ordered
	Target     []Partition // what it should have; ordered
	Classic    *ClassicClient
}

// Owned is a partition of a member, with the member's epoch as it was assigned. A commit under an older epoch is refused.
type Owned struct {
	Partition
	Epoch int32
}

// ClassicClient is what a member has that speaks the classic protocol to a group of the new one.
type ClassicClient struct {
	Session   int64 // ms
	Protocols []Protocol
}

// ConsumerHead is what is saved of a group besides its members.
type ConsumerHead struct {
	Epoch           int32  // rises when an assignment is to be computed; at least 0
	AssignmentEpoch int32  // group epoch of the last assignment; at most Epoch
	AssignedAt      int64  // Unix ms of the last assignment; 0: the next one need not wait
	Hash            uint64 // of the subscribed topics, as of Epoch
}

// consumers is what is saved of a group of the consumer protocol.
type consumers struct {
	head    ConsumerHead
	members map[string]Consumer
}

// SaveConsumers keeps a change of a group of the consumer protocol. What was saved of it under the classic
// protocol is forgotten.
type SaveConsumers struct {
	Key
	Head    ConsumerHead
	Members []Consumer // those that are new or changed, by ID
	Removed []string   // IDs, ordered
}

// DropConsumers forgets what is saved of a group under the consumer protocol: it is a classic one from now on.
type DropConsumers struct {
	Key
}

// partitionsOf drops the epochs.
func partitionsOf(owned []Owned) []Partition {
	out := make([]Partition, 0, len(owned))
	for _, o := range owned {
		out = append(out, o.Partition)
	}
	return out
}

func compareOwned(o Owned, p Partition) int { return o.Partition.Compare(p) }

// epochOf is the epoch at which a partition in the list was assigned.
func epochOf(list []Owned, p Partition) (int32, bool) {
	i, ok := slices.BinarySearchFunc(list, p, compareOwned)
	if !ok {
		return 0, false
	}
	return list[i].Epoch, true
}

// without lists those of the first list that are not in the second; both are ordered.
func without(a []Owned, b []Partition) (out []Owned) {
	for _, o := range a {
		if _, ok := slices.BinarySearchFunc(b, o.Partition, Partition.Compare); !ok {
			out = append(out, o)
		}
	}
	return out
}

// sameClassic reports whether two members speak the classic protocol alike, or neither does.
func sameClassic(a, b *ClassicClient) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Session == b.Session && slices.EqualFunc(a.Protocols, b.Protocols, func(x, y Protocol) bool {
		return x.Name == y.Name && bytes.Equal(x.Metadata, y.Metadata)
	})
}

// equal reports whether nothing of the member is to be saved.
func (m *Consumer) equal(o *Consumer) bool {
	return m.MemberID == o.MemberID && m.InstanceID == o.InstanceID && m.Rack == o.Rack &&
		m.ClientID == o.ClientID && m.ClientHost == o.ClientHost && m.Rebalance == o.Rebalance &&
		slices.Equal(m.Topics, o.Topics) && m.Regex == o.Regex && m.Assignor == o.Assignor &&
		m.Epoch == o.Epoch && m.Previous == o.Previous && m.State == o.State &&
		slices.Equal(m.Assigned, o.Assigned) && slices.Equal(m.Revoking, o.Revoking) && slices.Equal(m.Target, o.Target) &&
		sameClassic(m.Classic, o.Classic)
}

// applyConsumers enters a change of a group of the consumer protocol.
func (o *Offsets) applyConsumers(c *SaveConsumers) {
	h := o.hold(c.Key)
	if h.record != nil {
		h.record = nil
		o.dirty[dirtyKey{Key: c.Key, record: true}] = struct{}{}
	}
	if h.consumers == nil {
		h.consumers = &consumers{members: map[string]Consumer{}}
	}
	h.consumers.head = c.Head
	o.dirty[dirtyKey{Key: c.Key, consumers: true}] = struct{}{}
	for _, id := range c.Removed {
		delete(h.consumers.members, id)
		o.dirty[dirtyKey{Key: c.Key, consumers: true, member: id}] = struct{}{}
	}
	for _, m := range c.Members {
		h.consumers.members[m.MemberID] = m
		o.dirty[dirtyKey{Key: c.Key, consumers: true, member: m.MemberID}] = struct{}{}
	}
}

// dropConsumers forgets what is saved under the consumer protocol.
func (o *Offsets) dropConsumers(h *holding) {
	if h == nil || h.consumers == nil {
		return
	}
	for id := range h.consumers.members {
		o.dirty[dirtyKey{Key: h.key, consumers: true, member: id}] = struct{}{}
	}
	o.dirty[dirtyKey{Key: h.key, consumers: true}] = struct{}{}
	h.consumers = nil
}

// hold finds what is known of a group, or begins it.
func (o *Offsets) hold(k Key) *holding {
	h := o.groups[k]
	if h == nil {
		h = &holding{key: k, offsets: map[Partition]*entry{}}
		o.groups[k] = h
	}
	return h
}

// saved is what is saved of a group under the consumer protocol; nil if nothing is.
func (o *Offsets) saved(k Key) *consumers {
	if h := o.groups[k]; h != nil {
		return h.consumers
	}
	return nil
}

// notConsumer is the answer to who takes a group of another type for one of the consumer protocol.
func notConsumer(k Key) *base.Error {
	return base.Errorf(base.CodeUnknownGroup, "Group %s is not a consumer group.", k.Group)
}

// Binding reports whether a coordinator cannot go on when the commands are lost: it has gone ahead of what is saved of a group of
// the consumer protocol.
func Binding(commands []Command) bool {
	return slices.ContainsFunc(commands, func(c Command) bool {
		switch c.(type) {
		case *SaveConsumers, *DropConsumers:
			return true
		}
		return false
	})
}

// Failed makes the replies say that what they answered was lost. Those that say so already stay.
func Failed(replies []Reply, err *base.Error) []Reply {
	out := make([]Reply, 0, len(replies))
	for _, r := range replies {
		switch was := r.Response.(type) {
		case *JoinResponse:
			if was.Err == nil {
				r.Response = joinFailed(was.MemberID, err)
			}
		case *SyncResponse:
			if was.Err == nil {
				r.Response = &SyncResponse{Err: err}
			}
		case *LeaveResponse:
			r.Response = &LeaveResponse{Err: err}
		}
		out = append(out, r)
	}
	return out
}
