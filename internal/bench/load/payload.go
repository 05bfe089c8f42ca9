package load

import (
	"encoding/binary"
	"errors"
)

// HeaderSize is the size of the header at the front of every payload, in bytes; no message is smaller.
const HeaderSize = 40

// ErrForeign says that a payload is not one of this run's.
var ErrForeign = errors.New("not a message of this run")

// Header is at the front of every payload, little endian: magic (4), producer (4), run (8), key (4), phase
// (4), sequence (8), intended send time (8).
type Header struct {
	Run      uint64 // tells this measurement's messages from leftovers
	Producer uint32
	Key      uint32 // of the producer's keys
	Phase    uint32 // what the message belongs to: warm-up, measurement, or a step of a procedure
	Sequence uint64 // of producer and key, from 0, without gaps over all phases
	Intended int64  // nanoseconds of the run's clock
}

const magic = 0x77_64_77_67 // "gwdw"

// Put writes h to the front of b, which has at least HeaderSize bytes.
func (h *Header) Put(b []byte) {
	_ = b[HeaderSize-1]
	le := binary.LittleEndian
	le.PutUint32(b, magic)
	le.PutUint32(b[4:], h.Producer)
	le.PutUint64(b[8:], h.Run)
	le.PutUint32(b[16:], h.Key)
	le.PutUint32(b[20:], h.Phase)
	le.PutUint64(b[24:], h.Sequence)
	le.PutUint64(b[32:], uint64(h.Intended))
}

// ParseHeader reads the header at the front of b. Fails with ErrForeign.
func ParseHeader(b []byte) (Header, error) {
	le := binary.LittleEndian
	if len(b) < HeaderSize || le.Uint32(b) != magic {
		return Header{}, ErrForeign
	}
	return Header{
		Producer: le.Uint32(b[4:]),
		Run:      le.Uint64(b[8:]),
		Key:      le.Uint32(b[16:]),
		Phase:    le.Uint32(b[20:]),
		Sequence: le.Uint64(b[24:]),
		Intended: int64(le.Uint64(b[32:])),
	}, nil
}
