package compress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// Kafka uses a part of the LZ4 frame format 1.5.1: one frame of independent blocks, without a dictionary.
// Java's client reads no others. Blocks and their order are handled here, what is in a block by the library.
const (
	lz4Magic   = 0x184D2204
	lz4Version = 1 << 6

	lz4Independent     = 1 << 5
	lz4BlockChecksum   = 1 << 4
	lz4ContentSize     = 1 << 3
	lz4ContentChecksum = 1 << 2
	lz4Reserved        = 1<<1 | 1 // the lower bit announces a dictionary

	lz4Stored = 1 << 31 // in a block's length: the block is not compressed
)

// lz4Levels are those of Kafka: 9 is the fast mode, all others search for matches, the higher the longer.
const lz4Lowest, lz4Highest, lz4FastLevel = 1, 17, 9

// lz4Block is the size of blocks that Java's writer makes, and lz4BlockCode its code in a frame's descriptor.
const lz4Block, lz4BlockCode = 64 << 10, 4 << 4

var (
	lz4Fast = sync.Pool{New: func() any { return new(lz4.Compressor) }}
	lz4High = sync.Pool{New: func() any { return new(lz4.CompressorHC) }}
)

// compressLz4 writes a frame as Java's client does: blocks of 64 KiB, no checksums but that of the descriptor.
func compressLz4(dst, src []byte, level int) ([]byte, error) {
	if level == DefaultLevel {
		level = lz4FastLevel
	}
	if level < lz4Lowest || level > lz4Highest {
		return dst, levelError(Lz4, level, lz4Lowest, lz4Highest)
	}
	var encode func(src, dst []byte) (int, error)
	if level == lz4FastLevel {
		c := lz4Fast.Get().(*lz4.Compressor)
		defer lz4Fast.Put(c)
		encode = c.CompressBlock
	} else {
		c := lz4High.Get().(*lz4.CompressorHC)
		defer lz4High.Put(c)
		c.Level = 1 << (level - 1) // positions to try, as in lz4-java
		encode = c.CompressBlock
	}
	start := len(dst)
	dst = slices.Grow(dst, 16+lz4.CompressBlockBound(min(len(src), lz4Block)))
	dst = binary.LittleEndian.AppendUint32(dst, lz4Magic)
	dst = append(dst, lz4Version|lz4Independent, lz4BlockCode)
	dst = append(dst, byte(xxh32(dst[len(dst)-2:])>>8))
	for len(src) > 0 {
		n := min(len(src), lz4Block)
		at := len(dst) + 4
		dst = slices.Grow(dst, 4+lz4.CompressBlockBound(n))
		size, err := encode(src[:n], dst[at:cap(dst)])
		if err != nil {
			return dst[:start], err
		}
		length := uint32(size)
		if size == 0 || size >= n {
			size = copy(dst[at:at+n], src)
			length = uint32(n) | lz4Stored
		}
		dst = binary.LittleEndian.AppendUint32(dst, length)[:at+size]
		src = src[n:]
	}
	return binary.LittleEndian.AppendUint32(dst, 0), nil
}

// lz4Ratio is how far LZ4 can shrink at best: a byte of a length stands for 255.
const lz4Ratio = 255

var errLz4 = errors.New("lz4: damaged block")

// lz4Frame is the descriptor of a frame.
type lz4Frame struct {
	flags   byte
	block   int    // bytes that a block has at most
	content uint64 // bytes of the whole content, if the flags say so
}

// open reads the descriptor, and returns what is behind it.
func (f *lz4Frame) open(b []byte) ([]byte, error) {
	if len(b) < 7 {
		return nil, io.ErrUnexpectedEOF
	}
	if m := binary.LittleEndian.Uint32(b); m != lz4Magic {
		return nil, fmt.Errorf("lz4: magic %08x is not that of a frame, %08x", m, uint32(lz4Magic))
	}
	f.flags = b[4]
	code := b[5] >> 4
	switch {
	case f.flags>>6 != 1:
		return nil, fmt.Errorf("lz4: frame version %d is not supported, only 1 is", f.flags>>6)
	case f.flags&lz4Reserved != 0 || b[5]&0x8f != 0:
		return nil, fmt.Errorf("lz4: reserved bits or a dictionary in the descriptor %02x %02x", f.flags, b[5])
	case f.flags&lz4Independent == 0:
		return nil, errors.New("lz4: dependent blocks are not supported by Kafka's clients")
	case code < 4:
		return nil, fmt.Errorf("lz4: block size code %d is outside 4 to 7", code)
	}
	f.block = 1 << (8 + 2*code)
	end := 6
	if f.flags&lz4ContentSize != 0 {
		if len(b) < 15 {
			return nil, io.ErrUnexpectedEOF
		}
		f.content = binary.LittleEndian.Uint64(b[6:])
		end = 14
	}
	if sum := byte(xxh32(b[4:end]) >> 8); sum != b[end] {
		return nil, fmt.Errorf("lz4: checksum %02x of the descriptor does not hold, it should be %02x", b[end], sum)
	}
	return b[end+1:], nil
}

func decompressLz4(dst, src []byte, limit int) ([]byte, error) {
	var f lz4Frame
	src, err := f.open(src)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	if f.flags&lz4ContentSize != 0 {
		switch {
		case f.content > uint64(max(limit, 0)):
			return dst, ErrTooLarge
		case f.content > uint64(len(src))*lz4Ratio:
			return dst, fmt.Errorf("lz4: %d bytes cannot hold the %d that the frame claims", len(src), f.content)
		}
		dst = slices.Grow(dst, int(f.content))
	}
	for {
		if len(src) < 4 {
			return dst[:start], io.ErrUnexpectedEOF
		}
		word := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if word == 0 {
			break
		}
		size, trailer := int(word&^lz4Stored), 0
		if f.flags&lz4BlockChecksum != 0 {
			trailer = 4
		}
		switch {
		case size > f.block:
			return dst[:start], fmt.Errorf("lz4: a block of %d bytes is larger than the frame's %d", size, f.block)
		case size > len(src)-trailer:
			return dst[:start], fmt.Errorf("lz4: a block of %d bytes is cut at %d", size, len(src))
		case trailer > 0 && xxh32(src[:size]) != binary.LittleEndian.Uint32(src[size:]):
			return dst[:start], errors.New("lz4: the checksum of a block does not hold")
		}
		if dst, err = f.appendBlock(dst, src[:size], word&lz4Stored != 0, start, limit); err != nil {
			return dst[:start], err
		}
		src = src[size+trailer:]
	}
	if err := f.close(dst[start:], src); err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// close checks what follows the last block.
func (f *lz4Frame) close(content, rest []byte) error {
	if f.flags&lz4ContentSize != 0 && f.content != uint64(len(content)) {
		return fmt.Errorf("lz4: the frame has %d bytes and claims %d", len(content), f.content)
	}
	if f.flags&lz4ContentChecksum != 0 {
		if len(rest) < 4 {
			return io.ErrUnexpectedEOF
		}
		if xxh32(content) != binary.LittleEndian.Uint32(rest) {
			return errors.New("lz4: the checksum of the content does not hold")
		}
		rest = rest[4:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("lz4: %d bytes follow the frame", len(rest))
	}
	return nil
}

// appendBlock decodes one block. dst began at start and may come to limit bytes.
func (f *lz4Frame) appendBlock(dst, block []byte, stored bool, start, limit int) ([]byte, error) {
	at := len(dst)
	left := limit - (at - start)
	if stored {
		if len(block) > left {
			return dst, ErrTooLarge
		}
		return append(grow(dst, start, len(block), limit), block...), nil
	}
	// Most blocks are much smaller than what the descriptor allows: some writers always say 4 MiB. So try the room that
	// is there, and work out the size before making more.
	room := min(cap(dst)-at, left, f.block)
	if n, ok := lz4Decode(dst[at:at+room], block); ok {
		return dst[:at+n], nil
	}
	size, ok := lz4Size(block)
	switch {
	case ok && size == 0:
		return dst, nil
	case !ok || size <= room || size > f.block:
		return dst, errLz4
	case size > left:
		return dst, ErrTooLarge
	}
	dst = grow(dst, start, size, limit)
	n, ok := lz4Decode(dst[at:at+size], block)
	if !ok {
		return dst, errLz4
	}
	return dst[:at+n], nil
}

// lz4Decode decodes a block to dst. ok is false if the block is damaged or dst too short.
func lz4Decode(dst, block []byte) (n int, ok bool) {
	if len(dst) == 0 {
		return 0, false // the library's assembly writes to a nil slice
	}
	n, err := lz4.UncompressBlock(block, dst)
	return n, err == nil
}

// lz4Size adds up what the sequences of a block decode to.
func lz4Size(b []byte) (n int, ok bool) {
	for i := 0; i < len(b); {
		token := b[i]
		i++
		literals, match := int(token>>4), int(token&15)+4
		if literals == 15 {
			var more int
			if more, i = lz4Length(b, i); i > len(b) {
				return 0, false
			}
			literals += more
		}
		n += literals
		if i += literals; i >= len(b) {
			return n, i == len(b) // the last sequence has literals only
		}
		if i += 2; i > len(b) {
			return 0, false
		}
		if match == 15+4 {
			var more int
			if more, i = lz4Length(b, i); i > len(b) {
				return 0, false
			}
			match += more
		}
		n += match
	}
	return 0, false
}

// lz4Length reads the rest of a length, which ends with a byte below 255. next is beyond b if it does not end.
func lz4Length(b []byte, i int) (n, next int) {
	for i < len(b) {
		c := b[i]
		i++
		n += int(c)
		if c != 255 {
			return n, i
		}
	}
	return 0, len(b) + 1
}
