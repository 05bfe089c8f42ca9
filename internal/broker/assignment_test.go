package broker

import (
	"slices"
	"testing"
)

func TestAssignment(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want []TopicPartition
	}{
		{"", nil},
		{"\x00\x00\x00\x00\x00\x00", nil},
		{"\x00\x03\x00\x00\x00\x02" + "\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00" + "\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x09" + "\xff\xff\xff\xff",
			[]TopicPartition{{"a", 9}, {"t", 0}, {"t", 1}}},
		{"\xff\xff\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00", nil}, // version -1
		{"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00", nil}, // one partition of two
		{"\x00\x00\xff\xff\xff\xff", nil},
		{"\x00\x00\x00\x00\x00\x01\xff\xfft", nil},
	} {
		if got := assignedOf([]byte(tc.in)); !slices.Equal(got, tc.want) {
			t.Errorf("%q: %v, want %v", tc.in, got, tc.want)
		}
	}
}

func FuzzAssignment(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		got := assignedOf(b)
		if len(got) > len(b)/4 {
			t.Errorf("%d partitions of %d bytes", len(got), len(b))
		}
		if !slices.IsSortedFunc(got, comparePartitions) {
			t.Errorf("%v is out of order", got)
		}
	})
}
