package target

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParse reads what a peer's script prints.
func TestParse(t *testing.T) {
	x, err := Parse("amqp://guest:secret@127.0.0.1:5672/v?name=rabbit&pid=17&version=RabbitMQ+3.10.8&config=quorum+queues&queue=quorum&memory=4096&data=%2Fd&script=%2Fs&dir=%2Fx")
	if err != nil {
		t.Fatal(err)
	}
	if x.Name != "rabbit" || x.PID != 17 || x.Version != "RabbitMQ 3.10.8" || x.Config != "quorum queues" || x.Memory != 4096 || x.Data != "/d" || x.Script != "/s" || x.Dir != "/x" || !x.Local() {
		t.Fatalf("%+v", x)
	}
	if shown := x.Shown(); shown != "amqp://guest:xxxxx@127.0.0.1:5672/v?queue=quorum" {
		t.Fatalf("shown as %s", shown)
	}
	all, err := ParseAll([]string{"kafka://a:1", "kafka://b:1"})
	if err != nil || all[0].Name != "kafka" || all[1].Name != "kafka-2" || all[0].Local() {
		t.Fatalf("%+v, %v", all, err)
	}
}

// TestRefused says what a target looks like, and never shows a password.
func TestRefused(t *testing.T) {
	for in, want := range map[string]string{
		"http://a:80":            "the protocol is one of kafka",
		"kafka://a":              "needs HOST:PORT",
		"kafka://a:1?pid=x":      "not a process ID",
		"kafka://a:1?pid=-4":     "not a process ID",
		"kafka://a:1?memory=1G":  "not a number of bytes",
		"ftp://u:secret@a:1":     "the protocol is one of",
		"amqp://u:secret@a":      "needs HOST:PORT",
		"amqp://u:secret@a:1?%x": "cannot be read",
		"127.0.0.1:9092":         "is not a URL",
	} {
		_, err := Parse(in)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	if _, err := ParseAll(nil); err == nil || !strings.Contains(err.Error(), "--target") {
		t.Errorf("no target: %v", err)
	}
}

// TestRestart takes over the new process ID from the script, and refuses one that moved.
func TestRestart(t *testing.T) {
	script := filepath.Join(t.TempDir(), "peer.sh")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(script, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	x, err := Parse("kafka://127.0.0.1:9?pid=1&dir=/d&script=" + script)
	if err != nil {
		t.Fatal(err)
	}
	write(`[ "$1 $2" = "restart /d" ] && echo 'kafka://127.0.0.1:9?pid=2'`)
	if err := x.Restart(context.Background()); err != nil || x.PID != 2 {
		t.Fatalf("pid %d, %v", x.PID, err)
	}
	write(`echo 'kafka://127.0.0.1:10?pid=3'`)
	if err := x.Restart(context.Background()); err == nil || !strings.Contains(err.Error(), "moved") {
		t.Fatalf("%v", err)
	}
	write("echo it is broken >&2; exit 1")
	if err := x.Restart(context.Background()); err == nil || !strings.Contains(err.Error(), "it is broken") {
		t.Fatalf("%v", err)
	}
	x.Script = ""
	if err := x.Restart(context.Background()); !errors.Is(err, ErrNoScript) {
		t.Fatalf("%v", err)
	}
}
