package nats

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"godwit/internal/bench/driver"
)

// silent opens a layout whose stream takes messages and acknowledges none.
func silent(t *testing.T, query string) driver.Space {
	t.Helper()
	d, err := NewJetStream(t.Context(), options(t, "jetstream://"+startServer(t)+query))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	space, err := d.Open(t.Context(), driver.Layout{Name: "silent", Destinations: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.(*streams).js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "silent", Subjects: []string{everything("silent")}, NoAck: true}); err != nil {
		t.Fatal(err)
	}
	return space
}

// eager is a producer that is allowed any number of messages, and the number of those that failed.
func eager(t *testing.T, s driver.Space) (driver.Producer, *atomic.Int64) {
	t.Helper()
	failed := new(atomic.Int64)
	p, err := s.Producer(t.Context(), driver.ProducerOptions{InFlight: 1 << 16, Done: func(_ uint64, err error) {
		if err != nil {
			failed.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // may have been closed by the test
	return p, failed
}

// fill sends until there is no room, or limit messages.
func fill(t *testing.T, p driver.Producer, limit int) (n int) {
	t.Helper()
	over, cancel := context.WithCancel(t.Context())
	cancel() // Send does not wait
	for ; n < limit; n++ {
		if err := p.Send(over, driver.Message{Payload: []byte("x")}); errors.Is(err, context.Canceled) {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestProducersShareWhatTheStreamAllows(t *testing.T) {
	space := silent(t, "?inflight=100")
	var all []driver.Producer
	var failures []*atomic.Int64
	for range 4 {
		p, failed := eager(t, space)
		all, failures = append(all, p), append(failures, failed)
	}
	for i, p := range all {
		if n := fill(t, p, 1000); n != 25 {
			t.Errorf("producer %d of 4 may have %d messages unacknowledged, not its part of 100", i, n)
		}
	}
	for i, p := range all[1:] {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n := failures[i+1].Load(); n != 25 {
			t.Errorf("closing failed %d messages of 25", n)
		}
	}
	if n := fill(t, all[0], 1000); n != 75 {
		t.Errorf("the last producer may have %d more messages unacknowledged, not 75", n)
	}
}

func TestUsualWindowIsFarBelowTheServersQueue(t *testing.T) {
	p, _ := eager(t, silent(t, ""))
	if n := fill(t, p, 10_000); n != usualInFlight {
		t.Errorf("%d messages may be unacknowledged, not %d", n, usualInFlight)
	}
}

func TestClosingEndsASenderThatWaits(t *testing.T) {
	p, failed := eager(t, silent(t, "?inflight=1"))
	fill(t, p, 2)
	ended := make(chan error, 1)
	go func() { ended <- p.Send(context.Background(), driver.Message{Payload: []byte("x")}) }()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a message was taken that there was no room for")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the sender still waits")
	}
	if n := failed.Load(); n != 1 {
		t.Errorf("%d messages failed, not 1", n)
	}
}

func TestCuttingFailsWhatWaitsToBeSent(t *testing.T) {
	space := silent(t, "?inflight=1000000")
	for range 2 {
		network := new(driver.Network)
		taken, done := 0, new(atomic.Int64)
		p, err := space.Producer(t.Context(), driver.ProducerOptions{
			Net: network, InFlight: 1 << 20, Done: func(uint64, error) { done.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for err == nil {
			if err = p.Send(ctx, driver.Message{Payload: []byte("x")}); err == nil {
				taken++
			}
			if taken == 100 {
				go network.Cut()
			}
		}
		if ctx.Err() != nil {
			t.Fatal("a cut producer takes messages")
		}
		if err := p.Flush(ctx); err != nil {
			t.Errorf("%d of %d messages are done when flushing ends: %v", done.Load(), taken, err)
		}
		cancel()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n := done.Load(); n != int64(taken) {
			t.Errorf("%d of %d messages are done in the end", n, taken)
		}
	}
}

func TestRefusedMessagesSayWhatToDo(t *testing.T) {
	err := explain(&jetstream.APIError{Code: 429, ErrorCode: tooManyRequests, Description: "too many requests"})
	for _, want := range []string{"too many requests", "max_buffered_msgs", "inflight"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not tell of %s", err, want)
		}
	}
	if other := errors.New("other"); explain(other) != other {
		t.Error("another error is changed")
	}
}
