package varint

import (
	"encoding/binary"
	"math"
	"slices"
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

func TestFields(t *testing.T) {
	b := AppendTexts(AppendText(AppendBool(AppendBool(nil, true), false), []byte("é")), []string{"", "ab"})
	b = append(binary.AppendVarint(b, math.MinInt32), 7, 1, 2)
	r := &Reader{B: b}
	if yes, no, text, list := r.Bool(), r.Bool(), r.Text(), r.Texts(); !yes || no || text != "é" || !slices.Equal(list, []string{"", "ab"}) {
		t.Fatalf("read %v, %v, %q, %q", yes, no, text, list)
	}
	if n, one, rest := r.Int32(), r.Byte(), r.Take(2); n != math.MinInt32 || one != 7 || !slices.Equal(rest, []byte{1, 2}) || !r.Whole() {
		t.Fatalf("read %d, %d, %v; left %v, bad %v", n, one, rest, r.B, r.Bad)
	}
}

func TestDamagedFields(t *testing.T) {
	for name, read := range map[string]func(r *Reader){
		"no byte":          func(r *Reader) { r.B = nil; r.Byte() },
		"no boolean":       func(r *Reader) { r.B = []byte{2}; r.Bool() },
		"above an int32":   func(r *Reader) { r.B = binary.AppendVarint(nil, math.MaxInt32+1); r.Int32() },
		"too few bytes":    func(r *Reader) { r.Take(len(r.B) + 1) },
		"text cut off":     func(r *Reader) { r.B = []byte{3, 'a', 'b'}; r.Text() },
		"list of too many": func(r *Reader) { r.B = []byte{3, 0, 0}; r.Texts() },
		"text in a list":   func(r *Reader) { r.B = []byte{2, 0, 9}; r.Texts() },
	} {
		r := &Reader{B: []byte{0}}
		if read(r); !r.Bad || r.B != nil {
			t.Errorf("%s: left %v, bad %v", name, r.B, r.Bad)
		}
	}
}
