package difftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
)

// batch is a record batch to be encoded, with the mistakes that a case wants in it.
type batch struct {
	values   []string
	codec    kgo.CompressionCodec
	producer int64
	epoch    int16
	sequence int32
	attrs    int16 // besides the codec
	base     int64 // timestamp of the first record, Unix ms; each further record is a millisecond later
	keyless  bool

	count       int32            // announced records, besides those that are there
	lastDelta   int32            // added to the last offset delta
	firstOffset int64            //
	spoil       func(raw []byte) // applied to the finished batch
}

// plain is a batch without an idempotent producer.
func (x *exchange) plain(values ...string) batch {
	return batch{values: values, producer: -1, epoch: -1, sequence: -1, base: x.base}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b batch) encode() []byte {
	var body []byte
	for i, v := range b.values {
		rec := binary.AppendVarint([]byte{0}, int64(i)) // attributes, timestamp delta
		rec = binary.AppendVarint(rec, int64(i))        // offset delta
		if b.keyless {
			rec = binary.AppendVarint(rec, -1)
		} else {
			key := fmt.Sprint("k", i)
			rec = append(binary.AppendVarint(rec, int64(len(key))), key...)
		}
		rec = append(binary.AppendVarint(rec, int64(len(v))), v...)
		rec = append(rec, 0) // headers
		body = append(binary.AppendVarint(body, int64(len(rec))), rec...)
	}
	attrs := b.attrs
	if c, err := kgo.DefaultCompressor(b.codec); err == nil && c != nil {
		packed, used := c.Compress(new(bytes.Buffer), body)
		body = bytes.Clone(packed)
		attrs |= int16(used)
	}
	n := int32(len(b.values))
	out := binary.BigEndian.AppendUint64(nil, uint64(b.firstOffset))
	out = binary.BigEndian.AppendUint32(out, uint32(49+len(body)))
	out = binary.BigEndian.AppendUint32(out, 0xffffffff) // leader epoch
	out = append(out, 2, 0, 0, 0, 0)                     // magic, checksum
	out = binary.BigEndian.AppendUint16(out, uint16(attrs))
	out = binary.BigEndian.AppendUint32(out, uint32(n-1+b.lastDelta))
	out = binary.BigEndian.AppendUint64(out, uint64(b.base))
	out = binary.BigEndian.AppendUint64(out, uint64(b.base+int64(n-1)))
	out = binary.BigEndian.AppendUint64(out, uint64(b.producer))
	out = binary.BigEndian.AppendUint16(out, uint16(b.epoch))
	out = binary.BigEndian.AppendUint32(out, uint32(b.sequence))
	out = binary.BigEndian.AppendUint32(out, uint32(n+b.count))
	out = append(out, body...)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], castagnoli))
	if b.spoil != nil {
		b.spoil(out)
	}
	return out
}

// oldSet is a message set of magic 0 or 1 with one message.
func oldSet(magic byte, stamp int64) []byte {
	msg := []byte{magic, 0} // magic, attributes
	if magic == 1 {
		msg = binary.BigEndian.AppendUint64(msg, uint64(stamp))
	}
	msg = append(msg, 0, 0, 0, 1, 'k', 0, 0, 0, 1, 'v')
	out := binary.BigEndian.AppendUint64(nil, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(4+len(msg)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(msg))
	return append(out, msg...)
}
