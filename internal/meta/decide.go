package meta

import (
	"maps"
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/topicconf"
)

// Limits are what the broker sets for new streams.
type Limits struct {
	DefaultPartitions int
	DefaultReplicas   int16
	MaxReplicas       int16 // nodes that can hold a replica
	MaxLogs           int   // partitions of all streams
}

// DecideCreate validates a request against the state and makes the command. id is a fresh random ID.
func (s *State) DecideCreate(r *CreateStream, id base.StreamID, now int64, lim Limits) (*Command, error) {
	if err := ValidName(r.Name); err != nil {
		return nil, err
	}
	if _, ok := s.View.Stream(r.Namespace, r.Name); ok {
		return nil, base.Errorf(base.CodeStreamExists, "Topic '%s' already exists.", r.Name)
	}
	if other := s.collision(r.Namespace, r.Name); other != "" {
		return nil, base.Errorf(base.CodeInvalidName, "Topic '%s' collides with existing topic: %s", r.Name, other)
	}
	n, replicas := r.Partitions, r.Replicas
	if n == -1 {
		n = lim.DefaultPartitions
	}
	if replicas == -1 {
		replicas = lim.DefaultReplicas
	}
	if err := s.checkPartitions(n, n, lim); err != nil {
		return nil, err
	}
	if replicas <= 0 || replicas > lim.MaxReplicas {
		return nil, base.Errorf(base.CodeInvalidReplication, "Unable to replicate the partition %d time(s): the cluster has %d broker(s).", replicas, lim.MaxReplicas)
	}
	if err := topicconf.ValidateOver(r.Overrides, s.defaults); err != nil {
		return nil, err
	}
	st := &Stream{Namespace: r.Namespace, Name: r.Name, ID: id, Replicas: replicas, Created: now,
		Overrides: r.Overrides, Partitions: s.allot(n)}
	return &Command{Create: st}, nil
}

func (s *State) checkPartitions(total, more int, lim Limits) error {
	if total < 1 || total > MaxPartitions {
		return base.Errorf(base.CodeInvalidPartitions, "Number of partitions is %d, must be 1 to %d.", total, MaxPartitions)
	}
	if have := int(s.NextLog) - 1; lim.MaxLogs > 0 && have+more > lim.MaxLogs && s.liveLogs()+more > lim.MaxLogs {
		return base.Errorf(base.CodePolicyViolation, "The broker's limit of %d partitions would be exceeded.", lim.MaxLogs)
	}
	return nil
}

func (s *State) liveLogs() (n int) {
	s.View.All(func(st *Stream) bool { n += len(st.Partitions); return true })
	return n
}

// allot spreads new partitions over the data shards in turn.
func (s *State) allot(n int) []Partition {
	ps := make([]Partition, n)
	for i := range ps {
		log := s.NextLog + base.LogID(i)
		ps[i] = Partition{Log: log, Shard: 1 + base.ShardID((uint64(log)-1)%uint64(s.DataShards))}
	}
	return ps
}

// DecideDelete makes the command that deletes a stream.
func (s *State) DecideDelete(id base.StreamID) (*Command, error) {
	if _, ok := s.View.StreamByID(id); !ok {
		return nil, unknown(id)
	}
	return &Command{Delete: &id}, nil
}

func unknown(id base.StreamID) error {
	return base.Errorf(base.CodeUnknownStream, "There is no topic with ID %v.", id)
}

// DecideGrow makes the command that brings a stream to total partitions.
func (s *State) DecideGrow(id base.StreamID, total int, lim Limits) (*Command, error) {
	st, ok := s.View.StreamByID(id)
	if !ok {
		return nil, unknown(id)
	}
	have := len(st.Partitions)
	if total <= have {
		return nil, base.Errorf(base.CodeInvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", st.Name, have, total)
	}
	if err := s.checkPartitions(total, total-have, lim); err != nil {
		return nil, err
	}
	return &Command{Grow: &Grow{Stream: id, Partitions: s.allot(total - have)}}, nil
}

// DecideConfig makes the command that changes a stream's explicit configuration: values to set, nil to delete. With
// replace, what is not named goes.
func (s *State) DecideConfig(id base.StreamID, values map[string]*string, replace bool) (*Command, error) {
	st, ok := s.View.StreamByID(id)
	if !ok {
		return nil, unknown(id)
	}
	next := map[string]string{}
	if !replace {
		maps.Copy(next, st.Overrides)
	}
	for k, v := range values {
		if v == nil {
			if _, known := topicconf.Lookup(k); !known {
				return nil, base.Errorf(base.CodeInvalidConfig, "Unknown topic config name: %s", k)
			}
			delete(next, k)
		} else {
			next[k] = *v
		}
	}
	if err := topicconf.ValidateOver(next, s.defaults); err != nil {
		return nil, err
	}
	return &Command{Config: &SetConfig{Stream: id, Overrides: next}}, nil
}

// ValidName applies Kafka's rule for topic names.
func ValidName(name string) error {
	bad := func(why string) error {
		return base.Errorf(base.CodeInvalidName, "Topic name is invalid: %s", why)
	}
	switch {
	case name == "":
		return bad("the empty string is not allowed")
	case name == "." || name == "..":
		return bad("'" + name + "' is not allowed")
	case len(name) > MaxNameLength:
		return base.Errorf(base.CodeInvalidName, "Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, MaxNameLength)
	}
	i := strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	})
	if i >= 0 {
		return bad("'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
	}
	return nil
}

// collision finds a stream whose name differs from name only in '.' against '_': Kafka's metrics could not tell
// them apart, so it refuses the second.
func (s *State) collision(namespace, name string) string {
	var found []string
	for k := range s.View.names[nameKey{namespace, name}.bucket()] {
		if k.namespace == namespace && flat(k.name) == flat(name) {
			found = append(found, k.name)
		}
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}
