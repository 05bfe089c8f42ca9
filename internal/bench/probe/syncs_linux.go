package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Syncs is a trace of the syncs of a process, its threads, its descendants, and those they start meanwhile.
type Syncs struct {
	method string
	stop   sync.Once
	end    func() ([]Sync, string)
	syncs  []Sync
	blind  string
}

// TraceSyncs begins to trace and returns once nothing is missed. It uses the kernel's tracepoints, which take a microsecond for
// each sync and stop nobody; where they cannot be used, or would not see enough, ptrace. The errors say what to do about them.
func TraceSyncs(pid int) (*Syncs, error) {
	s, err := TraceSyncsByEvents(pid)
	if err == nil && s.blind != blindThrough { // ptrace is as blind for everything else
		return s, nil
	}
	if errors.Is(err, ErrEnded) {
		return nil, err
	}
	p, perr := TraceSyncsByPtrace(pid)
	switch {
	case perr == nil:
		if err == nil {
			s.Stop()
		}
		return p, nil
	case err == nil: // it sees what calls of fsync and its like there are, and knows what it does not see
		return s, nil
	case errors.Is(perr, ErrEnded):
		return nil, perr
	}
	return nil, fmt.Errorf("%w (and by tracepoints: %w)", perr, err)
}

// Method is how it traces: MethodEvents or MethodPtrace.
func (s *Syncs) Method() string { return s.method }

// Stop ends tracing and returns the target's syncs, in the order of their ends; again, when called again.
func (s *Syncs) Stop() []Sync {
	s.stop.Do(func() { s.syncs, s.blind = s.end() })
	return s.syncs
}

// Blind stops tracing and says, as a reason, why syncs may have gone unseen; "" if they did not.
func (s *Syncs) Blind() string {
	s.Stop()
	return s.blind
}

// TraceSyncsByEvents begins to trace by tracepoints: root is needed, as a rule, and a kernel with CONFIG_FTRACE_SYSCALLS.
func TraceSyncsByEvents(pid int) (*Syncs, error) {
	f, err := follow(pid, true)
	if err != nil {
		return nil, err
	}
	return &Syncs{method: MethodEvents, blind: f.first, end: func() ([]Sync, string) {
		f.end()
		return f.syncs, f.blind
	}}, nil
}

const (
	// followInterval is how long records stay in the rings at most.
	followInterval = 50 * time.Millisecond
	// settling is how much older than a reading of the rings a record is that cannot be missing from it: the kernel takes
	// its time before it is there to be read.
	settling = 20 * time.Millisecond
)

// follower sorts out, of all calls in the system, those of a process and its descendants.
type follower struct {
	recorder *recorder
	process  *Process
	keep     bool // syncs, not only their number
	members  map[int32]bool
	calls    map[int32]*Sync // that have begun, by thread
	quit     chan struct{}
	done     chan struct{}
	stop     sync.Once
	first    string // why it is blind from the beginning

	// Valid after end.
	syncs []Sync
	count int64
	blind string // the first reason
}

// follow begins to record; paths and times are only there if syncs are kept.
func follow(pid int, keep bool) (*follower, error) {
	p, err := Open(pid)
	if err != nil {
		return nil, err
	}
	r, err := newRecorder(keep)
	if err != nil {
		return nil, err
	}
	f := &follower{recorder: r, process: p, keep: keep, members: map[int32]bool{}, calls: map[int32]*Sync{}, quit: make(chan struct{}), done: make(chan struct{})}
	// Who is born from here on is recorded, and who was born before is found.
	p.gather(readAllStats())
	for pid := range p.members {
		f.members[int32(pid)] = true
	}
	f.look()
	f.first = f.blind
	go f.run()
	return f, nil
}

func (f *follower) run() {
	for {
		f.recorder.wait(followInterval)
		select {
		case <-f.quit:
			f.recorder.disable()
			f.read()
			f.apply(1<<63 - 1)
			f.look()
			close(f.done)
			f.recorder.close() // takes some tenths of a second, for which nobody has to wait
			return
		default:
		}
		now := kernelClock()
		f.read()
		f.apply(now - settling.Nanoseconds())
	}
}

// end stops recording.
func (f *follower) end() {
	f.stop.Do(func() {
		close(f.quit)
		f.recorder.wakeUp()
	})
	<-f.done
}

func (f *follower) blinded(why string) {
	if f.blind == "" {
		f.blind = why
	}
}

// read takes the records, and looks at once which files are meant: their descriptors may soon be closed.
func (f *follower) read() {
	r := f.recorder
	had := len(r.pending)
	if err := r.read(); err != nil {
		f.blinded(err.Error())
	}
	if !f.keep {
		return
	}
	for i := had; i < len(r.pending); i++ {
		switch c := &r.pending[i]; {
		case c.kind != recordCall:
		case r.points[c.point].name == "sys_enter_msync":
			c.path = mappedAt(int(c.tid), uint64(c.value))
		case strings.HasPrefix(r.points[c.point].name, "sys_enter_") && r.points[c.point].name != "sys_enter_sync":
			c.path = pathOf(int(c.tid), int(int32(c.value)))
		}
	}
}

// apply goes through the records up to a time.
func (f *follower) apply(until int64) {
	for _, c := range f.recorder.before(until) {
		switch c.kind {
		case recordLost:
			f.blinded(blindLost)
		case recordFork:
			if f.members[c.parent] {
				f.members[c.pid] = true
			}
		case recordCall:
			if f.members[c.pid] {
				f.call(&c)
			}
		}
	}
}

// call notes the beginning or the end of a sync.
func (f *follower) call(c *record) {
	name := f.recorder.points[c.point].name
	if name == opening {
		f.blinded(blindThrough)
		return
	}
	if begun, ok := strings.CutPrefix(name, "sys_enter_"); ok {
		f.calls[c.tid] = &Sync{Begin: f.recorder.clock.time(c.at), Call: begun, Path: c.path}
		return
	}
	s := f.calls[c.tid]
	delete(f.calls, c.tid)
	if s == nil || c.value < 0 {
		return
	}
	if f.count++; f.keep {
		s.End = f.recorder.clock.time(c.at)
		f.syncs = append(f.syncs, *s)
	}
}

// look finds, among what the members have open, reasons why syncs go unseen.
func (f *follower) look() {
	if s, err := readStat(f.process.pid); err != nil || s.started != f.process.members[f.process.pid].started {
		f.blinded(blindEnded)
		return
	}
	for member := range f.members {
		pid := int(member)
		for _, fd := range numbered(procPath(pid, "fd")) {
			// Pipes, sockets and terminals may have the flag as well; it says nothing there.
			switch path := pathOf(pid, fd); {
			case path == ringFile:
				f.blinded(blindRing)
			case strings.HasPrefix(path, "/") && writesThrough(pid, fd) && isRegular(pid, fd):
				f.blinded(blindThrough)
			}
		}
		if b, err := os.ReadFile(procPath(pid, "maps")); err == nil && strings.Contains(string(b), "/[aio]") {
			f.blinded(blindAIO)
		}
	}
}

func isRegular(pid, fd int) bool {
	var st unix.Stat_t
	err := unix.Stat(procPath(pid, fmt.Sprintf("fd/%d", fd)), &st)
	return err == nil && (st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFBLK)
}

// counter counts a process's syncs by tracepoints; by ptrace would slow it down.
type counter struct{ follower *follower }

// countSyncs begins to count, nil if that cannot be done.
func countSyncs(pid int) *counter {
	f, err := follow(pid, false)
	if err != nil {
		return nil
	}
	return &counter{f}
}

// end is the count, -1 if it may not be all. A process that ended was counted until then.
func (c *counter) end() int64 {
	c.follower.end()
	if why := c.follower.blind; why != "" && why != blindEnded {
		return -1
	}
	return c.follower.count
}
