package group

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// classicSubscription is Kafka's ConsumerProtocolSubscription: what a member of the classic protocol offers.
type classicSubscription struct {
	version int16
	topics  []string // ordered
	owned   []namedPartition
	said    bool // owned is: version 1 and above
	rack    *string
}

// namedPartition is a partition by its topic's name.
type namedPartition struct {
	topic string
	index int32
}

// fields takes fields of the Kafka protocol off a slice. After damage it yields zeros and stays bad.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) take(n int) []byte {
	if n < 0 || n > len(f.b) {
		f.bad, f.b = true, nil
		return nil
	}
	out := f.b[:n]
	f.b = f.b[n:]
	return out
}

func (f *fields) int16() int16 {
	if b := f.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (f *fields) int32() int32 {
	if b := f.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (f *fields) string() string { return string(f.take(int(f.int16()))) }

// count reads the length of an array whose elements take at least size bytes each.
func (f *fields) count(size int) int {
	n := int(f.int32())
	if n < 0 || n > len(f.b)/size {
		f.bad, f.b = true, nil
		return 0
	}
	return n
}

// nullableBytes reads bytes behind their length, -1 for null.
func (f *fields) nullableBytes() []byte {
	n := f.int32()
	if n < 0 {
		return nil
	}
	return f.take(int(n))
}

func (f *fields) partitions() (out []namedPartition) {
	for range f.count(6) {
		topic := f.string()
		for range f.count(4) {
			out = append(out, namedPartition{topic, f.int32()})
		}
	}
	return out
}

// version reads the version that a structure of the consumer protocol begins with. Later ones only append fields; one below
// 0 is damage.
func (f *fields) version() int16 {
	v := f.int16()
	if v < 0 {
		f.bad, f.b = true, nil
	}
	return v
}

// subscription reads what all versions of Kafka's ConsumerProtocolSubscription begin with.
func (f *fields) subscription() (version int16, topics []string) {
	version = f.version()
	for range f.count(2) {
		topics = append(topics, f.string())
	}
	return version, topics
}

// assignment reads what all versions of Kafka's ConsumerProtocolAssignment begin with.
func (f *fields) assignment() []namedPartition {
	f.version()
	return f.partitions()
}

// parseSubscription reads what a member offers for a protocol.
func parseSubscription(b []byte) (s classicSubscription, ok bool) {
	f := &fields{b: b}
	s.version, s.topics = f.subscription()
	f.nullableBytes()
	if s.version >= 1 {
		s.owned, s.said = f.partitions(), true
	}
	if s.version >= 2 {
		f.int32() // generation
	}
	if s.version >= 3 {
		if n := f.int16(); n >= 0 {
			rack := string(f.take(int(n)))
			s.rack = &rack
		}
	}
	slices.Sort(s.topics)
	s.topics = slices.Compact(s.topics)
	return s, !f.bad
}

// parseAssignment reads Kafka's ConsumerProtocolAssignment. custom reports user data, which only some
// assignor of the client's can read.
func parseAssignment(b []byte) (list []namedPartition, custom, ok bool) {
	f := &fields{b: b}
	list = f.assignment()
	custom = len(f.nullableBytes()) > 0
	return list, custom, !f.bad
}

// EachAssigned calls fn for every partition of an assignment as members of the classic protocol have it, Kafka's
// ConsumerProtocolAssignment. It reports false, and calls nothing, if that cannot be read.
func EachAssigned(assignment []byte, fn func(topic string, index int32)) bool {
	f := &fields{b: assignment}
	list := f.assignment()
	if f.bad {
		return false
	}
	for _, p := range list {
		fn(p.topic, p.index)
	}
	return true
}

// appendAssignment writes Kafka's ConsumerProtocolAssignment, whose fields are the same in all versions.
func appendAssignment(dst []byte, version int16, list []namedPartition) []byte {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b namedPartition) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.index, b.index))
	})
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	topics := 0
	for i := range list {
		if i == 0 || list[i].topic != list[i-1].topic {
			topics++
		}
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(topics))
	for len(list) > 0 {
		n := 0
		for n < len(list) && list[n].topic == list[0].topic {
			n++
		}
		dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(list[0].topic))), list[0].topic...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
		for _, p := range list[:n] {
			dst = binary.BigEndian.AppendUint32(dst, uint32(p.index))
		}
		list = list[n:]
	}
	return append(dst, 0xff, 0xff, 0xff, 0xff)
}

// named turns partitions into those by name; those of topics that are gone are left out.
func (c *Coordinator) named(list []Partition) (out []namedPartition) {
	for _, p := range list {
		if t, ok := c.topics.ByID(p.Stream); ok {
			out = append(out, namedPartition{t.Name, p.Index})
		}
	}
	return out
}

// identified is the inverse, in order.
func (c *Coordinator) identified(namespace string, list []namedPartition) (out []Partition) {
	for _, p := range list {
		if t, ok := c.topics.ByName(namespace, p.topic); ok {
			out = append(out, Partition{Stream: t.ID, Index: p.index})
		}
	}
	slices.SortFunc(out, Partition.Compare)
	return slices.Compact(out)
}
