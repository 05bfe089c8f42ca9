package topicconf

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"godwit/internal/base"
	"godwit/internal/compress"
)

var update = flag.Bool("update", false, "write docs/topic-configs.md")

func TestTableIsSound(t *testing.T) {
	if !slices.IsSortedFunc(defs, func(a, b Def) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not ordered by name")
	}
	for _, d := range defs {
		if err := Validate(d.Name, d.Default); err != nil {
			t.Errorf("default of %s: %v", d.Name, err)
		}
		if d.Doc == "" || (!d.Effect && d.Note == "") {
			t.Errorf("%s: documentation, or the reason why it has no effect, is missing", d.Name)
		}
	}
	if err := ValidateAll(map[string]string{}); err != nil {
		t.Errorf("defaults together: %v", err)
	}
}

func TestValuesThatMustFit(t *testing.T) {
	defaults := map[string]string{"min.compaction.lag.ms": "10", "retention.ms": "7"}
	for _, tc := range []struct {
		values map[string]string
		good   bool
	}{
		{map[string]string{"max.compaction.lag.ms": "10"}, true},
		{map[string]string{"max.compaction.lag.ms": "9"}, false},
		{map[string]string{"max.compaction.lag.ms": "9", "min.compaction.lag.ms": "9"}, true},
		{map[string]string{"local.retention.ms": "8"}, true},
	} {
		err := ValidateOver(tc.values, defaults)
		if (err == nil) != tc.good || (err != nil && base.CodeOf(err) != base.CodeInvalidConfig) {
			t.Errorf("%v over %v: %v", tc.values, defaults, err)
		}
	}
	if err := ValidateAll(map[string]string{"max.compaction.lag.ms": "9"}); err != nil {
		t.Errorf("without the broker's defaults: %v", err)
	}
}

// TestInternal checks what is accepted but not listed.
func TestInternal(t *testing.T) {
	for _, d := range internal {
		if got, ok := Lookup(d.Name); !ok || got.Name != d.Name {
			t.Errorf("%s cannot be looked up", d.Name)
		}
		if slices.ContainsFunc(Defs(), func(o Def) bool { return o.Name == d.Name }) {
			t.Errorf("%s is listed", d.Name)
		}
	}
	Defs()[0].Name = "changed"
	if d := Defs()[0]; d.Name == "changed" {
		t.Error("the table can be changed from outside")
	}
}

func FuzzValidate(f *testing.F) {
	for _, d := range defs {
		f.Add(d.Name, d.Default)
	}
	f.Add("cleanup.policy", " compact,delete,compact")
	f.Fuzz(func(t *testing.T, name, value string) {
		if Validate(name, value) != nil {
			return
		}
		d, ok := Lookup(name)
		if !ok {
			t.Fatalf("%q is unknown and valid", name)
		}
		r := Resolve(map[string]string{name: value}, nil)
		switch {
		case r.MinCleanableDirtyRatio < 0 || r.MinCleanableDirtyRatio > 1, r.RetentionMs < -1, r.RetentionBytes < -1,
			r.MaxMessageBytes < 0, r.SegmentMs < 1, r.MinInsyncReplicas < 1, r.MaxDecompressedBytes < 1:
			t.Fatalf("%s=%q of type %s is valid and gives %+v", name, value, d.Type, r)
		}
	})
}

func TestResolve(t *testing.T) {
	r := Resolve(map[string]string{"cleanup.policy": "compact", "compression.type": "zstd", "retention.ms": "5"},
		map[string]string{"retention.ms": "7", "max.message.bytes": "99", "compression.zstd.level": "9"})
	if r.CleanupDelete || !r.CleanupCompact || r.RetentionMs != 5 || r.MaxMessageBytes != 99 ||
		r.KeepCompression || r.Codec != compress.Zstd || r.CompressionLevel != 9 || r.MinCleanableDirtyRatio != 0.5 {
		t.Errorf("resolved %+v", r)
	}
	if r := Resolve(map[string]string{"cleanup.policy": " ", "retention.bytes": "-7", "compression.type": "snappy"}, nil); r.CleanupDelete || r.CleanupCompact ||
		r.RetentionBytes != -1 || r.Codec != compress.Snappy || r.CompressionLevel != compress.DefaultLevel {
		t.Errorf("resolved %+v", r)
	}
	if d := Resolve(nil, nil); !d.CleanupDelete || !d.KeepCompression || d.RetentionBytes != -1 {
		t.Errorf("defaults %+v", d)
	}
}

const docHead = `# Topic configuration

Every topic configuration of Kafka 4.4 is accepted, checked with Kafka's bounds and words, stored and described. This page
is generated from the table in ` + "`internal/topicconf`: `go test ./internal/topicconf -update`" + `.

A topic takes what it does not set from the broker's ` + "`topic-defaults`" + `, and what is not there from the defaults below. The
broker's settings that Kafka's tools know for them (such as ` + "`log.retention.ms`" + `) are shown, not read.
`

// allowed says which values do, for a person.
func allowed(d *Def) string {
	switch {
	case d.Type == Boolean:
		return "`true`, `false`"
	case d.Type == List && d.Allowed == nil:
		return "`*`, or partition:broker pairs"
	case d.Allowed != nil:
		return "`" + strings.Join(d.Allowed, "`, `") + "`"
	case d.Besides != "":
		return fmt.Sprintf("%s to %s, or %s", number(d.Min), number(d.Max), d.Besides)
	}
	open := map[Type][2]float64{Int: {minInt, maxInt}, Long: {minLong, maxLong}}[d.Type]
	switch {
	case d.Min == open[0] && d.Max == open[1]:
		return "any"
	case d.Max == open[1]:
		return "from " + number(d.Min)
	}
	return number(d.Min) + " to " + number(d.Max)
}

// TestDocument keeps docs/topic-configs.md true to the table.
func TestDocument(t *testing.T) {
	const path = "../../docs/topic-configs.md"
	var b strings.Builder
	b.WriteString(docHead)
	table := func(list []Def) {
		b.WriteString("| name | type | default | allowed | what it does |\n|---|---|---|---|---|\n")
		for _, d := range list {
			text := d.Doc
			if d.Note != "" {
				text += " *" + d.Note + "*"
			}
			value := "`" + d.Default + "`"
			if d.Default == "" {
				value = ""
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, strings.ToLower(string(d.Type)), value, allowed(&d), text)
		}
	}
	var with, without []Def
	for _, d := range defs {
		if d.Effect {
			with = append(with, d)
		} else {
			without = append(without, d)
		}
	}
	b.WriteString("\n## With effect\n\n")
	table(with)
	b.WriteString("\n## Without effect\n\nThe reason stands in italics.\n\n")
	table(without)
	b.WriteString("\n## Internal\n\nKafka accepts these too, and lists them only for topics that set them.\n\n")
	table(internal)
	want := b.String()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/topic-configs.md is out of date (%v): run go test ./internal/topicconf -update", err)
	}
}
