package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/probe"
	"godwit/internal/bench/result"
)

// The durability probe sends so many messages, one after the other, with a pause between two: what a target
// syncs late is not taken for the next one's. Before the first it listens, for a quiet time, to what the target syncs
// without being sent anything.
const (
	probes     = 100
	probePause = 5 * time.Millisecond
	probeQuiet = time.Second
	probeSize  = 1 << 10
	// A target that takes long is probed with fewer messages: those that it acknowledges within probeTime, if
	// they are at least probesEnough.
	probeTime    = 8 * time.Second
	probesEnough = 20
	// probeTimeout is for one acknowledgement.
	probeTimeout = 10 * time.Second
)

// durability compares the acknowledgements of messages sent one at a time with the syncs of the target's process.
func (x *trial) durability(ctx context.Context) result.Durability {
	unknown := func(doing string, err error) result.Durability {
		return result.Durability{Grade: result.GradeUnknown, Why: doing + ": " + err.Error()}
	}
	switch {
	case !x.driver.Traits().Acks:
		return result.Durability{Grade: result.GradeNone}
	case x.target.PID == 0:
		return result.Durability{Grade: result.GradeUnknown, Why: "its process is not known: add pid= to the target's URL"}
	}
	// A subscription that keeps messages: a broker may well not store what nobody waits for.
	keeps := driver.Subscription{Name: "keeps", Durable: true}
	space, err := x.open(ctx, driver.Layout{Destinations: 1, Partitions: 1, Subscriptions: []driver.Subscription{keeps}})
	if err != nil {
		return unknown("creating a destination", err)
	}
	done := make(chan answer, probes+1)
	p, err := space.Producer(ctx, driver.ProducerOptions{InFlight: 1, Done: func(_ uint64, err error) { done <- answer{time.Now(), err} }})
	if err != nil {
		return unknown("connecting a producer", err)
	}
	defer p.Close()
	// The first message may wait for what only happens once: metadata, a file created.
	if _, err := sendOne(ctx, p, done); err != nil {
		return unknown("sending a first message, untraced", err)
	}
	d, method, err := x.grade(ctx, p, done, probe.TraceSyncs)
	if err == nil && d.Grade == result.GradeUnknown && method == probe.MethodEvents {
		d, _, err = x.grade(ctx, p, done, probe.TraceSyncsByPtrace) // slower, and sees more
	}
	if err != nil {
		return unknown("looking for syncs", err)
	}
	if x.target.Data != "" {
		for i, f := range d.Files { // where the data lies on this machine is nobody's business
			d.Files[i] = strings.TrimPrefix(f, strings.TrimSuffix(x.target.Data, "/")+"/")
		}
	}
	return d
}

// grade sends the probe's messages while the target is traced, and tells by which method it was.
func (x *trial) grade(ctx context.Context, p driver.Producer, done <-chan answer, trace func(int) (*probe.Syncs, error)) (d result.Durability, method string, err error) {
	traced, err := trace(x.target.PID)
	if err != nil {
		return d, "", err
	}
	defer traced.Stop() // again, in vain, unless something failed
	quiet, err := listen(ctx)
	if err != nil {
		return d, "", err
	}
	acks, err := sendAll(ctx, p, done)
	if err != nil {
		return d, "", fmt.Errorf("after %d messages, by %s: %w", len(acks), traced.Method(), err)
	}
	return traced.Grade(acks, quiet), traced.Method(), nil
}

// answer is what became of a message.
type answer struct {
	at  time.Time
	err error
}

// listen lets the quiet time pass.
func listen(ctx context.Context) (probe.Interval, error) {
	quiet := probe.Interval{Sent: time.Now()}
	over := time.NewTimer(probeQuiet)
	defer over.Stop()
	select {
	case <-over.C:
		quiet.Acked = time.Now()
		return quiet, nil
	case <-ctx.Done():
		return quiet, ctx.Err()
	}
}

// sendAll sends the probe's messages.
func sendAll(ctx context.Context, p driver.Producer, done <-chan answer) (acks []probe.Interval, err error) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for begin := time.Now(); len(acks) < probes && (len(acks) < probesEnough || time.Since(begin) < probeTime); {
		a, err := sendOne(ctx, p, done)
		if err != nil {
			return acks, err
		}
		acks = append(acks, a)
		tick.Reset(probePause)
		<-tick.C
	}
	return acks, nil
}

// sendOne sends a message, without waiting for others to send along with it, and waits for its acknowledgement.
func sendOne(ctx context.Context, p driver.Producer, done <-chan answer) (probe.Interval, error) {
	late := fmt.Errorf("no acknowledgement within %v", probeTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, late)
	defer cancel()
	a := probe.Interval{Sent: time.Now()}
	err := p.Send(ctx, driver.Message{Payload: make([]byte, probeSize)})
	if err == nil {
		err = p.Flush(ctx)
	}
	if err == nil {
		select {
		case got := <-done:
			a.Acked, err = got.at, got.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if cause := context.Cause(ctx); errors.Is(err, context.DeadlineExceeded) && cause != nil {
		err = cause
	}
	return a, err
}
