package recordbatch

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// Compression is a codec with its level.
type Compression struct {
	Codec compress.Codec
	Level int // see compress.Compress
}

// Rules are what a stream asks of the batches that clients write to it.
type Rules struct {
	MaxSize         int          // max.message.bytes: of the batch, both as it came and as it will be stored
	LogAppendTime   bool         // message.timestamp.type
	BeforeMaxMs     int64        // message.timestamp.before.max.ms, at least 0
	AfterMaxMs      int64        // message.timestamp.after.max.ms, at least 0
	Compression     *Compression // compression.type; nil keeps the producer's
	RequireKeys     bool         // the log is compacted by key
	NowMs           int64        // Unix ms
	MaxDecompressed int          // bytes that the records of one batch may take, whatever a record may
	MaxRecord       int          // max.decompressed.message.bytes: of one record in a compressed batch; 0: no limit
}

// RecordError says what is wrong with one record of a batch (KIP-467).
type RecordError struct {
	Index int // of the record in the batch
	Msg   string
}

// InvalidRecords is a refusal that names records. It unwraps to a *base.Error.
type InvalidRecords struct {
	Err     *base.Error
	Records []RecordError // in order; the first maxRecordErrors of them
}

func (e *InvalidRecords) Error() string { return e.Err.Msg }

// Unwrap gives the error for the batch as a whole.
func (e *InvalidRecords) Unwrap() error { return e.Err }

// maxRecordErrors bounds how many records a refusal names.
const maxRecordErrors = 1000

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Validate checks what a client sent for one partition, by the rules of Kafka's LogValidator for format v2: exactly
// one batch, whole and undamaged, with offsets that count from 0, timestamps within the limits and keys where they
// are needed. It is stricter in one way: what some client could not read is refused even if Kafka's broker does not
// look at it, such as offset deltas with gaps or bytes behind the batch.
//
// It puts right what is the broker's to say: max timestamp, timestamp type, delete horizon, compression. out is
// the batch to store: records itself, changed in place, or a new one; infos has its header. Base offset and leader
// epoch are left to who assigns them. Whether transactional batches are welcome is for the caller to say.
//
// An error is a *base.Error or an *InvalidRecords around one; records are then as they were. The codes:
// CodeUnsupportedFormat (magic 0 and 1), CodeCorruptMessage (checksum, magic, length of the header),
// CodeMessageTooLarge, CodeUnsupportedCodec, CodeInvalidTimestamp, and CodeInvalidRecord for all else.
func Validate(records []byte, r *Rules) (out []byte, infos []Info, err error) {
	info, err := checkFrame(records, r)
	if err == nil {
		err = checkClaims(&info)
	}
	if err != nil {
		return nil, nil, err
	}
	rd := readers.Get().(*Reader)
	top, err := checkRecords(rd, records, info, r)
	if err == nil {
		out, info, err = settle(rd, records, info, top, r)
	}
	rd.Close()
	readers.Put(rd)
	if err != nil {
		return nil, nil, err
	}
	return out, []Info{info}, nil
}

// checkFrame checks the bytes of the batch as a whole.
func checkFrame(b []byte, r *Rules) (Info, error) {
	// What is cut here was sent so: CodeCorruptMessage would have clients send the same again.
	switch {
	case len(b) == 0:
		return Info{}, base.Errorf(base.CodeInvalidRecord, "the partition comes with no record batch; it takes exactly one")
	case len(b) < HeaderSize && !isOld(b):
		return Info{}, short(base.CodeInvalidRecord, len(b))
	}
	info, err := ParseHeader(b)
	switch {
	case err != nil:
		return info, err
	case info.Size > len(b):
		return info, cut(base.CodeInvalidRecord, info.Size, len(b))
	case info.Size < len(b):
		return info, base.Errorf(base.CodeInvalidRecord, "%d bytes follow the batch of %d; a partition takes exactly one batch", len(b)-info.Size, info.Size)
	case info.Size > r.MaxSize:
		return info, tooLarge(info.Size, r.MaxSize)
	}
	if sum := checksum(b); sum != info.CRC {
		return info, base.Errorf(base.CodeCorruptMessage, "checksum %08x of the batch does not hold: its bytes have %08x", info.CRC, sum)
	}
	return info, nil
}

func tooLarge(size, limit int) error {
	return base.Errorf(base.CodeMessageTooLarge, "the batch has %d bytes; max.message.bytes is %d", size, limit)
}

// checkClaims checks what the header of a client's batch says.
func checkClaims(i *Info) error {
	invalid := func(format string, args ...any) error { return base.Errorf(base.CodeInvalidRecord, format, args...) }
	switch {
	case !i.Codec().Known():
		return unknownCodec(i.Codec())
	case i.IsControl():
		return invalid("clients cannot write control records")
	case i.BaseOffset != 0:
		return invalid("base offset of the batch is %d; clients send 0", i.BaseOffset)
	case i.Records == 0:
		return invalid("the batch has no records")
	case i.LastOffsetDelta != i.Records-1:
		return invalid("last offset delta %d of the batch does not go with its count of %d records", i.LastOffsetDelta, i.Records)
	case i.ProducerID >= 0 && i.ProducerEpoch < 0:
		return invalid("producer %d comes with epoch %d, which is negative", i.ProducerID, i.ProducerEpoch)
	case i.ProducerID >= 0 && i.BaseSequence < 0:
		return invalid("producer %d comes with base sequence %d, which is negative", i.ProducerID, i.BaseSequence)
	case i.IsTransactional() && i.ProducerID < 0:
		return invalid("a transactional batch needs a producer ID; it has %d", i.ProducerID)
	}
	return nil
}

// checkRecords checks the records, and returns their largest timestamp, -1 if none has any.
func checkRecords(rd *Reader, batch []byte, info Info, r *Rules) (top int64, err error) {
	c := criteria{keys: r.RequireKeys, stamped: r.LogAppendTime && info.IsLogAppendTime(), largest: math.MaxInt, oldest: math.MinInt64, newest: math.MaxInt64}
	if t := r.NowMs - r.BeforeMaxMs; !r.LogAppendTime && t <= r.NowMs {
		c.oldest = t
	}
	if t := r.NowMs + r.AfterMaxMs; !r.LogAppendTime && t >= r.NowMs {
		c.newest = t
	}
	if r.MaxRecord > 0 && info.Codec() != compress.None {
		c.largest = r.MaxRecord
	}
	info.Attributes &^= attrLogAppendTime // look at the records' own timestamps
	if err := rd.open(&info, batch[HeaderSize:], r.MaxDecompressed); err != nil {
		return 0, err
	}
	if top, ok := c.glance(rd); ok {
		return top, nil
	}
	return c.inspect(rd)
}

// criteria are what each record is held against.
type criteria struct {
	oldest, newest int64 // timestamps within are fine, and so is -1, which is none
	largest        int   // bytes of a record, without its length
	keys           bool
	stamped        bool // the client set the timestamp type although it is the broker's to set
}

func (c *criteria) outside(ts int64) bool { return (ts < c.oldest || ts > c.newest) && ts != -1 }

// glance is for batches of which nothing is to be said. ok is false if the records need to be looked at one by one.
func (c *criteria) glance(rd *Reader) (top int64, ok bool) {
	var s scan
	if c.stamped || !s.run(rd.records, int(rd.Info.Records)) || s.longest > c.largest || s.nullKey && c.keys {
		return 0, false
	}
	first, last, ok := s.stamps(rd.Info.BaseTimestamp)
	return max(last, -1), ok && first >= c.oldest && last <= c.newest
}

// inspect holds each record against the criteria.
func (c *criteria) inspect(rd *Reader) (top int64, err error) {
	top = -1
	bad := c.stamped
	left := len(rd.rest)
	for n := int32(0); rd.Next(); n++ {
		rec := &rd.Record
		if rec.OffsetDelta != n {
			return 0, base.Errorf(base.CodeInvalidRecord, "record %d has offset delta %d; deltas count from 0", n, rec.OffsetDelta)
		}
		if size := left - len(rd.rest); size > c.largest && body(size) > c.largest {
			return 0, base.Errorf(base.CodeInvalidRecord, "record %d has %d bytes when decompressed; max.decompressed.message.bytes is %d", n, body(size), c.largest)
		}
		left = len(rd.rest)
		bad = bad || c.keys && rec.Key == nil || c.outside(rec.Timestamp)
		top = max(top, rec.Timestamp)
	}
	switch {
	case rd.Err() != nil:
		return 0, rd.Err()
	case bad:
		return 0, c.complain(rd)
	}
	return top, nil
}

// body is the size of a record without its length, if with it it is size.
func body(size int) int {
	for k := 1; ; k++ {
		if varintLen(int64(size-k)) <= k {
			return size - k
		}
	}
}

// fault says what is wrong with a record, "" if nothing is.
func (c *criteria) fault(rec *Record) (string, base.Code) {
	switch {
	case c.keys && rec.Key == nil:
		return "the record has no key; this topic is compacted by key", base.CodeInvalidRecord
	case c.stamped:
		return "the batch has timestamp type LogAppendTime, which producers cannot set", base.CodeInvalidTimestamp
	case c.outside(rec.Timestamp):
		return fmt.Sprintf("timestamp %d of the record is not within %d to %d", rec.Timestamp, c.oldest, c.newest), base.CodeInvalidTimestamp
	}
	return "", 0
}

// complain walks over the records once more, and collects what is wrong with each. As in Kafka, the batch as a whole has
// CodeInvalidTimestamp if any record has.
func (c *criteria) complain(rd *Reader) error {
	e := &InvalidRecords{}
	code, first, count := base.CodeInvalidRecord, "", 0
	rd.rewind()
	for n := 0; rd.Next(); n++ {
		msg, why := c.fault(&rd.Record)
		if msg == "" {
			continue
		}
		if count == 0 {
			first = fmt.Sprintf("record %d: %s", n, msg)
		}
		if count++; len(e.Records) < maxRecordErrors {
			e.Records = append(e.Records, RecordError{n, msg})
		}
		if why == base.CodeInvalidTimestamp {
			code = why
		}
	}
	e.Err = base.Errorf(code, "%d of %d records are refused, the first is %s", count, rd.Info.Records, first)
	return e
}

// settle gives the batch what is the broker's to say, in place where its size does not change.
func settle(rd *Reader, batch []byte, info Info, top int64, r *Rules) ([]byte, Info, error) {
	attributes := info.Attributes &^ (attrLogAppendTime | attrDeleteHorizon)
	if r.LogAppendTime {
		attributes, top = attributes|attrLogAppendTime, r.NowMs
	}
	if c := r.Compression; c != nil && c.Codec != info.Codec() {
		info.Attributes, info.MaxTimestamp = attributes&^attrCodec|int16(c.Codec), top
		return recompress(rd, info, c, r.MaxSize)
	}
	if attributes != info.Attributes || top != info.MaxTimestamp {
		info.Attributes, info.MaxTimestamp = attributes, top
		binary.BigEndian.PutUint16(batch[offAttributes:], uint16(attributes))
		binary.BigEndian.PutUint64(batch[offMaxTimestamp:], uint64(top))
		info.CRC = sumUp(batch)
	}
	return batch, info, nil
}

// recompress makes a batch of the header and of the records as the reader has them: what they look like does not
// depend on the codec.
func recompress(rd *Reader, info Info, c *Compression, limit int) ([]byte, Info, error) {
	var out []byte
	if c.Codec == compress.None {
		if size := HeaderSize + len(rd.records); size > limit {
			return nil, info, tooLarge(size, limit)
		}
		out = make([]byte, HeaderSize, HeaderSize+len(rd.records))
		out = append(out, rd.records...)
	} else {
		scratch := scratches.Get().(*[]byte)
		b, err := compress.Compress((*scratch)[:0], rd.records, c.Codec, c.Level)
		if err == nil {
			out = slices.Concat(make([]byte, HeaderSize), b)
		}
		if *scratch = b; cap(b) <= maxScratch {
			scratches.Put(scratch)
		}
		if err != nil {
			return nil, info, base.Errorf(base.CodeUnknown, "compressing a batch (%v): %v", c.Codec, err)
		}
	}
	if len(out) > limit {
		return nil, info, tooLarge(len(out), limit)
	}
	info.Size = len(out)
	info.put(out)
	info.CRC = sumUp(out)
	return out, info, nil
}
