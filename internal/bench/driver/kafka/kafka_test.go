package kafka

import (
	"net/url"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/driver/drivertest"
)

// startBroker runs a broker in this process and answers its address.
func startBroker(t *testing.T) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1), kfake.BrokerConfigs(map[string]string{
		"group.share.heartbeat.interval.ms":   "100",
		"group.share.session.timeout.ms":      "2000",
		"group.share.record.lock.duration.ms": "1000",
		"group.initial.rebalance.delay.ms":    "0",
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

func open(t *testing.T, target string) driver.Driver {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(t.Context(), driver.Options{URL: u, Net: &driver.Network{}, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDriver(t *testing.T) {
	addr := startBroker(t)
	drivertest.Run(t, drivertest.Target{AckEach: true, Told: true, Discards: true, New: func(t *testing.T) driver.Driver {
		return open(t, "kafka://"+addr+"?session=6s")
	}})
}
