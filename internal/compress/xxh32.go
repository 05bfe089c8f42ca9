package compress

import (
	"encoding/binary"
	"math/bits"
)

// The primes of XXH32.
const (
	prime1 uint32 = 2654435761
	prime2 uint32 = 2246822519
	prime3 uint32 = 3266489917
	prime4 uint32 = 668265263
	prime5 uint32 = 374761393
)

// xxh32 is the checksum of LZ4 frames: XXH32 with seed 0.
func xxh32(b []byte) uint32 {
	n := uint32(len(b))
	h := prime5
	if len(b) >= 16 {
		v1, v2, v3, v4 := prime1, prime2, uint32(0), uint32(0)
		v1 += prime2
		v4 -= prime1
		for ; len(b) >= 16; b = b[16:] {
			v1 = round32(v1, binary.LittleEndian.Uint32(b))
			v2 = round32(v2, binary.LittleEndian.Uint32(b[4:]))
			v3 = round32(v3, binary.LittleEndian.Uint32(b[8:]))
			v4 = round32(v4, binary.LittleEndian.Uint32(b[12:]))
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*prime3, 17) * prime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*prime5, 11) * prime1
	}
	h = (h ^ h>>15) * prime2
	h = (h ^ h>>13) * prime3
	return h ^ h>>16
}

func round32(v, word uint32) uint32 { return bits.RotateLeft32(v+word*prime2, 13) * prime1 }
