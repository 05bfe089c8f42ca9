package probe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit/internal/bench/result"
)

// messages is how many a target is graded with here.
const messages = 20

// testByEvents runs a test with the tracing by tracepoints. Where the kernel has none, or they are not for this user, it is
// tested that this is told and that there is another way.
func testByEvents(t *testing.T, test func(t *testing.T, by func(int) (*Syncs, error))) {
	t.Helper()
	r, err := newRecorder(true)
	if err == nil {
		r.close()
		test(t, TraceSyncsByEvents)
		return
	}
	target := start(t, "target")
	if _, got := TraceSyncsByEvents(target.pid()); got == nil || got.Error() != err.Error() {
		t.Errorf("by tracepoints: %v, want %v", got, err)
	}
	if s := traceBy(t, target, TraceSyncs); s.Method() != MethodPtrace {
		t.Errorf("traced by %s", s.Method())
	}
}

func traceBy(t *testing.T, c *child, trace func(int) (*Syncs, error)) *Syncs {
	t.Helper()
	s, err := trace(c.pid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return s
}

// TestTargetIsGradedByWhatItDoes: nobody tells what the target promises.
func TestTargetIsGradedByWhatItDoes(t *testing.T) {
	t.Run(MethodEvents, func(t *testing.T) { testByEvents(t, testGrades) })
	t.Run(MethodPtrace, func(t *testing.T) { testGrades(t, TraceSyncsByPtrace) })
}

func testGrades(t *testing.T, by func(int) (*Syncs, error)) {
	type step struct{ before, after []string }
	write, none := []string{"write"}, []string(nil)
	for _, c := range []struct {
		name  string
		steps []step // of the messages, in turn
		grade string
		// Of messages messages: how many are covered, how many syncs are seen, which file is synced.
		covered, syncs int
		file           string
	}{
		{"fsync", []step{{[]string{"write", "fsync"}, none}}, result.GradeSynced, 20, 20, "data"},
		{"fdatasync", []step{{[]string{"write", "fdatasync"}, none}}, result.GradeSynced, 20, 20, "data"},
		{"file closed at once", []step{{[]string{"elsewhere"}, none}}, result.GradeSynced, 20, 20, "elsewhere"},
		{"while others make calls", []step{{[]string{"busy"}, none}, {[]string{"write", "fsync"}, none}, {[]string{"write", "fsync"}, none}, {[]string{"write", "fsync"}, none}, {[]string{"write", "fsync"}, none}}, result.GradePartly, 16, 16, "data"},
		{"syncfs", []step{{[]string{"write", "syncfs"}, none}}, result.GradeSynced, 20, 20, "data"},
		{"RWF_DSYNC", []step{{[]string{"pwritev2"}, none}}, result.GradeSynced, 20, 20, "data"},
		{"msync", []step{{[]string{"msync"}, none}}, result.GradeSynced, 20, 20, "data"},
		{"by a new thread", []step{{[]string{"write", "thread"}, none}}, result.GradeSynced, 20, 20, "data"},
		{"by a child process", []step{{[]string{"process fsync"}, none}, {write, none}, {write, none}, {write, none}, {write, none}}, result.GradePartly, 4, 4, "data"},
		{"every second", []step{{[]string{"write", "fsync"}, none}, {write, none}}, result.GradePartly, 10, 10, "data"},
		{"once", []step{{[]string{"write", "fsync"}, none}, {write, none}, {write, none}, {write, none}, {write, none},
			{write, none}, {write, none}, {write, none}, {write, none}, {write, none}, {write, none}, {write, none},
			{write, none}, {write, none}, {write, none}, {write, none}, {write, none}, {write, none}, {write, none},
			{write, none}}, result.GradeUnsynced, 1, 1, "data"},
		{"after the acknowledgement", []step{{write, []string{"fsync"}}}, result.GradeUnsynced, 0, 20, "data"},
		{"never", []step{{write, none}}, result.GradeUnsynced, 0, 0, ""},
		{"failing", []step{{[]string{"write", "failing"}, none}}, result.GradeUnsynced, 0, 0, ""},
		{"sync_file_range", []step{{[]string{"write", "range"}, none}}, result.GradeUnsynced, 0, 0, ""},
		{"msync, asynchronous", []step{{[]string{"msync-async"}, none}}, result.GradeUnsynced, 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := start(t, "target")
			target.do("write")
			s := traceBy(t, target, by)
			var acks []Interval
			for i := range messages {
				step := c.steps[i%len(c.steps)]
				acks = append(acks, target.send(step.before, step.after))
			}
			got := s.Grade(acks, Interval{})
			if got.Grade != c.grade || got.Covered != c.covered || got.Syncs != c.syncs || got.Acked != messages {
				t.Errorf("graded %+v, want %s, %d covered, %d syncs", got, c.grade, c.covered, c.syncs)
			}
			var want []string
			if c.file != "" {
				want = []string{target.path(c.file)}
			}
			if s.Method() == MethodEvents && len(want) > 0 {
				// By tracepoints it is looked a little late which file was meant: if it is closed by then, the call stands there.
				got.Files = slices.DeleteFunc(got.Files, func(f string) bool { return strings.HasSuffix(f, "()") })
				want = want[:min(1, len(got.Files))]
			}
			if !slices.Equal(got.Files, want) {
				t.Errorf("synced %q, want %q", got.Files, c.file)
			}
			target.end()
		})
	}
}

// TestWritingThrough: tracepoints do not see it and say so, ptrace does, and it is ptrace that is used.
func TestWritingThrough(t *testing.T) {
	grade := func(t *testing.T, target *child, by func(int) (*Syncs, error)) (result.Durability, *Syncs) {
		s := traceBy(t, target, by)
		var acks []Interval
		for range messages {
			acks = append(acks, target.send([]string{"through"}, nil))
		}
		return s.Grade(acks, Interval{}), s
	}
	t.Run("begun while traced", func(t *testing.T) {
		testByEvents(t, func(t *testing.T, by func(int) (*Syncs, error)) {
			target := start(t, "target")
			d, _ := grade(t, target, by)
			if d.Grade != result.GradeUnknown || d.Why != blindThrough {
				t.Errorf("graded %+v", d)
			}
			target.end()
		})
	})
	t.Run("begun before", func(t *testing.T) {
		target := start(t, "target")
		target.do("through")
		d, s := grade(t, target, TraceSyncs)
		if s.Method() != MethodPtrace || d.Grade != result.GradeSynced || d.Syncs != messages || d.Files[0] != target.path("through") {
			t.Errorf("by %s, graded %+v", s.Method(), d)
		}
		target.end()
	})
}

// TestBornWhileTraced: a process counts to the target's however short it lives, and another's child does not.
func TestBornWhileTraced(t *testing.T) {
	testByEvents(t, testBornWhileTraced)
}

func testBornWhileTraced(t *testing.T, by func(int) (*Syncs, error)) {
	target, other := start(t, "target"), start(t, "target")
	s := traceBy(t, target, by)
	for range 5 {
		target.do("process fsync")
		other.do("process fsync", "fsync")
	}
	if n := len(s.Stop()); n != 5 || s.Blind() != "" {
		t.Errorf("%d syncs, blind %q, want 5", n, s.Blind())
	}
	target.end()
}

// TestEndsWhileRecorded: nothing hangs, and it is told.
func TestEndsWhileRecorded(t *testing.T) {
	testByEvents(t, testEndsWhileRecorded)
}

func testEndsWhileRecorded(t *testing.T, by func(int) (*Syncs, error)) {
	target := start(t, "target")
	s := traceBy(t, target, by)
	acks := []Interval{target.send([]string{"write"}, nil)}
	_ = target.cmd.Process.Kill()
	_ = target.cmd.Wait()
	if d := s.Grade(acks, Interval{}); d.Grade != result.GradeUnknown || d.Why != blindEnded {
		t.Errorf("graded %+v", d)
	}
	if _, err := TraceSyncs(target.pid()); !errors.Is(err, ErrEnded) {
		t.Errorf("a process that has ended: %v", err)
	}
}

// TestMayNot: without the rights to trace, the error says what to do.
func TestMayNot(t *testing.T) {
	const want = "is not permitted: run "
	if os.Getuid() != 0 {
		if _, err := TraceSyncsByPtrace(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the first process: %v", err)
		}
		return
	}
	target := start(t, "target")
	if got := startAs(t, "tracer", 65534, strconv.Itoa(target.pid())).answer(); !strings.Contains(got, want) {
		t.Errorf("it said %q", got)
	}
	target.end()
}

// TestClocks: the kernel's times and this program's are the same.
func TestClocks(t *testing.T) {
	c := newClock()
	before := time.Now()
	ns := kernelClock()
	after := time.Now()
	const slack = 50 * time.Microsecond
	if got := c.time(ns); got.Before(before.Add(-slack)) || got.After(after.Add(slack)) {
		t.Errorf("%v is not between %v and %v", got, before, after)
	}
}

func TestCPUList(t *testing.T) {
	for text, want := range map[string]string{"0": "[0]", "0-3": "[0 1 2 3]", "0-1,4,6-7": "[0 1 4 6 7]"} {
		if got, ok := cpuList(text); !ok || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "a", "3-1", "0-", "-1", "0-99999999"} {
		if got, ok := cpuList(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}
