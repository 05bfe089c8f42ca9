// Package recordbatch reads, checks and builds record batches of Kafka's format v2 (KIP-98): the form in which
// records are received, stored and served.
//
// Everything here works on the bytes: a header is read by direct loads, and the records of a batch are walked over
// without allocating for each.
package recordbatch

import (
	"encoding/binary"
	"hash/crc32"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// HeaderSize is the size of a batch without its records, in bytes.
const HeaderSize = 61

// Offsets of the header's fields; all are big-endian.
const (
	offBaseOffset    = 0
	offLength        = 8 // of what follows it
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

	lengthOverhead = 12 // base offset and the length itself
)

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
	MaxTimestamp    int64 // Unix ms
	ProducerID      int64 // -1: none
	ProducerEpoch   int16
	BaseSequence    int32
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

// ParseHeader reads the header at the beginning of b, and checks what can be checked without the records: magic, a length
// that covers the header, counts that are not negative. The batch itself may be longer than b.
func ParseHeader(b []byte) (Info, error) {
	if len(b) < HeaderSize {
		return Info{}, base.Errorf(base.CodeCorruptMessage, "batch of %d bytes is shorter than its header of %d", len(b), HeaderSize)
	}
	if m := b[offMagic]; m != 2 {
		if m < 2 {
			return Info{}, base.Errorf(base.CodeUnsupportedFormat, "message format v%d is not supported; only v2 is", m)
		}
		return Info{}, base.Errorf(base.CodeCorruptMessage, "unknown magic %d", m)
	}
	i := Info{
		Size:            int(int32(binary.BigEndian.Uint32(b[offLength:]))) + lengthOverhead,
		Records:         int32(binary.BigEndian.Uint32(b[offRecords:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[offLastDelta:])),
		BaseOffset:      int64(binary.BigEndian.Uint64(b[offBaseOffset:])),
		LeaderEpoch:     int32(binary.BigEndian.Uint32(b[offLeaderEpoch:])),
		Attributes:      int16(binary.BigEndian.Uint16(b[offAttributes:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(b[offBaseTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[offMaxTimestamp:])),
		ProducerID:      int64(binary.BigEndian.Uint64(b[offProducerID:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(b[offProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[offBaseSequence:])),
		CRC:             binary.BigEndian.Uint32(b[offCRC:]),
	}
	switch {
	case i.Size < HeaderSize:
		return i, base.Errorf(base.CodeCorruptMessage, "batch length %d is shorter than its header", i.Size)
	case i.Records < 0:
		return i, base.Errorf(base.CodeInvalidRecord, "record count %d is negative", i.Records)
	case i.LastOffsetDelta < 0:
		return i, base.Errorf(base.CodeInvalidRecord, "last offset delta %d is negative", i.LastOffsetDelta)
	}
	return i, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// VerifyCRC reports whether the checksum of a whole batch holds.
func VerifyCRC(b []byte) bool {
	return len(b) >= HeaderSize && crc32.Checksum(b[offAttributes:], castagnoli) == binary.BigEndian.Uint32(b[offCRC:])
}

func sumUp(b []byte) {
	binary.BigEndian.PutUint32(b[offCRC:], crc32.Checksum(b[offAttributes:], castagnoli))
}

// SetBaseOffset writes the base offset, which the checksum does not cover.
func SetBaseOffset(b []byte, off int64) {
	binary.BigEndian.PutUint64(b[offBaseOffset:], uint64(off))
}

// SetLeaderEpoch writes the partition leader epoch, which the checksum does not cover.
func SetLeaderEpoch(b []byte, epoch int32) {
	binary.BigEndian.PutUint32(b[offLeaderEpoch:], uint32(epoch))
}

// SetMaxTimestamp writes the max timestamp of a whole batch and its checksum.
func SetMaxTimestamp(b []byte, ms int64) {
	binary.BigEndian.PutUint64(b[offMaxTimestamp:], uint64(ms))
	sumUp(b)
}

// SetLogAppendTime gives all records of a whole batch the time of appending, and writes its checksum.
func SetLogAppendTime(b []byte, ms int64) {
	b[offAttributes+1] |= attrLogAppendTime
	SetMaxTimestamp(b, ms)
}
