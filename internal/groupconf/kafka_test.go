package groupconf

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"godwit/internal/base"
	"godwit/internal/topicconf"
)

// The two files in testdata were printed by Kafka 4.4.0: the table by its GroupConfig, the answers by the validator that
// its controller asks before it stores a group's configuration.

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
	case d.Name == resetName:
		return "[latest, earliest, by_duration:PnDTnHnMn.nS]"
	case d.Allowed != nil:
		return "[" + strings.Join(d.Allowed, ", ") + "]"
	case d.Type == topicconf.Int || d.Type == topicconf.Long:
		return fmt.Sprintf("[%d,...]", d.Min)
	case d.Type == topicconf.List:
		return ""
	}
	return "null"
}

// TestTableIsKafkas compares names, types, defaults, bounds, and what is internal.
func TestTableIsKafkas(t *testing.T) {
	known := map[string]bool{}
	for _, r := range rows(t, "kafka-4.4.0-table.tsv") {
		known[r[0]] = true
		d, ok := Lookup(r[0])
		if !ok {
			t.Errorf("%s is missing", r[0])
			continue
		}
		unsaid := d.Default
		if d.Unset {
			unsaid = "null"
		}
		got := strings.Join([]string{d.Name, string(d.Type), unsaid, bounds(d), fmt.Sprint(d.Internal)}, "\t")
		if want := strings.Join(r, "\t"); got != want {
			t.Errorf("the table has\n%s\nKafka has\n%s", got, want)
		}
	}
	for i, d := range defs {
		if !known[d.Name] {
			t.Errorf("%s is none of Kafka's", d.Name)
		}
		if i > 0 && defs[i-1].Name >= d.Name {
			t.Errorf("%s is out of order", d.Name)
		}
		if max := map[topicconf.Type]int64{topicconf.Int: maxInt, topicconf.Long: math.MaxInt64}[d.Type]; d.Max != max {
			t.Errorf("%s: at most %d, want %d", d.Name, d.Max, max)
		}
	}
}

// TestAnswersAreKafkas gives the same configurations to Validate.
func TestAnswersAreKafkas(t *testing.T) {
	for _, r := range rows(t, "kafka-4.4.0-answers.tsv") {
		values := map[string]string{}
		for pair := range strings.SplitSeq(r[0], ";") {
			name, value, _ := strings.Cut(pair, "=")
			values[name] = value
		}
		got := "ok"
		if err := Validate(values); err != nil {
			got = err.Error()
			if base.CodeOf(err) != base.CodeInvalidConfig {
				t.Errorf("%s: code %v", r[0], base.CodeOf(err))
			}
		}
		if got != r[1] {
			t.Errorf("%s\nhere:  %s\nKafka: %s", r[0], got, r[1])
		}
	}
}

func TestResolve(t *testing.T) {
	got := ResolveShare(map[string]string{
		"share.session.timeout.ms": " 50000 ", "share.auto.offset.reset": "by_duration:P1DT1H0.5S", "share.isolation.level": "read_committed",
		"share.renew.acknowledge.enable": "False", "errors.deadletterqueue.topic.name": "dlq",
	}, map[string]string{"share.session.timeout.ms": "46000", "share.heartbeat.interval.ms": "6000"})
	want := Share{Modern: Modern{50_000, 6_000, 1_000}, LockDuration: 30_000, DeliveryLimit: 5, MaxLocks: 2_000,
		Reset: Reset{ByTime: true, Back: 90_000_500}, ReadCommitted: true, DeadLetters: "dlq"}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got, want := ResolveConsumer(nil, nil), (Modern{45_000, 5_000, 1_000}); got != want {
		t.Errorf("consumer: got %+v, want %+v", got, want)
	}
	if got, want := ResolveStreams(map[string]string{"streams.num.standby.replicas": "1", assignorName: "sticky"}, nil),
		(Streams{Modern{45_000, 5_000, 1_000}, 3_000, 1, "sticky", 60_000, 10_000, ""}); got != want {
		t.Errorf("streams: got %+v, want %+v", got, want)
	}
	for v, want := range map[string]Reset{"earliest": {Earliest: true}, "latest": {}, "by_duration:-pt-2s": {ByTime: true, Back: 2_000}} {
		if got := ResolveShare(map[string]string{resetName: v}, nil).Reset; got != want {
			t.Errorf("%s: got %+v, want %+v", v, got, want)
		}
	}
}
