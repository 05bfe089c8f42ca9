package probe

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// attachTimeout bounds the wait until all threads report system calls, detachTimeout that until all are let go; a thread deep
	// in the kernel, in a long sync for example, does not stop before it comes back.
	attachTimeout = 3 * time.Second
	detachTimeout = 3 * time.Second
	// burst is how many stops are handled before anything else is looked at: a busy target never runs out of them.
	burst = 256
	// lookInterval is how often the tracer looks for what it may not have been told: threads that were killed.
	lookInterval = 100 * time.Millisecond
	// spins is how often the tracer asks for the next stop before it goes to sleep: most calls are over at once, and
	// to be woken takes longer than they do.
	spins = 50
)

// TraceSyncsByPtrace begins to trace by ptrace(2) and returns once all threads are seen.
//
// One thread of this process traces: every system call of the target stops twice and takes tens of microseconds longer,
// more on a busy machine. When that thread ends, by Stop or because this process was killed, the kernel lets go of whatever it
// still held; the target never stays stopped. Attaching interrupts blocking calls as a signal does, without one.
//
// The process must not be a child of this process for which something waits meanwhile: Linux would tell that wait of
// stops, as if they were ends.
func TraceSyncsByPtrace(pid int) (*Syncs, error) {
	quit, done := make(chan struct{}), make(chan struct{})
	ready := make(chan error, 1)
	t := &tracer{pid: pid, arch: nativeArch(), threads: map[int]*thread{}, quit: quit, events: make(chan os.Signal, 1)}
	go func() {
		defer close(done)
		// Never unlocked: the thread ends with this goroutine, and with it the trace of whatever could not be detached.
		runtime.LockOSThread()
		// Every stop waits for this thread. The error is that it must not be preferred: then it is only slower.
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20)
		t.run(ready)
	}()
	if err := <-ready; err != nil {
		<-done
		return nil, err
	}
	return &Syncs{method: MethodPtrace, end: func() ([]Sync, string) {
		close(quit)
		<-done
		return t.syncs, t.blind
	}}, nil
}

// tracer is the state of the thread that traces.
type tracer struct {
	pid       int
	started   uint64
	arch      uint32 // 0 = not checked
	threads   map[int]*thread
	quit      <-chan struct{}
	events    chan os.Signal // a thread may have stopped
	detaching bool
	batch     []stopped // what drain handles
	syncs     []Sync
	blind     string // the first reason
}

// thread is a traced thread.
type thread struct {
	seen     bool  // it has stopped at least once since it was attached
	call     *Sync // the sync that it is in
	ownChild bool  // of this process, which wants to know how it ends
}

// run traces until Stop; what it sends on ready is the outcome of attaching.
func (t *tracer) run(ready chan<- error) {
	signal.Notify(t.events, unix.SIGCHLD)
	defer signal.Stop(t.events)
	if err := t.attach(); err != nil {
		t.detachAll()
		ready <- err
		return
	}
	t.untilSettled(attachTimeout, func() bool {
		for _, th := range t.threads {
			if !th.seen {
				return false
			}
		}
		return true
	})
	ready <- nil
	t.follow(nil, func() bool { return len(t.threads) == 0 })
	// A thread is let go of before it has ended, so that a process without any may still be there.
	if s, err := readStat(t.pid); err != nil || s.started != t.started || len(t.threads) == 0 {
		t.blinded(blindEnded)
	}
	t.detachAll()
}

// attach seizes all threads of the process and its descendants. A thread that starts meanwhile is seized by the kernel if its
// creator is already, and found here if not.
func (t *tracer) attach() error {
	if err := t.seizeProcess(t.pid); err != nil {
		return explain(t.pid, err)
	}
	p, err := Open(t.pid)
	if err != nil {
		return err
	}
	t.started = p.members[t.pid].started
	for more := true; more; {
		more = false
		p.gather(readAllStats())
		for pid := range p.members {
			n := len(t.threads)
			if err := t.seizeProcess(pid); err != nil {
				return explain(pid, err)
			}
			more = more || len(t.threads) > n
		}
	}
	for pid := range p.members {
		if ringIn(pid) {
			t.blinded(blindRing)
		}
	}
	return nil
}

// seizeProcess attaches to the threads of a process that are not yet, until there is none.
func (t *tracer) seizeProcess(pid int) error {
	s, err := readStat(pid)
	if err != nil {
		if pid == t.pid {
			return err
		}
		return nil // a descendant that has ended meanwhile
	}
	for more := true; more; {
		more = false
		for _, tid := range numbered(procPath(pid, "task")) {
			if t.threads[tid] != nil {
				continue
			}
			err := seize(tid)
			switch {
			case err == unix.ESRCH:
				continue
			case err == unix.EPERM && (tracerOf(tid) == unix.Gettid() || stateOf(tid) == 'Z'):
				// The kernel was faster, or the thread has ended.
				continue
			case err != nil:
				return err
			}
			more = true
			t.threads[tid] = &thread{ownChild: tid == pid && s.parent == os.Getpid()}
			if err := interrupt(tid); err != nil && err != unix.ESRCH {
				return err
			}
		}
	}
	return nil
}

func tracerOf(tid int) int {
	b, err := os.ReadFile(procPath(tid, "status"))
	if err != nil {
		return 0
	}
	n, _ := valueOf(string(b), "TracerPid")
	return int(n)
}

func stateOf(tid int) byte {
	b, err := os.ReadFile(procPath(tid, "stat"))
	if err != nil {
		return 'Z'
	}
	s, err := statOf(string(b))
	if err != nil {
		return '?'
	}
	return s.state
}

// explain says what to do about a process that cannot be traced.
func explain(pid int, err error) error {
	switch {
	case errors.Is(err, ErrEnded):
		return err
	case err == unix.EPERM && tracerOf(pid) != 0:
		return fmt.Errorf("process %d is already traced, by %d: end that first", pid, tracerOf(pid))
	case err == unix.EPERM:
		advice := "run as its user, or as root"
		if scope := firstLine("/proc/sys/kernel/yama/ptrace_scope"); scope != "" && scope != "0" {
			advice = fmt.Sprintf("run as root, or allow it with `sysctl kernel.yama.ptrace_scope=0` (it is %s)", scope)
		}
		return fmt.Errorf("tracing process %d is not permitted: %s; a container needs the capability SYS_PTRACE", pid, advice)
	case err == unix.EIO || err == unix.ENOSYS:
		return fmt.Errorf("process %d cannot be traced on this kernel: %w", pid, err)
	}
	return fmt.Errorf("tracing process %d: %w", pid, err)
}

// untilSettled follows until the condition holds, for a limited time.
func (t *tracer) untilSettled(limit time.Duration, settled func() bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	t.follow(timer.C, settled)
}

// follow handles stops until over holds, the deadline passes, or, unless it is already detaching, Stop is called.
func (t *tracer) follow(deadline <-chan time.Time, over func() bool) {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	quit := t.quit
	if t.detaching {
		quit = nil
	}
	for {
		more := t.drain(quit)
		if over() {
			return
		}
		if more {
			t.again()
		}
		select {
		case <-quit:
			return
		case <-deadline:
			return
		case <-t.events:
		case <-look.C:
			t.look()
		}
	}
}

// again makes follow look for stops without waiting to be told of one.
func (t *tracer) again() {
	select {
	case t.events <- unix.SIGCHLD:
	default:
	}
}

// drain handles the stops that are there, and those that follow at once. It reports whether there may be more.
//
// All that have stopped are fetched before one is let go on: the kernel looks for stopped threads in the order in which they were
// attached, so that of threads that call without pause the first would come up again and again, and the last never.
func (t *tracer) drain(quit <-chan struct{}) (more bool) {
	for idle, handled := 0, 0; idle < spins; {
		t.batch = t.batch[:0]
		for s, ok := nextStop(); ok; s, ok = nextStop() {
			t.batch = append(t.batch, s)
		}
		if len(t.batch) == 0 {
			idle++
			continue
		}
		for _, s := range t.batch {
			t.handle(s)
		}
		idle, handled = 0, handled+len(t.batch)
		select {
		case <-quit:
			return true
		default:
		}
		if handled >= burst {
			return true
		}
	}
	return false
}

// look forgets the threads that have ended without telling: killed ones.
func (t *tracer) look() {
	for tid, th := range t.threads {
		if ended(tid, th.ownChild) {
			delete(t.threads, tid)
		}
	}
}

func (t *tracer) blinded(why string) {
	if t.blind == "" {
		t.blind = why
	}
}

// handle deals with one stop. Errors of the calls that let a thread go on mean that it was killed meanwhile, and
// are left to look.
func (t *tracer) handle(s stopped) {
	th := t.threads[s.tid]
	if th == nil { // a new one, seized by the kernel
		th = &thread{}
		t.threads[s.tid] = th
	}
	th.seen = true
	switch {
	case s.event == unix.PTRACE_EVENT_EXIT:
		// Let go before it has ended: nobody needs to reap it for us.
		t.release(s.tid, 0)
	case s.event == unix.PTRACE_EVENT_STOP && s.sig != int(unix.SIGTRAP):
		if t.detaching {
			t.release(s.tid, 0)
		} else {
			_ = listen(s.tid)
		}
	case s.event == unix.PTRACE_EVENT_EXEC:
		th.call = nil
		t.forgetFormer(s.tid)
		t.goOn(s.tid, 0)
	case s.event != 0:
		t.goOn(s.tid, 0)
	case s.sig == syscallStop:
		t.syscall(s.tid, th)
		t.goOn(s.tid, 0)
	default: // a signal is about to be delivered
		t.goOn(s.tid, s.sig)
	}
}

// goOn resumes a stopped thread, or lets go of it.
func (t *tracer) goOn(tid, sig int) {
	if t.detaching {
		t.release(tid, sig)
		return
	}
	_ = resume(tid, sig)
}

func (t *tracer) release(tid, sig int) {
	if detach(tid, sig) == nil {
		delete(t.threads, tid)
	}
}

// forgetFormer drops the number that a thread had before it became, by exec, the only one of its process.
func (t *tracer) forgetFormer(tid int) {
	if former, err := unix.PtraceGetEventMsg(tid); err == nil && int(former) != tid {
		delete(t.threads, int(former))
	}
}

// syscall notes the beginning or the end of a sync. Its time is taken while the thread is stopped: before the call begins
// to act, or after it has acted and before its caller knows.
func (t *tracer) syscall(tid int, th *thread) {
	i, err := syscallAt(tid)
	if err != nil {
		if err != unix.ESRCH {
			t.blinded(blindOld)
		}
		return
	}
	switch i.op {
	case unix.PTRACE_SYSCALL_INFO_ENTRY:
		th.call = nil
		if t.arch != 0 && i.arch != t.arch {
			t.blinded(blindArch)
			return
		}
		e := i.entry()
		if why := blindOf(e); why != "" {
			t.blinded(why)
		}
		if c, ok := syncOf(tid, e); ok {
			c.Begin = time.Now()
			th.call = &c
		}
	case unix.PTRACE_SYSCALL_INFO_EXIT:
		if c := th.call; c != nil && !i.failed() {
			c.End = time.Now()
			t.syncs = append(t.syncs, *c)
		}
		th.call = nil
	}
}

// detachAll lets go of all threads: each has to be stopped for that.
func (t *tracer) detachAll() {
	t.detaching = true
	for tid := range t.threads {
		_ = interrupt(tid) // ESRCH: it has ended
	}
	t.untilSettled(detachTimeout, func() bool { return len(t.threads) == 0 })
}
