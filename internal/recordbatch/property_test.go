package recordbatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// drawBatch draws a batch as franz-go has it; a client's has no gaps and no control records.
func drawBatch(t *rapid.T, tb testing.TB, client bool) *twinBatch {
	b := new(twinBatch)
	blob := rapid.Custom(func(t *rapid.T) []byte {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return bytes.Repeat([]byte("word "), rapid.IntRange(0, 3000).Draw(t, "words"))
		}
		return rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "blob")
	})
	delta := int32(0)
	for i := range rapid.IntRange(1, 20).Draw(t, "records") {
		r := kmsg.Record{Attributes: rapid.Int8().Draw(t, "attributes"), Key: blob.Draw(t, "key"), Value: blob.Draw(t, "value")}
		r.TimestampDelta64 = rapid.Int64Range(-1000, 1000).Draw(t, "timestamp")
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, kmsg.Header{Key: string(blob.Draw(t, "name")), Value: blob.Draw(t, "header")})
		}
		if !client && i > 0 {
			delta += int32(rapid.IntRange(0, 1000).Draw(t, "gap"))
		}
		r.OffsetDelta = delta
		delta++
		b.records = append(b.records, r)
	}
	b.NumRecords, b.LastOffsetDelta = int32(len(b.records)), delta-1
	b.Attributes = int16(rapid.IntRange(0, 4).Draw(t, "codec"))
	b.FirstTimestamp = now + rapid.Int64Range(-1000, 1000).Draw(t, "base timestamp")
	b.MaxTimestamp = now + rapid.Int64Range(-2000, 2000).Draw(t, "max timestamp")
	b.PartitionLeaderEpoch = rapid.Int32().Draw(t, "leader epoch")
	b.ProducerID = rapid.SampledFrom([]int64{-1, 0, 77, math.MaxInt64}).Draw(t, "producer")
	b.ProducerEpoch = int16(rapid.IntRange(0, math.MaxInt16).Draw(t, "epoch"))
	b.FirstSequence = rapid.Int32Min(0).Draw(t, "sequence")
	if !client {
		b.LastOffsetDelta += int32(rapid.IntRange(0, 5).Draw(t, "tail"))
		b.FirstOffset = rapid.Int64Range(0, math.MaxInt64-1<<20).Draw(t, "offset")
		b.Attributes |= rapid.SampledFrom([]int16{0, 8, 0x10, 0x30, 0x40, 0x58}).Draw(t, "flags")
	}
	return b
}

// TestReaderReadsWhatFranzWrites compares field by field.
func TestReaderReadsWhatFranzWrites(t *testing.T) {
	var rd Reader
	rapid.Check(t, func(rt *rapid.T) {
		want := drawBatch(rt, t, false)
		b := want.bytes(t)
		if !VerifyCRC(b) {
			rt.Fatal("checksum")
		}
		tail := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(rt, "behind the batch")
		if err := rd.Reset(append(b, tail...), 8<<20); err != nil {
			rt.Fatal(err)
		}
		want.CRC = int32(binary.BigEndian.Uint32(b[17:]))
		if diff := want.same(&rd); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// TestFranzReadsWhatBuilderWrites takes a batch through Reader and Builder, some records left out.
func TestFranzReadsWhatBuilderWrites(t *testing.T) {
	var rd Reader
	var w Builder
	rapid.Check(t, func(rt *rapid.T) {
		defer rd.Close()
		if err := rd.Reset(drawBatch(rt, t, false).bytes(t), 8<<20); err != nil {
			rt.Fatal(err)
		}
		codec := compress.Codec(rapid.IntRange(0, 4).Draw(rt, "to"))
		w.Begin(rd.Info, codec, compress.DefaultLevel)
		if rapid.Bool().Draw(rt, "set horizon") {
			w.SetDeleteHorizon(now + 12345)
		}
		var kept []string
		for rd.Next() {
			if rapid.Bool().Draw(rt, "keep") {
				w.Add(&rd.Record)
				kept = append(kept, describe(&rd.Info, &rd.Record))
			}
		}
		b, err := w.AppendTo(nil)
		if err != nil || w.Len() != len(kept) {
			rt.Fatalf("%d records, %v", w.Len(), err)
		}
		twin, err := twinRead(b)
		if err != nil {
			rt.Fatal(err)
		}
		old := rd.Info
		if err := rd.Reset(b, 8<<20); err != nil {
			rt.Fatal(err)
		}
		if len(kept) > 0 && rd.Info.Codec() != codec || rd.Info.LastOffset() != old.LastOffset() || rd.Info.LastSequence() != old.LastSequence() {
			rt.Fatalf("%+v became %+v", old, rd.Info)
		}
		for k := range kept {
			if !rd.Next() || describe(&rd.Info, &rd.Record) != kept[k] {
				rt.Fatalf("record %d: %s, want %s", k, describe(&rd.Info, &rd.Record), kept[k])
			}
		}
		if err := rd.Reset(b, 8<<20); err != nil {
			rt.Fatal(err)
		}
		if diff := twin.same(&rd); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// TestValidateTakesWhatFranzWrites with any rules that have no reason to refuse it, and stores the same records.
func TestValidateTakesWhatFranzWrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		came := drawBatch(rt, t, true)
		b := came.bytes(t)
		rules := benchRules()
		rules.LogAppendTime = rapid.Bool().Draw(rt, "log append time")
		if rapid.Bool().Draw(rt, "recompress") {
			rules.Compression = &Compression{Codec: compress.Codec(rapid.IntRange(0, 4).Draw(rt, "to")), Level: compress.DefaultLevel}
		}
		out, infos, err := Validate(b, rules)
		if err != nil {
			rt.Fatal(err)
		}
		checkStored(rt, rules, out, infos)
		stored, err := twinRead(out)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range stored.records {
			stored.records[i].Length, stored.records[i].TimestampDelta = 0, 0
		}
		if got, want := fmt.Sprintf("%+v", stored.records), fmt.Sprintf("%+v", came.records); got != want {
			rt.Fatalf("stored\n%s, want\n%s", got, want)
		}
		top := int64(-1)
		for _, r := range came.records {
			top = max(top, came.FirstTimestamp+r.TimestampDelta64)
		}
		if rules.LogAppendTime {
			top = now
		}
		if stored.MaxTimestamp != top {
			rt.Fatalf("max timestamp %d, want %d", stored.MaxTimestamp, top)
		}
	})
}

// checkStored holds what Validate returned against what it promises.
func checkStored(tb interface{ Fatalf(string, ...any) }, rules *Rules, out []byte, infos []Info) {
	info, err := ParseHeader(out)
	switch {
	case err != nil || len(infos) != 1 || infos[0] != info || info.Size != len(out) || len(out) > rules.MaxSize:
		tb.Fatalf("info %+v, want %+v of %d bytes (%v)", infos, info, len(out), err)
	case !VerifyCRC(out):
		tb.Fatalf("checksum of the stored batch")
	case info.IsLogAppendTime() != rules.LogAppendTime || info.Attributes&(attrControl|attrDeleteHorizon) != 0:
		tb.Fatalf("attributes %x", info.Attributes)
	case rules.Compression != nil && info.Codec() != rules.Compression.Codec:
		tb.Fatalf("codec %v", info.Codec())
	}
	// Stored again, without the timestamp type, it stays as it is.
	again := slices.Clone(out)
	plain := *rules
	if plain.LogAppendTime {
		again[offAttributes+1] &^= attrLogAppendTime
		sumUp(again)
	}
	once, _, err := Validate(again, &plain)
	if err != nil || !bytes.Equal(once, out) {
		tb.Fatalf("stored again:\n%x (%v), was\n%x", once, err, out)
	}
}

// TestScanAgreesWithReader: what scan takes, Reader takes, with the same figures; what Reader refuses, scan does. Most damage
// is of one byte.
func TestScanAgreesWithReader(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		batch := drawBatch(rt, t, rapid.Bool().Draw(rt, "client"))
		batch.Attributes = 0
		b := batch.bytes(t)
		if rapid.Bool().Draw(rt, "damage") {
			b[rapid.IntRange(HeaderSize, len(b)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
		}
		checkScan(rt, b)
	})
}

func checkScan(tb interface{ Fatalf(string, ...any) }, b []byte) {
	var rd Reader
	if rd.Reset(b, 1<<20) != nil {
		return
	}
	defer rd.Close()
	rd.Info.Attributes &^= attrLogAppendTime // which hides the deltas
	var want, got scan
	want.oldest, want.newest = math.MaxInt64, math.MinInt64
	ok := true
	for n := int32(0); ; n++ {
		left := len(rd.rest)
		if !rd.Next() {
			break
		}
		r := &rd.Record
		ok = ok && r.OffsetDelta == n
		delta := r.Timestamp - rd.Info.BaseTimestamp
		want.oldest, want.newest = min(want.oldest, delta), max(want.newest, delta)
		want.longest = max(want.longest, body(left-len(rd.rest)))
		want.nullKey = want.nullKey || r.Key == nil
	}
	ok = ok && rd.Err() == nil
	if seen := got.run(rd.records, int(rd.Info.Records)); seen != ok || ok && got != want {
		tb.Fatalf("scan says %v, %+v; reader says %v, %+v (%v)", seen, got, ok, want, rd.Err())
	}
}

// TestEveryByteMatters changes each byte of a valid batch, and cuts it everywhere. The checksum finds all that it covers; with the
// checksum put right, whatever is taken still keeps the promises.
func TestEveryByteMatters(t *testing.T) {
	for codec := compress.None; codec.Known(); codec++ {
		batch := three()
		batch.Attributes = int16(codec)
		batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = 9, 3, 77
		good := batch.bytes(t)
		for i := range good {
			if _, _, err := Validate(slices.Clone(good[:i]), benchRules()); err == nil {
				t.Fatalf("%v: cut at %d it is taken", codec, i)
			}
			for _, flip := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
				b := slices.Clone(good)
				b[i] ^= flip
				_, _, err := Validate(b, benchRules())
				if covered := i < offLeaderEpoch || i >= offMagic; covered && err == nil {
					t.Fatalf("%v: byte %d changed by %02x is taken", codec, i, flip)
				}
				if err != nil && base.CodeOf(err) == base.CodeUnknown {
					t.Fatalf("%v: byte %d changed by %02x: %v", codec, i, flip, err)
				}
				b = slices.Clone(good)
				b[i] ^= flip
				sumUp(b)
				if out, infos, err := Validate(b, benchRules()); err == nil {
					checkStored(t, benchRules(), out, infos)
				} else if base.CodeOf(err) == base.CodeUnknown {
					t.Fatalf("%v: byte %d changed by %02x, with its checksum: %v", codec, i, flip, err)
				}
			}
		}
	}
}
