package difftest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/differences.md")

// TestDifferences plays the tape and holds what differs against the table.
func TestDifferences(t *testing.T) {
	used := make([]bool, len(table))
	for _, h := range tape(t) {
		known := false
		for i, d := range table {
			if glob(d.api, h.api) && glob(d.at, h.at) && glob(d.field, h.field) && glob(d.godwit, h.values[0]) && glob(d.kfake, h.values[1]) {
				known, used[i] = true, true
			}
		}
		if !known {
			t.Errorf("a difference that is not in the table: %v", h)
		}
	}
	for i, d := range table {
		if !used[i] {
			t.Errorf("an entry of the table that no answer meets any more: %s, %s: %s", d.api, d.at, d.field)
		}
	}
}

const document = "../../docs/differences.md"

// TestDocument holds docs/differences.md against the table.
func TestDocument(t *testing.T) {
	want := render()
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(document); err != nil || string(got) != want {
		t.Errorf("docs/differences.md is not what the table says (%v): run `go test ./internal/difftest -update`", err)
	}
}

func render() string {
	var b strings.Builder
	b.WriteString(preface)
	last := ""
	for _, d := range table {
		if d.api != last {
			last = d.api
			title := d.api
			if title == "*" {
				title = "Several requests"
			}
			fmt.Fprintf(&b, "\n## %s\n\n| case | field | Godwit | kfake | like Kafka | why |\n|---|---|---|---|---|---|\n", title)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", cell(d.at), cell(d.field), cell(d.godwit), cell(d.kfake), d.like, d.why)
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
