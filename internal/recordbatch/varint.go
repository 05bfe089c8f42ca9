package recordbatch

import "math/bits"

// The decoders here take a slice and an index, and return the index behind what they read. At damage they return one
// beyond the slice, which they hand on when they are given it: a sequence of reads needs one check at its end.

// varlong reads a zigzag varint of up to 64 bits.
func varlong(b []byte, i int) (int64, int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		u := uint64(b[i])
		return int64(u>>1) ^ -int64(u&1), i + 1
	}
	if i >= 0 && i+1 < len(b) && b[i+1] < 0x80 {
		u := uint64(b[i]&0x7f) | uint64(b[i+1])<<7
		return int64(u>>1) ^ -int64(u&1), i + 2
	}
	var u uint64
	for shift := uint(0); uint(i) < uint(len(b)); shift += 7 {
		c := b[i]
		i++
		if c < 0x80 {
			if shift == 63 && c > 1 {
				break
			}
			u |= uint64(c) << shift
			return int64(u>>1) ^ -int64(u&1), i
		}
		if shift == 63 {
			break
		}
		u |= uint64(c&0x7f) << shift
	}
	return 0, len(b) + 1
}

// varint reads a zigzag varint of up to 32 bits.
func varint(b []byte, i int) (int, int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		u := uint(b[i])
		return int(u>>1) ^ -int(u&1), i + 1
	}
	if i >= 0 && i+1 < len(b) && b[i+1] < 0x80 {
		u := uint(b[i]&0x7f) | uint(b[i+1])<<7
		return int(u>>1) ^ -int(u&1), i + 2
	}
	var u uint32
	for shift := uint(0); uint(i) < uint(len(b)); shift += 7 {
		c := b[i]
		i++
		if c < 0x80 {
			if shift == 28 && c > 0x0f {
				break
			}
			u |= uint32(c) << shift
			return int(int32(u>>1) ^ -int32(u&1)), i
		}
		if shift == 28 {
			break
		}
		u |= uint32(c&0x7f) << shift
	}
	return 0, len(b) + 1
}

// varintLen is how many bytes a zigzag varint takes.
func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
