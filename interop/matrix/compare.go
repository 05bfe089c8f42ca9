package main

import (
	"bytes"
	"fmt"
	"slices"

	"godwit/interop/canon"
)

// written is one topic that a writer filled: what every reader has to see in it, by partition, in the order of offsets.
type written struct {
	topic   string
	client  string
	codec   string
	records [][]canon.Record
	when    window
}

// byPartition sorts batches, as sent, into partitions and numbers the offsets from 0.
func byPartition(set [][]canon.Record) [][]canon.Record {
	out := make([][]canon.Record, canon.Partitions)
	for _, b := range set {
		for _, r := range b {
			r.Offset = int64(len(out[r.Partition]))
			out[r.Partition] = append(out[r.Partition], r)
		}
	}
	return out
}

// compare says how what reader read differs from what was written. Order within a partition counts.
func (w *written) compare(reader string, got []canon.Record) error {
	seen := make([][]canon.Record, canon.Partitions)
	for _, r := range got {
		if r.Partition < 0 || r.Partition >= canon.Partitions {
			return fmt.Errorf("record of partition %d", r.Partition)
		}
		seen[r.Partition] = append(seen[r.Partition], r)
	}
	for p, rs := range w.records {
		want := adapted(rs, reader, reading)
		if len(seen[p]) != len(want) {
			return fmt.Errorf("partition %d: %d records read, %d written", p, len(seen[p]), len(want))
		}
		for i := range want {
			if err := same(want[i], seen[p][i], w.when); err != nil {
				return fmt.Errorf("partition %d, record %d (key %s): %w", p, i, short(want[i].Key), err)
			}
		}
	}
	return nil
}

func same(want, got canon.Record, when window) error {
	switch {
	case got.Offset != want.Offset:
		return fmt.Errorf("offset %d, want %d", got.Offset, want.Offset)
	case want.Timestamp == clockTime && !when.holds(got.Timestamp):
		return fmt.Errorf("timestamp %d is not between %d and %d", got.Timestamp, when.from.UnixMilli(), when.to.UnixMilli())
	case want.Timestamp != clockTime && got.Timestamp != want.Timestamp:
		return fmt.Errorf("timestamp %d, want %d", got.Timestamp, want.Timestamp)
	case !identical(got.Key, want.Key):
		return fmt.Errorf("key %s, want %s", short(got.Key), short(want.Key))
	case !identical(got.Value, want.Value):
		return fmt.Errorf("value %s, want %s", short(got.Value), short(want.Value))
	case !slices.EqualFunc(got.Headers, want.Headers, sameHeader):
		return fmt.Errorf("headers %s, want %s", shortHeaders(got.Headers), shortHeaders(want.Headers))
	}
	return nil
}

func sameHeader(a, b canon.Header) bool { return a.Name == b.Name && identical(a.Value, b.Value) }

// identical is equality that tells null from empty.
func identical(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func short(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 40:
		return fmt.Sprintf("%q… (%d bytes)", b[:32], len(b))
	}
	return fmt.Sprintf("%q", b)
}

func shortHeaders(hs []canon.Header) string {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, h := range hs {
		if i == 8 {
			fmt.Fprintf(&b, " … (%d)", len(hs))
			break
		}
		fmt.Fprintf(&b, " %q=%s", h.Name, short(h.Value))
	}
	b.WriteString(" ]")
	return b.String()
}
