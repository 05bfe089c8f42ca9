package compress

import (
	"bytes"
	stdgzip "compress/gzip"
	"io"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// FuzzDecompress: no panic, nothing beyond the limit, and what is accepted means the same to another decoder.
func FuzzDecompress(f *testing.F) {
	for _, c := range codecs {
		f.Add(uint8(c), mustCompress(f, text(300), c))
	}
	f.Fuzz(func(t *testing.T, codec uint8, b []byte) {
		const limit = 1 << 20
		c := Codec(codec)
		Decompress(nil, b, c, 5)
		got, err := Decompress([]byte("x"), b, c, limit)
		if len(got) > 1+limit || got[0] != 'x' || err != nil && len(got) != 1 {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if err != nil {
			return
		}
		got = got[1:]
		want, err := other(b, c)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v: %d bytes, another decoder has %d: %v", c, len(got), len(want), err)
		}
		again, err := Decompress(nil, b, c, len(got))
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%v: with its size as the limit: %v", c, err)
		}
		if len(got) > 0 {
			if _, err := Decompress(nil, b, c, len(got)-1); err != ErrTooLarge {
				t.Fatalf("%v: with a smaller limit: %v", c, err)
			}
		}
	})
}

// other decodes with streaming decoders, or in the case of snappy block by block.
func other(b []byte, c Codec) ([]byte, error) {
	switch c {
	case Gzip:
		r, err := stdgzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case Snappy:
		if !isXerial(b) {
			return s2.Decode(nil, b)
		}
		var out []byte
		for b = b[xerialHead:]; len(b) > 0; {
			if isXerial(b) {
				b = b[xerialHead:]
				continue
			}
			n := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
			block, err := s2.Decode(nil, b[4:4+n])
			if err != nil {
				return nil, err
			}
			out, b = append(out, block...), b[4+n:]
		}
		return out, nil
	case Lz4:
		return io.ReadAll(lz4.NewReader(bytes.NewReader(b)))
	case Zstd:
		r, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	return b, nil
}
