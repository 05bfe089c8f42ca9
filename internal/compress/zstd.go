package compress

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Levels of the zstd library, as Kafka bounds them.
const zstdLowest, zstdHighest, zstdDefault = -131072, 22, 3

// zstdWriters has a pool for each of the library's levels.
var zstdWriters [zstd.SpeedBestCompression + 1]sync.Pool

// zstdWindow bounds how far back matches may lie, and with it the memory of encoders and of consumers. Hardly any
// batch is larger.
const zstdWindow = 1 << 20

func compressZstd(dst, src []byte, level int) ([]byte, error) {
	if level == DefaultLevel {
		level = zstdDefault
	}
	if level < zstdLowest || level > zstdHighest {
		return dst, levelError(Zstd, level, zstdLowest, zstdHighest)
	}
	l := zstd.EncoderLevelFromZstd(level)
	w, ok := zstdWriters[l].Get().(*zstd.Encoder)
	if !ok {
		var err error
		// The batch has a checksum, the frame needs none.
		w, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
		if err != nil {
			return dst, err
		}
	}
	out := w.EncodeAll(src, dst)
	zstdWriters[l].Put(w)
	return out, nil
}

var zstdReaders sync.Pool

// zstdMaxWindow is what Java's zstd accepts by default (window log 27). Nothing is allocated for a window: the
// output itself serves as one.
const zstdMaxWindow = 128 << 20

// zstdMaxMemory is a second bound on the output, behind the limit that each call has.
const zstdMaxMemory = 1 << 31

func newZstdReader() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecoderMaxMemory(zstdMaxMemory), zstd.WithDecodeAllCapLimit(true))
}

func decompressZstd(dst, src []byte, limit int) ([]byte, error) {
	least, most, err := zstdSize(src)
	if err != nil {
		return dst, err
	}
	if least > uint64(max(limit, 0)) {
		return dst, ErrTooLarge
	}
	r, ok := zstdReaders.Get().(*zstd.Decoder)
	if !ok {
		if r, err = newZstdReader(); err != nil {
			return dst, err
		}
	}
	defer zstdReaders.Put(r)
	// Full blocks make the upper bound a good guess, except for crafted input. That starts with less room and is
	// decoded again if it did not suffice.
	top := min(most, uint64(max(limit, 0)))
	at, room := len(dst), max(least, min(top, max(uint64(len(src))*zstdGuess, zstdBlock)))
	for {
		room = max(room, min(top, uint64(cap(dst)-at)))
		dst = slices.Grow(dst, int(room))
		out, err := r.DecodeAll(src, dst[at:at:at+int(room)])
		switch {
		case err == nil:
			return dst[:at+len(out)], nil
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return dst[:at], err
		case room >= most:
			return dst[:at], errZstd // it breaks its own bound
		case room >= top:
			return dst[:at], ErrTooLarge
		}
		room = min(top, room*8)
	}
}

// zstdGuess is how much larger than the input the output is thought to be at first.
const zstdGuess = 16

// zstdBlock is what a block comes to at most (RFC 8878, section 3.1.1.2.4).
const zstdBlock = 128 << 10

const (
	zstdMagic     = 0xFD2FB528
	zstdSkippable = 0x184D2A50 // the lowest four bits are free
)

var errZstd = errors.New("zstd: damaged frame")

// zstdSize walks over frames and blocks without decoding them, and bounds what they decode to.
func zstdSize(b []byte) (least, most uint64, err error) {
	for len(b) > 0 {
		if len(b) < 8 {
			return 0, 0, errZstd
		}
		if magic := binary.LittleEndian.Uint32(b); magic&^15 == zstdSkippable {
			n := binary.LittleEndian.Uint32(b[4:])
			if uint64(n) > uint64(len(b)-8) {
				return 0, 0, errZstd
			}
			b = b[8+n:]
			continue
		} else if magic != zstdMagic {
			return 0, 0, zstd.ErrMagicMismatch
		}
		f, ok := zstdFrame(b)
		if !ok {
			return 0, 0, errZstd
		}
		least, most, b = least+f.least, most+f.most, b[f.size:]
	}
	return least, most, nil
}

// zstdExtent is a frame's size and bounds of what it decodes to, in bytes.
type zstdExtent struct {
	size        int
	least, most uint64
}

// zstdFrame walks over the frame that b begins with. b has at least 8 bytes (RFC 8878, section 3.1.1).
func zstdFrame(b []byte) (f zstdExtent, ok bool) {
	flags := b[4]
	single := flags&(1<<5) != 0
	i := 5
	if !single {
		i++ // window descriptor
	}
	i += [4]int{0, 1, 2, 4}[flags&3] // dictionary
	content, width := uint64(0), [4]int{0, 2, 4, 8}[flags>>6]
	if width == 0 && single {
		width = 1
	}
	if len(b) < i+width {
		return f, false
	}
	for k := width - 1; k >= 0; k-- {
		content = content<<8 | uint64(b[i+k])
	}
	if width == 2 {
		content += 256
	}
	i += width
	for last := false; !last; {
		if len(b)-i < 3 {
			return f, false
		}
		head := int(b[i]) | int(b[i+1])<<8 | int(b[i+2])<<16
		size := head >> 3
		if size > zstdBlock {
			return f, false
		}
		i += 3
		last = head&1 != 0
		switch head >> 1 & 3 {
		case 0: // stored
			f.least += uint64(size)
			f.most += uint64(size)
		case 1: // one byte, repeated
			f.least += uint64(size)
			f.most += uint64(size)
			size = 1
		case 2:
			f.most += zstdBlock
		default:
			return f, false
		}
		if size > len(b)-i {
			return f, false
		}
		i += size
	}
	if flags&(1<<2) != 0 {
		i += 4 // checksum
	}
	if width > 0 {
		if content < f.least || content > f.most {
			return f, false
		}
		f.least, f.most = content, content
	}
	f.size = i
	return f, i <= len(b)
}
