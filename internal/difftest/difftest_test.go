package difftest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	update = flag.Bool("update", false, "rewrite docs/differences*.md")
	only   = flag.String("play", "", "play only the cases whose names begin so; entries of the table that are not met are no failure")
)

// TestKfake plays the tape beside kfake and holds what differs against the table.
func TestKfake(t *testing.T) {
	explain(t, tape(t, startKfake(t), 1), table)
}

// explain wants an entry of a table for every difference, and a difference for every entry.
func explain(t *testing.T, hits []hit, rows []difference) {
	t.Helper()
	used := make([]bool, len(rows))
	said := map[string]bool{}
	for _, h := range hits {
		known := false
		for i, d := range rows {
			if glob(d.api, h.api) && glob(d.at, h.at) && glob(d.field, h.field) && glob(d.godwit, h.values[0]) && glob(d.peer, h.values[1]) {
				known, used[i] = true, true
			}
		}
		if text := fmt.Sprintf("a difference that is not in the table: %v", h); !known && !said[text] {
			said[text] = true
			t.Error(text)
		}
	}
	for i, d := range rows {
		if !used[i] && *only == "" {
			t.Errorf("an entry of the table that no answer meets any more: %s, %s: %s", d.api, d.at, d.field)
		}
	}
}

// documents are the tables as they are read.
var documents = []struct {
	file, preface, peer, verdict string
	rows                         []difference
}{
	{"differences.md", preface, "kfake", "like Kafka", table},
	{"differences-kafka.md", kafkaPreface, "Kafka", "verdict", kafkaTable},
}

// TestDocuments holds the documents against the tables.
func TestDocuments(t *testing.T) {
	for _, d := range documents {
		want, file := render(d.preface, d.peer, d.verdict, d.rows), filepath.Join("../../docs", d.file)
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("docs/%s is not what the table says (%v): run `go test ./internal/difftest -update`", d.file, err)
		}
	}
}

func render(preface, peer, verdict string, rows []difference) string {
	var b strings.Builder
	b.WriteString(preface)
	last := ""
	for _, d := range rows {
		if d.api != last {
			last = d.api
			title := d.api
			if title == "*" {
				title = "Several requests"
			}
			fmt.Fprintf(&b, "\n## %s\n\n| case | field | Godwit | %s | %s | why |\n|---|---|---|---|---|---|\n", title, peer, verdict)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", cell(d.at), cell(d.field), cell(d.godwit), cell(d.peer), d.verdict, d.why)
	}
	return b.String()
}

// cell is a pattern in a table: "any" for anything, "empty" for nothing.
func cell(pattern string) string {
	switch pattern {
	case "*":
		return "any"
	case "":
		return "empty"
	}
	return "`" + pattern + "`"
}

const preface = `# Differences from kfake

The same tape of requests is played against Godwit and against kfake, the fake broker of franz-go, and the answers are
compared field by field. These are all the differences that may be. For each the table says who answers as Apache
Kafka does; where that is not Godwit, it is a limit of Godwit's.

In cases, fields and values ` + "`*`" + ` stands for anything. What has to differ is made equal before comparing: topic IDs, member
IDs, producer IDs, session IDs, ports, node IDs, leader epochs, times of the broker's clock, the order of lists. JoinGroup is
compared from version 1 on: in version 0 kfake takes the missing rebalance timeout for none.

This file is written by ` + "`go test ./internal/difftest -update`" + ` from the table in
[table_test.go](../internal/difftest/table_test.go).
`

const kafkaPreface = `# Differences from Apache Kafka 4.4

The same tape of requests is played against Godwit and against Apache Kafka 4.4.0, which ` + "`bench/peers/kafka.sh`" + ` starts from its
Maven artifacts, and the answers are compared field by field. These are all the differences that may be, each with its
verdict:

- own: what a broker decides for itself, and no client relies on
- wanted: Godwit means the same and says it more clearly, or sooner
- limit: Kafka does more, or better; Godwit does not yet

In cases, fields and values ` + "`*`" + ` stands for anything. What has to differ is made equal before comparing: topic IDs, member
IDs, producer IDs, session IDs, ports, node IDs, leader epochs, times of the broker's clock, the order of lists. Both brokers assign
without delay. What Kafka answers while it loads a coordinator, or ends a transaction, is asked again.

This file is written by ` + "`go test ./internal/difftest -update`" + ` from the table in
[kafka_table_test.go](../internal/difftest/kafka_table_test.go), and is held against Kafka by ` + "`interop/peers.sh`" + `.
`
