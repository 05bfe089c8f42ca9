// Package compress has the codecs of record batches (KIP-98, KIP-110): gzip, snappy, LZ4 and zstd.
//
// It keeps pools of encoders and decoders, and bounds what a decoder may put out before it allocates it.
package compress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is the compression of a record batch, as in bits 0 to 2 of its attributes.
type Codec uint8

// The codecs.
const (
	None Codec = iota
	Gzip
	Snappy
	Lz4
	Zstd
)

var names = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

func (c Codec) String() string {
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// Known reports whether the codec is one of the five.
func (c Codec) Known() bool { return int(c) < len(names) }

// Parse finds a codec by Kafka's name for it.
func Parse(name string) (Codec, bool) {
	for i, n := range names {
		if n == name {
			return Codec(i), true
		}
	}
	return None, false
}

// DefaultLevel asks for the codec's own default level.
const DefaultLevel = -1 << 31

// Errors of decompression. Damage comes as whatever the codec says.
var (
	ErrTooLarge = errors.New("decompressed size is above the limit")
	errCodec    = errors.New("unknown codec")
)

// Compress appends src, compressed, to dst. level is the codec's own scale (Kafka's compression.*.level) or DefaultLevel.
func Compress(dst, src []byte, c Codec, level int) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return compressGzip(dst, src, level)
	case Snappy:
		return appendXerial(dst, src), nil
	case Lz4:
		return compressLz4(dst, src, level)
	case Zstd:
		return compressZstd(dst, src, level)
	}
	return dst, errCodec
}

// Decompress appends src, decompressed, to dst: at most limit bytes, else ErrTooLarge.
func Decompress(dst, src []byte, c Codec, limit int) ([]byte, error) {
	switch c {
	case None:
		if len(src) > limit {
			return dst, ErrTooLarge
		}
		return append(dst, src...), nil
	case Gzip:
		return decompressGzip(dst, src, limit)
	case Snappy:
		return decompressSnappy(dst, src, limit)
	case Lz4:
		return decompressLz4(dst, src, limit)
	case Zstd:
		return decompressZstd(dst, src, limit)
	}
	return dst, errCodec
}

// appender is a writer behind a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// readAll appends what r yields to dst, up to limit bytes.
func readAll(dst []byte, r io.Reader, limit int) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			grow := min(max(len(dst)-start, 4<<10), 1<<20)
			dst = append(dst, make([]byte, grow)...)[:len(dst)]
		}
		room := dst[len(dst):cap(dst)]
		if left := limit - (len(dst) - start); len(room) > left+1 {
			room = room[:left+1]
		}
		n, err := r.Read(room)
		dst = dst[:len(dst)+n]
		switch {
		case len(dst)-start > limit:
			return dst[:start], ErrTooLarge
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst[:start], err
		}
	}
}

var gzipWriters [11]sync.Pool // by level + 1

func compressGzip(dst, src []byte, level int) ([]byte, error) {
	if level == DefaultLevel {
		level = gzip.DefaultCompression
	}
	if level < gzip.DefaultCompression || level > gzip.BestCompression {
		return dst, fmt.Errorf("gzip level %d is outside -1 to 9", level)
	}
	out := &appender{dst}
	pool := &gzipWriters[level+1]
	w, _ := pool.Get().(*gzip.Writer)
	if w == nil {
		var err error
		if w, err = gzip.NewWriterLevel(out, level); err != nil {
			return dst, err
		}
	} else {
		w.Reset(out)
	}
	defer pool.Put(w)
	if _, err := w.Write(src); err != nil {
		return dst, err
	}
	err := w.Close()
	return out.b, err
}

var gzipReaders sync.Pool

func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	r, _ := gzipReaders.Get().(*gzip.Reader)
	if r == nil {
		r = new(gzip.Reader)
	}
	defer gzipReaders.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return dst, err
	}
	return readAll(dst, r, limit)
}

var lz4Writers, lz4Readers sync.Pool

// lz4Levels maps Kafka's 1 to 17 onto the library's ten.
func lz4Level(level int) lz4.CompressionLevel {
	if level == DefaultLevel || level <= 2 {
		return lz4.Fast
	}
	return lz4.CompressionLevel(1 << (8 + min(level-2, 9) - 1))
}

func compressLz4(dst, src []byte, level int) ([]byte, error) {
	w, _ := lz4Writers.Get().(*lz4.Writer)
	if w == nil {
		w = lz4.NewWriter(nil)
	}
	defer lz4Writers.Put(w)
	out := &appender{dst}
	w.Reset(out)
	if err := w.Apply(lz4.CompressionLevelOption(lz4Level(level)), lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
		return dst, err
	}
	if _, err := w.Write(src); err != nil {
		return dst, err
	}
	err := w.Close()
	return out.b, err
}

func decompressLz4(dst, src []byte, limit int) ([]byte, error) {
	r, _ := lz4Readers.Get().(*lz4.Reader)
	if r == nil {
		r = lz4.NewReader(nil)
	}
	defer lz4Readers.Put(r)
	r.Reset(bytes.NewReader(src))
	return readAll(dst, r, limit)
}

var zstdWriters [5]sync.Pool // by the library's level

func compressZstd(dst, src []byte, level int) ([]byte, error) {
	if level == DefaultLevel {
		level = 3
	}
	l := zstd.EncoderLevelFromZstd(level)
	w, _ := zstdWriters[l].Get().(*zstd.Encoder)
	if w == nil {
		var err error
		w, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow(l)))
		if err != nil {
			return dst, err
		}
	}
	defer zstdWriters[l].Put(w)
	return w.EncodeAll(src, dst), nil
}

// zstdWindow keeps a decoder's memory small: batches are seldom above a mebibyte.
func zstdWindow(l zstd.EncoderLevel) int {
	if l == zstd.SpeedFastest {
		return 256 << 10
	}
	return 1 << 20
}

var zstdReaders sync.Pool

// zstdMaxWindow is what Java's zstd accepts at most by default (windowLog 27).
const zstdMaxWindow = 128 << 20

func decompressZstd(dst, src []byte, limit int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return dst, err
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return dst, ErrTooLarge
	}
	r, _ := zstdReaders.Get().(*zstd.Decoder)
	if r == nil {
		var err error
		r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			return dst, err
		}
	}
	defer func() {
		r.Reset(nil)
		zstdReaders.Put(r)
	}()
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return dst, err
	}
	return readAll(dst, r, limit)
}

// xerial is the framing of Java's SnappyOutputStream: this head, version and lowest compatible version, then
// blocks with their length before them, big-endian.
var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHead  = 16
	xerialBlock = 32 << 10
)

func appendXerial(dst, src []byte) []byte {
	dst = append(append(dst, xerial...), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		at := len(dst)
		dst = append(dst, make([]byte, 4+s2.MaxEncodedLen(n))...)
		size := len(s2.EncodeSnappy(dst[at+4:], src[:n]))
		dst = dst[:at+4+size]
		dst[at], dst[at+1], dst[at+2], dst[at+3] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
		src = src[n:]
	}
	return dst
}

func decompressSnappy(dst, src []byte, limit int) ([]byte, error) {
	if len(src) < xerialHead || !bytes.Equal(src[:len(xerial)], xerial) {
		return snappyBlock(dst, src, limit)
	}
	start := len(dst)
	for src = src[xerialHead:]; len(src) > 0; {
		if len(src) < 4 {
			return dst[:start], io.ErrUnexpectedEOF
		}
		n := int(src[0])<<24 | int(src[1])<<16 | int(src[2])<<8 | int(src[3])
		if n > len(src)-4 {
			return dst[:start], io.ErrUnexpectedEOF
		}
		var err error
		if dst, err = snappyBlock(dst, src[4:4+n], limit-(len(dst)-start)); err != nil {
			return dst[:start], err
		}
		src = src[4+n:]
	}
	return dst, nil
}

func snappyBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return dst, err
	}
	// A block of n bytes takes at least n/64 bytes or so: a tiny one that claims much is damage.
	if n > limit {
		return dst, ErrTooLarge
	}
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	if _, err := s2.Decode(dst[at:], src); err != nil {
		return dst[:at], err
	}
	return dst, nil
}
