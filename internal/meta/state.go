package meta

import (
	"maps"
	"slices"

	"godwit/internal/base"
	"godwit/internal/invariants"
	"godwit/internal/topicconf"
)

// State is the metadata: the view plus what only the leader needs. Copying the struct is a snapshot,
// since everything it points to is immutable.
type State struct {
	View         *View
	DataShards   uint32
	NextLog      base.LogID
	NextProducer int64
	Dropping     map[base.StreamID]*Stream // deleted; shards still have to drop their logs
	Creating     map[base.StreamID]*Stream // Ready < len(Partitions)

	defaults map[string]string // broker-wide topic configuration
}

// NewState is the state before the first entry. defaults are the broker's own values for topic configuration; they
// are not part of the replicated state.
func NewState(defaults map[string]string) *State {
	return &State{View: &View{}, NextLog: 1, defaults: defaults}
}

// Apply enters a committed command and returns the streams it touched.
func (s *State) Apply(c *Command) (touched base.StreamID) {
	switch {
	case c.Bootstrap != nil:
		v := *s.View
		v.ClusterID, v.GroupSlots = c.Bootstrap.ClusterID, c.Bootstrap.GroupSlots
		v.Version++
		s.View, s.DataShards = &v, c.Bootstrap.DataShards
	case c.Create != nil:
		s.put(nil, c.Create)
		return c.Create.ID
	case c.Delete != nil:
		st := s.must(*c.Delete)
		s.View = s.View.with(st, nil)
		s.Creating = without(s.Creating, st.ID)
		s.Dropping = plus(s.Dropping, st)
		return st.ID
	case c.Grow != nil:
		old := s.must(c.Grow.Stream)
		n := *old
		n.Partitions = slices.Concat(old.Partitions, c.Grow.Partitions)
		s.put(old, &n)
		return n.ID
	case c.Config != nil:
		old := s.must(c.Config.Stream)
		n := *old
		n.Overrides = c.Config.Overrides
		s.put(old, &n)
		return n.ID
	case c.Producers != nil:
		s.NextProducer = max(s.NextProducer, c.Producers.Next)
	case c.Done != nil:
		return s.done(c.Done)
	}
	return base.StreamID{}
}

func (s *State) done(d *EffectDone) base.StreamID {
	if d.Dropped {
		s.Dropping = without(s.Dropping, d.Stream)
		return d.Stream
	}
	if old, ok := s.View.StreamByID(d.Stream); ok && old.Ready < d.Ready {
		n := *old
		n.Ready = min(d.Ready, len(n.Partitions))
		s.put(old, &n)
	}
	return d.Stream
}

func (s *State) must(id base.StreamID) *Stream {
	st, ok := s.View.StreamByID(id)
	invariants.Check(ok, "metadata entry for stream %v, which does not exist", id)
	return st
}

func (s *State) put(old, st *Stream) {
	n := *st
	n.Config = topicconf.Resolve(n.Overrides, s.defaults)
	for _, p := range n.Partitions {
		s.NextLog = max(s.NextLog, p.Log+1)
	}
	s.View = s.View.with(old, &n)
	if n.Ready < len(n.Partitions) {
		s.Creating = plus(s.Creating, &n)
	} else {
		s.Creating = without(s.Creating, n.ID)
	}
}

func plus(m map[base.StreamID]*Stream, s *Stream) map[base.StreamID]*Stream {
	n := cloned(m)
	n[s.ID] = s
	return n
}

func without(m map[base.StreamID]*Stream, id base.StreamID) map[base.StreamID]*Stream {
	if _, ok := m[id]; !ok {
		return m
	}
	n := maps.Clone(m)
	delete(n, id)
	return n
}

// Effects lists what is outstanding for one stream, by shard.
func (s *State) Effects(id base.StreamID) []Effect {
	byShard := map[base.ShardID]*Effect{}
	at := func(shard base.ShardID) *Effect {
		if byShard[shard] == nil {
			byShard[shard] = &Effect{Stream: id, Shard: shard}
		}
		return byShard[shard]
	}
	if st := s.Dropping[id]; st != nil {
		for _, p := range st.Partitions {
			e := at(p.Shard)
			e.Drop = append(e.Drop, p.Log)
		}
		for _, shard := range s.View.GroupSlots {
			at(shard).Forget = true
		}
	} else if st := s.Creating[id]; st != nil {
		for _, p := range st.Partitions[st.Ready:] {
			e := at(p.Shard)
			e.Create = append(e.Create, p.Log)
		}
	}
	out := make([]Effect, 0, len(byShard))
	for _, shard := range slices.Sorted(maps.Keys(byShard)) {
		out = append(out, *byShard[shard])
	}
	return out
}

// Outstanding lists the streams that have effects outstanding, in the order of their IDs.
func (s *State) Outstanding() []base.StreamID {
	ids := slices.AppendSeq(slices.Collect(maps.Keys(s.Creating)), maps.Keys(s.Dropping))
	slices.SortFunc(ids, func(a, b base.StreamID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// Resolved is st with its configuration worked out, as it would be once created.
func (s *State) Resolved(st *Stream) *Stream {
	n := *st
	n.Config = topicconf.Resolve(n.Overrides, s.defaults)
	return &n
}
