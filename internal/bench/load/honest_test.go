package load

import (
	"testing"
	"time"

	"godwit/internal/bench/result"
)

// TestStallShows stops the target for a second, with windows that hold all messages and that hold few: latencies
// run from when messages were due, so that a tenth of them waits for half a second on average.
func TestStallShows(t *testing.T) {
	for name, c := range map[string]struct {
		inFlight, queue int
		poisson         bool
	}{
		"window with room":   {inFlight: 10_000, queue: 10_000},
		"window that fills":  {inFlight: 10, queue: 100},
		"client that blocks": {inFlight: 10_000, queue: 3},
		"random arrivals":    {inFlight: 100, queue: 3, poisson: true},
	} {
		t.Run(name, func(t *testing.T) {
			tg := &target{latency: time.Millisecond, queue: c.queue}
			within(t, Options{InFlight: c.inFlight, Keys: 4, Seed: 3}, 2, tg, func(r *rig) {
				tg.listen(r.Subscription("s"))
				tg.stall(5*time.Second, time.Second)
				sent := r.send(Phase{ID: 1, Rate: 1000, Poisson: c.poisson, Duration: 10 * time.Second, Record: true})
				r.settle()
				if !c.poisson && sent.Acked != 10_000 {
					r.Errorf("%d messages of 10,000 were sent", sent.Acked)
				}
				producer, endToEnd := r.Latency(1)
				for what, l := range map[string]*result.Latency{"acknowledgement": producer, "delivery": endToEnd} {
					if l.Count != sent.Acked {
						r.Errorf("%s: %d latencies of %d messages", what, l.Count, sent.Acked)
					}
					if l.At(99.9) < 980e3 || l.Max < 998e3 || l.Max > 1.1e6 {
						r.Errorf("%s: p99.9 %v us, longest %v us", what, l.At(99.9), l.Max)
					}
					if l.At(95) < 400e3 || l.At(95) > 600e3 || l.At(50) > 2e3 {
						r.Errorf("%s: p50 %v us, p95 %v us", what, l.At(50), l.At(95))
					}
				}
			})
		})
	}
}

// TestStallIsNotLess has the stall long enough for p99.9 to be all of it.
func TestStallIsNotLess(t *testing.T) {
	tg := &target{latency: time.Millisecond, queue: 10}
	within(t, Options{InFlight: 100}, 1, tg, func(r *rig) {
		tg.stall(time.Second, 1100*time.Millisecond)
		r.send(Phase{ID: 1, Rate: 1000, Poisson: true, Duration: 5 * time.Second, Record: true})
		if l, _ := r.Latency(1); l.At(99.9) < 1e6 {
			r.Errorf("p99.9 is %v us", l.At(99.9))
		}
	})
}

// TestFaultsAreCounted has one message in 10,000 dropped, repeated, or delivered after its successor.
func TestFaultsAreCounted(t *testing.T) {
	const messages, every = 60_000, 10_000
	count := func(offset int) func(n int) bool { return func(n int) bool { return n%every == offset } }
	for name, c := range map[string]struct {
		fault func(v *verdict)
		want  result.Audit
	}{
		"none":    {func(*verdict) {}, result.Audit{}},
		"drop":    {func(v *verdict) { v.deliver = 0 }, result.Audit{Lost: messages / every}},
		"repeat":  {func(v *verdict) { v.deliver = 2 }, result.Audit{Duplicates: messages / every}},
		"reorder": {func(v *verdict) { v.hold = true }, result.Audit{Disordered: messages / every}},
		"fail":    {func(v *verdict) { v.deliver, v.err = 0, errBroken }, result.Audit{Failed: messages / every}},
		"lie":     {func(v *verdict) { v.err = errBroken }, result.Audit{Failed: messages / every}},
	} {
		t.Run(name, func(t *testing.T) {
			faulty := count(17)
			tg := &target{latency: time.Millisecond, queue: 100, verdict: func(_, n int) verdict {
				v := verdict{deliver: 1}
				if faulty(n) {
					c.fault(&v)
				}
				return v
			}}
			within(t, Options{InFlight: 100}, 2, tg, func(r *rig) {
				const subscriptions = 3
				for _, name := range []string{"a", "b", "c"} {
					tg.listen(r.Subscription(name))
				}
				r.send(Phase{ID: 1, Messages: messages})
				r.settle()
				want := c.want
				want.Sent, want.Acked = messages, messages-want.Failed
				want.Expected = want.Acked * subscriptions
				want.Lost, want.Duplicates, want.Disordered = want.Lost*subscriptions, want.Duplicates*subscriptions, want.Disordered*subscriptions
				want.Delivered = want.Expected - want.Lost
				if name == "lie" {
					want.Delivered = messages * subscriptions
				}
				if got := r.Audit(); got != want {
					r.Errorf("got  %+v\nwant %+v", got, want)
				}
			})
		})
	}
}

// TestRefusalsAreNoLatency has one message in three refused at once: the latency is that of the others.
func TestRefusalsAreNoLatency(t *testing.T) {
	tg := &target{latency: 50 * time.Millisecond, queue: 1000, verdict: func(_, n int) verdict {
		if n%3 == 0 {
			return verdict{err: errBroken}
		}
		return verdict{deliver: 1, after: 50 * time.Millisecond}
	}}
	within(t, Options{InFlight: 1000}, 1, tg, func(r *rig) {
		sent := r.send(Phase{ID: 1, Rate: 1000, Duration: time.Second, Record: true})
		if l, _ := r.Latency(1); l.Count != sent.Acked || l.At(0) < 99e3 {
			r.Errorf("%d messages acknowledged, latency of %d from %.0f µs", sent.Acked, l.Count, l.At(0))
		}
	})
}

// TestSilenceIsLatency has some messages never acknowledged: they fail, and count with the time that was waited.
func TestSilenceIsLatency(t *testing.T) {
	tg := &target{latency: time.Millisecond, queue: 100, verdict: func(_, n int) verdict {
		return verdict{deliver: 1, silent: n >= 50}
	}}
	within(t, Options{InFlight: 1000}, 1, tg, func(r *rig) {
		tg.listen(r.Subscription("s"))
		sent := r.send(Phase{ID: 1, Rate: 100, Duration: time.Second, Record: true})
		if sent.Acked != 50 || sent.Failed != 50 || len(sent.Errors) != 1 {
			r.Errorf("sent %+v", sent)
		}
		l, _ := r.Latency(1)
		if l.Count != 100 || l.At(50) > 2e3 || l.At(75) < float64(stallTimeout.Microseconds()) {
			r.Errorf("latency %+v", l)
		}
		if a := r.Audit(); a.Lost != 0 || a.Delivered != 100 || a.Expected != 50 || r.Subscription("s").Missing() != 0 {
			r.Errorf("audit %+v", a)
		}
	})
}

// TestTooSlow asks for far more than the target can do: all that was due is sent late or fails, nothing is left out.
func TestTooSlow(t *testing.T) {
	tg := &target{service: 100 * time.Millisecond}
	within(t, Options{InFlight: 10}, 1, tg, func(r *rig) {
		sent := r.send(Phase{ID: 1, Rate: 1000, Duration: 10 * time.Second, Record: true})
		if sent.Offered != 10_000 || sent.Acked < 690 || sent.Acked > 710 || sent.AckedDuring < 98 || sent.AckedDuring > 101 {
			r.Errorf("sent %+v", sent)
		}
		if sent.Elapsed != 10*time.Second {
			r.Errorf("the phase lasted %v", sent.Elapsed)
		}
		l, _ := r.Latency(1)
		if l.Count != 10_000 || l.At(50) < 60e6 {
			r.Errorf("latency %+v", l)
		}
	})
}
