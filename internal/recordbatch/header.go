package recordbatch

import (
	"encoding/binary"
	"hash/crc32"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// HeaderSize is the size of a batch without its records, in bytes.
const HeaderSize = 61

// Offsets of the header's fields.
const (
	offBaseOffset    = 0
	offLength        = 8
	offLeaderEpoch   = 12
	offMagic         = 16
	offCRC           = 17
	offAttributes    = 21 // the checksum covers from here on
	offLastDelta     = 23
	offBaseTimestamp = 27
	offMaxTimestamp  = 35
	offProducerID    = 43
	offProducerEpoch = 51
	offBaseSequence  = 53
	offRecords       = 57

	lengthOverhead = 12 // what the length does not count: the base offset and itself
)

// magic is the only format there is here.
const magic = 2

// Attribute bits.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40 // base timestamp is the delete horizon (KIP-534)
)

// Info is the header of a batch.
type Info struct {
	Size            int // whole batch, bytes
	Records         int32
	LastOffsetDelta int32
	BaseOffset      int64
	LeaderEpoch     int32
	Attributes      int16
	BaseTimestamp   int64 // Unix ms
	MaxTimestamp    int64 // Unix ms, -1: none
	ProducerID      int64 // -1: none
	ProducerEpoch   int16
	BaseSequence    int32 // -1: none
	CRC             uint32
}

// LastOffset is the offset of the last record, or where it was before compaction.
func (i *Info) LastOffset() int64 { return i.BaseOffset + int64(i.LastOffsetDelta) }

// LastSequence is the last sequence number; it wraps from 2^31-1 to 0. -1 if there is none.
func (i *Info) LastSequence() int32 {
	if i.BaseSequence < 0 {
		return -1
	}
	return int32((int64(i.BaseSequence) + int64(i.LastOffsetDelta)) & 0x7fffffff)
}

// Codec is the compression of the records. It may be unknown.
func (i *Info) Codec() compress.Codec { return compress.Codec(i.Attributes & attrCodec) }

// IsLogAppendTime reports whether all records have the batch's max timestamp (KIP-32).
func (i *Info) IsLogAppendTime() bool { return i.Attributes&attrLogAppendTime != 0 }

// IsTransactional reports whether the batch belongs to a transaction.
func (i *Info) IsTransactional() bool { return i.Attributes&attrTransactional != 0 }

// IsControl reports whether the records are control records.
func (i *Info) IsControl() bool { return i.Attributes&attrControl != 0 }

// DeleteHorizon is the Unix ms from which on tombstones of the batch may go; false if none was set (KIP-534).
func (i *Info) DeleteHorizon() (int64, bool) {
	return i.BaseTimestamp, i.Attributes&attrDeleteHorizon != 0
}

// ParseHeader reads the header at the beginning of b, and checks what can be checked without the records: magic, a
// length that covers the header, counts that are not negative. The batch itself may be longer than b: who needs all
// of it compares Info.Size. The checksum is not looked at.
func ParseHeader(b []byte) (Info, error) {
	if len(b) < HeaderSize {
		if isOld(b) {
			return Info{}, oldFormat(b[offMagic])
		}
		return Info{}, short(base.CodeCorruptMessage, len(b))
	}
	h := (*[HeaderSize]byte)(b)
	i := Info{
		Size:            int(int32(binary.BigEndian.Uint32(h[offLength:]))) + lengthOverhead,
		Records:         int32(binary.BigEndian.Uint32(h[offRecords:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(h[offLastDelta:])),
		BaseOffset:      int64(binary.BigEndian.Uint64(h[offBaseOffset:])),
		LeaderEpoch:     int32(binary.BigEndian.Uint32(h[offLeaderEpoch:])),
		Attributes:      int16(binary.BigEndian.Uint16(h[offAttributes:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(h[offBaseTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(h[offMaxTimestamp:])),
		ProducerID:      int64(binary.BigEndian.Uint64(h[offProducerID:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(h[offProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(h[offBaseSequence:])),
		CRC:             binary.BigEndian.Uint32(h[offCRC:]),
	}
	if h[offMagic] != magic || i.Size < HeaderSize || i.Records < 0 || i.LastOffsetDelta < 0 {
		return Info{}, badHeader(h, &i)
	}
	return i, nil
}

// isOld reports whether b is of format 0 or 1, whose messages may be shorter than a header.
func isOld(b []byte) bool { return len(b) > offMagic && b[offMagic] < magic }

func short(code base.Code, n int) error {
	return base.Errorf(code, "a batch of %d bytes is shorter than a header of %d", n, HeaderSize)
}

func cut(code base.Code, size, have int) error {
	return base.Errorf(code, "the batch has %d bytes by its length field; %d came", size, have)
}

// badHeader says what is wrong with a header.
func badHeader(h *[HeaderSize]byte, i *Info) error {
	switch m := h[offMagic]; {
	case m < magic:
		return oldFormat(m)
	case m > magic:
		return base.Errorf(base.CodeCorruptMessage, "magic of the batch is %d; there is none above %d", int8(m), magic)
	case i.Size < HeaderSize:
		return base.Errorf(base.CodeCorruptMessage, "length %d of the batch is below the %d that its header takes", i.Size-lengthOverhead, HeaderSize-lengthOverhead)
	case i.Records < 0:
		return base.Errorf(base.CodeInvalidRecord, "record count %d of the batch is negative", i.Records)
	default:
		return base.Errorf(base.CodeInvalidRecord, "last offset delta %d of the batch is negative", i.LastOffsetDelta)
	}
}

func oldFormat(m byte) error {
	return base.Errorf(base.CodeUnsupportedFormat, "message format v%d (magic %d) is not supported, only v%d is: use a client of Kafka 0.11 or newer", m, m, magic)
}

// castagnoli is the polynomial of CRC32C, which processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum works out the checksum of a whole batch.
func checksum(b []byte) uint32 { return crc32.Checksum(b[offAttributes:], castagnoli) }

// VerifyCRC reports whether the checksum of b holds. b is exactly one batch.
func VerifyCRC(b []byte) bool {
	return len(b) >= HeaderSize && checksum(b) == binary.BigEndian.Uint32(b[offCRC:])
}

// sumUp writes the checksum of a whole batch, and returns it.
func sumUp(b []byte) uint32 {
	sum := checksum(b)
	binary.BigEndian.PutUint32(b[offCRC:], sum)
	return sum
}

// SetBaseOffset writes the base offset, which the checksum does not cover.
func SetBaseOffset(b []byte, off int64) {
	binary.BigEndian.PutUint64(b[offBaseOffset:], uint64(off))
}

// SetLeaderEpoch writes the partition leader epoch, which the checksum does not cover.
func SetLeaderEpoch(b []byte, epoch int32) {
	binary.BigEndian.PutUint32(b[offLeaderEpoch:], uint32(epoch))
}

// SetMaxTimestamp writes the max timestamp, in Unix ms, and the checksum. b is exactly one batch.
func SetMaxTimestamp(b []byte, ms int64) {
	binary.BigEndian.PutUint64(b[offMaxTimestamp:], uint64(ms))
	sumUp(b)
}

// SetLogAppendTime gives all records the time of appending, in Unix ms, and writes the checksum. b is exactly
// one batch.
func SetLogAppendTime(b []byte, ms int64) {
	b[offAttributes+1] |= attrLogAppendTime
	SetMaxTimestamp(b, ms)
}

// put writes all fields to h but the checksum.
func (i *Info) put(h []byte) {
	_ = h[HeaderSize-1]
	binary.BigEndian.PutUint64(h[offBaseOffset:], uint64(i.BaseOffset))
	binary.BigEndian.PutUint32(h[offLength:], uint32(i.Size-lengthOverhead))
	binary.BigEndian.PutUint32(h[offLeaderEpoch:], uint32(i.LeaderEpoch))
	h[offMagic] = magic
	binary.BigEndian.PutUint16(h[offAttributes:], uint16(i.Attributes))
	binary.BigEndian.PutUint32(h[offLastDelta:], uint32(i.LastOffsetDelta))
	binary.BigEndian.PutUint64(h[offBaseTimestamp:], uint64(i.BaseTimestamp))
	binary.BigEndian.PutUint64(h[offMaxTimestamp:], uint64(i.MaxTimestamp))
	binary.BigEndian.PutUint64(h[offProducerID:], uint64(i.ProducerID))
	binary.BigEndian.PutUint16(h[offProducerEpoch:], uint16(i.ProducerEpoch))
	binary.BigEndian.PutUint32(h[offBaseSequence:], uint32(i.BaseSequence))
	binary.BigEndian.PutUint32(h[offRecords:], uint32(i.Records))
}
