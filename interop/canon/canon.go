// Package canon is the canonical form of a record in the interop tests: one JSON object a line, bytes in base64.
//
// Every client program, whatever its language, reads and prints this form, so that one checker compares them all.
// A batch (what a writer sends together) is a line with a JSON array of records; an answer of a writer is a line with the
// offsets that the broker acknowledged for that batch; an answer of a reader is one record a line.
package canon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Partitions is how many partitions each topic of the matrix has.
const Partitions = 3

// Record is one record as a client writes it or has read it. A nil Key, Value or header value is Kafka's null, which
// differs from an empty one. Timestamp is in milliseconds since 1970. Offset is -1 before it is known.
type Record struct {
	Topic     string   `json:"topic,omitempty"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
	// Error says that the reader gave up on Topic; all other fields are then meaningless.
	Error string `json:"error,omitempty"`
}

// Header is one record header. Names may repeat and their order counts.
type Header struct {
	Name  string
	Value []byte
}

// MarshalJSON writes the header as the pair [name, base64 or null].
func (h Header) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]any{h.Name, h.Value})
}

// UnmarshalJSON reads the pair [name, base64 or null].
func (h *Header) UnmarshalJSON(b []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if err := json.Unmarshal(pair[0], &h.Name); err != nil {
		return fmt.Errorf("header name: %w", err)
	}
	if err := json.Unmarshal(pair[1], &h.Value); err != nil {
		return fmt.Errorf("value of header %q: %w", h.Name, err)
	}
	return nil
}

// Line is v as one line of JSON. It panics on values that JSON cannot hold, which no canonical type is.
func Line(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("canon: %T is not JSON: %v", v, err))
	}
	return append(b, '\n')
}

// ReadLines decodes every non-blank line of r into a T and hands it to f. Lines are at most 64 MiB.
func ReadLines[T any](r io.Reader, f func(T) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<20), 64<<20)
	for n := 1; s.Scan(); n++ {
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := f(v); err != nil {
			return err
		}
	}
	return s.Err()
}
