package kafka

import (
	"net"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
)

// textOf is a nullable string of the protocol, null as the empty string.
func textOf(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// nullable is the inverse of textOf.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// groupKey names a group of the request's namespace.
func (rc *request) groupKey(name string) group.Key {
	return group.Key{Namespace: rc.namespace, Group: name}
}

// clientHost is the client's address as Kafka shows it in groups.
func (rc *request) clientHost() string {
	if rc.remote == nil {
		return "/"
	}
	host, _, err := net.SplitHostPort(rc.remote.String())
	if err != nil {
		host = rc.remote.String()
	}
	return "/" + host
}

// streamOf finds the topic that an entry of a request means: by its ID from version byID on, by its name
// before. A topic of another namespace does not exist.
func (rc *request) streamOf(v *meta.View, byID int16, name string, id [16]byte) (*meta.Stream, error) {
	if rc.version < byID {
		return rc.streamByName(v, name)
	}
	return rc.streamByID(v, id)
}

// streamByName finds a topic of the request's namespace by its name.
func (rc *request) streamByName(v *meta.View, name string) (*meta.Stream, error) {
	if st, ok := v.Stream(rc.namespace, name); ok {
		return st, nil
	}
	return nil, base.Errorf(base.CodeUnknownStream, "there is no topic %q", name)
}

// streamByID finds a topic of the request's namespace by its ID.
func (rc *request) streamByID(v *meta.View, id [16]byte) (*meta.Stream, error) {
	if st, ok := v.StreamByID(id); ok && st.Namespace == rc.namespace {
		return st, nil
	}
	return nil, base.Errorf(base.CodeUnknownStream, "there is no topic with ID %v", base.StreamID(id))
}

// hasPartition checks that the topic has the partition.
func hasPartition(st *meta.Stream, partition int32) error {
	if partition < 0 || int(partition) >= len(st.Partitions) {
		return base.Errorf(base.CodeUnknownPartition, "topic %q has no partition %d", st.Name, partition)
	}
	return nil
}

// eachTopic calls fn for the partitions of each stream in an ordered list.
func eachTopic(list []base.Partition, fn func(id base.StreamID, partitions []int32)) {
	for len(list) > 0 {
		id := list[0].Stream
		var partitions []int32
		for len(list) > 0 && list[0].Stream == id {
			partitions, list = append(partitions, list[0].Index), list[1:]
		}
		fn(id, partitions)
	}
}
