package load

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit/internal/bench/driver"
)

// TestWindow wants the closed loop to fill the window and never to exceed it.
func TestWindow(t *testing.T) {
	for _, inFlight := range []int{1, 7, 1000} {
		tg := &target{latency: 10 * time.Millisecond, queue: 10_000}
		within(t, Options{InFlight: inFlight}, 2, tg, func(r *rig) {
			sent := r.send(Phase{ID: 1, Duration: time.Second})
			for _, c := range tg.conns {
				if c.max != inFlight {
					r.Errorf("%d messages under way of %d", c.max, inFlight)
				}
				if c.o.InFlight != inFlight {
					r.Errorf("the driver was asked for %d", c.o.InFlight)
				}
			}
			// The window turns around a hundred times a second; those sent last are done afterwards.
			want := int64(2 * inFlight * 100)
			if sent.Acked < want*9/10 || sent.Acked > want || sent.AckedDuring > sent.Acked || sent.AckedDuring < sent.Acked-int64(2*inFlight) {
				r.Errorf("window %d: %+v", inFlight, sent)
			}
			if sent.Elapsed != time.Second {
				r.Errorf("the phase lasted %v", sent.Elapsed)
			}
		})
	}
}

// TestMessages looks at what a driver is asked to send: keys in turns, each with its destination, intact headers.
func TestMessages(t *testing.T) {
	tg := &target{latency: time.Millisecond, queue: 100}
	within(t, Options{InFlight: 3, Keys: 5, Destinations: 4, Size: 200}, 3, tg, func(r *rig) {
		tg.handlers = append(tg.handlers, func(d driver.Delivery) bool {
			h, err := ParseHeader(d.Payload)
			if err != nil || h.Run != 7 || h.Phase != 3 || len(d.Payload) != 200 || bytes.Count(d.Payload[HeaderSize:], []byte{0}) > 20 {
				r.Errorf("%v, %+v in %x", err, h, d.Payload)
			}
			return true
		})
		if sent := r.send(Phase{ID: 3, Messages: 100}); sent.Acked != 100 || sent.Elapsed < 11*time.Millisecond || sent.Elapsed > 13*time.Millisecond {
			r.Errorf("sent %+v", sent)
		}
		for i, c := range tg.conns {
			if want := []int{34, 33, 33}[i]; len(c.sent) != want {
				r.Errorf("producer %d sent %d messages", i, len(c.sent))
			}
			for n, m := range c.sent {
				if want := uint32(i*5 + n%5); m.Key != want || m.Destination != int(want)%4 {
					r.Errorf("message %d of producer %d has key %d and destination %d", n, i, m.Key, m.Destination)
				}
			}
		}
	})
}

// TestOnTime wants messages sent when they are due: one by one at low rates, in small groups at high ones.
func TestOnTime(t *testing.T) {
	for _, rate := range []float64{100, 100_000} {
		tg := &target{latency: time.Millisecond, queue: 10_000}
		within(t, Options{InFlight: 10_000}, 1, tg, func(r *rig) {
			p := Phase{ID: 1, Rate: rate, Poisson: true, Duration: time.Second, Record: true}
			begin := time.Now()
			r.send(p)
			late := time.Duration(0)
			for i, due := range dues(p, 1, 0) {
				late = max(late, tg.conns[0].times[i].Sub(begin)-time.Duration(due))
			}
			want := time.Duration(0)
			if rate > 5000 {
				want = tick
			}
			if late > want {
				r.Errorf("at %v messages a second one was sent %v late", rate, late)
			}
		})
	}
}

// TestFailures has drivers fail in both ways, in both loops.
func TestFailures(t *testing.T) {
	for name, v := range map[string]verdict{"refused": {refuse: errBroken}, "nacked": {deliver: 1, err: errBroken}} {
		for _, rate := range []float64{0, 1000} {
			t.Run(name, func(t *testing.T) {
				tg := &target{latency: time.Millisecond, queue: 100, verdict: func(_, n int) verdict { return v }}
				within(t, Options{InFlight: 10}, 2, tg, func(r *rig) {
					tg.listen(r.Subscription("s"))
					sent := r.send(Phase{ID: 1, Rate: rate, Duration: time.Second})
					if sent.Acked != 0 || sent.Failed == 0 || sent.Failed > 1000 || len(sent.Errors) != 1 || sent.Errors[0] != errBroken.Error() {
						r.Errorf("sent %+v", sent)
					}
					if rate > 0 && sent.Failed != 1000 {
						r.Errorf("%d messages were due", sent.Failed)
					}
					r.settle()
					if a := r.Audit(); a.Lost != 0 || a.Expected != 0 || a.Failed != sent.Failed {
						r.Errorf("audit %+v", a)
					}
				})
			})
		}
	}
}

// TestRecovery has a target fail for a while: the closed loop goes on at full speed afterwards.
func TestRecovery(t *testing.T) {
	var r *rig
	tg := &target{latency: time.Millisecond, queue: 1000, verdict: func(_, n int) verdict {
		if time.Duration(r.Now()) < 2*time.Second {
			return verdict{err: errBroken}
		}
		return verdict{deliver: 1}
	}}
	within(t, Options{InFlight: 100}, 1, tg, func(rr *rig) {
		r = rr
		sent := r.send(Phase{ID: 1, Duration: 4 * time.Second})
		if sent.Acked < 150_000 || sent.Failed > 1000 {
			r.Errorf("sent %+v", sent)
		}
	})
}

// TestErrorTexts keeps a few.
func TestErrorTexts(t *testing.T) {
	tg := &target{latency: time.Millisecond, queue: 100, verdict: func(_, n int) verdict {
		return verdict{err: errors.New(string(rune('a' + n%9)))}
	}}
	within(t, Options{InFlight: 10}, 2, tg, func(r *rig) {
		if sent := r.send(Phase{ID: 1, Rate: 1000, Duration: time.Second}); len(sent.Errors) != errorTexts {
			r.Errorf("errors %q", sent.Errors)
		}
	})
}

// TestDeadTarget stops for good in a phase that counts messages.
func TestDeadTarget(t *testing.T) {
	tg := &target{latency: time.Millisecond, queue: 100, verdict: func(_, n int) verdict {
		return verdict{deliver: 1, silent: n >= 1000}
	}}
	within(t, Options{InFlight: 10}, 2, tg, func(r *rig) {
		begin := time.Now()
		sent, err := r.Send(r.Context(), Phase{ID: 1, Messages: 10_000})
		if !errors.Is(err, errLate) || sent.Acked != 2000 || sent.Failed != 20 || sent.Offered != 2020 {
			r.Errorf("sent %+v, %v", sent, err)
		}
		if took := time.Since(begin); took < stallTimeout || took > stallTimeout+time.Second {
			r.Errorf("it took %v", took)
		}
		if sent.Elapsed > time.Second {
			r.Errorf("the last acknowledgement came after %v", sent.Elapsed)
		}
	})
}

// TestLateAcknowledgements gives up on messages that are acknowledged after all, in the next phase: they stay failed, and
// their places in the window come back.
func TestLateAcknowledgements(t *testing.T) {
	tg := &target{latency: time.Millisecond, queue: 100, verdict: func(_, n int) verdict {
		v := verdict{deliver: 1}
		if n < 10 {
			v.after = time.Minute
		}
		return v
	}}
	within(t, Options{InFlight: 10}, 1, tg, func(r *rig) {
		tg.listen(r.Subscription("s"))
		if sent := r.send(Phase{ID: 1, Duration: time.Second}); sent.Failed != 10 || sent.Acked != 0 {
			r.Errorf("sent %+v", sent)
		}
		// The whole window is out for another half a minute.
		sent := r.send(Phase{ID: 2, Rate: 10, Duration: time.Minute, Record: true})
		if sent.Acked != 600 || sent.Failed != 0 {
			r.Errorf("sent %+v", sent)
		}
		r.settle()
		if l, _ := r.Latency(2); l.Max < 28e6 || l.At(0) > 2e3 {
			r.Errorf("latency %+v", l)
		}
		if a := r.Audit(); a.Acked != 600 || a.Failed != 10 || a.Delivered != 610 || a.Lost != 0 {
			r.Errorf("audit %+v", a)
		}
	})
}

// TestCancelled ends the context while a sender sleeps, waits for its window, and is inside the driver.
func TestCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		rate  float64
		queue int
	}{"sleeping": {0.5, 10}, "window": {0, 1000}, "driver": {0, 1}, "open window": {1000, 1000}} {
		t.Run(name, func(t *testing.T) {
			tg := &target{latency: time.Hour, queue: c.queue}
			within(t, Options{InFlight: 100}, 2, tg, func(r *rig) {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				time.AfterFunc(1500*time.Millisecond, cancel)
				begin := time.Now()
				_, err := r.Send(ctx, Phase{ID: 1, Rate: c.rate, Duration: time.Minute})
				if took := time.Since(begin); !errors.Is(err, context.Canceled) || took != 1500*time.Millisecond {
					r.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}

// TestRefusedPhases have no end, no producer, or two minds.
func TestRefusedPhases(t *testing.T) {
	within(t, Options{}, 0, &target{}, func(r *rig) {
		if _, err := r.Send(r.Context(), Phase{Messages: 1}); err == nil {
			r.Error("nobody sends")
		}
	})
	tg := &target{latency: time.Millisecond}
	within(t, Options{}, 1, tg, func(r *rig) {
		r.send(Phase{ID: 1, Messages: 1, Record: true})
		for _, p := range []Phase{{ID: 2}, {ID: 2, Messages: 1, Rate: -1}, {ID: 1, Messages: 1}} {
			if _, err := r.Send(r.Context(), p); err == nil {
				r.Errorf("phase %+v was sent", p)
			}
		}
		failed := errors.New("no connection")
		err := r.AddProducer(r.Context(), func(driver.ProducerOptions) (driver.Producer, error) { return nil, failed })
		if !errors.Is(err, failed) {
			r.Errorf("added: %v", err)
		}
		r.send(Phase{ID: 1, Messages: 1, Record: true}) // as one with the first
		if l, _ := r.Latency(1); l.Count != 2 {
			r.Errorf("latency %+v", l)
		}
		if err := r.Close(); err != nil {
			r.Error(err)
		}
		if _, err := r.Send(r.Context(), Phase{Messages: 1}); !errors.Is(err, errClosed) {
			r.Errorf("sent: %v", err)
		}
		if err := r.AddProducer(r.Context(), tg.open); !errors.Is(err, errClosed) {
			r.Errorf("added: %v", err)
		}
	})
}

// TestAllocations wants none per message.
func TestAllocations(t *testing.T) {
	s := NewSession(Options{Run: 1, Keys: 16, Destinations: 4, Size: 100, InFlight: 1000})
	err := s.AddProducer(t.Context(), func(o driver.ProducerOptions) (driver.Producer, error) {
		return &echo{noop{o.Done}, s.Subscription("s").Handler()}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, rate := range []float64{0, 1e9} {
		n := testing.AllocsPerRun(3, func() {
			if _, err := s.Send(t.Context(), Phase{ID: 1, Rate: rate, Messages: 10_000, Record: true}); err != nil {
				t.Fatal(err)
			}
		})
		if n > 500 {
			t.Errorf("%v allocations for 10,000 messages", n)
		}
	}
}

// TestSleeper sleeps as long as it should on this system, and not longer than its context lasts.
func TestSleeper(t *testing.T) {
	for name, s := range map[string]sleeper{"precise": newSleeper(), "timer": newTimerSleeper()} {
		ctx, cancel := context.WithCancel(t.Context())
		end := s.begin(ctx)
		for _, d := range []time.Duration{0, time.Microsecond, 3 * time.Millisecond} {
			begin := time.Now()
			if s.sleep(d); time.Since(begin) < d {
				t.Errorf("%s: slept %v instead of %v", name, time.Since(begin), d)
			}
		}
		time.AfterFunc(time.Millisecond, cancel)
		s.sleep(time.Hour)
		end()
		// It sleeps again in its next context.
		end = s.begin(t.Context())
		begin := time.Now()
		if s.sleep(3 * time.Millisecond); time.Since(begin) < 3*time.Millisecond {
			t.Errorf("%s: slept %v after it was ended", name, time.Since(begin))
		}
		end()
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSleepersWake has the shortest of sleeps end while other goroutines keep the cores: none misses its timer.
func TestSleepersWake(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			s := newSleeper()
			defer s.close()
			defer s.begin(ctx)()
			for range 5000 {
				s.sleep(time.Nanosecond)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Error("a sleep of a nanosecond did not end")
	}
}

// TestBackToBack sends two phases one after the other: each has its own latencies and counts.
func TestBackToBack(t *testing.T) {
	tg := &target{latency: time.Millisecond, queue: 100}
	within(t, Options{InFlight: 10}, 2, tg, func(r *rig) {
		tg.listen(r.Subscription("a"))
		tg.listen(r.Subscription("b"))
		r.Subscription("b").Mute()
		r.send(Phase{ID: 1, Rate: 100, Duration: time.Second})
		begin := time.Now()
		sent := r.send(Phase{ID: 2, Rate: 1000, Duration: time.Second, Record: true})
		if sent.Acked != 1000 || sent.AckedDuring < 995 || sent.ReceivedDuring["a"] < 995 || sent.ReceivedDuring["b"] < 995 || len(sent.ReceivedDuring) != 2 {
			r.Errorf("sent %+v", sent)
		}
		if took := time.Since(begin); took > 1010*time.Millisecond {
			r.Errorf("the phase took %v", took)
		}
		r.settle()
		if p, e := r.Latency(1); p != nil || e != nil {
			r.Errorf("a phase that is not recorded has %+v and %+v", p, e)
		}
		if p, e := r.Latency(2); p.Count != 1000 || e.Count != 1000 {
			r.Errorf("latencies %+v and %+v", p, e)
		}
		if p := r.Progress(); p != (Progress{Sent: 1100, Acked: 1100, Received: 2200}) {
			r.Errorf("progress %+v", p)
		}
	})
}

// TestWait waits for messages, and for nothing more to come.
func TestWait(t *testing.T) {
	tg := &target{latency: time.Millisecond, queue: 1000, verdict: func(_, n int) verdict {
		v := verdict{deliver: 1}
		if n == 50 {
			v.deliver = 0
		}
		return v
	}}
	within(t, Options{InFlight: 100}, 1, tg, func(r *rig) {
		u := r.Subscription("s")
		tg.listen(u)
		if err := u.Wait(r.Context(), 0); err != nil {
			r.Error(err)
		}
		var reached [3]time.Duration
		for i, n := range []int64{10, 99, 20} {
			go func() {
				if err := u.Wait(r.Context(), n); err != nil {
					r.Error(err)
				}
				reached[i] = time.Duration(r.Now())
			}()
		}
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		sent := r.send(Phase{ID: 1, Rate: 100, Duration: time.Second})
		synctest.Wait()
		if reached != [3]time.Duration{91 * time.Millisecond, 991 * time.Millisecond, 191 * time.Millisecond} {
			r.Errorf("reached at %v", reached)
		}
		if sent.Acked != 100 || u.Received() != 99 || u.Missing() != 1 {
			r.Errorf("%d received, %d missing of %+v", u.Received(), u.Missing(), sent)
		}
		begin := time.Now()
		if err := r.Session.Wait(ctx, 3*time.Second); err != nil || time.Since(begin) != 3*time.Second {
			r.Errorf("%v after %v", err, time.Since(begin))
		}
		if err := r.Session.Wait(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			r.Error(err)
		}
		if err := u.Wait(ctx, 100); !errors.Is(err, context.DeadlineExceeded) {
			r.Error(err)
		}
	})
}

// TestWaitIsRenewed keeps waiting while messages arrive, however slowly, and not longer.
func TestWaitIsRenewed(t *testing.T) {
	tg := &target{latency: time.Millisecond, queue: 1000, verdict: func(_, n int) verdict { return verdict{} }}
	within(t, Options{InFlight: 100}, 1, tg, func(r *rig) {
		handle := r.Subscription("s").Handler()
		r.send(Phase{ID: 1, Messages: 5})
		for i := range 5 {
			time.AfterFunc(time.Duration(i+1)*900*time.Millisecond, func() {
				b := make([]byte, 100)
				(&Header{Run: 7, Phase: 1, Sequence: uint64(i)}).Put(b)
				handle(delivery(b))
			})
		}
		begin := time.Now()
		r.settle()
		if took := time.Since(begin); took != 4500*time.Millisecond {
			r.Errorf("waited %v", took)
		}
		if a := r.Audit(); a.Lost != 0 || a.Delivered != 5 {
			r.Errorf("audit %+v", a)
		}
	})
}
