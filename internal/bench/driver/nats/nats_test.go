package nats

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/driver/drivertest"
)

// startServer runs a server in this process and answers its address.
func startServer(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not accept connections")
	}
	return s.Addr().String()
}

func options(t *testing.T, target string) driver.Options {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Options{URL: u, Net: &driver.Network{}, Logf: t.Logf}
}

func TestCore(t *testing.T) {
	addr := startServer(t)
	drivertest.Run(t, drivertest.Target{New: func(t *testing.T) driver.Driver {
		d, err := New(t.Context(), options(t, "nats://"+addr))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}})
}

func TestJetStream(t *testing.T) {
	addr := startServer(t)
	for _, storage := range []string{"file", "memory"} {
		t.Run(storage, func(t *testing.T) {
			drivertest.Run(t, drivertest.Target{AckEach: true, Discards: true, New: func(t *testing.T) driver.Driver {
				d, err := NewJetStream(t.Context(), options(t, "jetstream://"+addr+"?ackwait=1s&replicas=1&storage="+storage))
				if err != nil {
					t.Fatal(err)
				}
				return d
			}})
		})
	}
}

func TestSettings(t *testing.T) {
	for _, q := range []string{"storage=disk", "replicas=0", "replicas=x", "ackwait=1", "ackwait=-1s", "inflight=0", "inflight=x"} {
		if _, err := NewJetStream(context.Background(), options(t, "jetstream://127.0.0.1:1?"+q)); err == nil {
			t.Errorf("%s is accepted", q)
		}
	}
}
