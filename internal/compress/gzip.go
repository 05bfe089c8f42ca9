package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipWriter is an encoder with the slice it writes to.
type gzipWriter struct {
	z   *gzip.Writer
	out []byte
}

func (w *gzipWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

// gzipWriters has a pool for each level from -1 to 9.
var gzipWriters [gzip.BestCompression + 2]sync.Pool

func compressGzip(dst, src []byte, level int) ([]byte, error) {
	if level == DefaultLevel {
		level = gzip.DefaultCompression
	}
	if level < gzip.DefaultCompression || level > gzip.BestCompression {
		return dst, levelError(Gzip, level, gzip.DefaultCompression, gzip.BestCompression)
	}
	pool := &gzipWriters[level+1]
	w, ok := pool.Get().(*gzipWriter)
	if !ok {
		w = new(gzipWriter)
		z, err := gzip.NewWriterLevel(w, level)
		if err != nil {
			return dst, err
		}
		w.z = z
	}
	w.out = dst
	w.z.Reset(w)
	_, err := w.z.Write(src)
	if err == nil {
		err = w.z.Close()
	}
	out := w.out
	w.out = nil
	pool.Put(w)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// gzipReader is a decoder with the slice it reads from.
type gzipReader struct {
	z  gzip.Reader
	in bytes.Reader
}

var gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}

// gzipSmallest is the size of an empty gzip member: header 10, one empty block 2, trailer 8.
const gzipSmallest = 20

// deflateRatio is how far deflate can shrink at best.
const deflateRatio = 1032

func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	if len(src) < gzipSmallest {
		return dst, io.ErrUnexpectedEOF
	}
	r := gzipReaders.Get().(*gzipReader)
	r.in.Reset(src)
	err := r.z.Reset(&r.in)
	if err == nil {
		// The last member ends with its size modulo 2^32 (RFC 1952). It has at least that many bytes, or is damaged.
		last := int(binary.LittleEndian.Uint32(src[len(src)-4:]))
		if last > limit {
			err = ErrTooLarge
		} else {
			dst, err = readAll(slices.Grow(dst, min(last, len(src)*deflateRatio)+1), &r.z, limit)
		}
	}
	r.in.Reset(nil)
	gzipReaders.Put(r)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return dst, err
}

// readAll appends what r yields to dst, limit bytes at most. It never makes room for more than twice what has
// come so far.
func readAll(dst []byte, r io.Reader, limit int) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(max(len(dst)-start, 4<<10), limit-(len(dst)-start)+1))
		}
		room := dst[len(dst):cap(dst)]
		// One byte more than allowed, to tell a stream that ends at the limit from one that does not.
		room = room[:min(len(room), limit-(len(dst)-start)+1)]
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
