package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// stallTimeout is how long a phase whose time is over, or that has no time, waits for the next
	// acknowledgement.
	stallTimeout = 30 * time.Second
	// overrunTimeout is how long after its time a phase may still be sending what was due.
	overrunTimeout = time.Minute

	// tick is how often senders wake at most, all at the same moments: what is due between two is sent together at the
	// second. With fewer messages than ticks a sender wakes for each. A process that wakes more often takes the cores
	// from the target: 5,000 times a second are a tenth of one.
	tick = 200 * time.Microsecond

	wakeBatch = 64 // slots, at most, that a closed loop waits for when its window is full

	// A closed loop pauses between messages while they fail, longer each time.
	firstPause = time.Millisecond
	pauseSteps = 7 // doublings of it
)

// sending is a phase under way.
type sending struct {
	Phase
	start int64         // by the session's clock
	over  chan struct{} // closed at the end of its time
	n     int           // producers
}

// window is what is counted between a phase's begin and its end.
type window struct {
	at       int64
	acks     acks
	sent     int64
	received map[string]int64
}

// Send runs a phase with all producers, until all of its messages are done. One phase is sent at a time.
//
// Failed messages are no error. It returns ctx's error when ctx ends, and an error when the target has stopped to
// acknowledge before as many messages were sent as the phase asks for.
func (s *Session) Send(ctx context.Context, ph Phase) (Sent, error) {
	s.phase.Lock()
	defer s.phase.Unlock()
	if s.closed {
		return Sent{}, errClosed
	}
	producers := *s.producers.Load()
	if err := s.register(ph, len(producers)); err != nil {
		return Sent{}, err
	}
	for _, p := range producers {
		p.begin(ph)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := s.window()
	run := &sending{Phase: ph, start: begin.at, over: make(chan struct{}), n: len(producers)}
	var wg sync.WaitGroup
	for _, p := range producers {
		wg.Go(func() { p.run(inner, run) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	end := s.oversee(run, done, cancel)
	out := s.outcome(run, begin, end)
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case ph.Messages > 0 && ph.Duration == 0 && out.Offered < ph.Messages:
		return out, fmt.Errorf("%d of %d messages were sent: %w", out.Offered, ph.Messages, context.Cause(inner))
	}
	return out, nil
}

// register refuses phases that cannot be, and makes the others known to the consumers.
func (s *Session) register(ph Phase, producers int) error {
	switch {
	case producers == 0:
		return errors.New("no producer sends")
	case ph.Duration <= 0 && ph.Messages <= 0:
		return errors.New("a phase has no end: neither a duration nor messages")
	case ph.Rate < 0:
		return fmt.Errorf("a rate of %v messages a second", ph.Rate)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if record, known := s.phases[ph.ID]; known && record != ph.Record {
		return fmt.Errorf("phase %d is recorded once and once not", ph.ID)
	}
	s.phases[ph.ID] = ph.Record
	return nil
}

// oversee waits until the senders are done, ends the phase's time, gives up on a target that has stopped, and returns
// what was counted at the end.
func (s *Session) oversee(run *sending, done <-chan struct{}, cancel context.CancelCauseFunc) window {
	planned := run.planned(s.o.Seed)
	var end *window
	if planned > 0 {
		t := time.NewTimer(planned)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
			if run.Duration > 0 {
				w := s.window()
				end = &w
			}
			close(run.over)
		}
	}
	began := s.Now()
	t := time.NewTimer(stallTimeout)
	defer t.Stop()
	for {
		select {
		case <-done:
			if end == nil {
				w := s.window()
				if w.acks.last > run.start {
					w.at = w.acks.last
				}
				end = &w
			}
			return *end
		case <-t.C:
		}
		now := s.Now()
		stalled := time.Duration(now - max(began, s.window().acks.last))
		next := stallTimeout - stalled
		if planned > 0 {
			next = min(next, overrunTimeout-time.Duration(now-began))
		}
		switch {
		case next > 0:
		case stalled >= stallTimeout:
			cancel(fmt.Errorf("%w: the target took nothing for %v", errLate, stallTimeout))
		default:
			cancel(fmt.Errorf("%w within %v after the end of the phase: the target is too slow for it", errLate, overrunTimeout))
		}
		if next <= 0 {
			next = stallTimeout // the senders are about to end
		}
		t.Reset(next)
	}
}

// planned is how long a phase takes if nothing delays it: until its end or its last message is due. It is 0 for a
// closed loop that counts messages.
func (run *sending) planned(seed uint64) time.Duration {
	if run.Duration > 0 || run.Rate == 0 {
		return run.Duration
	}
	last := int64(0)
	for i := range run.n {
		sched := newSchedule(run.Phase, i, run.n, seed)
		for due, ok := sched.next(); ok; due, ok = sched.next() {
			last = max(last, due)
		}
	}
	return time.Duration(last)
}

// window counts what has happened so far.
func (s *Session) window() window {
	w := window{at: s.Now(), received: make(map[string]int64)}
	for _, p := range *s.producers.Load() {
		c := p.counts()
		w.sent += p.sent.Load()
		w.acks.acked += c.acked
		w.acks.failed += c.failed
		w.acks.last = max(w.acks.last, c.last)
	}
	for _, u := range s.all() {
		w.received[u.name] = u.Received()
	}
	return w
}

// outcome is what a phase has come to.
func (s *Session) outcome(run *sending, begin, end window) Sent {
	last := s.window()
	out := Sent{
		Offered: last.sent - begin.sent, Acked: last.acks.acked - begin.acks.acked, Failed: last.acks.failed - begin.acks.failed,
		Elapsed: time.Duration(end.at - begin.at), AckedDuring: end.acks.acked - begin.acks.acked,
		ReceivedDuring: make(map[string]int64),
	}
	for name, n := range end.received {
		out.ReceivedDuring[name] = n - begin.received[name]
	}
	for _, p := range *s.producers.Load() {
		p.mu.Lock()
		for _, text := range p.errs {
			if len(out.Errors) < errorTexts && !slices.Contains(out.Errors, text) {
				out.Errors = append(out.Errors, text)
			}
		}
		p.mu.Unlock()
	}
	return out
}

// run sends a producer's part of a phase and returns when nothing of it is under way.
func (p *producer) run(ctx context.Context, run *sending) {
	defer p.sleeper.begin(ctx)()
	if run.Rate > 0 {
		p.openLoop(ctx, run)
	} else {
		p.closedLoop(ctx, run)
	}
	if err := p.driver.Flush(ctx); err != nil && ctx.Err() == nil {
		p.mu.Lock()
		p.say(err)
		p.mu.Unlock()
	}
	if !p.drain(ctx) {
		p.giveUp(context.Cause(ctx))
	}
}

// openLoop sends messages when they are due, or as soon as it can afterwards.
func (p *producer) openLoop(ctx context.Context, run *sending) {
	sched := newSchedule(run.Phase, p.index, run.n, p.s.o.Seed)
	grid := int64(1)
	if run.Rate > float64(time.Second/tick) {
		grid = int64(tick)
	}
	now := p.s.Now()
	for due, ok := sched.next(); ok; due, ok = sched.next() {
		due += run.start
		for due > now && ctx.Err() == nil {
			if now = p.s.Now(); due > now {
				p.sleeper.sleep(time.Duration((due+grid-1)/grid*grid - now))
				now = p.s.Now()
			}
		}
		if ctx.Err() == nil {
			if index, ok := p.take(ctx, nil, 1); ok {
				p.send(ctx, index, run.ID, due)
				continue
			}
		}
		if !errors.Is(context.Cause(ctx), errLate) {
			return
		}
		p.refuse(due, context.Cause(ctx))
	}
}

// closedLoop sends whenever the window has room.
func (p *producer) closedLoop(ctx context.Context, run *sending) {
	left := share(run.Messages, p.index, run.n)
	until := run.start + int64(run.Duration)
	batch := min(max(len(p.slots)/16, 1), wakeBatch)
	for ; left != 0 && ctx.Err() == nil; left-- {
		index, ok := p.take(ctx, run.over, batch)
		if !ok {
			return
		}
		now := p.s.Now()
		if run.Duration > 0 && now >= until {
			p.free = append(p.free, index)
			return
		}
		p.send(ctx, index, run.ID, now)
		if p.weary > 0 {
			p.sleeper.sleep(firstPause << min(p.weary, pauseSteps))
			p.weary = p.counts().streak
		}
	}
}
