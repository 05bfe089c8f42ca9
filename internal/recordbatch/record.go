package recordbatch

import (
	"fmt"
	"iter"
)

// Record is one record of a batch. Its slices alias the batch, or the reader's scratch if the batch is compressed.
type Record struct {
	Attributes  int8  // no bit has a meaning yet; kept as they are
	Timestamp   int64 // Unix ms, -1: none
	Offset      int64
	OffsetDelta int32
	Key         []byte // nil: null
	Value       []byte // nil: null, a tombstone where logs are compacted
	Headers     int32  // number of headers
	RawHeaders  []byte // encoded, see All
}

// All yields the headers' names and values, in order. A null value is nil; names may repeat. The slices alias
// the record's. RawHeaders must come from a Reader or from AppendHeader.
func (r *Record) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := 0; i < len(r.RawHeaders); {
			var name, value []byte
			name, i = field(r.RawHeaders, i)
			value, i = field(r.RawHeaders, i)
			if i > len(r.RawHeaders) || !yield(name, value) {
				return
			}
		}
	}
}

// parse reads one record, which takes all of b: what stands behind its length. Timestamp is the delta, Offset is not set.
func (r *Record) parse(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	r.Attributes = int8(b[0])
	var delta, headers int
	i := 1
	r.Timestamp, i = varlong(b, i)
	delta, i = varint(b, i)
	r.OffsetDelta = int32(delta)
	r.Key, i = field(b, i)
	r.Value, i = field(b, i)
	headers, i = varint(b, i)
	if i > len(b) {
		return false
	}
	r.Headers, r.RawHeaders = int32(headers), b[i:]
	if headers == 0 {
		return i == len(b)
	}
	return headers > 0 && headersFit(b[i:], headers)
}

// field reads a length and so many bytes: nil if it is -1.
func field(b []byte, i int) ([]byte, int) {
	n, i := varint(b, i)
	if n < 0 {
		if n < -1 {
			i = len(b) + 1
		}
		return nil, i
	}
	if n > len(b)-i {
		return nil, len(b) + 1
	}
	return b[i : i+n : i+n], i + n
}

// headersFit reports whether b holds n headers and nothing else. Names are not null.
func headersFit(b []byte, n int) bool {
	if n > len(b)/2 {
		return false
	}
	i := 0
	for range n {
		var name []byte
		if name, i = field(b, i); name == nil {
			return false
		}
		_, i = field(b, i)
	}
	return i == len(b)
}

// fault names the field of a record that does not parse, with its numbers. b is what stands behind the record's length.
func fault(b []byte) string {
	if len(b) == 0 {
		return "it is empty"
	}
	i := 1
	if _, i = varlong(b, i); i > len(b) {
		return "its timestamp delta is not a number of 64 bits"
	}
	if _, i = varint(b, i); i > len(b) {
		return "its offset delta is not a number of 32 bits"
	}
	var msg string
	for _, name := range []string{"key", "value"} {
		if msg, i = fieldFault(b, i, name, -1); msg != "" {
			return msg
		}
	}
	n, i := varint(b, i)
	if i > len(b) {
		return "its header count is not a number of 32 bits"
	}
	if n < 0 || n > (len(b)-i)/2 {
		return fmt.Sprintf("its header count %d does not fit into the %d bytes left", n, len(b)-i)
	}
	for h := range n {
		if msg, i = fieldFault(b, i, fmt.Sprintf("header %d's name", h), 0); msg != "" {
			return msg
		}
		if msg, i = fieldFault(b, i, fmt.Sprintf("header %d's value", h), -1); msg != "" {
			return msg
		}
	}
	return fmt.Sprintf("%d bytes follow its last field", len(b)-i)
}

// fieldFault says what is wrong with a length and its bytes, "" if nothing is.
func fieldFault(b []byte, i int, name string, lowest int) (msg string, next int) {
	n, i := varint(b, i)
	switch {
	case i > len(b):
		return fmt.Sprintf("the length of its %s is not a number of 32 bits", name), i
	case n < lowest:
		return fmt.Sprintf("the length %d of its %s is below %d", n, name, lowest), i
	case n > len(b)-i:
		return fmt.Sprintf("the length %d of its %s exceeds the %d bytes left", n, name, len(b)-i), i
	}
	return "", i + max(n, 0)
}
