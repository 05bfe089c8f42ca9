package recordbatch

import (
	"encoding/binary"
	"math"
	"testing"

	"godwit/internal/base"
	"godwit/internal/compress"
)

func TestVarints(t *testing.T) {
	for _, v := range []int64{0, -1, 1, 63, -64, 64, 8191, -8192, 8192, 1 << 20, math.MaxInt32, math.MinInt32, math.MaxInt32 + 1, 1 << 40, math.MaxInt64, math.MinInt64} {
		b := binary.AppendVarint([]byte{7}, v)
		if n := varintLen(v); n != len(b)-1 {
			t.Errorf("%d takes %d bytes, want %d", v, n, len(b)-1)
		}
		if got, i := varlong(b, 1); got != v || i != len(b) {
			t.Errorf("%d is read as %d, up to %d of %d", v, got, i, len(b))
		}
		got, i := varint(b, 1)
		if fits := v == int64(int32(v)); fits && (int64(got) != v || i != len(b)) || !fits && i <= len(b) {
			t.Errorf("%d is read as %d, up to %d of %d", v, got, i, len(b))
		}
		for cut := range b {
			if _, i := varlong(b[:cut], 1); i != cut+1 {
				t.Errorf("%d cut at %d is read up to %d", v, cut, i)
			}
			if _, i := varint(b[:cut], 1); i != cut+1 {
				t.Errorf("%d cut at %d is read up to %d", v, cut, i)
			}
		}
	}
	long := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}
	if v, i := varlong(long[1:], 0); v != 0 || i != 10 {
		t.Errorf("a zero of ten bytes is %d, up to %d", v, i)
	}
	if _, i := varlong(long, 0); i != len(long)+1 {
		t.Error("eleven bytes are taken for 64 bits")
	}
	if v, i := varint(long[6:], 0); v != 0 || i != 5 {
		t.Errorf("a zero of five bytes is %d, up to %d", v, i)
	}
	if _, i := varint(long[5:], 0); i != 7 {
		t.Error("six bytes are taken for 32 bits")
	}
	if _, i := varint([]byte{0xff, 0xff, 0xff, 0xff, 0x1f}, 0); i != 6 {
		t.Error("33 bits are taken for 32")
	}
	if _, i := varlong([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03}, 0); i != 11 {
		t.Error("65 bits are taken for 64")
	}
}

func TestLastSequenceWraps(t *testing.T) {
	for _, c := range []struct{ first, delta, want int32 }{
		{-1, 5, -1}, {0, 0, 0}, {7, 5, 12}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 4, 2},
	} {
		i := Info{BaseSequence: c.first, LastOffsetDelta: c.delta}
		if got := i.LastSequence(); got != c.want {
			t.Errorf("%d and %d more is %d, want %d", c.first, c.delta, got, c.want)
		}
	}
}

func TestSetters(t *testing.T) {
	b := three().bytes(t)
	SetBaseOffset(b, 1<<40)
	SetLeaderEpoch(b, 12)
	if !VerifyCRC(b) {
		t.Error("the checksum covers what brokers change")
	}
	SetMaxTimestamp(b, now+7)
	if i, err := ParseHeader(b); err != nil || !VerifyCRC(b) || i.BaseOffset != 1<<40 || i.LastOffset() != 1<<40+2 || i.LeaderEpoch != 12 || i.MaxTimestamp != now+7 || i.IsLogAppendTime() {
		t.Errorf("%+v (%v)", i, err)
	}
	SetLogAppendTime(b, now+9)
	var rd Reader
	if err := rd.Reset(b, 0); err != nil || !VerifyCRC(b) || !rd.Info.IsLogAppendTime() || !rd.Next() || rd.Record.Timestamp != now+9 || rd.Record.Offset != 1<<40 {
		t.Errorf("%+v %+v (%v)", rd.Info, rd.Record, err)
	}
	if VerifyCRC(b[:60]) {
		t.Error("half a header has a checksum")
	}
}

// TestReaderIsReused goes from a good batch to a bad one and back, open and closed.
func TestReaderIsReused(t *testing.T) {
	var rd Reader
	rd.Close()
	if rd.Next() {
		t.Error("a record of nothing")
	}
	for range 3 {
		for codec := compress.None; codec.Known(); codec++ {
			batch := three()
			batch.Attributes = int16(codec)
			b := batch.bytes(t)
			if err := rd.Reset(b[:len(b)-1], 1000); base.CodeOf(err) != base.CodeCorruptMessage || rd.Next() || rd.Err() != err {
				t.Fatalf("cut: %v", err)
			}
			if codec != compress.None {
				if err := rd.Reset(b, 41); base.CodeOf(err) != base.CodeMessageTooLarge || rd.Next() || rd.Err() != err {
					t.Fatalf("limit: %v", err)
				}
			}
			if err := rd.Reset(b, 42); err != nil {
				t.Fatal(err)
			}
			n := 0
			for ; rd.Next(); n++ {
			}
			if n != 3 || rd.Err() != nil || rd.Next() {
				t.Fatalf("%v: %d records, %v", codec, n, rd.Err())
			}
			batch.NumRecords, batch.LastOffsetDelta = 5, 4
			if err := rd.Reset(batch.bytes(t), 42); err != nil {
				t.Fatal(err)
			}
			for rd.Next() {
			}
			if base.CodeOf(rd.Err()) != base.CodeInvalidRecord || rd.Next() {
				t.Fatalf("two records too few: %v", rd.Err())
			}
		}
		rd.Close()
	}
	b := three().bytes(t)
	b[22] |= 6
	if err := rd.Reset(b, 1000); base.CodeOf(err) != base.CodeUnsupportedCodec {
		t.Errorf("codec 6: %v", err)
	}
}

// TestReaderDoesNotAllocate for records, whatever their number.
func TestReaderDoesNotAllocate(t *testing.T) {
	var rd Reader
	defer rd.Close()
	for codec := compress.None; codec.Known(); codec++ {
		b := benchBatch(t, 500, 50, codec)
		walk := func() {
			if err := rd.Reset(b, 1<<20); err != nil {
				t.Fatal(err)
			}
			for rd.Next() {
			}
		}
		walk()
		if n := testing.AllocsPerRun(50, walk); n > 1 { // a collection may empty the codec's pools
			t.Errorf("%v: %v allocations for a walk", codec, n)
		}
	}
}

func TestBuilderErrors(t *testing.T) {
	var b Builder
	b.Begin(Info{}, compress.Gzip, 77)
	b.Add(&Record{})
	if out, err := b.AppendTo([]byte("x")); base.CodeOf(err) != base.CodeUnknown || string(out) != "x" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestEmptyBatch keeps what a producer's state needs (KIP-98) and drops what only records have.
func TestEmptyBatch(t *testing.T) {
	var b Builder
	info := Info{LastOffsetDelta: 9, BaseOffset: 100, LeaderEpoch: 3, Attributes: attrTransactional | attrDeleteHorizon | 4, BaseTimestamp: 5, MaxTimestamp: 66, ProducerID: 7, ProducerEpoch: 8, BaseSequence: 9}
	b.Begin(info, compress.Zstd, compress.DefaultLevel)
	out, err := b.AppendTo(nil)
	if err != nil || len(out) != HeaderSize || !VerifyCRC(out) || b.Len() != 0 {
		t.Fatalf("%x, %v", out, err)
	}
	got, err := ParseHeader(out)
	want := info
	want.Size, want.Attributes, want.BaseTimestamp, want.CRC = HeaderSize, attrTransactional, -1, got.CRC
	if err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	var rd Reader
	if err := rd.Reset(out, 0); err != nil || rd.Next() || rd.Err() != nil {
		t.Errorf("%v, %v", err, rd.Err())
	}
}
