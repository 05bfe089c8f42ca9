package load

import (
	"context"
	"time"
)

// sleeper waits for one goroutine, as precisely as the system can.
type sleeper interface {
	// begin has sleeps end early when ctx does, until the function it returns is called.
	begin(ctx context.Context) (end func())
	// sleep waits. It returns early when the context of begin has ended, and may do so otherwise.
	sleep(d time.Duration)
	close() error
}

// timerSleeper sleeps by the runtime's timers. An otherwise idle process has them up to a millisecond late.
type timerSleeper struct {
	timer *time.Timer
	over  <-chan struct{}
}

func newTimerSleeper() sleeper {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &timerSleeper{timer: t}
}

func (s *timerSleeper) begin(ctx context.Context) func() {
	s.over = ctx.Done()
	return func() {}
}

func (s *timerSleeper) sleep(d time.Duration) {
	s.timer.Reset(d)
	select {
	case <-s.timer.C:
	case <-s.over:
		s.timer.Stop()
	}
}

func (s *timerSleeper) close() error { return nil }
