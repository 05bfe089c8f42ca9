package recordbatch

import (
	"fmt"
	"sync"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// Compression is a codec with its level.
type Compression struct {
	Codec compress.Codec
	Level int
}

// Rules are what a stream asks of the batches that clients write to it.
type Rules struct {
	MaxSize         int          // max.message.bytes: of the batch as it will be stored
	LogAppendTime   bool         // message.timestamp.type
	BeforeMaxMs     int64        // message.timestamp.before.max.ms
	AfterMaxMs      int64        // message.timestamp.after.max.ms
	Compression     *Compression // compression.type; nil keeps the producer's
	RequireKeys     bool         // the log is compacted by key
	NowMs           int64
	MaxDecompressed int // bytes that the records of one batch may take
}

// RecordError says what is wrong with one record of a batch (KIP-467).
type RecordError struct {
	Index int // of the record in the batch
	Msg   string
}

// InvalidRecords is a refusal that names records. It unwraps to a *base.Error.
type InvalidRecords struct {
	Err     *base.Error
	Records []RecordError
}

func (e *InvalidRecords) Error() string { return e.Err.Msg }

// Unwrap gives the error for the batch as a whole.
func (e *InvalidRecords) Unwrap() error { return e.Err }

// maxRecordErrors bounds how many records a refusal names.
const maxRecordErrors = 10

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Validate checks what a client sent for one partition, by the rules of Kafka's LogValidator for format v2: exactly
// one batch, whole and undamaged, with offsets that count from 0, timestamps within the limits and keys where they are needed. It puts right
// what Kafka puts right: the max timestamp, the timestamp type, the compression. out is the batch to store: records
// itself, changed in place, or a new one.
func Validate(records []byte, r *Rules) (out []byte, infos []Info, err error) {
	info, err := checkFrame(records, r)
	if err != nil {
		return nil, nil, err
	}
	retype := info.IsLogAppendTime() && !r.LogAppendTime
	if retype {
		records[offAttributes+1] &^= attrLogAppendTime
	}
	rd := readers.Get().(*Reader)
	defer func() {
		rd.Close()
		readers.Put(rd)
	}()
	if err := rd.Reset(records, r.MaxDecompressed); err != nil {
		return nil, nil, err
	}
	top, err := checkRecords(rd, r)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case r.Compression != nil && r.Compression.Codec != info.Codec():
		if out, err = rebuild(rd, records, r); err != nil {
			return nil, nil, err
		}
	case r.LogAppendTime:
		SetLogAppendTime(records, r.NowMs)
		out = records
	case top != info.MaxTimestamp || retype:
		SetMaxTimestamp(records, top)
		out = records
	default:
		out = records
	}
	if len(out) > r.MaxSize {
		return nil, nil, tooLarge(len(out), r.MaxSize)
	}
	info, err = ParseHeader(out)
	return out, []Info{info}, err
}

func tooLarge(size, limit int) error {
	return base.Errorf(base.CodeMessageTooLarge, "The record batch size is %d bytes which exceeds the maximum configured value of %d.", size, limit)
}

// checkFrame checks the batch as a whole.
func checkFrame(b []byte, r *Rules) (Info, error) {
	if len(b) == 0 {
		return Info{}, base.Errorf(base.CodeInvalidRecord, "a produce request must have exactly one record batch for each partition; there is none")
	}
	if len(b) > offMagic && b[offMagic] < 2 {
		return Info{}, base.Errorf(base.CodeUnsupportedFormat, "message format v%d is not supported; only v2 is", b[offMagic])
	}
	info, err := ParseHeader(b)
	if err != nil {
		return info, err
	}
	invalid := func(format string, args ...any) error { return base.Errorf(base.CodeInvalidRecord, format, args...) }
	switch {
	case info.Size > len(b):
		return info, base.Errorf(base.CodeCorruptMessage, "batch of %d bytes is cut at %d", info.Size, len(b))
	case info.Size < len(b):
		return info, invalid("a produce request must have exactly one record batch for each partition; %d bytes follow the first", len(b)-info.Size)
	case r.Compression == nil && info.Size > r.MaxSize:
		return info, tooLarge(info.Size, r.MaxSize)
	case !VerifyCRC(b):
		return info, base.Errorf(base.CodeCorruptMessage, "Record is corrupt: its checksum %08x does not hold.", info.CRC)
	case !info.Codec().Known():
		return info, base.Errorf(base.CodeUnsupportedCodec, "unknown compression codec %d", info.Codec())
	case info.IsControl():
		return info, invalid("clients are not allowed to write control records")
	case info.Attributes&attrDeleteHorizon != 0:
		return info, invalid("clients are not allowed to set a delete horizon")
	case info.Records == 0:
		return info, invalid("the record batch has no records")
	case info.LastOffsetDelta != info.Records-1:
		return info, invalid("last offset delta %d does not match %d records", info.LastOffsetDelta, info.Records)
	case info.ProducerID >= 0 && (info.ProducerEpoch < 0 || info.BaseSequence < 0):
		return info, invalid("producer %d comes with epoch %d and sequence %d; both must be at least 0", info.ProducerID, info.ProducerEpoch, info.BaseSequence)
	case info.IsTransactional() && info.ProducerID < 0:
		return info, invalid("a transactional batch needs a producer ID")
	}
	return info, nil
}

// checkRecords walks over the records and returns the largest timestamp.
func checkRecords(rd *Reader, r *Rules) (top int64, err error) {
	top = -1
	var bad []RecordError
	code := base.CodeInvalidRecord
	n := int32(0)
	for ; rd.Next(); n++ {
		rec := &rd.Record
		if rec.OffsetDelta != n {
			return 0, base.Errorf(base.CodeInvalidRecord, "record %d has offset delta %d; deltas must count from 0", n, rec.OffsetDelta)
		}
		msg, c := "", code
		switch {
		case r.RequireKeys && rec.Key == nil:
			msg, c = "Compacted topic cannot accept message without key.", base.CodeInvalidRecord
		case !r.LogAppendTime && outside(rec.Timestamp, r):
			msg, c = fmt.Sprintf("Timestamp %d of message is out of range: it must be within [%d, %d].", rec.Timestamp, sub(r.NowMs, r.BeforeMaxMs), add(r.NowMs, r.AfterMaxMs)), base.CodeInvalidTimestamp
		}
		if msg != "" && len(bad) < maxRecordErrors {
			code = c
			bad = append(bad, RecordError{int(n), msg})
		}
		top = max(top, rec.Timestamp)
	}
	if rd.Err() != nil {
		return 0, rd.Err()
	}
	if bad != nil {
		return 0, &InvalidRecords{Err: base.Errorf(code, "One or more records have been rejected: %s", bad[0].Msg), Records: bad}
	}
	return top, nil
}

// outside applies the timestamp limits. -1 means that there is no timestamp, which is allowed.
func outside(ts int64, r *Rules) bool {
	if ts == -1 {
		return false
	}
	return ts < sub(r.NowMs, r.BeforeMaxMs) || ts > add(r.NowMs, r.AfterMaxMs)
}

// sub and add stop at the ends of the range.
func sub(a, b int64) int64 {
	if d := a - b; d <= a {
		return d
	}
	return -1 << 63
}

func add(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return 1<<63 - 1
}

// rebuild encodes the records again in the codec that the rules ask for.
func rebuild(rd *Reader, records []byte, r *Rules) ([]byte, error) {
	info := rd.Info
	if r.LogAppendTime {
		info.Attributes |= attrLogAppendTime
		info.MaxTimestamp = r.NowMs
	} else {
		info.Attributes &^= attrLogAppendTime
	}
	var b Builder
	b.Begin(info, r.Compression.Codec, r.Compression.Level)
	if err := rd.Reset(records, r.MaxDecompressed); err != nil {
		return nil, err
	}
	for rd.Next() {
		b.Add(&rd.Record)
	}
	if rd.Err() != nil {
		return nil, rd.Err()
	}
	return b.AppendTo(nil)
}
