package kafka

import (
	"net/url"
	"sync/atomic"
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

// TestManyTopics has a producer with more topics than one client is given: all of them can be sent to, and Flush and the window
// are about all.
func TestManyTopics(t *testing.T) {
	d := open(t, "kafka://"+startBroker(t))
	defer d.Close()
	s, err := d.Open(t.Context(), driver.Layout{Name: "many", Destinations: topicsPerClient + 1, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	var acked atomic.Int64
	p, err := s.Producer(t.Context(), driver.ProducerOptions{InFlight: 2, Done: func(_ uint64, err error) {
		if err != nil {
			t.Error(err)
		}
		acked.Add(1)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, destination := range []int{0, topicsPerClient - 1, topicsPerClient, 0, topicsPerClient} {
		if err := p.Send(t.Context(), driver.Message{Destination: destination, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil || acked.Load() != 5 {
		t.Fatalf("%d of 5 messages are acknowledged, %v", acked.Load(), err)
	}
}
