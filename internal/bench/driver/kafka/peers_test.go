//go:build peers

package kafka

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/driver/drivertest"
)

// TestApacheKafka holds the driver against Apache Kafka: that in GODWIT_PEER_KAFKA or one that is started for the test.
func TestApacheKafka(t *testing.T) {
	u, err := url.Parse(apacheKafka(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("session", "6s") // the least that Kafka takes by default
	u.RawQuery = q.Encode()
	drivertest.Run(t, drivertest.Target{AckEach: true, Told: true, Discards: true, Wait: 2 * time.Minute, New: func(t *testing.T) driver.Driver {
		return open(t, u.String())
	}})
}

func apacheKafka(t *testing.T) string {
	t.Helper()
	if target := os.Getenv("GODWIT_PEER_KAFKA"); target != "" {
		return target
	}
	script, err := filepath.Abs("../../../../bench/peers/kafka.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Cleanup(func() {
		if out, err := exec.Command(script, "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("stopping Kafka: %v: %s", err, out)
		}
	})
	if out, err := exec.Command(script, "install").CombinedOutput(); err != nil {
		t.Fatalf("installing Kafka: %v: %s", err, out)
	}
	c := exec.Command(script, "start", dir, "default")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("starting Kafka: %v: %s", err, &stderr)
	}
	return strings.TrimSpace(string(out))
}
