package compress

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// codecs are those that compress.
var codecs = []Codec{Gzip, Snappy, Lz4, Zstd}

// text is n bytes that compress as JSON does.
func text(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, `{"id":%d,"hash":"%08x","name":"item"},`, i, uint32(i)*2654435761)
	}
	return b[:n]
}

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func mustCompress(tb testing.TB, src []byte, c Codec) []byte {
	tb.Helper()
	b, err := Compress(nil, src, c, DefaultLevel)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestNames(t *testing.T) {
	for i, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		c, ok := Parse(name)
		if !ok || int(c) != i || c.String() != name || !c.Known() {
			t.Errorf("%s is %d (%v)", name, c, ok)
		}
	}
	if _, ok := Parse("brotli"); ok || Codec(5).Known() || Codec(5).String() != "codec 5" {
		t.Error("a sixth codec is known")
	}
}

func TestUnknownCodec(t *testing.T) {
	want := "codec 7 is not known; codecs are 0 (none) to 4 (zstd)"
	if b, err := Compress([]byte("x"), nil, 7, 0); string(b) != "x" || err.Error() != want {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := Decompress([]byte("x"), nil, 7, 0); string(b) != "x" || err.Error() != want {
		t.Errorf("%q, %v", b, err)
	}
}

// TestRoundTrip in all codecs and levels, behind what is there already.
func TestRoundTrip(t *testing.T) {
	levels := [][]int{{0}, {DefaultLevel, -1, 0, 1, 6, 9}, {0, 5}, {DefaultLevel, 1, 2, 8, 9, 10, 12, 17}, {DefaultLevel, -131072, -1, 1, 3, 6, 9, 19, 22}}
	inputs := [][]byte{nil, {1}, text(100), text(16 << 10), text(32<<10 + 1), text(64 << 10), text(64<<10 + 1), text(300_000), noise(1000), noise(200_000), make([]byte, 1<<20)}
	for c, ls := range levels {
		for _, level := range ls {
			for _, in := range inputs {
				z, err := Compress([]byte("before"), in, Codec(c), level)
				if err != nil || !bytes.HasPrefix(z, []byte("before")) {
					t.Fatalf("%v at level %d: %v", Codec(c), level, err)
				}
				z = z[len("before"):]
				if len(z) > len(in)+len(in)/100+100 {
					t.Errorf("%v at level %d: %d bytes became %d", Codec(c), level, len(in), len(z))
				}
				got, err := Decompress([]byte("there"), z, Codec(c), len(in))
				if err != nil || !bytes.Equal(got, append([]byte("there"), in...)) {
					t.Fatalf("%v at level %d: %d bytes became %d: %v", Codec(c), level, len(in), len(got), err)
				}
				if len(in) > 0 {
					if got, err = Decompress([]byte("there"), z, Codec(c), len(in)-1); err != ErrTooLarge || string(got) != "there" {
						t.Fatalf("%v at level %d: %d bytes with a limit of one less: %d, %v", Codec(c), level, len(in), len(got), err)
					}
				}
			}
		}
	}
}

func TestLevelsOutOfRange(t *testing.T) {
	for _, c := range []struct {
		codec Codec
		level int
		want  string
	}{
		{Gzip, -2, "gzip has no level -2; levels are -1 to 9"},
		{Gzip, 10, "gzip has no level 10; levels are -1 to 9"},
		{Lz4, 0, "lz4 has no level 0; levels are 1 to 17"},
		{Lz4, 18, "lz4 has no level 18; levels are 1 to 17"},
		{Zstd, -131073, "zstd has no level -131073; levels are -131072 to 22"},
		{Zstd, 23, "zstd has no level 23; levels are -131072 to 22"},
	} {
		if b, err := Compress([]byte("x"), text(10), c.codec, c.level); string(b) != "x" || err == nil || err.Error() != c.want {
			t.Errorf("%q, %v; want %s", b, err, c.want)
		}
	}
}

// TestLevelsMakeADifference: the highest compresses more than the lowest, and LZ4's default is its fast mode.
func TestLevelsMakeADifference(t *testing.T) {
	in := text(60_000)
	for c, levels := range map[Codec][2]int{Gzip: {1, 9}, Lz4: {9, 17}, Zstd: {4, 22}} {
		low, err := Compress(nil, in, c, levels[0])
		if err != nil {
			t.Fatal(err)
		}
		high, err := Compress(nil, in, c, levels[1])
		if err != nil || len(high) >= len(low) {
			t.Errorf("%v: %d bytes at level %d, %d at level %d (%v)", c, len(low), levels[0], len(high), levels[1], err)
		}
	}
}

// TestGoldenBytes pins what is written: stored batches must not depend on the day.
func TestGoldenBytes(t *testing.T) {
	in := bytes.Repeat([]byte("godwit "), 8)
	for c, want := range map[Codec]string{
		Snappy: "82534e4150505900" + "00000001" + "00000001" + "0000000c" + "38" + "18676f6477697420" + "c20700",
		Lz4:    "04224d18" + "604082" + "1e000000" + "7f676f64776974200700" + "0a001c00002300c0" + "6477697420676f6477697420" + "00000000",
	} {
		if got := hex.EncodeToString(mustCompress(t, in, c)); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}

// TestLiteralsThatLookLikeCopies: a copy from offset 0 is found, its bytes in a literal are none; with room and without.
func TestLiteralsThatLookLikeCopies(t *testing.T) {
	literal := []byte{10, 0x24, 1, 0, 5, 0, 9, 0, 13, 0, 17, 0}
	copied := append([]byte{14}, append(slices.Clone(literal[1:]), 1, 0)...)
	for _, room := range []int{0, 100} {
		if got, err := Decompress(make([]byte, 0, room), literal, Snappy, 100); err != nil || !bytes.Equal(got, literal[2:]) {
			t.Errorf("%x, %v", got, err)
		}
		if got, err := Decompress(make([]byte, 0, room), copied, Snappy, 100); err != errSnappy {
			t.Errorf("%x, %v", got, err)
		}
	}
}

// TestFranzAgrees: what franz-go writes is read, and what is written franz-go reads.
func TestFranzAgrees(t *testing.T) {
	codec := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	rapid.Check(t, func(rt *rapid.T) {
		c := rapid.SampledFrom(codecs).Draw(rt, "codec")
		in := rapid.SliceOfN(rapid.ByteRange('a', 'd'), 1, 300).Draw(rt, "input")
		in = bytes.Repeat(in, rapid.SampledFrom([]int{1, 100, 1000}).Draw(rt, "times"))
		k, err := kgo.DefaultCompressor(codec[c])
		if err != nil {
			rt.Fatal(err)
		}
		theirs, _ := k.Compress(new(bytes.Buffer), in)
		if got, err := Decompress(nil, theirs, c, len(in)); err != nil || !bytes.Equal(got, in) {
			rt.Fatalf("%v of franz-go: %d bytes became %d: %v", c, len(in), len(got), err)
		}
		got, err := kgo.DefaultDecompressor().Decompress(mustCompress(t, in, c), kgo.CompressionCodecType(c))
		if err != nil || !bytes.Equal(got, in) {
			rt.Fatalf("franz-go: %v: %d bytes became %d: %v", c, len(in), len(got), err)
		}
	})
}

// TestForeignWriters reads what other writers may put into their streams.
func TestForeignWriters(t *testing.T) {
	in := text(200_000)
	frame := func(opts ...lz4.Option) []byte {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		if err := w.Apply(opts...); err != nil {
			t.Fatal(err)
		}
		w.Write(in)
		w.Close()
		return b.Bytes()
	}
	zipped := func(parts ...[]byte) []byte {
		var b bytes.Buffer
		for _, p := range parts {
			w := gzip.NewWriter(&b)
			w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
			w.Write(p)
			w.Close()
		}
		return b.Bytes()
	}
	streamed := func(opts ...zstd.EOption) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, append(opts, zstd.WithEncoderConcurrency(1))...)
		if err != nil {
			t.Fatal(err)
		}
		for p := range slices.Chunk(in, 1000) {
			w.Write(p)
		}
		w.Close()
		return b.Bytes()
	}
	x := mustCompress(t, in[:100_000], Snappy)
	x2 := mustCompress(t, in[100_000:], Snappy)
	z := mustCompress(t, in[:100_000], Zstd)
	skip := append(binary.LittleEndian.AppendUint32([]byte{0x53, 0x2a, 0x4d, 0x18}, 5), "skip!"...)
	for name, c := range map[string]struct {
		codec Codec
		b     []byte
	}{
		"gzip with all of a header":      {Gzip, zipped(in)},
		"gzip of three members":          {Gzip, zipped(in[:5], in[5:150_000], in[150_000:])},
		"snappy as one block":            {Snappy, s2.EncodeSnappy(nil, in)},
		"snappy as one block, better":    {Snappy, s2.EncodeSnappyBest(nil, in)},
		"xerial streams in a row":        {Snappy, slices.Concat(x, x2)},
		"xerial of a later version":      {Snappy, append(append(append([]byte(nil), xerialMagic...), 0, 0, 0, 2, 0, 0, 0, 1), slices.Concat(x[16:], x2[16:])...)},
		"lz4 with blocks of 4 MiB":       {Lz4, frame(lz4.BlockSizeOption(lz4.Block4Mb))},
		"lz4 with blocks of 256 KiB":     {Lz4, frame(lz4.BlockSizeOption(lz4.Block256Kb), lz4.ChecksumOption(false))},
		"lz4 with all checksums":         {Lz4, frame(lz4.BlockSizeOption(lz4.Block64Kb), lz4.BlockChecksumOption(true))},
		"lz4 with its size":              {Lz4, frame(lz4.SizeOption(uint64(len(in))))},
		"zstd without size":              {Zstd, streamed(zstd.WithEncoderCRC(true))},
		"zstd without size and checksum": {Zstd, streamed(zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<15))},
		"zstd with a window of 128 MiB":  {Zstd, streamed(zstd.WithWindowSize(128 << 20))},
		"zstd frames in a row":           {Zstd, slices.Concat(skip, z, skip, mustCompress(t, in[100_000:], Zstd), skip)},
	} {
		got, err := Decompress(nil, c.b, c.codec, len(in))
		if err != nil || !bytes.Equal(got, in) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if got, err := Decompress(nil, c.b, c.codec, len(in)-1); err != ErrTooLarge || len(got) != 0 {
			t.Errorf("%s with a limit of one less: %d bytes, %v", name, len(got), err)
		}
	}
}

// TestRefused is what libraries may take and Java's clients do not, and other damage.
func TestRefused(t *testing.T) {
	good := mustCompress(t, text(100), Lz4)
	lz := func(f func(b []byte) []byte) []byte {
		b := f(slices.Clone(good))
		if len(b) > 6 {
			b[6] = byte(xxh32(b[4:6]) >> 8)
		}
		return b
	}
	x := mustCompress(t, text(100), Snappy)
	zs := mustCompress(t, text(100), Zstd)
	for _, c := range []struct {
		name  string
		codec Codec
		b     []byte
		want  string
	}{
		{"empty gzip", Gzip, nil, "unexpected EOF"},
		{"gzip", Gzip, bytes.Repeat([]byte{7}, 30), "gzip: invalid header"},
		{"gzip and more", Gzip, append(mustCompress(t, text(100), Gzip), make([]byte, 20)...), "gzip: invalid header"},

		{"empty snappy", Snappy, nil, "snappy: damaged block"},
		{"snappy without end of its length", Snappy, []byte{0x80, 0x80}, "snappy: damaged block"},
		{"snappy repeat of s2", Snappy, []byte{12, 0x1c, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 0x01, 0x00}, "snappy: damaged block"},
		{"snappy copy of 16 bits from 0", Snappy, []byte{12, 0x1c, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 0x0e, 0, 0}, "snappy: damaged block"},
		{"snappy copy of 32 bits from 0", Snappy, []byte{12, 0x1c, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 0x0f, 0, 0, 0, 0}, "snappy: damaged block"},
		{"half a snappy copy", Snappy, []byte{12, 0x1c, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 0x0e, 1}, "snappy: damaged block"},
		{"snappy longer than it says", Snappy, []byte{3, 0x1c, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}, "snappy: damaged block"},
		{"snappy shorter than it says", Snappy, []byte{100, 0x1c, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}, "snappy: damaged block"},
		{"xerial of version 0", Snappy, append([]byte(xerialMagic), 0, 0, 0, 0, 0, 0, 0, 0), "snappy: framing of version 0 is not supported, the lowest is 1"},
		{"second xerial of version -1", Snappy, slices.Concat(x, []byte(xerialMagic), bytes.Repeat([]byte{255}, 8)), "snappy: framing of version -1 is not supported, the lowest is 1"},
		{"xerial with half a length", Snappy, append(slices.Clone(x), 0, 0, 0), "unexpected EOF"},
		{"xerial with a long block", Snappy, append(slices.Clone(x), 255, 0, 0, 0, 1), "snappy: a block of 4278190080 bytes is cut at 1"},
		{"xerial with an empty block", Snappy, append(slices.Clone(x), 0, 0, 0, 0), "snappy: damaged block"},

		{"empty lz4", Lz4, nil, "unexpected EOF"},
		{"lz4 magic", Lz4, lz(func(b []byte) []byte { b[0] = 2; return b }), "lz4: magic 184d2202 is not that of a frame, 184d2204"},
		{"lz4 version", Lz4, lz(func(b []byte) []byte { b[4] |= 0x80; return b }), "lz4: frame version 3 is not supported, only 1 is"},
		{"lz4 dictionary", Lz4, lz(func(b []byte) []byte { b[4] |= 1; return b }), "lz4: reserved bits or a dictionary in the descriptor 61 40"},
		{"lz4 reserved bit", Lz4, lz(func(b []byte) []byte { b[4] |= 2; return b }), "lz4: reserved bits or a dictionary in the descriptor 62 40"},
		{"lz4 second reserved bit", Lz4, lz(func(b []byte) []byte { b[5] |= 0x80; return b }), "lz4: reserved bits or a dictionary in the descriptor 60 c0"},
		{"lz4 dependent blocks", Lz4, lz(func(b []byte) []byte { b[4] &^= 0x20; return b }), "lz4: dependent blocks are not supported by Kafka's clients"},
		{"lz4 block size", Lz4, lz(func(b []byte) []byte { b[5] = 0x30; return b }), "lz4: block size code 3 is outside 4 to 7"},
		{"lz4 descriptor", Lz4, append(slices.Clone(good[:6]), good[6]+1), fmt.Sprintf("lz4: checksum %02x of the descriptor does not hold, it should be %02x", good[6]+1, good[6])},
		{"lz4 with half a size", Lz4, lz(func(b []byte) []byte { b[4] |= 8; return b[:14] }), "unexpected EOF"},
		{"lz4 without end", Lz4, good[:len(good)-4], "unexpected EOF"},
		{"lz4 and more", Lz4, append(slices.Clone(good), 0), "lz4: 1 bytes follow the frame"},
		{"lz4 frames in a row", Lz4, slices.Concat(good, good), fmt.Sprintf("lz4: %d bytes follow the frame", len(good))},
		{"lz4 with a large block", Lz4, append(slices.Clone(good[:7]), 1, 0, 1, 0), "lz4: a block of 65537 bytes is larger than the frame's 65536"},
		{"lz4 with half a block", Lz4, append(slices.Clone(good[:7]), 100, 0, 0, 0, 1), "lz4: a block of 100 bytes is cut at 1"},
		{"lz4 of a wrong block", Lz4, append(slices.Clone(good[:7]), 2, 0, 0, 0, 0xf0, 0xff, 0, 0, 0, 0), "lz4: damaged block"},

		{"zstd", Zstd, bytes.Repeat([]byte{7}, 30), "invalid input: magic number mismatch"},
		{"half a zstd", Zstd, zs[:7], "zstd: damaged frame"},
		{"zstd and more", Zstd, append(slices.Clone(zs), 0), "zstd: damaged frame"},
		{"zstd with half of what is skipped", Zstd, []byte{0x50, 0x2a, 0x4d, 0x18, 9, 0, 0, 0, 1}, "zstd: damaged frame"},
	} {
		got, err := Decompress([]byte("x"), c.b, c.codec, 1<<20)
		if string(got) != "x" || err == nil || err.Error() != c.want {
			t.Errorf("%s: %q, %v; want %s", c.name, got, err, c.want)
		}
	}
}

// TestNothing decodes to no bytes, into no memory.
func TestNothing(t *testing.T) {
	frame := mustCompress(t, nil, Lz4)
	for name, c := range map[string]struct {
		codec Codec
		b     []byte
	}{
		"gzip":                    {Gzip, mustCompress(t, nil, Gzip)},
		"xerial":                  {Snappy, mustCompress(t, nil, Snappy)},
		"snappy":                  {Snappy, []byte{0}},
		"lz4":                     {Lz4, frame},
		"lz4 with an empty block": {Lz4, append(slices.Clone(frame[:7]), 1, 0, 0, 0, 0, 0, 0, 0, 0)},
		"zstd":                    {Zstd, mustCompress(t, nil, Zstd)},
	} {
		for _, limit := range []int{0, 10} {
			if got, err := Decompress(nil, c.b, c.codec, limit); err != nil || len(got) != 0 {
				t.Errorf("%s with a limit of %d: %d bytes, %v", name, limit, len(got), err)
			}
		}
		if got, err := Decompress(nil, mustCompress(t, []byte("x"), c.codec), c.codec, -5); err != ErrTooLarge || len(got) != 0 {
			t.Errorf("%s with a negative limit: %d bytes, %v", name, len(got), err)
		}
	}
}

// TestEveryByteMatters cuts and changes compressed text everywhere: no panic, nothing beyond the limit, and
// what is cut is never taken.
func TestEveryByteMatters(t *testing.T) {
	in := text(2000)
	for _, c := range codecs {
		good := mustCompress(t, in, c)
		for i := range good {
			if got, err := Decompress(nil, good[:i], c, 4000); err == nil && len(got) == len(in) {
				t.Errorf("%v: cut at %d it is taken", c, i)
			}
			for _, flip := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
				b := slices.Clone(good)
				b[i] ^= flip
				got, err := Decompress([]byte("x"), b, c, 4000)
				if len(got) > 4001 || err != nil && string(got) != "x" {
					t.Errorf("%v: byte %d changed by %02x: %d bytes, %v", c, i, flip, len(got), err)
				}
			}
		}
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBombsAreCheap: input that claims or yields more than the limit allocates little more than the limit, and
// input that only claims to, next to nothing.
func TestBombsAreCheap(t *testing.T) {
	const limit = 1 << 20
	huge := make([]byte, 256<<20)
	for _, c := range codecs {
		bomb := mustCompress(t, huge, c)
		Decompress(nil, mustCompress(t, text(10), c), c, limit) // fill the pools
		var err error
		if n := allocated(func() { _, err = Decompress(nil, bomb, c, limit) }); err != ErrTooLarge || n > 3*limit {
			t.Errorf("%v: a bomb of %d bytes allocates %d: %v", c, len(bomb), n, err)
		}
	}
	frame := mustCompress(t, text(100), Lz4)
	frame[4] |= lz4ContentSize
	sized := binary.LittleEndian.AppendUint64(slices.Clone(frame[:6]), 1<<40)
	sized = append(append(sized, byte(xxh32(sized[4:])>>8)), frame[7:]...)
	single := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0x20, 0, 0, 0, 0, 5, 0, 0, 7} // claims 512 MiB, has a block of one byte... none
	zipped := mustCompress(t, text(100), Gzip)
	copy(zipped[len(zipped)-4:], []byte{0, 0, 0, 0x30})
	for name, c := range map[string]struct {
		codec Codec
		b     []byte
		large bool
	}{
		"gzip":   {Gzip, zipped, false},
		"snappy": {Snappy, []byte{0x80, 0x80, 0x80, 0x80, 4, 0x1c, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}, false},
		"lz4":    {Lz4, sized, true},
		"zstd":   {Zstd, single, false},
	} {
		var err error
		n := allocated(func() { _, err = Decompress(nil, c.b, c.codec, 1<<30) })
		if err == nil || n > 256<<10 || errors.Is(err, ErrTooLarge) != c.large {
			t.Errorf("%s: a claim of %d bytes allocates %d: %v", name, len(c.b), n, err)
		}
	}
}

// TestTinyBlocks: a zstd frame of many small blocks has a bound far above what it decodes to, or may hold all of it.
func TestTinyBlocks(t *testing.T) {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	in := text(2000)
	for p := range slices.Chunk(in, 40) {
		w.Write(p)
		w.Flush()
	}
	w.Close()
	var got []byte
	if n := allocated(func() { got, err = Decompress(nil, b.Bytes(), Zstd, 1<<30) }); err != nil || !bytes.Equal(got, in) || n > 1<<20 {
		t.Errorf("%d bytes, %d allocated: %v", len(got), n, err)
	}
	zeros := mustCompress(t, make([]byte, 8<<20), Zstd)
	if got, err := Decompress(nil, zeros, Zstd, 8<<20); err != nil || len(got) != 8<<20 {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	if got, err := Decompress(nil, zeros, Zstd, 8<<20-1); err != ErrTooLarge || len(got) != 0 {
		t.Errorf("%d bytes: %v", len(got), err)
	}
}

// TestConcurrentUse shares the pools between goroutines.
func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			in := text(10_000 + g)
			var z, out []byte
			for range 50 {
				for _, c := range codecs {
					var err error
					if z, err = Compress(z[:0], in, c, DefaultLevel); err != nil {
						t.Error(err)
					}
					if out, err = Decompress(out[:0], z, c, len(in)); err != nil || !bytes.Equal(out, in) {
						t.Errorf("%v: %v", c, err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestXxh32 has the vectors of the reference implementation, and lengths around its 16 byte lanes.
func TestXxh32(t *testing.T) {
	for in, want := range map[string]uint32{
		"":    0x02cc5d05,
		"a":   0x550d7456,
		"abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(in)); got != want {
			t.Errorf("%q: %08x, want %08x", in, got, want)
		}
	}
	// The library checks ours: a frame with all checksums, of every length around a lane.
	for n := 1; n < 70; n++ {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		w.Write(text(n))
		w.Close()
		if _, err := Decompress(nil, b.Bytes(), Lz4, n); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		if got, err := io.ReadAll(lz4.NewReader(bytes.NewReader(mustCompress(t, text(n), Lz4)))); err != nil || string(got) != string(text(n)) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestPoolsKeepNoInput: what goes back to a pool does not hold on to a caller's memory.
func TestPoolsKeepNoInput(t *testing.T) {
	w := gzipWriters[0].Get()
	if w == nil {
		mustCompress(t, text(10), Gzip)
		w = gzipWriters[0].Get()
	}
	if w != nil && w.(*gzipWriter).out != nil {
		t.Error("an encoder holds its output")
	}
	Decompress(nil, mustCompress(t, text(10), Gzip), Gzip, 10)
	if r := gzipReaders.Get().(*gzipReader); r.in.Size() != 0 {
		t.Error("a decoder holds its input")
	}
}

func TestLz4SizeAgreesWithTheLibrary(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := []byte(strings.Repeat(rapid.StringN(0, 20, -1).Draw(rt, "word"), rapid.IntRange(0, 300).Draw(rt, "times")))
		b = append(b, rapid.SliceOf(rapid.Byte()).Draw(rt, "tail")...)
		z := make([]byte, lz4.CompressBlockBound(len(b)))
		n, err := lz4.CompressBlock(b, z, nil)
		if err != nil {
			rt.Fatal(err)
		}
		if z = z[:n]; rapid.Bool().Draw(rt, "damage") && n > 0 {
			z[rapid.IntRange(0, n-1).Draw(rt, "at")] ^= rapid.Byte().Draw(rt, "by")
		}
		size, ok := lz4Size(z)
		out := make([]byte, 1<<20)
		m, err := lz4.UncompressBlock(z, out)
		if err == nil && len(z) > 0 && size < 1<<20 && (!ok || m != size) {
			rt.Fatalf("%d bytes (%v), the library has %d", size, ok, m)
		}
	})
}
