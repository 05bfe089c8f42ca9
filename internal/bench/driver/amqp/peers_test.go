//go:build peers

package amqp

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/driver/drivertest"
)

// rabbitmq is the URL of a RabbitMQ: that in GODWIT_PEER_AMQP or of one that is started for the test.
func rabbitmq(t *testing.T) string {
	t.Helper()
	if target := os.Getenv("GODWIT_PEER_AMQP"); target != "" {
		return target
	}
	script, err := filepath.Abs("../../../../bench/peers/rabbitmq.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Cleanup(func() {
		if out, err := exec.Command(script, "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("stopping RabbitMQ: %v: %s", err, out)
		}
	})
	for _, arguments := range [][]string{{"install"}, {"start", dir, "default"}} {
		c := exec.Command(script, arguments...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s %s: %v: %s", script, arguments[0], err, &stderr)
		}
		if arguments[0] == "start" {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
}

// with is a driver for a URL with some settings changed.
func with(t *testing.T, target string, settings map[string]string) driver.Driver {
	t.Helper()
	u := parse(t, target)
	q := u.Query()
	for name, v := range settings {
		q.Set(name, v)
	}
	u.RawQuery = q.Encode()
	d, err := New(t.Context(), driver.Options{URL: u, Net: &driver.Network{}, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRabbitMQ(t *testing.T) {
	target := rabbitmq(t)
	for name, settings := range map[string]map[string]string{
		"classic": {"queue": "classic"}, "quorum": {"queue": "quorum"}, "transient": {"queue": "classic", "persistent": "false"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, drivertest.Target{
				AckEach: true, Discards: true, New: func(t *testing.T) driver.Driver { return with(t, target, settings) },
			})
		})
	}
}
