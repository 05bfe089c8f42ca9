package recordbatch

import (
	"encoding/binary"
	"fmt"
	"sync"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// Record is one record of a batch. Its slices alias the batch, or the reader's scratch if the batch is compressed.
type Record struct {
	Attributes  int8
	Timestamp   int64 // Unix ms
	Offset      int64
	OffsetDelta int32
	Key         []byte // nil: null
	Value       []byte // nil: null, a tombstone where logs are compacted
	Headers     int32  // number of headers
	RawHeaders  []byte // encoded: length-prefixed name, length-prefixed value, each
}

// Reader walks over the records of one batch after the other. The zero value is ready; Close gives its scratch back.
type Reader struct {
	Info   Info
	Record Record

	body    []byte
	n       int32
	scratch *[]byte
	err     error
}

var scratches = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

// maxScratch is the largest buffer that goes back to the pool.
const maxScratch = 4 << 20

// Reset begins with a whole batch. Compressed records may take limit bytes at most.
func (r *Reader) Reset(b []byte, limit int) error {
	info, err := ParseHeader(b)
	if err == nil && info.Size > len(b) {
		err = base.Errorf(base.CodeCorruptMessage, "batch of %d bytes is cut at %d", info.Size, len(b))
	}
	if err != nil {
		r.fail(err)
		return err
	}
	r.Info, r.Record, r.n, r.err = info, Record{}, 0, nil
	r.body = b[HeaderSize:info.Size]
	if c := info.Codec(); c != compress.None {
		return r.decompress(c, limit)
	}
	return nil
}

func (r *Reader) decompress(c compress.Codec, limit int) error {
	if !c.Known() {
		return r.fail(base.Errorf(base.CodeUnsupportedCodec, "unknown compression codec %d", c))
	}
	if r.scratch == nil {
		r.scratch = scratches.Get().(*[]byte)
	}
	out, err := compress.Decompress((*r.scratch)[:0], r.body, c, limit)
	if err != nil {
		if err == compress.ErrTooLarge {
			return r.fail(base.Errorf(base.CodeMessageTooLarge, "records take more than %d bytes when decompressed", limit))
		}
		return r.fail(base.Errorf(base.CodeCorruptMessage, "records cannot be decompressed (%v): %v", c, err))
	}
	*r.scratch, r.body = out, out
	return nil
}

// Close gives the scratch back. The last record must not be used any more.
func (r *Reader) Close() {
	if r.scratch != nil {
		if cap(*r.scratch) <= maxScratch {
			scratches.Put(r.scratch)
		}
		r.scratch = nil
	}
	r.body = nil
}

func (r *Reader) fail(err error) error {
	r.err, r.body = err, nil
	return err
}

// Err is what ended the walk; nil at the regular end.
func (r *Reader) Err() error { return r.err }

// Next goes to the next record. It returns false at the end, or at damage: see Err. Bytes behind the last
// record are damage too.
func (r *Reader) Next() bool {
	if r.err != nil {
		return false
	}
	if r.n == r.Info.Records {
		if len(r.body) > 0 {
			r.bad("%d bytes follow the last record", len(r.body))
		}
		return false
	}
	size, k := binary.Varint(r.body)
	if k <= 0 || size < 0 || size > int64(len(r.body)-k) {
		return r.bad("record %d of %d: its length does not fit into the batch", r.n, r.Info.Records)
	}
	b := r.body[k : k+int(size)]
	r.body = r.body[k+int(size):]
	if !r.parse(b) {
		return r.bad("record %d of %d is malformed", r.n, r.Info.Records)
	}
	r.n++
	return true
}

func (r *Reader) bad(format string, args ...any) bool {
	r.fail(&base.Error{Code: base.CodeInvalidRecord, Msg: fmt.Sprintf(format, args...)})
	return false
}

// parse reads one record, which takes all of b.
func (r *Reader) parse(b []byte) bool {
	if len(b) < 1 {
		return false
	}
	rec := &r.Record
	rec.Attributes = int8(b[0])
	b = b[1:]
	ts, k := binary.Varint(b)
	if k <= 0 {
		return false
	}
	b = b[k:]
	delta, k := binary.Varint(b)
	if k <= 0 || delta != int64(int32(delta)) {
		return false
	}
	b = b[k:]
	rec.OffsetDelta, rec.Offset = int32(delta), r.Info.BaseOffset+delta
	rec.Timestamp = r.Info.BaseTimestamp + ts
	if r.Info.IsLogAppendTime() {
		rec.Timestamp = r.Info.MaxTimestamp
	}
	var ok bool
	if rec.Key, b, ok = field(b); !ok {
		return false
	}
	if rec.Value, b, ok = field(b); !ok {
		return false
	}
	n, k := binary.Varint(b)
	if k <= 0 || n < 0 || n > int64(len(b)-k)/2 {
		return false
	}
	rec.Headers, rec.RawHeaders = int32(n), b[k:]
	return headersFit(b[k:], int(n))
}

// field reads a length and so many bytes; -1 is null.
func field(b []byte) (v, rest []byte, ok bool) {
	n, k := binary.Varint(b)
	if k <= 0 || n < -1 || n > int64(len(b)-k) {
		return nil, nil, false
	}
	if n < 0 {
		return nil, b[k:], true
	}
	end := k + int(n)
	return b[k:end:end], b[end:], true
}

// headersFit reports whether b holds n headers and nothing else. Names are not null.
func headersFit(b []byte, n int) bool {
	for range n {
		name, rest, ok := field(b)
		if !ok || name == nil {
			return false
		}
		if _, b, ok = field(rest); !ok {
			return false
		}
	}
	return len(b) == 0
}
