package broker

import (
	"encoding/binary"
	"slices"
)

// parseAssignment reads the partitions of Kafka's ConsumerProtocolAssignment: a version, which only appends fields, then an
// array of topics, each with its name and an array of partitions. It returns them in order; nil if it cannot be read.
func parseAssignment(b []byte) (out []TopicPartition) {
	r := assignmentReader{b}
	version, ok := r.int16()
	if !ok || version < 0 {
		return nil
	}
	topics, ok := r.count(6)
	for i := 0; ok && i < topics; i++ {
		var name string
		var partitions int
		if name, ok = r.text(); !ok {
			break
		}
		partitions, ok = r.count(4)
		for k := 0; ok && k < partitions; k++ {
			var p int32
			p, ok = r.int32()
			out = append(out, TopicPartition{name, p})
		}
	}
	if !ok {
		return nil
	}
	slices.SortFunc(out, comparePartitions)
	return out
}

// assignmentReader reads big-endian fields; false: there are not as many bytes.
type assignmentReader struct{ b []byte }

func (r *assignmentReader) int16() (int16, bool) {
	if len(r.b) < 2 {
		return 0, false
	}
	v := int16(binary.BigEndian.Uint16(r.b))
	r.b = r.b[2:]
	return v, true
}

func (r *assignmentReader) int32() (int32, bool) {
	if len(r.b) < 4 {
		return 0, false
	}
	v := int32(binary.BigEndian.Uint32(r.b))
	r.b = r.b[4:]
	return v, true
}

// count reads the length of an array whose items have at least so many bytes.
func (r *assignmentReader) count(least int) (int, bool) {
	n, ok := r.int32()
	if !ok || n < 0 || int(n) > len(r.b)/least {
		return 0, false
	}
	return int(n), true
}

func (r *assignmentReader) text() (string, bool) {
	n, ok := r.int16()
	if !ok || n < 0 || int(n) > len(r.b) {
		return "", false
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s, true
}
