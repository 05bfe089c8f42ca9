package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"godwit/internal/bench/target"
)

// TestBenchList names every scenario, for people and for programs.
func TestBenchList(t *testing.T) {
	runIn(t, "", "bench", "list").want(t, exitOK, "latency", "work-queue", "Fan-out to 1, 10 and 100 receivers")
	var rows []struct{ Name, Kind, Title, About string }
	r := runIn(t, "", "bench", "list", "--json")
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil || len(rows) < 10 || rows[0].About == "" {
		t.Fatalf("%v: %s", err, r.out)
	}
}

// TestBenchRun measures a stand-in for Kafka, and has everything that is left behind read again.
func TestBenchRun(t *testing.T) {
	_, addr := cluster(t, kfake.AllowAutoTopicCreation())
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(mine, []byte("{title: Mine, message: {size: [100]}, clients: {partitions: 2}, rate: [2000], duration: 5s, rounds: 3}"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	runIn(t, "", "bench", "run", mine, "--target", "kafka://"+addr+"?name=fake", "--out", out, "--rounds", "2", "--duration", "200ms",
		"--idle", "5s", "--no-probe", "--command", "start it").want(t, exitOK, "Mine", "fake", "2/2 mine round 2/2 fake", "report.html")
	r, err := readRun(filepath.Join(out, runFile))
	if err != nil {
		t.Fatal(err)
	}
	cell := r.Scenarios[0].Cells[0]
	if len(cell.Rounds) != 2 || cell.Rounds[0].Audit.Acked < 300 || cell.Rounds[0].Audit.Lost != 0 || r.Godwit != "v1" {
		t.Fatalf("%+v", cell)
	}
	if c := r.Commands; len(c) != 2 || c[0] != "start it" || !strings.Contains(c[1], "--rounds 2 --duration 200ms --idle 5s --no-probe --target 'kafka://"+addr+"'") {
		t.Fatalf("commands %q", c)
	}
	runIn(t, "", "bench", "show", filepath.Join(out, runFile)).want(t, exitOK, "Mine", "fake")
	again := filepath.Join(dir, "again")
	runIn(t, "", "bench", "report", filepath.Join(out, runFile), filepath.Join(out, runFile), "--out", again).want(t, exitOK, "report.html")
	for _, name := range []string{runFile, htmlFile, markdownFile} {
		b, err := os.ReadFile(filepath.Join(again, name))
		if err != nil || !strings.Contains(string(b), "Mine") {
			t.Fatalf("%s: %v, or it does not have the scenario", name, err)
		}
	}
}

// TestBenchLine is a command line that a shell reads as it was typed.
func TestBenchLine(t *testing.T) {
	targets, err := target.ParseAll([]string{"amqp://u:secret@h:1?name=a&pid=4"})
	if err != nil {
		t.Fatal(err)
	}
	c := benchRunCmd{Scenarios: []string{"latency", "it's mine.yaml"}}
	if got, want := c.line(targets), `godwit bench run latency 'it'\''s mine.yaml' --target 'amqp://u:xxxxx@h:1?name=a&pid=4'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	c.Command = []string{"start a"}
	if got, want := c.line(targets), `godwit bench run latency 'it'\''s mine.yaml' --target 'amqp://u:xxxxx@h:1'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBenchRefuses says what to do instead.
func TestBenchRefuses(t *testing.T) {
	at := []string{"--target", "kafka://127.0.0.1:1"}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "--target", []string{"run", "latency"}},
		{exitFailed, "the protocol is one of kafka", []string{"run", "latency", "--target", "http://a:1"}},
		{exitFailed, "godwit bench list", append([]string{"run", "nothing"}, at...)},
		{exitFailed, "is not a size", append([]string{"run", "restart", "--backlog", "much"}, at...)},
		{exitFailed, "does not answer", append([]string{"run", "latency", "--out", t.TempDir()}, at...)},
		{exitFailed, "no scenario of", []string{"show", "nothing"}},
		{exitFailed, "nothing.json", []string{"report", "nothing.json"}},
	} {
		runIn(t, "", append([]string{"bench"}, c.args...)...).want(t, c.code, c.want)
	}
	runIn(t, "", "bench", "show", "latency").want(t, exitOK, "rate: [25%, 50%, 75%]")
}
