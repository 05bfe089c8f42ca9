package varint

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	var b []byte
	b = binary.AppendUvarint(b, math.MaxUint64)
	b = binary.AppendVarint(b, math.MinInt64)
	b = binary.AppendUvarint(b, 2)
	b = append(b, 1, 2)
	r := &Reader{B: b}
	if u, i, n := r.Uint(), r.Int(), r.Count(1); u != math.MaxUint64 || i != math.MinInt64 || n != 2 || r.Bad || r.Whole() {
		t.Fatalf("read %d, %d, %d; bad %v", u, i, n, r.Bad)
	}
	if r.Uint() != 1 || r.Uint() != 2 || !r.Whole() {
		t.Fatalf("left %v, bad %v", r.B, r.Bad)
	}
	if r.Uint() != 0 || !r.Bad || r.Whole() {
		t.Fatal("reading behind the end is not bad")
	}
}

func TestCountIsBounded(t *testing.T) {
	for size, want := range map[int]int{1: 6, 2: 3, 4: 0} {
		r := &Reader{B: append([]byte{byte(6 / size)}, make([]byte, 6)...)}
		if size == 4 {
			r.B[0] = 2 // 8 bytes of 6
		}
		if n := r.Count(size); n != want || r.Bad != (want == 0) {
			t.Errorf("elements of %d bytes: %d, bad %v; want %d", size, n, r.Bad, want)
		}
	}
}
