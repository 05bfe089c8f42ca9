package load

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fdSleeper sleeps by a timerfd(2), which wakes the runtime's poller to within some ten microseconds, where
// its own timers are rounded up to whole milliseconds. The descriptor is never read: arming it again makes it
// unreadable, and the poller tells of the change only.
type fdSleeper struct {
	file *os.File
	wait func(look func(fd uintptr) bool) error // calls look, and again after the poller spoke, until it is content
	arm  func(fd uintptr) bool
	left time.Duration // to sleep; 0 once the timer was armed
}

// newSleeper makes the most precise sleeper of this system.
func newSleeper() sleeper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimerSleeper()
	}
	s := &fdSleeper{file: os.NewFile(uintptr(fd), "timerfd")}
	conn, err := s.file.SyscallConn()
	if err != nil {
		_ = s.file.Close() // of no use
		return newTimerSleeper()
	}
	s.wait = conn.Read
	s.arm = s.armed
	return s
}

func (s *fdSleeper) begin(ctx context.Context) func() {
	ran := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		// Fails only on a closed file, where nobody sleeps.
		_ = s.file.SetReadDeadline(time.Unix(1, 0))
		close(ran)
	})
	return func() {
		if !stop() {
			<-ran
			_ = s.file.SetReadDeadline(time.Time{})
		}
	}
}

func (s *fdSleeper) sleep(d time.Duration) {
	s.left = max(d, 1)
	// An error is the deadline of begin: the sleep is over.
	_ = s.wait(s.arm)
}

// armed sets the timer when it is called first, and is content when it is called again. Set before wait, the timer could
// expire before wait has the poller forget what came until then; nothing would end the sleep.
func (s *fdSleeper) armed(fd uintptr) bool {
	if s.left == 0 {
		return true
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(s.left))}
	s.left = 0
	return unix.TimerfdSettime(int(fd), 0, &spec, nil) != nil
}

func (s *fdSleeper) close() error { return s.file.Close() }
