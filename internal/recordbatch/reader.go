package recordbatch

import (
	"errors"
	"fmt"
	"sync"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// Reader walks over the records of one batch after the other. The zero value is ready; Close gives its scratch
// back, after which it may be used again. It is for one goroutine.
type Reader struct {
	Info   Info
	Record Record // the current record, until the next call of Next, Reset or Close

	records []byte  // all records, decompressed
	rest    []byte  // what of them was not read yet
	n       int32   // records read
	scratch *[]byte // from scratches; nil until a batch is compressed
	err     error
}

// scratches holds buffers for decompressed records.
var scratches = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

// maxScratch is the largest buffer that goes back to the pool.
const maxScratch = 4 << 20

// Reset begins with the batch that b begins with. It neither checks the checksum, nor looks at what is behind the
// batch. Compressed records may take limit bytes at most, else the error has CodeMessageTooLarge; a batch
// that is not whole has CodeCorruptMessage, and records that cannot be decompressed have CodeInvalidRecord.
func (r *Reader) Reset(b []byte, limit int) error {
	info, err := ParseHeader(b)
	if err == nil && info.Size > len(b) {
		err = cut(base.CodeCorruptMessage, info.Size, len(b))
	}
	if err != nil {
		r.Info, r.records, r.Record = Info{}, nil, Record{}
		return r.fail(err)
	}
	return r.open(&info, b[HeaderSize:info.Size], limit)
}

// open begins with the records behind a header.
func (r *Reader) open(info *Info, records []byte, limit int) error {
	r.Info, r.records, r.err = *info, records, nil
	switch c := info.Codec(); {
	case !c.Known():
		return r.fail(unknownCodec(c))
	case c != compress.None && len(records) > 0: // an empty batch may have a codec and nothing compressed
		if err := r.decompress(c, limit); err != nil {
			return err
		}
	}
	r.rewind()
	return nil
}

// rewind begins with the same records anew.
func (r *Reader) rewind() { r.rest, r.n, r.Record = r.records, 0, Record{} }

func (r *Reader) decompress(c compress.Codec, limit int) error {
	if r.scratch == nil {
		r.scratch = scratches.Get().(*[]byte)
	}
	out, err := compress.Decompress((*r.scratch)[:0], r.records, c, limit)
	switch {
	case errors.Is(err, compress.ErrTooLarge):
		return r.fail(base.Errorf(base.CodeMessageTooLarge, "the records of the batch (%v, %d bytes) take more than %d bytes when decompressed", c, len(r.records), limit))
	case err != nil:
		return r.fail(base.Errorf(base.CodeInvalidRecord, "the records of the batch cannot be decompressed (%v): %v", c, err))
	}
	*r.scratch, r.records = out, out
	return nil
}

func unknownCodec(c compress.Codec) error {
	return base.Errorf(base.CodeUnsupportedCodec, "the batch is compressed with codec %d, which is not known", uint8(c))
}

// Close gives the scratch back, and lets go of the batch. The last record must not be used any more.
func (r *Reader) Close() {
	if r.scratch != nil {
		if cap(*r.scratch) <= maxScratch {
			scratches.Put(r.scratch)
		}
		r.scratch = nil
	}
	r.records, r.rest, r.Record = nil, nil, Record{}
}

// fail ends the walk with an error, and returns it.
func (r *Reader) fail(err error) error {
	r.err, r.rest = err, nil
	return err
}

// Err is what ended the walk; nil at the regular end.
func (r *Reader) Err() error { return r.err }

// Next goes to the next record. It returns false at the end, or at damage: see Err, whose code is then
// CodeInvalidRecord. Fewer records than the header counts are damage, and so are bytes behind the last.
func (r *Reader) Next() bool {
	if r.err != nil {
		return false
	}
	if r.n >= r.Info.Records {
		if len(r.rest) > 0 {
			r.damage("%d bytes follow the last of %d records", len(r.rest), r.n)
		}
		return false
	}
	size, i := varint(r.rest, 0)
	if i > len(r.rest) || size < 0 || size > len(r.rest)-i || !r.Record.parse(r.rest[i:i+size]) {
		r.damageAt(size, i)
		return false
	}
	r.rest = r.rest[i+size:]
	rec := &r.Record
	rec.Offset = r.Info.BaseOffset + int64(rec.OffsetDelta)
	if r.Info.IsLogAppendTime() {
		rec.Timestamp = r.Info.MaxTimestamp
	} else {
		rec.Timestamp += r.Info.BaseTimestamp
	}
	r.n++
	return true
}

func (r *Reader) damage(format string, args ...any) {
	r.fail(&base.Error{Code: base.CodeInvalidRecord, Msg: fmt.Sprintf(format, args...)})
}

// damageAt says what is wrong with the record that the rest begins with, behind whose length, size, index i is.
func (r *Reader) damageAt(size, i int) {
	where := fmt.Sprintf("record %d of %d", r.n, r.Info.Records)
	switch {
	case len(r.rest) == 0:
		r.damage("the batch counts %d records and has %d", r.Info.Records, r.n)
	case i > len(r.rest):
		r.damage("%s: its length is not a number of 32 bits", where)
	case size < 0 || size > len(r.rest)-i:
		r.damage("%s: its length %d does not fit into the %d bytes left", where, size, len(r.rest)-i)
	default:
		r.damage("%s: %s", where, fault(r.rest[i:i+size]))
	}
}
