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
	fd    int
	file  *os.File
	wait  func(look func(fd uintptr) bool) error // calls look until it is content, after the poller spoke each time
	look  func(fd uintptr) bool
	spoke bool // the poller, since the sleep began
}

// newSleeper makes the most precise sleeper of this system.
func newSleeper() sleeper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimerSleeper()
	}
	s := &fdSleeper{fd: fd, file: os.NewFile(uintptr(fd), "timerfd")}
	conn, err := s.file.SyscallConn()
	if err != nil {
		_ = s.file.Close() // of no use
		return newTimerSleeper()
	}
	s.wait = conn.Read
	s.look = func(uintptr) bool {
		spoke := s.spoke
		s.spoke = true
		return spoke
	}
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
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))} // zero would disarm it
	if unix.TimerfdSettime(s.fd, 0, &spec, nil) == nil {
		s.spoke = false
		// An error is the deadline of begin: the sleep is over.
		_ = s.wait(s.look)
	}
}

func (s *fdSleeper) close() error { return s.file.Close() }
