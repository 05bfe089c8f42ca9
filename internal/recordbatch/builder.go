package recordbatch

import (
	"encoding/binary"
	"math"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// Builder makes a batch record by record: to rewrite one without some of its records, or anew. It is begun with the
// header that the batch is to have; counts, size, timestamps and checksum are worked out. It may be used for one batch
// after the other, and is for one goroutine.
type Builder struct {
	info    Info   // Records and LastOffsetDelta grow with Add
	level   int    // of compression
	body    []byte // records so far
	max     int64  // largest timestamp
	stamped bool   // info.BaseTimestamp is what timestamp deltas are relative to
}

// Begin starts a batch with the offsets, producer and attributes of info; the codec comes apart. The first record
// sets the base timestamp, unless info has a delete horizon. The last offset delta is at least that of info,
// so that a batch keeps its offsets and sequences when records at its end go.
func (b *Builder) Begin(info Info, c compress.Codec, level int) {
	*b = Builder{info: info, body: b.body[:0], max: -1, level: level}
	b.info.Records = 0
	b.info.Attributes = info.Attributes&^attrCodec | int16(c)
	_, b.stamped = info.DeleteHorizon()
}

// SetDeleteHorizon notes in the batch from when on its tombstones may go, in Unix ms (KIP-534). It must be called before
// the first Add.
func (b *Builder) SetDeleteHorizon(ms int64) {
	b.info.BaseTimestamp, b.stamped = ms, true
	b.info.Attributes |= attrDeleteHorizon
}

// Add appends a record. Its offset delta is kept, gaps and all; its Offset is not looked at.
func (b *Builder) Add(r *Record) {
	if !b.stamped {
		b.info.BaseTimestamp, b.stamped = r.Timestamp, true
	}
	b.max = max(b.max, r.Timestamp)
	b.info.Records++
	b.info.LastOffsetDelta = max(b.info.LastOffsetDelta, r.OffsetDelta)
	delta := r.Timestamp - b.info.BaseTimestamp // wraps, and wraps back in the reader
	size := 1 + varintLen(delta) + varintLen(int64(r.OffsetDelta)) +
		fieldLen(r.Key) + fieldLen(r.Value) + varintLen(int64(r.Headers)) + len(r.RawHeaders)
	b.body = binary.AppendVarint(b.body, int64(size))
	b.body = append(b.body, byte(r.Attributes))
	b.body = binary.AppendVarint(b.body, delta)
	b.body = binary.AppendVarint(b.body, int64(r.OffsetDelta))
	b.body = appendField(b.body, r.Key)
	b.body = appendField(b.body, r.Value)
	b.body = binary.AppendVarint(b.body, int64(r.Headers))
	b.body = append(b.body, r.RawHeaders...)
}

// AppendHeader encodes one header of a record behind dst; a nil value is null. Record.Headers counts them.
func AppendHeader(dst []byte, name string, value []byte) []byte {
	dst = append(binary.AppendVarint(dst, int64(len(name))), name...)
	return appendField(dst, value)
}

func fieldLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func appendField(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

// Len is the number of records added.
func (b *Builder) Len() int { return int(b.info.Records) }

// AppendTo encodes the batch behind dst. Without a record it is an empty batch that keeps the offsets, sequences and
// max timestamp of the header, as Kafka's cleaner leaves for a producer's last batch: uncompressed and
// without base timestamp or delete horizon. It fails if the level is none of the codec's, or the batch does not fit into
// 31 bits of length; dst then comes back as it was.
func (b *Builder) AppendTo(dst []byte) ([]byte, error) {
	info, at := b.info, len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	switch c := info.Codec(); {
	case info.Records == 0:
		info.BaseTimestamp = -1
		info.Attributes &^= attrCodec | attrDeleteHorizon
	case c == compress.None:
		dst = append(dst, b.body...)
	default:
		var err error
		if dst, err = compress.Compress(dst, b.body, c, b.level); err != nil {
			return dst[:at], base.Errorf(base.CodeUnknown, "compressing a batch (%v): %v", c, err)
		}
	}
	info.Size = len(dst) - at
	if info.Size > math.MaxInt32 {
		return dst[:at], base.Errorf(base.CodeMessageTooLarge, "the batch has %d bytes; its length field holds %d", info.Size, math.MaxInt32)
	}
	if info.Records > 0 && !info.IsLogAppendTime() {
		info.MaxTimestamp = b.max
	}
	info.put(dst[at:])
	sumUp(dst[at:])
	return dst, nil
}
