package topicconf

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"godwit/internal/base"
)

// The two files in testdata were printed by Kafka 4.4.0: the table by its LogConfig, the answers by the validator that its
// controller asks before it stores a topic's configuration.

func rows(t *testing.T, name string) (out [][]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		out = append(out, strings.Split(line, "\t"))
	}
	return out
}

// bounds writes the allowed values as Kafka's validators do.
func bounds(d *Def) string {
	switch {
	case d.Type == Boolean:
		return "null"
	case d.Type == List && d.Allowed == nil:
		return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
	case d.Allowed != nil:
		return "[" + strings.Join(d.Allowed, ", ") + "]"
	case d.Besides != "":
		return fmt.Sprintf("[%s,...,%s] or %s", number(d.Min), number(d.Max), d.Besides)
	}
	open := map[Type][2]float64{Int: {minInt, maxInt}, Long: {minLong, maxLong}}[d.Type]
	switch {
	case d.Min == open[0] && d.Max == open[1]:
		return "null"
	case d.Max == open[1]:
		return fmt.Sprintf("[%s,...]", number(d.Min))
	}
	return fmt.Sprintf("[%s,...,%s]", number(d.Min), number(d.Max))
}

// TestTableIsKafkas compares names, types, defaults, bounds and broker settings.
func TestTableIsKafkas(t *testing.T) {
	known := map[string]bool{}
	for _, r := range rows(t, "kafka-4.4.0-table.tsv") {
		known[r[0]] = true
		d, ok := Lookup(r[0])
		if !ok {
			t.Errorf("%s is missing", r[0])
			continue
		}
		if r[2] == "null" {
			r[2] = ""
		}
		got := strings.Join([]string{d.Name, string(d.Type), d.Default, bounds(d), strings.Join(d.Synonyms, ",")}, "\t")
		if want := strings.Join(r, "\t"); got != want {
			t.Errorf("the table has\n%s\nKafka has\n%s", got, want)
		}
	}
	for _, d := range defs {
		if !known[d.Name] {
			t.Errorf("%s is none of Kafka's", d.Name)
		}
	}
}

// ours are the answers that differ on purpose.
var ours = map[string]string{
	// A ratio that compares with nothing would turn compaction off in silence.
	"min.cleanable.dirty.ratio=NaN": "Invalid value NaN for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
	// Java's suffix of double literals.
	"min.cleanable.dirty.ratio=5e-1d": "Invalid value 5e-1d for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
	// Go reads it as infinity; refused either way.
	"min.cleanable.dirty.ratio=inf": "Invalid value inf for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
	// Of two faults Kafka tells the first in the order of its table, we in the order of names.
	"retention.ms=x;cleanup.policy=y":                  "Invalid value y for configuration cleanup.policy: String must be one of: compact, delete",
	"segment.bytes=1;retention.ms=-5;cleanup.policy=z": "Invalid value z for configuration cleanup.policy: String must be one of: compact, delete",
}

// TestAnswersAreKafkas gives the same configurations to ValidateAll.
func TestAnswersAreKafkas(t *testing.T) {
	for _, r := range rows(t, "kafka-4.4.0-answers.tsv") {
		values := map[string]string{}
		for pair := range strings.SplitSeq(r[0], ";") {
			name, value, _ := strings.Cut(pair, "=")
			values[name] = value
		}
		want := r[1]
		if own, ok := ours[r[0]]; ok {
			want = own
		}
		got := "ok"
		if err := ValidateAll(values); err != nil {
			got = err.Error()
			if base.CodeOf(err) != base.CodeInvalidConfig {
				t.Errorf("%s: code %v", r[0], base.CodeOf(err))
			}
		}
		if got != want {
			t.Errorf("%s\nhere:  %s\nKafka: %s", r[0], got, want)
		}
	}
}
