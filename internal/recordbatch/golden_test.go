package recordbatch

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// The batches in testdata/java were written by the classes of kafka-clients 4.4.0. The sums here are over what those
// classes read in them: a line for each record.
var java = map[string]struct {
	records int
	sum     string
}{
	"none-12":       {12, "a30ab05919e6cde138890541bf87cec7"},
	"gzip-12":       {12, "a30ab05919e6cde138890541bf87cec7"},
	"snappy-12":     {12, "a30ab05919e6cde138890541bf87cec7"},
	"lz4-12":        {12, "a30ab05919e6cde138890541bf87cec7"},
	"zstd-12":       {12, "a30ab05919e6cde138890541bf87cec7"},
	"gzip-500":      {500, "385ec28eaa8ec5f1e3e1b0e68a74f381"},
	"snappy-500":    {500, "385ec28eaa8ec5f1e3e1b0e68a74f381"},
	"lz4-500":       {500, "385ec28eaa8ec5f1e3e1b0e68a74f381"},
	"lz4hc-500":     {500, "385ec28eaa8ec5f1e3e1b0e68a74f381"},
	"zstd-500":      {500, "385ec28eaa8ec5f1e3e1b0e68a74f381"},
	"appendtime-12": {12, "9e3867b61b93a536cc5eed87b08075ab"},
	"horizon-12":    {6, "c9df4322a4630f2835e5446b811ef223"},
	"commit":        {1, "de7070a6f220ac05e44655f64da74e0d"},
	"abort":         {1, "8d330e03d1254a6dfc7ab596fb3de8b9"},
	"empty":         {0, "d41d8cd98f00b204e9800998ecf8427e"},
}

func javaBatch(tb testing.TB, name string) []byte {
	b, err := os.ReadFile(filepath.Join("testdata", "java", name+".batch"))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// describe prints a record as the sums above have it.
func describe(info *Info, r *Record) string {
	text := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return hex.EncodeToString(b)
	}
	sequence := int64(-1)
	if info.BaseSequence >= 0 {
		sequence = (int64(info.BaseSequence) + int64(r.OffsetDelta)) & math.MaxInt32
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%d %d %d %s %s", r.Offset, r.Timestamp, sequence, text(r.Key), text(r.Value))
	for name, value := range r.All() {
		fmt.Fprintf(&s, " %s=%s", name, text(value))
	}
	return s.String() + "\n"
}

func TestJavaBatchesAreRead(t *testing.T) {
	var rd Reader
	defer rd.Close()
	for name, want := range java {
		b := javaBatch(t, name)
		if !VerifyCRC(b) {
			t.Errorf("%s: checksum", name)
		}
		if err := rd.Reset(b, 1<<20); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sum, n := md5.New(), 0
		for ; rd.Next(); n++ {
			sum.Write([]byte(describe(&rd.Info, &rd.Record)))
		}
		if got := hex.EncodeToString(sum.Sum(nil)); rd.Err() != nil || n != want.records || got != want.sum {
			t.Errorf("%s: %d records with sum %s (%v), want %d with %s", name, n, got, rd.Err(), want.records, want.sum)
		}
	}
}

func TestJavaHeaders(t *testing.T) {
	for name, want := range map[string]string{
		"none-12":       "{1631 12 11 0 7 0 1700000000000 1700000000396 4711 3 42 3506602999}",
		"zstd-500":      "{9051 500 499 0 7 4 1700000000000 1700000000972 4711 3 42 3544263534}",
		"appendtime-12": "{1631 12 11 1000 7 8 1700000000000 1700000000123 -1 -1 -1 917382305}",
		"horizon-12":    "{837 6 11 1000 7 80 1700000099999 1700000000360 4711 3 42 4254764958}",
		"commit":        "{78 1 0 1000 7 48 1700000000123 1700000000123 4711 3 -1 3393929009}",
		"empty":         "{61 0 11 1000 7 16 -1 1700000000000 4711 3 42 333302824}",
	} {
		info, err := ParseHeader(javaBatch(t, name))
		if got := fmt.Sprint(info); err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, want)
		}
	}
}

// TestJavaBytes builds anew what Java has built: every byte is the same.
func TestJavaBytes(t *testing.T) {
	for _, name := range []string{"none-12", "horizon-12", "commit", "abort", "empty"} {
		want := javaBatch(t, name)
		var rd Reader
		if err := rd.Reset(want, 0); err != nil {
			t.Fatal(err)
		}
		var b Builder
		b.Begin(rd.Info, compress.None, 0)
		for rd.Next() {
			b.Add(&rd.Record)
		}
		got, err := b.AppendTo([]byte("before"))
		if err != nil || !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("%s: built\n%x (%v), want\n%x", name, got, err, want)
		}
	}
}

func TestJavaBatchesAreValid(t *testing.T) {
	for name := range java {
		if !strings.HasSuffix(name, "00") && !strings.HasSuffix(name, "-12") || strings.HasPrefix(name, "appendtime") || strings.HasPrefix(name, "horizon") {
			continue
		}
		b := javaBatch(t, name)
		rules := benchRules()
		out, infos, err := Validate(b, rules)
		if err != nil || &out[0] != &b[0] || !bytes.Equal(out, javaBatch(t, name)) || len(infos) != 1 {
			t.Errorf("%s: changed, or %v", name, err)
			continue
		}
		if info, _ := ParseHeader(b); infos[0] != info {
			t.Errorf("%s: %v, want %v", name, infos[0], info)
		}
	}
}

func TestControlRecords(t *testing.T) {
	for name, want := range map[string]ControlType{"commit": ControlCommit, "abort": ControlAbort} {
		var rd Reader
		if err := rd.Reset(javaBatch(t, name), 0); err != nil || !rd.Info.IsControl() || !rd.Info.IsTransactional() || !rd.Next() {
			t.Fatalf("%s: %v, %+v", name, err, rd.Info)
		}
		if got, err := ParseControl(rd.Record.Key); got != want || err != nil || got.String() != name {
			t.Errorf("%s: %v (%v)", name, got, err)
		}
	}
	for key, want := range map[string]string{
		"":                         "the key of a control record has 0 bytes; it takes at least 4",
		"\x00\x00\x00":             "the key of a control record has 3 bytes; it takes at least 4",
		"\xff\xff\x00\x00":         "version -1 of a control record's key is negative",
		"\x00\x07\x00\x05whatever": "",
	} {
		got, err := ParseControl([]byte(key))
		switch {
		case want == "" && (err != nil || got != 5 || got.String() != "control type 5"):
			t.Errorf("%q: %v (%v)", key, got, err)
		case want != "" && (err == nil || err.Error() != want || base.CodeOf(err) != base.CodeInvalidRecord):
			t.Errorf("%q: %v, want %s", key, err, want)
		}
	}
}

// TestMarkerIsKafkas: a marker is built byte by byte as Kafka's own classes build it, and its value is read.
func TestMarkerIsKafkas(t *testing.T) {
	for name, kind := range map[string]ControlType{"commit": ControlCommit, "abort": ControlAbort} {
		want := javaBatch(t, name)
		var rd Reader
		if err := rd.Reset(want, 0); err != nil || !rd.Next() {
			t.Fatal(name, err)
		}
		epoch := int32(binary.BigEndian.Uint32(rd.Record.Value[2:]))
		m := Marker{ProducerID: rd.Info.ProducerID, ProducerEpoch: rd.Info.ProducerEpoch, CoordinatorEpoch: epoch, Type: kind, Timestamp: rd.Record.Timestamp}
		got := m.AppendTo([]byte("x"))[1:]
		SetBaseOffset(got, rd.Info.BaseOffset)
		SetLeaderEpoch(got, rd.Info.LeaderEpoch)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x\nKafka has\n%x", name, got, want)
		}
	}
}
