//go:build peers

package mqtt

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/driver/drivertest"
)

// TestMosquitto runs against GODWIT_PEER_MQTT, or a mosquitto of its own. It must not drop messages of sessions
// that are away, as mosquitto does by default after the 1,000th.
func TestMosquitto(t *testing.T) {
	target := os.Getenv("GODWIT_PEER_MQTT")
	if target == "" {
		target = startMosquitto(t)
	}
	for _, qos := range []string{"1", "2"} {
		t.Run("qos="+qos, func(t *testing.T) {
			drivertest.Run(t, drivertest.Target{AckEach: true, New: func(t *testing.T) driver.Driver {
				u := options(t, target).URL
				q := u.Query()
				q.Set("qos", qos)
				u.RawQuery = q.Encode()
				return open(t, u.String())
			}})
		})
	}
}

// startMosquitto runs a mosquitto that drops nothing until the test ends, and answers its URL.
func startMosquitto(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := func(args ...string) string {
		t.Helper()
		c := exec.Command("../../../../bench/peers/mosquitto.sh", args...)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("mosquitto.sh %s: %v", args[0], err)
		}
		return strings.TrimSpace(string(out))
	}
	script("install")
	script("prepare", dir)
	conf, err := os.OpenFile(filepath.Join(dir, "mosquitto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = conf.WriteString("max_queued_messages 0\n")
		err = errors.Join(err, conf.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { script("stop", dir) })
	return script("restart", dir) // unlike start, it leaves the configuration as it is
}
