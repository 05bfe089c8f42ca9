package meta

import (
	"encoding/json"

	"godwit/internal/base"
)

// Keys under which the state is kept: one for the counters, one per stream.
const (
	keyCounters = 'c'
	keyStream   = 's'
	keyDropping = 'd'
)

type counters struct {
	ClusterID    string
	Version      uint64
	GroupSlots   []base.ShardID
	DataShards   uint32
	NextLog      base.LogID
	NextProducer int64
}

// StreamKeys are the two keys a stream's state may be under.
func StreamKeys(id base.StreamID) (live, dropping []byte) {
	return append([]byte{keyStream}, id[:]...), append([]byte{keyDropping}, id[:]...)
}

// Checkpoint writes the counters and the streams that changed; a nil value deletes the key.
func (s *State) Checkpoint(changed []base.StreamID, put func(key, value []byte)) {
	put([]byte{keyCounters}, encode(counters{s.View.ClusterID, s.View.Version, s.View.GroupSlots, s.DataShards, s.NextLog, s.NextProducer}))
	for _, id := range changed {
		live, dropping := StreamKeys(id)
		var a, b []byte
		if st, ok := s.View.StreamByID(id); ok {
			a = encode(st)
		}
		if st := s.Dropping[id]; st != nil {
			b = encode(st)
		}
		put(live, a)
		put(dropping, b)
	}
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only plain values
	}
	return b
}

// Restorer rebuilds a state key by key, without a new view for each.
type Restorer struct {
	s *State
	v View
	c counters
}

// NewRestorer begins with an empty state.
func NewRestorer(defaults map[string]string) *Restorer {
	return &Restorer{s: NewState(defaults)}
}

// Restore takes one key that Checkpoint wrote.
func (r *Restorer) Restore(key, value []byte) error {
	if len(key) == 1 && key[0] == keyCounters {
		return corrupt(json.Unmarshal(value, &r.c))
	}
	if len(key) != 17 || (key[0] != keyStream && key[0] != keyDropping) {
		return base.Errorf(base.CodeCorruption, "unknown metadata key %x", key)
	}
	st := new(Stream)
	if err := json.Unmarshal(value, st); err != nil {
		return corrupt(err)
	}
	if key[0] == keyDropping {
		r.s.Dropping = plus(r.s.Dropping, st)
		return nil
	}
	r.v.add(st, r.s.defaults)
	if st.Ready < len(st.Partitions) {
		r.s.Creating = plus(r.s.Creating, st)
	}
	return nil
}

func corrupt(err error) error {
	if err == nil {
		return nil
	}
	return base.Errorf(base.CodeCorruption, "metadata: %v", err)
}

// Done returns the state.
func (r *Restorer) Done() *State {
	r.v.ClusterID, r.v.Version, r.v.GroupSlots = r.c.ClusterID, r.c.Version, r.c.GroupSlots
	r.s.View = &r.v
	r.s.DataShards, r.s.NextProducer = r.c.DataShards, r.c.NextProducer
	r.s.NextLog = max(r.s.NextLog, r.c.NextLog)
	return r.s
}
