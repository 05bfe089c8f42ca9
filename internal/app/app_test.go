package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit/internal/settings"
)

// running is a broker in this process.
type running struct {
	addrs map[string]string
	stop  func() error
}

func testSettings(dir string) *settings.Settings {
	return &settings.Settings{Data: dir, Kafka: "127.0.0.1:0", HTTP: "127.0.0.1:0", Durability: "sync", WALFileSize: 4 << 20, AutoCreateTopics: true,
		NumPartitions: 2, MaxConnections: 100, MaxRequestBytes: 1 << 20, MaxInflightBytes: 8 << 20, CheckpointInterval: time.Second,
		RetentionCheckInterval: time.Second, ShutdownTimeout: 10 * time.Second, Pprof: true}
}

func serve(t *testing.T, s *settings.Settings) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan map[string]string, 1), make(chan error, 1)
	go func() {
		done <- Run(ctx, s, slog.New(slog.DiscardHandler), func(addrs map[string]string) { ready <- addrs })
	}()
	select {
	case addrs := <-ready:
		return &running{addrs, func() error { cancel(); return <-done }}
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	return nil
}

// godwit runs a command line against the broker and returns what it printed.
func (r *running) godwit(t *testing.T, input string, want int, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	if args[0] != "fsck" && args[0] != "version" {
		args = append(args, "--broker", r.addrs["kafka"])
	}
	if code := Main(args, "test", strings.NewReader(input), &out, &errOut); code != want {
		t.Fatalf("godwit %s: code %d, want %d\n%s%s", strings.Join(args, " "), code, want, out.String(), errOut.String())
	}
	return out.String() + errOut.String()
}

func mustContain(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Fatalf("%q is not in:\n%s", p, text)
		}
	}
}

func TestTour(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
	dir := t.TempDir()
	r := serve(t, testSettings(dir))
	mustContain(t, r.godwit(t, "", 0, "topic", "create", "orders", "--partitions", "3", "--config", "retention.ms=86400000"), "created orders with 3 partition(s)")
	mustContain(t, r.godwit(t, "", 1, "topic", "create", "orders"), "already exists", "godwit topic describe")
	mustContain(t, r.godwit(t, "eu:one\nus:two\n", 0, "produce", "orders", "--key-separator", ":", "--header", "source=test"), "wrote 2 record(s)")
	mustContain(t, r.godwit(t, "nokey\n", 1, "produce", "orders", "--key-separator", ":"), "line 1")
	text := r.godwit(t, "", 0, "consume", "orders", "--keys", "--headers", "--offsets", "--timestamps")
	mustContain(t, text, "\tsource=test\teu\tone\n", "\tsource=test\tus\ttwo\n")
	for _, line := range strings.Split(strings.TrimSpace(r.godwit(t, "", 0, "consume", "orders", "--json")), "\n") {
		var rec struct{ Topic, Key, Value string }
		if err := json.Unmarshal([]byte(line), &rec); err != nil || rec.Topic != "orders" {
			t.Fatalf("%q: %v", line, err)
		}
	}
	r.godwit(t, r.godwit(t, "", 0, "consume", "orders", "--json"), 0, "produce", "copy", "--json-lines")
	mustContain(t, r.godwit(t, "", 0, "consume", "copy", "--count", "1", "--keys"), "\t")
	mustContain(t, r.godwit(t, "", 0, "topic", "describe", "orders"), "retention.ms", "86400000")
	mustContain(t, r.godwit(t, "", 0, "topic", "alter", "orders", "--unset", "retention.ms", "--partitions", "5"), "changed orders")
	mustContain(t, r.godwit(t, "", 0, "topic", "list"), "orders  5", "copy    2")
	mustContain(t, r.godwit(t, "", 2, "topic", "alter", "orders"), "nothing to change")
	mustContain(t, r.godwit(t, "", 0, "consume", "orders", "--group", "g", "--count", "2"), "one", "two")
	mustContain(t, r.godwit(t, "", 0, "info"), "Durability", "sync", "2 with 7 partition(s)")
	mustContain(t, r.godwit(t, "", 1, "consume", "nothing"), "topic list")
	mustContain(t, r.godwit(t, "", 2, "consume", "orders", "--from", "yesterday"), "--from")
	mustContain(t, r.godwit(t, "", 0, "topic", "delete", "copy"), "deleted copy")
	mustContain(t, r.godwit(t, "", 1, "fsck", "--data", dir), "another")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	mustContain(t, r.godwit(t, "", 0, "fsck", "--data", dir), "0 finding(s)")
	mustContain(t, r.godwit(t, "", 0, "version"), "godwit test")

	r = serve(t, testSettings(dir))
	mustContain(t, r.godwit(t, "", 0, "consume", "orders"), "one", "two")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}

func TestConsumeFromTime(t *testing.T) {
	r := serve(t, testSettings(t.TempDir()))
	defer r.stop()
	var lines strings.Builder
	for i := range 5 {
		fmt.Fprintf(&lines, `{"key":null,"value":"v%d","timestamp":%d}`+"\n", i, 1_700_000_000_000+int64(i)*60_000)
	}
	r.godwit(t, lines.String(), 0, "produce", "times", "--json-lines", "--partition", "0")
	at := time.UnixMilli(1_700_000_000_000 + 3*60_000).UTC().Format(time.RFC3339)
	if got := r.godwit(t, "", 0, "consume", "times", "--from", at); got != "v3\nv4\n" {
		t.Fatalf("from %s: %q", at, got)
	}
	if got := r.godwit(t, "", 0, "consume", "times", "--from", "4", "--partition", "0"); got != "v4\n" {
		t.Fatalf("from offset 4: %q", got)
	}
	if got := r.godwit(t, "", 0, "consume", "times", "--from", "end"); got != "" {
		t.Fatalf("from the end: %q", got)
	}
}

func TestHTTP(t *testing.T) {
	r := serve(t, testSettings(t.TempDir()))
	defer r.stop()
	r.godwit(t, "x\n", 0, "produce", "t")
	get := func(path string, status int) string {
		t.Helper()
		res, err := http.Get("http://" + r.addrs["http"] + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != status {
			t.Fatalf("GET %s: %d, %v", path, res.StatusCode, err)
		}
		return string(b)
	}
	mustContain(t, get("/metrics", 200), `godwit_durability_info{level="sync"} 1`, `godwit_wal_state{state="healthy"} 1`, "godwit_topics 1", "godwit_wal_syncs_total")
	mustContain(t, get("/healthz", 200), "ok")
	mustContain(t, get("/readyz", 200), "ready")
	mustContain(t, get("/losses", 200), "[]")
	mustContain(t, get("/", 200), "/metrics")
	mustContain(t, get("/debug/pprof/", 200), "goroutine")
	get("/nowhere", 404)
}

func TestSettingsFromEverywhere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "godwit.yaml")
	if err := os.WriteFile(file, []byte("num-partitions: 7\nlog-level: warn\ndurability: os\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GODWIT_DURABILITY", "sync")
	t.Setenv("GODWIT_AMQP", "127.0.0.1:5672")
	var out, errOut bytes.Buffer
	args := []string{"serve", "--config", file, "--data", filepath.Join(dir, "d"), "--num-partitions", "9"}
	if code := Main(args, "test", nil, &out, &errOut); code != 2 || !strings.Contains(errOut.String(), "amqp") {
		t.Fatalf("an address for a protocol that is not there: code %d\n%s", code, errOut.String())
	}
	if err := os.WriteFile(file, []byte("num-partition: 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	errOut.Reset()
	if code := Main(args, "test", nil, &out, &errOut); code != 2 || !strings.Contains(errOut.String(), `"num-partitions"`) {
		t.Fatalf("an unknown key: code %d\n%s", code, errOut.String())
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	var out bytes.Buffer
	if code := Main([]string{"serve", "--help"}, "test", nil, &out, &out); code != 0 {
		t.Fatalf("code %d", code)
	}
	for _, name := range []string{"data", "kafka", "amqp", "mqtt", "nats", "http", "config", "advertise", "durability", "wal-file-size", "reserve-free",
		"auto-create-topics", "num-partitions", "topic-defaults", "max-connections", "max-request-bytes", "max-inflight-bytes", "checkpoint-interval",
		"retention-check-interval", "shutdown-timeout", "log-level", "log-format", "pprof"} {
		env := "GODWIT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		mustContain(t, out.String(), "--", name, env)
	}
}

func TestTakenAddressSaysWhatToDo(t *testing.T) {
	r := serve(t, testSettings(t.TempDir()))
	defer r.stop()
	s := testSettings(t.TempDir())
	s.Kafka = r.addrs["kafka"]
	err := Run(context.Background(), s, slog.New(slog.DiscardHandler), func(map[string]string) { t.Error("ready on a taken address") })
	if err == nil || !strings.Contains(err.Error(), "--kafka") {
		t.Fatalf("error %v", err)
	}
}
