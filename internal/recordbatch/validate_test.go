package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// three makes a batch of three records as a client sends it.
func three() *twinBatch {
	t := &twinBatch{records: []kmsg.Record{
		{OffsetDelta: 0, Key: []byte("a"), Value: []byte("first value")},
		{OffsetDelta: 1, TimestampDelta64: 200, Key: []byte("b"), Headers: []kmsg.Header{{Key: "h", Value: []byte("x")}, {Key: "", Value: nil}}},
		{OffsetDelta: 2, TimestampDelta64: 100, Key: []byte{}, Value: []byte{}},
	}}
	t.PartitionLeaderEpoch, t.NumRecords, t.LastOffsetDelta = -1, 3, 2
	t.FirstTimestamp, t.MaxTimestamp = now, now+200
	t.ProducerID, t.ProducerEpoch, t.FirstSequence = -1, -1, -1
	return t
}

// A refusal is a batch or rules with one thing wrong.
type refusal struct {
	name  string
	batch func(*twinBatch)
	raw   func([]byte) []byte // of the encoded batch; its checksum is kept
	body  func([]byte) []byte // of the encoded batch; its length and checksum are put right
	rules func(*Rules)
	code  base.Code
	want  string
}

var refusals = []refusal{
	{name: "nothing", raw: func(b []byte) []byte { return nil }, code: base.CodeInvalidRecord, want: "the partition comes with no record batch; it takes exactly one"},
	{name: "half a header", raw: func(b []byte) []byte { return b[:60] }, code: base.CodeInvalidRecord, want: "a batch of 60 bytes is shorter than a header of 61"},
	{name: "magic 0", raw: func(b []byte) []byte { b[16] = 0; return b }, code: base.CodeUnsupportedFormat, want: "message format v0 (magic 0) is not supported, only v2 is: use a client of Kafka 0.11 or newer"},
	{name: "small magic 1", raw: func(b []byte) []byte { b[16] = 1; return b[:34] }, code: base.CodeUnsupportedFormat, want: "message format v1 (magic 1) is not supported, only v2 is: use a client of Kafka 0.11 or newer"},
	{name: "magic 3", raw: func(b []byte) []byte { b[16] = 3; return b }, code: base.CodeCorruptMessage, want: "magic of the batch is 3; there is none above 2"},
	{name: "magic -1", raw: func(b []byte) []byte { b[16] = 255; return b }, code: base.CodeCorruptMessage, want: "magic of the batch is -1; there is none above 2"},
	{name: "short length", raw: func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 48); return b }, code: base.CodeCorruptMessage, want: "length 48 of the batch is below the 49 that its header takes"},
	{name: "negative length", raw: func(b []byte) []byte { b[8] = 0x80; return b }, code: base.CodeCorruptMessage, want: "length -2147483557 of the batch is below the 49 that its header takes"},
	{name: "cut", raw: func(b []byte) []byte { return b[:len(b)-1] }, code: base.CodeInvalidRecord, want: "the batch has 103 bytes by its length field; 102 came"},
	{name: "trailing byte", raw: func(b []byte) []byte { return append(b, 0) }, code: base.CodeInvalidRecord, want: "1 bytes follow the batch of 103; a partition takes exactly one batch"},
	{name: "two batches", raw: func(b []byte) []byte { return append(b, b...) }, code: base.CodeInvalidRecord, want: "103 bytes follow the batch of 103; a partition takes exactly one batch"},
	{name: "too large", rules: func(r *Rules) { r.MaxSize = 102 }, code: base.CodeMessageTooLarge, want: "the batch has 103 bytes; max.message.bytes is 102"},
	{name: "too large before it gets smaller", batch: func(t *twinBatch) { t.records[0].Value = make([]byte, 1000) },
		rules: func(r *Rules) { r.MaxSize, r.Compression = 500, &Compression{Codec: compress.Zstd, Level: 3} },
		code:  base.CodeMessageTooLarge, want: "the batch has 1094 bytes; max.message.bytes is 500"},
	{name: "too large when decompressed", batch: func(t *twinBatch) { t.records[0].Value, t.Attributes = make([]byte, 1000), 4 },
		rules: func(r *Rules) { r.MaxSize, r.Compression = 500, &Compression{} },
		code:  base.CodeMessageTooLarge, want: "the batch has 1094 bytes; max.message.bytes is 500"},
	{name: "too large when recompressed", batch: func(t *twinBatch) { t.records[0].Value, t.Attributes = bytes.Repeat([]byte("ab"), 5000), 4 },
		rules: func(r *Rules) {
			r.MaxSize, r.Compression = 300, &Compression{Codec: compress.Snappy, Level: compress.DefaultLevel}
		},
		code: base.CodeMessageTooLarge, want: "the batch has 623 bytes; max.message.bytes is 300"},
	{name: "checksum", raw: func(b []byte) []byte { b[70] ^= 1; return b }, code: base.CodeCorruptMessage, want: "checksum %08[1]x of the batch does not hold: its bytes have %08[2]x"},

	{name: "codec 5", raw: nil, body: func(b []byte) []byte { b[22] |= 5; return b }, code: base.CodeUnsupportedCodec, want: "the batch is compressed with codec 5, which is not known"},
	{name: "control", batch: func(t *twinBatch) { t.Attributes = 0x20 }, code: base.CodeInvalidRecord, want: "clients cannot write control records"},
	{name: "base offset", batch: func(t *twinBatch) { t.FirstOffset = 7 }, code: base.CodeInvalidRecord, want: "base offset of the batch is 7; clients send 0"},
	{name: "no records", batch: func(t *twinBatch) { t.records, t.NumRecords = nil, 0 }, code: base.CodeInvalidRecord, want: "the batch has no records"},
	{name: "negative count", batch: func(t *twinBatch) { t.NumRecords = -3 }, code: base.CodeInvalidRecord, want: "record count -3 of the batch is negative"},
	{name: "negative last delta", batch: func(t *twinBatch) { t.LastOffsetDelta = -1 }, code: base.CodeInvalidRecord, want: "last offset delta -1 of the batch is negative"},
	{name: "last delta", batch: func(t *twinBatch) { t.LastOffsetDelta = 3 }, code: base.CodeInvalidRecord, want: "last offset delta 3 of the batch does not go with its count of 3 records"},
	{name: "epoch", batch: func(t *twinBatch) { t.ProducerID, t.FirstSequence = 9, 0 }, code: base.CodeInvalidRecord, want: "producer 9 comes with epoch -1, which is negative"},
	{name: "sequence", batch: func(t *twinBatch) { t.ProducerID, t.ProducerEpoch = 9, 0 }, code: base.CodeInvalidRecord, want: "producer 9 comes with base sequence -1, which is negative"},
	{name: "transaction of nobody", batch: func(t *twinBatch) { t.Attributes = 0x10 }, code: base.CodeInvalidRecord, want: "a transactional batch needs a producer ID; it has -1"},

	{name: "more counted than there", batch: func(t *twinBatch) { t.NumRecords, t.LastOffsetDelta = 4, 3 }, code: base.CodeInvalidRecord, want: "the batch counts 4 records and has 3"},
	{name: "fewer counted than there", batch: func(t *twinBatch) { t.NumRecords, t.LastOffsetDelta = 2, 1 }, code: base.CodeInvalidRecord, want: "8 bytes follow the last of 2 records"},
	{name: "gap", batch: func(t *twinBatch) { t.records[1].OffsetDelta = 3 }, code: base.CodeInvalidRecord, want: "record 1 has offset delta 3; deltas count from 0"},
	{name: "deltas from 1", batch: func(t *twinBatch) { t.records[0].OffsetDelta = 1 }, code: base.CodeInvalidRecord, want: "record 0 has offset delta 1; deltas count from 0"},
	{name: "record length", body: func(b []byte) []byte { b[61] = 100; return b }, code: base.CodeInvalidRecord, want: "record 0 of 3: its length 50 does not fit into the 41 bytes left"},
	{name: "negative record length", body: func(b []byte) []byte { b[61] = 3; return b }, code: base.CodeInvalidRecord, want: "record 0 of 3: its length -2 does not fit into the 41 bytes left"},
	{name: "empty record", body: func(b []byte) []byte { b[61] = 0; return b }, code: base.CodeInvalidRecord, want: "record 0 of 3: it is empty"},
	{name: "key length", body: func(b []byte) []byte { b[65] = 100; return b }, code: base.CodeInvalidRecord, want: "record 0 of 3: the length 50 of its key exceeds the 14 bytes left"},
	{name: "negative key length", body: func(b []byte) []byte { b[65] = 3; return b }, code: base.CodeInvalidRecord, want: "record 0 of 3: the length -2 of its key is below -1"},
	{name: "value length", body: func(b []byte) []byte { b[67] = 26; return b }, code: base.CodeInvalidRecord, want: "record 0 of 3: the length 13 of its value exceeds the 12 bytes left"},
	{name: "bytes in a record", body: func(b []byte) []byte { b[67] = 20; return b }, code: base.CodeInvalidRecord, want: "record 0 of 3: its header count -51 does not fit into the 1 bytes left"},
	{name: "header count", body: func(b []byte) []byte { b[79] = 2; return b }, code: base.CodeInvalidRecord, want: "record 0 of 3: its header count 1 does not fit into the 0 bytes left"},
	{name: "header name null", body: func(b []byte) []byte { b[89] = 1; return b }, code: base.CodeInvalidRecord, want: "record 1 of 3: the length -1 of its header 0's name is below 0"},
	{name: "header value", body: func(b []byte) []byte { b[91] = 20; return b }, code: base.CodeInvalidRecord, want: "record 1 of 3: the length 10 of its header 0's value exceeds the 3 bytes left"},
	{name: "one header less", body: func(b []byte) []byte { b[88] = 2; return b }, code: base.CodeInvalidRecord, want: "record 1 of 3: 2 bytes follow its last field"},
	{name: "long varint", body: func(b []byte) []byte { return slices.Insert(b, 61, 0xa4, 0x80, 0x80, 0x80, 0x80) }, code: base.CodeInvalidRecord, want: "record 0 of 3: its length is not a number of 32 bits"},

	{name: "not gzip", body: func(b []byte) []byte { b[22] |= 1; return b }, code: base.CodeInvalidRecord, want: "the records of the batch cannot be decompressed (gzip): gzip: invalid header"},
	{name: "bomb", batch: func(t *twinBatch) { t.records[0].Value, t.Attributes = make([]byte, 100000), 4 },
		rules: func(r *Rules) { r.MaxDecompressed = 100000 },
		code:  base.CodeMessageTooLarge, want: "the records of the batch (zstd, %[3]d bytes) take more than 100000 bytes when decompressed"},
	{name: "large record", batch: func(t *twinBatch) { t.records[0].Value, t.Attributes = make([]byte, 100), 4 },
		rules: func(r *Rules) { r.MaxRecord = 107 },
		code:  base.CodeInvalidRecord, want: "record 0 has 108 bytes when decompressed; max.decompressed.message.bytes is 107"},
}

func (c *refusal) run(t *testing.T) {
	batch, rules := three(), benchRules()
	if c.batch != nil {
		c.batch(batch)
	}
	if c.rules != nil {
		c.rules(rules)
	}
	b := batch.bytes(t)
	if c.raw != nil {
		b = c.raw(b)
	}
	if c.body != nil {
		b = c.body(b)
		binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
		sumUp(b)
	}
	before := slices.Clone(b)
	want := c.want
	if strings.Contains(want, "%") {
		want = fmt.Sprintf(want, binary.BigEndian.Uint32(b[17:]), checksum(b), len(b)-HeaderSize)
	}
	out, infos, err := Validate(b, rules)
	if err == nil || err.Error() != want || base.CodeOf(err) != c.code {
		t.Errorf("%v (code %d), want code %d: %s", err, base.CodeOf(err), c.code, want)
	}
	if out != nil || infos != nil || !bytes.Equal(b, before) {
		t.Error("the batch was changed")
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.name, c.run)
	}
}

// TestRecordErrors is about refusals that name records.
func TestRecordErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		batch func(*twinBatch)
		rules func(*Rules)
		code  base.Code
		want  string
		named string
	}{
		{"no key", func(t *twinBatch) { t.records[1].Key = nil }, func(r *Rules) { r.RequireKeys = true }, base.CodeInvalidRecord,
			"1 of 3 records are refused, the first is record 1: the record has no key; this topic is compacted by key",
			"[{1 the record has no key; this topic is compacted by key}]"},
		{"too old", func(t *twinBatch) { t.records[2].TimestampDelta64 = -2000 }, func(r *Rules) { r.BeforeMaxMs = 1999 }, base.CodeInvalidTimestamp,
			"1 of 3 records are refused, the first is record 2: timestamp 1699999998000 of the record is not within 1699999998001 to 1700003600000",
			"[{2 timestamp 1699999998000 of the record is not within 1699999998001 to 1700003600000}]"},
		{"too new", func(t *twinBatch) { t.records[2].TimestampDelta64 = 3600001 }, nil, base.CodeInvalidTimestamp,
			"1 of 3 records are refused, the first is record 2: timestamp 1700003600001 of the record is not within -9223370336854775807 to 1700003600000",
			"[{2 timestamp 1700003600001 of the record is not within -9223370336854775807 to 1700003600000}]"},
		{"some of both", func(t *twinBatch) { t.records[0].Key, t.records[1].TimestampDelta64 = nil, 1<<50 }, func(r *Rules) { r.RequireKeys = true }, base.CodeInvalidTimestamp,
			"2 of 3 records are refused, the first is record 0: the record has no key; this topic is compacted by key",
			"[{0 the record has no key; this topic is compacted by key} {1 timestamp 1127599906842624 of the record is not within -9223370336854775807 to 1700003600000}]"},
		{"timestamp type", func(t *twinBatch) { t.Attributes = 8 }, func(r *Rules) { r.LogAppendTime = true }, base.CodeInvalidTimestamp,
			"3 of 3 records are refused, the first is record 0: the batch has timestamp type LogAppendTime, which producers cannot set",
			"[{0 the batch has timestamp type LogAppendTime, which producers cannot set} {1 the batch has timestamp type LogAppendTime, which producers cannot set} {2 the batch has timestamp type LogAppendTime, which producers cannot set}]"},
	} {
		for codec := compress.None; codec.Known(); codec++ {
			batch, rules := three(), benchRules()
			batch.Attributes = int16(codec)
			c.batch(batch)
			batch.Attributes |= int16(codec)
			if c.rules != nil {
				c.rules(rules)
			}
			_, _, err := Validate(batch.bytes(t), rules)
			var bad *InvalidRecords
			if !errors.As(err, &bad) || err.Error() != c.want || base.CodeOf(err) != c.code || fmt.Sprint(bad.Records) != c.named {
				t.Errorf("%s, %v: %v (code %d), want code %d: %s", c.name, codec, err, base.CodeOf(err), c.code, c.want)
			}
		}
	}
}

// TestManyRecordErrors names as many as the bound allows and counts all.
func TestManyRecordErrors(t *testing.T) {
	var b Builder
	b.Begin(Info{ProducerID: -1}, compress.Lz4, compress.DefaultLevel)
	for i := range maxRecordErrors + 10 {
		b.Add(&Record{Timestamp: now, OffsetDelta: int32(i)})
	}
	batch, err := b.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	rules := benchRules()
	rules.RequireKeys = true
	_, _, err = Validate(batch, rules)
	var bad *InvalidRecords
	if !errors.As(err, &bad) || len(bad.Records) != maxRecordErrors || !strings.HasPrefix(err.Error(), "1010 of 1010 records are refused") {
		t.Errorf("%v", err)
	}
}

// TestRepairs is about batches that are taken, and what becomes of them.
func TestRepairs(t *testing.T) {
	set := func(f func(*twinBatch)) func(*twinBatch) { return f }
	for _, c := range []struct {
		name   string
		batch  func(*twinBatch) // as it comes
		rules  func(*Rules)
		stored func(*twinBatch) // what the batch becomes
	}{
		{"nothing", nil, nil, nil},
		{"no max timestamp", set(func(t *twinBatch) { t.MaxTimestamp = -1 }), nil, set(func(t *twinBatch) { t.MaxTimestamp = now + 200 })},
		{"wrong max timestamp", set(func(t *twinBatch) { t.MaxTimestamp = now + 5 }), nil, set(func(t *twinBatch) { t.MaxTimestamp = now + 200 })},
		{"no timestamps", set(func(t *twinBatch) {
			t.FirstTimestamp, t.MaxTimestamp = -1, now
			t.records[1].TimestampDelta64, t.records[2].TimestampDelta64 = 0, 0
		}), func(r *Rules) { r.BeforeMaxMs = 10 }, set(func(t *twinBatch) { t.MaxTimestamp = -1 })},
		{"negative timestamps", set(func(t *twinBatch) { t.FirstTimestamp = -5000 }), nil, set(func(t *twinBatch) { t.MaxTimestamp = -1 })},
		{"log append time", nil, func(r *Rules) { r.LogAppendTime, r.NowMs = true, 5 },
			set(func(t *twinBatch) { t.Attributes, t.MaxTimestamp = 8, 5 })},
		{"log append time without limits", set(func(t *twinBatch) { t.FirstTimestamp = math.MaxInt64 }), func(r *Rules) { r.LogAppendTime, r.NowMs = true, 5 },
			set(func(t *twinBatch) { t.Attributes, t.MaxTimestamp = 8, 5 })},
		{"timestamp type of the client", set(func(t *twinBatch) { t.Attributes, t.MaxTimestamp = 8, now+999 }), nil,
			set(func(t *twinBatch) { t.Attributes, t.MaxTimestamp = 0, now+200 })},
		{"delete horizon of the client", set(func(t *twinBatch) { t.Attributes = 0x40 }), nil, set(func(t *twinBatch) { t.Attributes = 0 })},
		{"bits without a meaning", set(func(t *twinBatch) { t.Attributes, t.records[1].Attributes = 0x7f80-0x8000, 5 }), nil, nil},
		{"idempotent", set(func(t *twinBatch) { t.ProducerID, t.ProducerEpoch, t.FirstSequence = 9, 3, math.MaxInt32 }), nil, nil},
		{"transaction", set(func(t *twinBatch) { t.Attributes, t.ProducerID, t.ProducerEpoch, t.FirstSequence = 16, 9, 3, 0 }), nil, nil},
		{"sequence of nobody", set(func(t *twinBatch) { t.FirstSequence = 5 }), nil, nil},
		{"empty keys in a compacted topic", nil, func(r *Rules) { r.RequireKeys = true }, nil},
		{"exactly at the limits", set(func(t *twinBatch) { t.records[2].TimestampDelta64 = -300 }), func(r *Rules) { r.NowMs, r.BeforeMaxMs, r.AfterMaxMs, r.MaxSize = now, 300, 200, 103 }, nil},
		{"large record that is not compressed", nil, func(r *Rules) { r.MaxRecord = 1 }, nil},
	} {
		before, after := three(), three()
		if c.batch != nil {
			c.batch(before)
			c.batch(after)
		}
		if c.stored != nil {
			c.stored(after)
		}
		rules := benchRules()
		if c.rules != nil {
			c.rules(rules)
		}
		b, want := before.bytes(t), after.bytes(t)
		out, infos, err := Validate(b, rules)
		if err != nil || &out[0] != &b[0] || !bytes.Equal(out, want) {
			t.Errorf("%s: %v, stored\n%x, want\n%x", c.name, err, out, want)
			continue
		}
		if info, err := ParseHeader(out); err != nil || len(infos) != 1 || infos[0] != info {
			t.Errorf("%s: %+v, want %+v", c.name, infos, info)
		}
	}
}

// TestRecompression goes from every codec to every other, with what else may change.
func TestRecompression(t *testing.T) {
	for from := compress.None; from.Known(); from++ {
		for to := compress.None; to.Known(); to++ {
			for _, appendTime := range []bool{false, true} {
				batch := three()
				batch.records[0].Value = bytes.Repeat([]byte("abc"), 1000)
				batch.Attributes = int16(from) | 0x10
				batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = 9, 3, 77
				batch.MaxTimestamp = -1
				b := batch.bytes(t)
				came := slices.Clone(b)
				rules := benchRules()
				rules.LogAppendTime = appendTime
				rules.Compression = &Compression{Codec: to, Level: compress.DefaultLevel}
				out, infos, err := Validate(b, rules)
				if err != nil {
					t.Fatalf("%v to %v: %v", from, to, err)
				}
				if from != to && !bytes.Equal(b, came) {
					t.Errorf("%v to %v: what came was changed", from, to)
				}
				if from == to && &out[0] != &b[0] {
					t.Errorf("%v to %v: was copied", from, to)
				}
				stored, err := twinRead(out)
				if err != nil {
					t.Fatalf("%v to %v: %v", from, to, err)
				}
				want := *batch
				want.Attributes, want.MaxTimestamp = int16(to)|0x10, now+200
				if appendTime {
					want.Attributes, want.MaxTimestamp = want.Attributes|8, rules.NowMs
				}
				want.Records, want.Length, want.CRC, stored.Records, stored.Length, stored.CRC = nil, 0, 0, nil, 0, 0
				for i := range stored.records {
					stored.records[i].Length, stored.records[i].TimestampDelta = 0, 0
				}
				stored.Magic = 0
				want.Magic = 0
				if got, want := fmt.Sprintf("%+v", *stored), fmt.Sprintf("%+v", want); got != want {
					t.Errorf("%v to %v: stored\n%s, want\n%s", from, to, got, want)
				}
				if info, _ := ParseHeader(out); infos[0] != info || info.Size != len(out) {
					t.Errorf("%v to %v: %+v, want %+v", from, to, infos[0], info)
				}
			}
		}
	}
}

// TestValidateAllocatesLittle holds the produce path to what it may allocate: the slice of infos, and the new batch.
func TestValidateAllocatesLittle(t *testing.T) {
	for codec := compress.None; codec.Known(); codec++ {
		batch, rules := benchBatch(t, 100, 100, codec), benchRules()
		n := testing.AllocsPerRun(100, func() {
			if _, _, err := Validate(batch, rules); err != nil {
				t.Fatal(err)
			}
		})
		if n > 2 { // a collection may empty the pools on the way
			t.Errorf("%v: %v allocations", codec, n)
		}
	}
}
