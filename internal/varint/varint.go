// Package varint reads the varints in which journal commands and snapshots are encoded.
package varint

import "encoding/binary"

// Reader takes varints off a slice. After damage it yields zeros and stays bad, so a decoder checks once, at its end.
type Reader struct {
	B   []byte // what is left
	Bad bool
}

// Fail marks the input as damaged.
func (r *Reader) Fail() { r.Bad, r.B = true, nil }

// Uint reads an unsigned varint.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.B)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Int reads a signed varint.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.B)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Count reads a number of elements that take at least size bytes each; more than what is left could hold is damage. It
// comes before anything is allocated.
func (r *Reader) Count(size int) int {
	v := r.Uint()
	if v > uint64(len(r.B)/size) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Whole reports whether the input was undamaged and read to its end.
func (r *Reader) Whole() bool { return !r.Bad && len(r.B) == 0 }
