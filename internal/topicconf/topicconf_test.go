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

func TestValidate(t *testing.T) {
	good := map[string][]string{
		"cleanup.policy":                          {"delete", "compact", "compact,delete", " delete , compact ", ""},
		"retention.ms":                            {"-1", "0", "9223372036854775807"},
		"min.cleanable.dirty.ratio":               {"0", "1", "0.25"},
		"preallocate":                             {"true", "FALSE"},
		"follower.replication.throttled.replicas": {"*", "0:1,1:1", ""},
		"compression.zstd.level":                  {"-131072", "22"},
	}
	for name, values := range good {
		for _, v := range values {
			if err := Validate(name, v); err != nil {
				t.Errorf("%s=%q: %v", name, v, err)
			}
		}
	}
	bad := map[string][]string{
		"cleanup.policy":                          {"remove", "delete,delete"},
		"retention.ms":                            {"-2", "x", "9223372036854775808", ""},
		"min.cleanable.dirty.ratio":               {"1.1", "-0.1", "NaN"},
		"preallocate":                             {"yes"},
		"segment.bytes":                           {"1024", "2147483648"},
		"message.timestamp.type":                  {"createtime"},
		"follower.replication.throttled.replicas": {"0", "a:b"},
		"no.such.config":                          {"1"},
	}
	for name, values := range bad {
		for _, v := range values {
			if err := Validate(name, v); err == nil || base.CodeOf(err) != base.CodeInvalidConfig {
				t.Errorf("%s=%q: error %v, want an invalid config", name, v, err)
			}
		}
	}
}

func TestValuesThatMustFit(t *testing.T) {
	for _, m := range []map[string]string{
		{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
		{"retention.ms": "1000", "local.retention.ms": "2000"},
		{"retention.bytes": "1000", "local.retention.bytes": "2000"},
		{"remote.storage.enable": "true"},
	} {
		if err := ValidateAll(m); err == nil || base.CodeOf(err) != base.CodeInvalidConfig {
			t.Errorf("%v: error %v, want an invalid config", m, err)
		}
	}
}

func TestResolve(t *testing.T) {
	r := Resolve(map[string]string{"cleanup.policy": "compact", "compression.type": "zstd", "retention.ms": "5"},
		map[string]string{"retention.ms": "7", "max.message.bytes": "99", "compression.zstd.level": "9"})
	if r.CleanupDelete || !r.CleanupCompact || r.RetentionMs != 5 || r.MaxMessageBytes != 99 ||
		r.KeepCompression || r.Codec != compress.Zstd || r.CompressionLevel != 9 || r.MinCleanableDirtyRatio != 0.5 {
		t.Errorf("resolved %+v", r)
	}
	if d := Resolve(nil, nil); !d.CleanupDelete || !d.KeepCompression || d.RetentionBytes != -1 {
		t.Errorf("defaults %+v", d)
	}
}

// TestDocument keeps docs/topic-configs.md true to the table.
func TestDocument(t *testing.T) {
	const path = "../../docs/topic-configs.md"
	var b strings.Builder
	b.WriteString("# Topic configuration\n\nEvery topic configuration of Kafka 4.4 is accepted, checked, stored and described. This page is generated from the\ntable in `internal/topicconf`: `go test ./internal/topicconf -update`.\n\n## With effect\n\n")
	table := func(effect bool) {
		b.WriteString("| name | type | default | what it does |\n|---|---|---|---|\n")
		for _, d := range defs {
			if d.Effect == effect {
				text := d.Doc
				if d.Note != "" {
					text += " *" + d.Note + "*"
				}
				fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", d.Name, strings.ToLower(string(d.Type)), d.Default, text)
			}
		}
	}
	table(true)
	b.WriteString("\n## Without effect\n\nThe reason stands in italics.\n\n")
	table(false)
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
