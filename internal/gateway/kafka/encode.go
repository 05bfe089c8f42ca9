package kafka

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"
)

// encoder writes the primitives of the protocol behind dst: in their compact forms, with room for tagged
// fields, if the version is flexible (KIP-482).
type encoder struct {
	dst     []byte
	compact bool
}

func (e *encoder) int16(v int16) { e.dst = binary.BigEndian.AppendUint16(e.dst, uint16(v)) }
func (e *encoder) int32(v int32) { e.dst = binary.BigEndian.AppendUint32(e.dst, uint32(v)) }
func (e *encoder) int64(v int64) { e.dst = binary.BigEndian.AppendUint64(e.dst, uint64(v)) }

// count begins an array, or bytes, of n.
func (e *encoder) count(n int) {
	if e.compact {
		e.dst = kbin.AppendUvarint(e.dst, uint32(n)+1)
	} else {
		e.int32(int32(n))
	}
}

// null is an array or bytes that is not there.
func (e *encoder) null() {
	if e.compact {
		e.dst = append(e.dst, 0)
	} else {
		e.int32(-1)
	}
}

func (e *encoder) string(s string) {
	if e.compact {
		e.dst = kbin.AppendCompactString(e.dst, s)
	} else {
		e.dst = kbin.AppendString(e.dst, s)
	}
}

func (e *encoder) nullable(s *string) {
	if e.compact {
		e.dst = kbin.AppendCompactNullableString(e.dst, s)
	} else {
		e.dst = kbin.AppendNullableString(e.dst, s)
	}
}

// noTags ends a structure without tagged fields.
func (e *encoder) noTags() {
	if e.compact {
		e.dst = append(e.dst, 0)
	}
}
