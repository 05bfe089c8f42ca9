// Package compress has the codecs of record batches (KIP-98, KIP-110): gzip, snappy, LZ4 and zstd.
//
// It keeps pools of encoders and decoders, and bounds what a decoder may put out before it allocates it. It
// reads what Kafka's Java client reads and refuses what that client would choke on, even where the libraries
// underneath take it: whatever is accepted here is going to be read by every consumer there is.
package compress

import (
	"errors"
	"fmt"
	"slices"
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

// DefaultLevel asks for the codec's own default level: gzip 6, LZ4 9 (which is its fast mode), zstd 3.
const DefaultLevel = -1 << 31

// ErrTooLarge says that the limit of Decompress does not suffice. Every other error of Decompress means that
// the input is damaged, or made in a way that Kafka's clients do not read.
var ErrTooLarge = errors.New("the decompressed size is above the limit")

// Compress appends src, compressed, to dst. level is on the scale of Kafka's compression.gzip.level (-1 to 9),
// compression.lz4.level (1 to 17) or compression.zstd.level (-131072 to 22, KIP-390), or DefaultLevel; the
// other codecs have none. With an error dst comes back as it was.
func Compress(dst, src []byte, c Codec, level int) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return compressGzip(dst, src, level)
	case Snappy:
		return compressSnappy(dst, src), nil
	case Lz4:
		return compressLz4(dst, src, level)
	case Zstd:
		return compressZstd(dst, src, level)
	}
	return dst, unknown(c)
}

// Decompress appends src, decompressed, to dst: at most limit bytes, else ErrTooLarge. Where the input tells
// its size, that is held against the limit before memory is allocated for it; elsewhere memory grows with what
// was decoded. With an error dst comes back with its length as it was.
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
	return dst, unknown(c)
}

// grow makes room for n bytes behind dst, which began at start and may come to limit bytes. It doubles what is
// there, but not beyond the limit: output that comes block by block is copied once on average.
func grow(dst []byte, start, n, limit int) []byte {
	if n <= cap(dst)-len(dst) {
		return dst
	}
	have := len(dst) - start
	return slices.Grow(dst, max(n, min(have, limit-have)))
}

func unknown(c Codec) error {
	return fmt.Errorf("codec %d is not known; codecs are 0 (none) to %d (zstd)", uint8(c), len(names)-1)
}

func levelError(c Codec, level, lowest, highest int) error {
	return fmt.Errorf("%s has no level %d; levels are %d to %d", c, level, lowest, highest)
}
