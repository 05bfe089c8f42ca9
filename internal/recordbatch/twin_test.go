package recordbatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/compress"
)

// The twin reads and writes batches with franz-go's encoders and nothing of this package.

// twinBatch is a batch as franz-go has it.
type twinBatch struct {
	kmsg.RecordBatch
	records []kmsg.Record
}

// twinRead decodes a whole batch.
func twinRead(b []byte) (*twinBatch, error) {
	t := new(twinBatch)
	if err := t.ReadFrom(b); err != nil {
		return nil, err
	}
	if int(t.Length) != len(b)-12 {
		return nil, fmt.Errorf("length %d of %d bytes", t.Length, len(b))
	}
	if sum := crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)); sum != uint32(t.CRC) {
		return nil, fmt.Errorf("checksum %x, should be %x", uint32(t.CRC), sum)
	}
	if t.NumRecords == 0 && len(t.Records) == 0 {
		return t, nil // nothing is there, not even compressed
	}
	body, err := kgo.DefaultDecompressor().Decompress(t.Records, kgo.CompressionCodecType(t.Attributes&7))
	if err != nil {
		return nil, err
	}
	for range t.NumRecords {
		size, k := binary.Varint(body)
		if k <= 0 || size > int64(len(body)-k) {
			return nil, fmt.Errorf("record of %d bytes, %d are left", size, len(body))
		}
		var r kmsg.Record
		if err := r.ReadFrom(body[:k+int(size)]); err != nil {
			return nil, err
		}
		t.records = append(t.records, r)
		body = body[k+int(size):]
	}
	if len(body) > 0 {
		return nil, fmt.Errorf("%d bytes behind the records", len(body))
	}
	return t, nil
}

// bytes encodes the batch, working out lengths and checksum.
func (t *twinBatch) bytes(tb testing.TB) []byte {
	var body []byte
	for i := range t.records {
		r := t.records[i]
		r.Length = 0
		r.Length = int32(len(r.AppendTo(nil)) - 1) // behind the length, which took one byte
		body = r.AppendTo(body)
	}
	t.Records = twinCompress(tb, body, compress.Codec(t.Attributes&7))
	t.Magic, t.Length = 2, int32(len(t.Records)+61-12)
	b := t.AppendTo(nil)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func twinCompress(tb testing.TB, body []byte, c compress.Codec) []byte {
	codec := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	if c == compress.None {
		return body
	}
	k, err := kgo.DefaultCompressor(codec[c])
	if err != nil {
		tb.Fatal(err)
	}
	out, got := k.Compress(new(bytes.Buffer), body)
	if got != kgo.CompressionCodecType(c) {
		tb.Fatalf("compressed with %v", got)
	}
	return slices.Clone(out)
}

// same says where a reader's records differ from the twin's, "" if they are the same. It closes rd.
func (t *twinBatch) same(rd *Reader) string {
	defer rd.Close()
	i := &rd.Info
	head := fmt.Sprint(i.BaseOffset, i.LeaderEpoch, uint32(t.CRC), i.Attributes, i.LastOffsetDelta, i.BaseTimestamp, i.MaxTimestamp, i.ProducerID, i.ProducerEpoch, i.BaseSequence, i.Records)
	if want := fmt.Sprint(t.FirstOffset, t.PartitionLeaderEpoch, i.CRC, t.Attributes, t.LastOffsetDelta, t.FirstTimestamp, t.MaxTimestamp, t.ProducerID, t.ProducerEpoch, t.FirstSequence, t.NumRecords); head != want {
		return fmt.Sprintf("header %s, want %s", head, want)
	}
	for k := range t.records {
		w := &t.records[k]
		if !rd.Next() {
			return fmt.Sprintf("record %d is missing: %v", k, rd.Err())
		}
		r := &rd.Record
		ts := t.FirstTimestamp + w.TimestampDelta64
		if t.Attributes&8 != 0 {
			ts = t.MaxTimestamp
		}
		got := fmt.Sprint(r.Attributes, r.Timestamp, r.Offset, r.OffsetDelta, r.Key == nil, string(r.Key), r.Value == nil, string(r.Value), headersOf(r))
		var headers []string
		for _, h := range w.Headers {
			headers = append(headers, fmt.Sprint(h.Key, h.Value == nil, string(h.Value)))
		}
		want := fmt.Sprint(w.Attributes, ts, t.FirstOffset+int64(w.OffsetDelta), w.OffsetDelta, w.Key == nil, string(w.Key), w.Value == nil, string(w.Value), headers)
		if got != want {
			return fmt.Sprintf("record %d is\n%q, want\n%q", k, got, want)
		}
		if int(r.Headers) != len(headers) {
			return fmt.Sprintf("record %d counts %d headers, want %d", k, r.Headers, len(headers))
		}
	}
	if rd.Next() || rd.Err() != nil {
		return fmt.Sprintf("records are left, or %v", rd.Err())
	}
	return ""
}

func headersOf(r *Record) (out []string) {
	for name, value := range r.All() {
		out = append(out, fmt.Sprint(string(name), value == nil, string(value)))
	}
	return out
}
