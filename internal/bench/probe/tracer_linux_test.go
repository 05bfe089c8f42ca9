package probe

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"godwit/internal/bench/result"
)

func trace(t *testing.T, c *child) *Syncs {
	t.Helper()
	return traceBy(t, c, TraceSyncsByPtrace)
}

// TestStopWhileTargetRuns: threads that are in the middle of whatever they do are let go.
func TestStopWhileTargetRuns(t *testing.T) {
	target := start(t, "target")
	target.do("busy")
	for range 5 {
		s := trace(t, target)
		target.do("write", "fsync")
		begin := time.Now()
		if n := len(s.Stop()); n != 1 {
			t.Errorf("%d syncs, want 1", n)
		}
		if took := time.Since(begin); took > detachTimeout/2 {
			t.Errorf("stopping took %v", took)
		}
	}
	target.end()
}

// TestStopAgain: from anywhere, and with the same answer.
func TestStopAgain(t *testing.T) {
	target := start(t, "target")
	s := trace(t, target)
	target.do("fsync", "fsync")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if n := len(s.Stop()); n != 2 {
				t.Errorf("%d syncs, want 2", n)
			}
		})
	}
	wg.Wait()
	target.end()
}

// TestTracerIsKilled: the target goes on as if nothing had been.
func TestTracerIsKilled(t *testing.T) {
	target := start(t, "target")
	target.do("busy")
	for range 5 {
		tracer := start(t, "tracer", strconv.Itoa(target.pid()))
		if got := tracer.answer(); got != "tracing <nil>" {
			t.Fatal(got)
		}
		target.do("write", "fsync")
		_ = tracer.cmd.Process.Kill()
		_ = tracer.cmd.Wait()
		target.do("write", "fsync")
	}
	target.end()
}

// TestSignalsReachTarget: handled ones, and those that stop and continue.
func TestSignalsReachTarget(t *testing.T) {
	target := start(t, "target")
	s := trace(t, target)
	for range 3 {
		target.tell("signal")
		signalTo(t, target, unix.SIGUSR1)
		if got := target.answer(); got != "ok" {
			t.Fatal(got)
		}
	}
	signalTo(t, target, unix.SIGSTOP)
	eventually(t, "the target is stopped", func() bool { return stateOf(target.pid()) == 't' || stateOf(target.pid()) == 'T' })
	target.tell("fsync")
	signalTo(t, target, unix.SIGCONT)
	if got := target.answer(); got != "ok" {
		t.Fatal(got)
	}
	if n := len(s.Stop()); n != 1 {
		t.Errorf("%d syncs, want 1", n)
	}
	target.end()
}

// TestStopOfStoppedTarget: who stopped it continues it, not the tracer.
func TestStopOfStoppedTarget(t *testing.T) {
	target := start(t, "target")
	s := trace(t, target)
	signalTo(t, target, unix.SIGSTOP)
	eventually(t, "the target is stopped", func() bool { return stateOf(target.pid()) == 't' || stateOf(target.pid()) == 'T' })
	s.Stop()
	eventually(t, "the target is stopped by the signal", func() bool { return stateOf(target.pid()) == 'T' })
	signalTo(t, target, unix.SIGCONT)
	target.end()
}

func signalTo(t *testing.T, c *child, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(c.pid(), sig); err != nil {
		t.Fatal(err)
	}
}

// TestTargetEndsWhileTraced: it is told, and whoever started the target learns how it ended.
func TestTargetEndsWhileTraced(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*child)
		want string
	}{
		{"killed", func(c *child) { _ = c.cmd.Process.Kill() }, "signal: killed"},
		{"exits", func(c *child) { _ = c.in.Close() }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := start(t, "target")
			s := trace(t, target)
			acks := []Interval{target.send([]string{"write"}, nil)}
			c.end(target)
			eventually(t, "the target has ended", func() bool { return stateOf(target.pid()) == 'Z' })
			if d := s.Grade(acks, Interval{}); d.Grade != result.GradeUnknown || d.Why != blindEnded {
				t.Errorf("graded %+v", d)
			}
			got := ""
			if err := target.cmd.Wait(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("it ended with %q, want %q", got, c.want)
			}
		})
	}
}

// TestOtherChildrenAreLeftAlone: while one child is traced, others are started and waited for.
func TestOtherChildrenAreLeftAlone(t *testing.T) {
	target := start(t, "target")
	s := trace(t, target)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if out, err := exec.Command("/proc/self/exe", "-test.run", "^$").CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	for range 20 {
		target.do("fsync")
	}
	wg.Wait()
	if n := len(s.Stop()); n != 20 {
		t.Errorf("%d syncs, want 20", n)
	}
	target.end()
}

func TestWhatCannotBeTraced(t *testing.T) {
	target := start(t, "target")
	target.do("write")
	tracer := start(t, "tracer", strconv.Itoa(target.pid()))
	if got := tracer.answer(); got != "tracing <nil>" {
		t.Fatal(got)
	}
	_, err := TraceSyncsByPtrace(target.pid())
	if want := "is already traced, by"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a traced process: %v, want %q", err, want)
	}
	_ = tracer.cmd.Process.Kill()
	_ = tracer.cmd.Wait()
	target.end()
	if _, err := TraceSyncsByPtrace(target.pid()); !errors.Is(err, ErrEnded) {
		t.Errorf("a process that has ended: %v", err)
	}
}
