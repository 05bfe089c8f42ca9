package recordbatch

import (
	"encoding/binary"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// Builder makes a batch record by record. It is begun with the header that the batch is to have; counts, size and
// checksum are worked out.
type Builder struct {
	info    Info
	base    int64 // what timestamp deltas are relative to
	stamped bool
	body    []byte
	n       int32
	last    int32
	max     int64
	level   int
	horizon bool
}

// Begin starts a batch with the offsets, producer and attributes of info; the codec comes apart. The first
// record sets the base timestamp.
func (b *Builder) Begin(info Info, c compress.Codec, level int) {
	*b = Builder{info: info, body: b.body[:0], max: -1, level: level, last: info.LastOffsetDelta}
	b.info.Attributes = info.Attributes&^(attrCodec|attrDeleteHorizon) | int16(c)
	if h, ok := info.DeleteHorizon(); ok {
		b.SetDeleteHorizon(h)
	}
}

// SetDeleteHorizon notes in the batch from when on its tombstones may go (KIP-534). It must be called before Add.
func (b *Builder) SetDeleteHorizon(ms int64) {
	b.base, b.stamped, b.horizon = ms, true, true
	b.info.Attributes |= attrDeleteHorizon
}

// Add appends a record. Its offset delta is kept, gaps and all.
func (b *Builder) Add(r *Record) {
	if !b.stamped {
		b.base, b.stamped = r.Timestamp, true
	}
	b.max = max(b.max, r.Timestamp)
	b.n++
	b.last = max(b.last, r.OffsetDelta)
	size := 1 + varintLen(r.Timestamp-b.base) + varintLen(int64(r.OffsetDelta)) +
		fieldLen(r.Key) + fieldLen(r.Value) + varintLen(int64(r.Headers)) + len(r.RawHeaders)
	b.body = binary.AppendVarint(b.body, int64(size))
	b.body = append(b.body, byte(r.Attributes))
	b.body = binary.AppendVarint(b.body, r.Timestamp-b.base)
	b.body = binary.AppendVarint(b.body, int64(r.OffsetDelta))
	b.body = appendField(b.body, r.Key)
	b.body = appendField(b.body, r.Value)
	b.body = binary.AppendVarint(b.body, int64(r.Headers))
	b.body = append(b.body, r.RawHeaders...)
}

// AppendHeader encodes one header of a record behind dst; a nil value is null.
func AppendHeader(dst []byte, name string, value []byte) []byte {
	return appendField(appendField(dst, []byte(name)), value)
}

func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
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
func (b *Builder) Len() int { return int(b.n) }

// AppendTo encodes the batch behind dst. Without a record it is an empty batch that keeps the offsets and sequences of
// the header, as a cleaner leaves for a producer's last batch.
func (b *Builder) AppendTo(dst []byte) ([]byte, error) {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	c := b.info.Codec()
	var err error
	switch {
	case c == compress.None || b.n == 0:
		dst = append(dst, b.body...)
		if b.n == 0 {
			b.info.Attributes &^= attrCodec
		}
	default:
		if dst, err = compress.Compress(dst, b.body, c, b.level); err != nil {
			return dst[:at], base.Errorf(base.CodeUnknown, "compressing a batch (%v): %v", c, err)
		}
	}
	b.header(dst[at:])
	return dst, nil
}

// header fills in the header of a batch whose records stand behind it.
func (b *Builder) header(h []byte) {
	base, top := b.base, b.max
	if b.n == 0 {
		top = b.info.MaxTimestamp
		if !b.horizon {
			base = b.info.BaseTimestamp
		}
	}
	if b.info.IsLogAppendTime() {
		top = b.info.MaxTimestamp
	}
	SetBaseOffset(h, b.info.BaseOffset)
	binary.BigEndian.PutUint32(h[offLength:], uint32(len(h)-lengthOverhead))
	SetLeaderEpoch(h, b.info.LeaderEpoch)
	h[offMagic] = 2
	binary.BigEndian.PutUint16(h[offAttributes:], uint16(b.info.Attributes))
	binary.BigEndian.PutUint32(h[offLastDelta:], uint32(b.last))
	binary.BigEndian.PutUint64(h[offBaseTimestamp:], uint64(base))
	binary.BigEndian.PutUint64(h[offMaxTimestamp:], uint64(top))
	binary.BigEndian.PutUint64(h[offProducerID:], uint64(b.info.ProducerID))
	binary.BigEndian.PutUint16(h[offProducerEpoch:], uint16(b.info.ProducerEpoch))
	binary.BigEndian.PutUint32(h[offBaseSequence:], uint32(b.info.BaseSequence))
	binary.BigEndian.PutUint32(h[offRecords:], uint32(b.n))
	sumUp(h)
}
