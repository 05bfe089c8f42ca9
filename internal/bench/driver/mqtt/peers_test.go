//go:build peers

package mqtt

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/driver/drivertest"
)

// TestMosquitto runs against GODWIT_PEER_MQTT, or a mosquitto of its own. It must not drop messages of sessions
// that are away, as mosquitto does by default after the 1,000th.
func TestMosquitto(t *testing.T) {
	target := os.Getenv("GODWIT_PEER_MQTT")
	if target == "" {
		script, dir := mosquitto(t, "default")
		target = script("restart", dir)
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

// TestMosquittoRestart has a session outlive the broker's process.
func TestMosquittoRestart(t *testing.T) {
	script, dir := mosquitto(t, "synced")
	sub := driver.Subscription{Name: "s", Durable: true}
	s := openSpace(t, script("restart", dir), sub)
	p, err := s.Producer(t.Context(), driver.ProducerOptions{InFlight: 100, Done: func(_ uint64, err error) {
		if err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	const count = 200 // more than are sent ahead
	for range count {
		if err := p.Send(t.Context(), driver.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	script("restart", dir)
	got := make(chan struct{}, count)
	c, err := s.Consumer(t.Context(), sub, driver.ConsumerOptions{
		Handle: func(driver.Delivery) bool { got <- struct{}{}; return true },
		Lost:   func(said string) { t.Error(said) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		select {
		case <-got:
		case <-time.After(30 * time.Second):
			t.Fatalf("%d of %d messages came", i, count)
		}
	}
	if err := errors.Join(c.Close(), s.Remove(t.Context())); err != nil {
		t.Error(err)
	}
}

// mosquitto prepares one that drops nothing, stops it when the test ends, and answers what controls it: "restart"
// starts it and answers its URL.
func mosquitto(t *testing.T, config string) (script func(args ...string) string, dir string) {
	t.Helper()
	dir = t.TempDir()
	script = func(args ...string) string {
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
	script("prepare", dir, config)
	conf, err := os.OpenFile(filepath.Join(dir, "mosquitto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = conf.WriteString("max_queued_messages 0\n")
		err = errors.Join(err, conf.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { script("stop", dir) })
	return script, dir // not by "start", which would write the configuration again
}
