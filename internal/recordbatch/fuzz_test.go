package recordbatch

import (
	"encoding/binary"
	"slices"
	"testing"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// seal makes bytes pass for one whole batch with a checksum that holds, so that fuzzing gets to what is behind it.
func seal(b []byte) []byte {
	b = slices.Clone(b)
	if len(b) >= HeaderSize {
		binary.BigEndian.PutUint32(b[offLength:], uint32(len(b)-lengthOverhead))
		b[offMagic] = magic
		sumUp(b)
	}
	return b
}

// FuzzValidate: whatever is accepted keeps Validate's promises and is read by franz-go. choices picks rules.
func FuzzValidate(f *testing.F) {
	f.Add(three().bytes(f), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, choices uint8) {
		rules := benchRules()
		rules.MaxDecompressed = 1 << 20
		rules.LogAppendTime = choices&1 != 0
		rules.RequireKeys = choices&2 != 0
		if c := compress.Codec(choices >> 2 & 7); c.Known() {
			rules.Compression = &Compression{Codec: c, Level: compress.DefaultLevel}
		}
		if choices&0x40 != 0 {
			rules.BeforeMaxMs, rules.MaxRecord = 1000, 1000
		}
		if choices&0x80 == 0 {
			b = seal(b)
		}
		before := slices.Clone(b)
		out, infos, err := Validate(b, rules)
		if err != nil {
			if base.CodeOf(err) == base.CodeUnknown || out != nil || infos != nil {
				t.Fatalf("refused with %v", err)
			}
			if !slices.Equal(b, before) {
				t.Fatal("refused and changed")
			}
			return
		}
		checkStored(t, rules, out, infos)
		twin, err := twinRead(out)
		if err != nil {
			t.Fatalf("franz-go: %v", err)
		}
		var rd Reader
		if err := rd.Reset(out, 1<<20); err != nil {
			t.Fatal(err)
		}
		if diff := twin.same(&rd); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzRecords: what a Reader reads to the end, franz-go reads too, with the same records; and scan agrees with it.
func FuzzRecords(f *testing.F) {
	f.Add(three().bytes(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = seal(b)
		checkScan(t, b)
		var rd Reader
		if rd.Reset(b, 1<<20) != nil {
			return
		}
		for rd.Next() {
			n := int32(0)
			for name := range rd.Record.All() {
				if n++; name == nil {
					t.Fatal("a header without a name")
				}
			}
			if n != rd.Record.Headers {
				t.Fatalf("%d headers, %d are counted", n, rd.Record.Headers)
			}
		}
		if rd.Err() != nil {
			return
		}
		twin, err := twinRead(b)
		if err != nil {
			t.Fatalf("franz-go: %v", err)
		}
		if err := rd.Reset(b, 1<<20); err != nil {
			t.Fatal(err)
		}
		if diff := twin.same(&rd); diff != "" {
			t.Fatal(diff)
		}
	})
}
