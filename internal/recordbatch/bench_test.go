package recordbatch

import (
	"fmt"
	"math"
	"testing"

	"godwit/internal/compress"
)

// benchBatch makes a batch of n records with values of size bytes, as clients send it. Values are JSON-like text.
func benchBatch(tb testing.TB, n, size int, c compress.Codec) []byte {
	var b Builder
	b.Begin(Info{ProducerID: 9, ProducerEpoch: 1}, c, compress.DefaultLevel)
	for i := range n {
		value := make([]byte, 0, size+64)
		for k := 0; len(value) < size; k++ {
			value = fmt.Appendf(value, `{"id":%d,"name":"item %d of %x"},`, i*7919+k, k, (i+k)*2654435761)
		}
		b.Add(&Record{Timestamp: now + int64(i), OffsetDelta: int32(i), Key: fmt.Appendf(nil, "key-%d", i), Value: value[:size]})
	}
	out, err := b.AppendTo(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

const now = 1_700_000_000_000

func benchRules() *Rules {
	return &Rules{MaxSize: 4 << 20, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 3_600_000, NowMs: now, MaxDecompressed: 64 << 20}
}

func BenchmarkValidate(b *testing.B) {
	for _, c := range []struct{ n, size int }{{16, 1024}, {160, 100}, {1000, 10}, {1000, 1024}} {
		for codec := compress.None; codec.Known(); codec++ {
			b.Run(fmt.Sprintf("%v/%dx%d", codec, c.n, c.size), func(b *testing.B) {
				batch, rules := benchBatch(b, c.n, c.size, codec), benchRules()
				plain := len(benchBatch(b, c.n, c.size, compress.None))
				b.SetBytes(int64(plain))
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := Validate(batch, rules); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkChecksum is what Validate cannot do without.
func BenchmarkChecksum(b *testing.B) {
	batch := benchBatch(b, 16, 1024, compress.None)
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if !VerifyCRC(batch) {
			b.Fatal("checksum")
		}
	}
}

func BenchmarkValidateLogAppendTime(b *testing.B) {
	batch, rules := benchBatch(b, 16, 1024, compress.None), benchRules()
	rules.LogAppendTime = true
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		rules.NowMs++
		batch[offAttributes+1] &^= attrLogAppendTime // as it came
		sumUp(batch)
		if _, _, err := Validate(batch, rules); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecompress(b *testing.B) {
	batch := benchBatch(b, 160, 100, compress.None)
	for codec := compress.Gzip; codec.Known(); codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			rules := benchRules()
			rules.Compression = &Compression{Codec: codec, Level: compress.DefaultLevel}
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Validate(batch, rules); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseHeader(b *testing.B) {
	batch := benchBatch(b, 1, 10, compress.None)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseHeader(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReader(b *testing.B) {
	batch := benchBatch(b, 1000, 100, compress.None)
	var rd Reader
	defer rd.Close()
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if err := rd.Reset(batch, 0); err != nil {
			b.Fatal(err)
		}
		for rd.Next() {
		}
	}
}

func BenchmarkBuilder(b *testing.B) {
	batch := benchBatch(b, 1000, 100, compress.None)
	var rd Reader
	defer rd.Close()
	var w Builder
	var out []byte
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if err := rd.Reset(batch, 0); err != nil {
			b.Fatal(err)
		}
		w.Begin(rd.Info, compress.None, 0)
		for rd.Next() {
			w.Add(&rd.Record)
		}
		out, _ = w.AppendTo(out[:0])
	}
}
