package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/s2"
)

// Two framings of snappy are on the wire: one raw block, as librdkafka writes it, and that of Java's
// SnappyOutputStream, which is a head and then raw blocks, each with its length (u32, big-endian) before it.
const (
	xerialMagic = "\x82SNAPPY\x00"
	xerialHead  = len(xerialMagic) + 8 // magic, version u32, lowest compatible version u32
	xerialBlock = 32 << 10             // bytes that Java's writer puts into one block
)

var errSnappy = errors.New("snappy: damaged block")

// compressSnappy writes the framing of Java's client, which every reader of Kafka's knows.
func compressSnappy(dst, src []byte) []byte {
	blocks := (len(src) + xerialBlock - 1) / xerialBlock
	dst = slices.Grow(dst, xerialHead+blocks*4+s2.MaxEncodedLen(min(len(src), xerialBlock)))
	dst = append(dst, xerialMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		at := len(dst)
		dst = slices.Grow(dst, 4+s2.MaxEncodedLen(n))
		block := s2.EncodeSnappy(dst[at+4:cap(dst)], src[:n])
		dst = dst[:at+4+len(block)]
		binary.BigEndian.PutUint32(dst[at:], uint32(len(block)))
		src = src[n:]
	}
	return dst
}

func decompressSnappy(dst, src []byte, limit int) ([]byte, error) {
	start := len(dst)
	if !isXerial(src) {
		return snappyBlock(dst, src, start, limit)
	}
	for len(src) > 0 {
		if isXerial(src) { // Java concatenates streams
			if v := int32(binary.BigEndian.Uint32(src[len(xerialMagic):])); v < 1 {
				return dst[:start], fmt.Errorf("snappy: framing of version %d is not supported, the lowest is 1", v)
			}
			src = src[xerialHead:]
			continue
		}
		if len(src) < 4 {
			return dst[:start], io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return dst[:start], fmt.Errorf("snappy: a block of %d bytes is cut at %d", n, len(src))
		}
		var err error
		if dst, err = snappyBlock(dst, src[:n], start, limit); err != nil {
			return dst, err
		}
		src = src[n:]
	}
	return dst, nil
}

// isXerial tells Java's framing from a raw block.
func isXerial(b []byte) bool {
	return len(b) >= xerialHead && string(b[:len(xerialMagic)]) == xerialMagic
}

// snappyBlock decodes one raw block. dst began at start and may come to limit bytes.
func snappyBlock(dst, src []byte, start, limit int) ([]byte, error) {
	n, head := binary.Uvarint(src)
	switch {
	case head <= 0 || n > math.MaxUint32:
		return dst[:start], errSnappy
	case int(n) > limit-(len(dst)-start):
		return dst[:start], ErrTooLarge
	}
	if int(n) > cap(dst)-len(dst) || mayRepeat(src[head:]) {
		if size, ok := snappySize(src[head:]); !ok || size != int64(n) {
			return dst[:start], errSnappy
		}
	}
	dst = grow(dst, start, int(n), limit)
	at := len(dst)
	if _, err := s2.Decode(dst[at:at+int(n)], src); err != nil {
		return dst[:start], errSnappy
	}
	return dst[:at+int(n)], nil
}

// mayRepeat reports whether b may have a copy with the offset 0, which s2 reads in a way of its own and Java takes for
// damage: the two bytes of one stand somewhere, in it or in a literal.
func mayRepeat(b []byte) bool {
	for i := 1; i < len(b); i++ {
		k := bytes.IndexByte(b[i:], 0)
		if k < 0 {
			return false
		}
		if i += k; b[i-1]&0xe3 == 1 {
			return true
		}
	}
	return false
}

// snappySize adds up what the elements of a block decode to, so that a few bytes cannot claim much memory, and refuses
// copies with the offset 0.
func snappySize(b []byte) (n int64, ok bool) {
	i := 0
	for i < len(b) {
		tag := b[i]
		size := int64(tag>>2) + 1
		switch tag & 3 {
		case 0: // literal
			if size > 60 {
				extra := int(size) - 60
				if len(b)-i <= extra {
					return 0, false
				}
				size = 0
				for k := extra; k > 0; k-- {
					size = size<<8 | int64(b[i+k])
				}
				size++
				i += extra
			}
			if size > int64(len(b)-i-1) {
				return 0, false
			}
			i += 1 + int(size)
		case 1: // copy with an offset of 11 bits
			if len(b)-i < 2 || b[i+1] == 0 && tag < 0x20 {
				return 0, false
			}
			size = int64(tag>>2&7) + 4
			i += 2
		case 2: // copy with an offset of 16 bits
			i += 3
		default: // copy with an offset of 32 bits
			i += 5
		}
		n += size
	}
	return n, i == len(b)
}
