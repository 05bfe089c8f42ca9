package mqtt

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"go.uber.org/goleak"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/driver/drivertest"
)

func options(t *testing.T, target string) driver.Options {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Options{URL: u, Net: &driver.Network{}, Logf: t.Logf}
}

// open opens a driver that the caller closes.
func open(t *testing.T, target string) driver.Driver {
	t.Helper()
	d, err := New(t.Context(), options(t, target))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// space opens a layout on a driver of its own, until the test ends.
func openSpace(t *testing.T, target string, subs ...driver.Subscription) driver.Space {
	t.Helper()
	d := open(t, target)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing the driver: %v", err)
		}
	})
	s, err := d.Open(t.Context(), driver.Layout{Name: "l", Destinations: 1, Subscriptions: subs})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMain fails if connections are left behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ptr[T any](v T) *T { return &v }

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name, query string
		o           brokerOptions
	}{
		{"QoS 1", "", brokerOptions{}},
		{"QoS 1 and a small window", "?qos=1&name=b&pid=1", brokerOptions{connack: packets.Properties{ReceiveMaximum: ptr(uint16(20))}}},
		{"QoS 2", "?qos=2", brokerOptions{connack: packets.Properties{ReceiveMaximum: ptr(uint16(20))}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startBroker(t, c.o)
			drivertest.Run(t, drivertest.Target{AckEach: true, New: func(t *testing.T) driver.Driver {
				return open(t, b.url()+c.query)
			}})
			b.mu.Lock()
			defer b.mu.Unlock()
			for id, s := range b.sessions {
				if !s.expires {
					t.Errorf("session %s was left behind", id)
				}
			}
		})
	}
}

// TestQoS0 has nothing acknowledged. A message is done when it was written: what was done before a consumer came may
// still be on its way, so that not all of the conformance tests hold.
func TestQoS0(t *testing.T) {
	d := open(t, startBroker(t, brokerOptions{}).url()+"?qos=0")
	defer d.Close()
	if d.Traits() != (driver.Traits{}) {
		t.Errorf("traits are %+v", d.Traits())
	}
	subs := []driver.Subscription{{Name: "a"}, {Name: "b", Shared: true}, {Name: "c", Durable: true}}
	each := driver.Layout{Name: "l", Destinations: 1, Subscriptions: []driver.Subscription{{Name: "d", AckEach: true}}}
	if _, err := d.Open(t.Context(), each); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("acknowledging each message: %v", err)
	}
	s, err := d.Open(t.Context(), driver.Layout{Name: "l", Destinations: 3, Subscriptions: subs})
	if err != nil {
		t.Fatal(err)
	}
	const count = 1000
	var done atomic.Int64
	got := make(chan struct{}, len(subs)*count)
	for _, sub := range subs {
		if _, err := s.Consumer(t.Context(), sub, driver.ConsumerOptions{Handle: func(driver.Delivery) bool {
			got <- struct{}{}
			return true
		}}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := s.Producer(t.Context(), driver.ProducerOptions{InFlight: 10, Done: func(_ uint64, err error) {
		if err != nil {
			t.Error(err)
		}
		done.Add(1)
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if err := p.Send(t.Context(), driver.Message{Destination: i % 3}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil || done.Load() != count {
		t.Errorf("%d of %d messages are done after the flush, %v", done.Load(), count, err)
	}
	for i := range len(subs) * count {
		select {
		case <-got:
		case <-time.After(30 * time.Second):
			t.Fatalf("%d messages came", i)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, u := range []string{"mqtt://h:1?qos=3", "mqtt://h:1?qos=x", "mqtt://h:1?QoS=1", "mqtt://h:1?acks=1", "mqtt://h:1/vhost"} {
		if _, err := readSettings(options(t, u).URL); err == nil {
			t.Errorf("%s is accepted", u)
		}
	}
	all := "mqtt://h:1/?qos=2&name=n&pid=1&version=v&config=c&script=s&dir=d&data=d&memory=1"
	if qos, err := readSettings(options(t, all).URL); qos != 2 || err != nil {
		t.Errorf("%s: QoS %d, %v", all, qos, err)
	}
}

func TestDescribe(t *testing.T) {
	for version, want := range map[string]string{"toad 1.2": "toad 1.2", "": "MQTT 5 broker"} {
		b := startBroker(t, brokerOptions{version: version})
		d := open(t, b.url())
		if said, err := d.Describe(t.Context()); said != want || err != nil {
			t.Errorf("of %q: %q, %v", version, said, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusedConnection(t *testing.T) {
	b := startBroker(t, brokerOptions{refuse: 0x87})
	target := strings.Replace(b.url(), "//", "//me:secret@", 1)
	_, err := New(t.Context(), options(t, target))
	if err == nil || !strings.Contains(err.Error(), "not authorized") || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.hellos[0]; c.Username != "me" || string(c.Password) != "secret" {
		t.Errorf("user %q, password %q", c.Username, c.Password)
	}
}

// TestLimits has brokers that lack what somebody may ask for.
func TestLimits(t *testing.T) {
	ctx := t.Context()
	b := startBroker(t, brokerOptions{connack: packets.Properties{MaximumQOS: ptr(byte(1))}})
	if _, err := New(ctx, options(t, b.url()+"?qos=2")); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("QoS 2 of a broker with QoS 1: %v", err)
	}
	b = startBroker(t, brokerOptions{connack: packets.Properties{WildcardSubAvailable: ptr(byte(0))}})
	if _, err := New(ctx, options(t, b.url())); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("no wildcards: %v", err)
	}
	shared, durable := driver.Subscription{Name: "s", Shared: true}, driver.Subscription{Name: "s", Durable: true}
	for _, c := range []struct {
		what string
		o    brokerOptions
		sub  driver.Subscription
	}{
		{"no shared subscriptions", brokerOptions{connack: packets.Properties{SharedSubAvailable: ptr(byte(0))}}, shared},
		{"no sessions", brokerOptions{connack: packets.Properties{SessionExpiryInterval: ptr(uint32(0))}}, durable},
		{"QoS 0 granted", brokerOptions{granted: ptr(byte(0))}, durable},
		{"the past", brokerOptions{}, driver.Subscription{Name: "s", FromStart: true}},
	} {
		d := open(t, startBroker(t, c.o).url())
		if _, err := d.Open(ctx, driver.Layout{Name: "l", Destinations: 1, Subscriptions: []driver.Subscription{c.sub}}); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%s: %v", c.what, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	s := openSpace(t, startBroker(t, brokerOptions{}).url())
	if err := s.Discard(ctx, 0); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("discarding: %v", err)
	}
}

func TestLargestPacket(t *testing.T) {
	b := startBroker(t, brokerOptions{connack: packets.Properties{MaximumPacketSize: ptr(uint32(1000))}})
	p, err := openSpace(t, b.url()).Producer(t.Context(), driver.ProducerOptions{InFlight: 1, Done: func(_ uint64, err error) {
		if err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for size, fits := range map[int]bool{900: true, 1000: false} {
		if err := p.Send(t.Context(), driver.Message{Payload: make([]byte, size)}); (err == nil) != fits {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRefusedMessages(t *testing.T) {
	for _, qos := range []string{"1", "2"} {
		b := startBroker(t, brokerOptions{puback: 0x97})
		done := make(chan error, 1)
		p, err := openSpace(t, b.url()+"?qos="+qos).Producer(t.Context(), driver.ProducerOptions{InFlight: 1, Done: func(_ uint64, err error) { done <- err }})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // each makes room for the next
			if err := p.Send(t.Context(), driver.Message{}); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err == nil || !strings.Contains(err.Error(), "0x97") {
				t.Errorf("QoS %s: %v", qos, err)
			}
		}
	}
}

// TestWindow has a broker that acknowledges late: the window is the smaller one of both sides'.
func TestWindow(t *testing.T) {
	for inFlight, want := range map[int]int{5: 5, 100: 7} {
		b := startBroker(t, brokerOptions{holdAcks: true, connack: packets.Properties{ReceiveMaximum: ptr(uint16(7))}})
		var done atomic.Int64
		p, err := openSpace(t, b.url()).Producer(t.Context(), driver.ProducerOptions{InFlight: inFlight, Done: func(uint64, error) { done.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		for range want {
			if err := p.Send(t.Context(), driver.Message{}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := p.Send(ctx, driver.Message{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one more than %d: %v", want, err)
		}
		cancel()
		for done.Load() < int64(want) {
			b.release()
		}
		if err := p.Send(t.Context(), driver.Message{}); err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		most := b.most
		b.mu.Unlock()
		if most != want {
			t.Errorf("%d messages were unacknowledged, the window has %d", most, want)
		}
	}
}

// TestDropped has the broker end connections: what is in flight fails, and both sides say so.
func TestDropped(t *testing.T) {
	b := startBroker(t, brokerOptions{holdAcks: true})
	s := openSpace(t, b.url())
	done := make(chan error, 10)
	p, err := s.Producer(t.Context(), driver.ProducerOptions{InFlight: 10, Done: func(_ uint64, err error) { done <- err }})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Consumer(t.Context(), driver.Subscription{Name: "s"}, driver.ConsumerOptions{Handle: func(driver.Delivery) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := p.Send(t.Context(), driver.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	b.drop()
	for range 10 {
		if err := <-done; err == nil {
			t.Error("a message is acknowledged that the broker has not acknowledged")
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Errorf("flushing with nothing in flight: %v", err)
	}
	if err := p.Send(t.Context(), driver.Message{}); err == nil {
		t.Error("a producer without a connection takes messages")
	}
	<-c.(consumer).ended
	if err := c.Err(); err == nil || errors.Is(err, errClosed) {
		t.Errorf("the consumer has ended with: %v", err)
	}
}

// TestSessionLost has the broker forget a session that was to last.
func TestSessionLost(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	sub := driver.Subscription{Name: "s", Durable: true}
	s := openSpace(t, b.url(), sub)
	told := make(chan string, 1)
	consume := func() driver.Consumer {
		t.Helper()
		c, err := s.Consumer(t.Context(), sub, driver.ConsumerOptions{
			Handle: func(driver.Delivery) bool { return true }, Lost: func(said string) { told <- said },
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := consume().Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 {
		t.Errorf("of a session that lasted it says %s", <-told)
	}
	b.forget()
	consume()
	if len(told) == 0 {
		t.Error("of a session that the broker has forgotten it says nothing")
	}
}

// TestTakenOver has a second consumer of a subscription that is not shared.
func TestTakenOver(t *testing.T) {
	sub := driver.Subscription{Name: "s", Durable: true}
	s := openSpace(t, startBroker(t, brokerOptions{}).url(), sub)
	var consumers []driver.Consumer
	for range 2 {
		c, err := s.Consumer(t.Context(), sub, driver.ConsumerOptions{Handle: func(driver.Delivery) bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		consumers = append(consumers, c)
	}
	<-consumers[0].(consumer).ended
	if err := consumers[0].Err(); err == nil || !strings.Contains(err.Error(), "Session taken over") {
		t.Errorf("the first has ended with: %v", err)
	}
	if err := consumers[1].Err(); err != nil {
		t.Errorf("the second has ended with: %v", err)
	}
}

// TestRedelivered has a consumer leave a message unacknowledged.
func TestRedelivered(t *testing.T) {
	sub := driver.Subscription{Name: "s", Durable: true, Shared: true, AckEach: true}
	s := openSpace(t, startBroker(t, brokerOptions{}).url(), sub)
	p, err := s.Producer(t.Context(), driver.ProducerOptions{InFlight: 10, Done: func(uint64, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := p.Send(t.Context(), driver.Message{Payload: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	type got struct {
		n     byte
		again bool
	}
	for _, c := range []struct {
		refuse byte
		want   []got
	}{
		{1, []got{{0, false}, {1, false}, {2, false}}},
		{9, []got{{1, true}}},
	} {
		all := make(chan got, 10)
		x, err := s.Consumer(t.Context(), sub, driver.ConsumerOptions{Handle: func(d driver.Delivery) bool {
			all <- got{d.Payload[0], d.Redelivered}
			return d.Payload[0] != c.refuse
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if g := <-all; g != want {
				t.Errorf("got %v instead of %v", g, want)
			}
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}
