// Package varint writes and reads the fields of journal commands and snapshots: varints, bytes, and texts behind
// their length as an unsigned varint.
package varint

import "encoding/binary"

// AppendText writes a text behind its length.
func AppendText[S string | []byte](dst []byte, s S) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendTexts writes a list of texts behind their number.
func AppendTexts(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = AppendText(dst, s)
	}
	return dst
}

// AppendBool writes a byte that is 0 or 1.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// Reader takes fields off a slice. After damage it yields zeros and stays bad, so a decoder checks once, at its end.
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

// Int32 reads a signed varint that is an int32; another is damage.
func (r *Reader) Int32() int32 {
	v := r.Int()
	if v != int64(int32(v)) {
		r.Fail()
	}
	return int32(v)
}

// Take reads n bytes, which stay part of the input; nil if there are not as many.
func (r *Reader) Take(n int) []byte {
	if n > len(r.B) {
		r.Fail()
		return nil
	}
	out := r.B[:n]
	r.B = r.B[n:]
	return out
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Bool reads what AppendBool wrote; another byte is damage.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.Fail()
	}
	return b == 1
}

// Text reads what AppendText wrote.
func (r *Reader) Text() string { return string(r.Take(r.Count(1))) }

// Texts reads what AppendTexts wrote.
func (r *Reader) Texts() (out []string) {
	for range r.Count(1) {
		out = append(out, r.Text())
	}
	return out
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
