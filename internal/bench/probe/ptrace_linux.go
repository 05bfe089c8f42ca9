package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Every function of this file must run on the thread that traces.

// traceOptions make the kernel trace new threads and processes as well, tell system call stops from signals, and stop a
// thread that exits. Not among them is PTRACE_O_EXITKILL: should this process die, the target goes on.
const traceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK |
	unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACEEXIT

// syscallStop is the signal of a system call stop.
const syscallStop = int(unix.SIGTRAP) | 0x80

func ptrace(request, tid int, addr, data uintptr) error {
	if _, _, e := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0); e != 0 {
		return e
	}
	return nil
}

// seize attaches to a thread without stopping it.
func seize(tid int) error { return ptrace(unix.PTRACE_SEIZE, tid, 0, traceOptions) }

// interrupt makes a running thread stop soon.
func interrupt(tid int) error { return ptrace(unix.PTRACE_INTERRUPT, tid, 0, 0) }

// resume lets a stopped thread go on to its next system call stop, with a signal or 0.
func resume(tid, sig int) error { return ptrace(unix.PTRACE_SYSCALL, tid, 0, uintptr(sig)) }

// listen leaves a thread in the stop that a signal like SIGSTOP asks for, until SIGCONT.
func listen(tid int) error { return ptrace(unix.PTRACE_LISTEN, tid, 0, 0) }

// detach lets go of a stopped thread, with a signal or 0.
func detach(tid, sig int) error { return ptrace(unix.PTRACE_DETACH, tid, 0, uintptr(sig)) }

// syscallInfo is struct ptrace_syscall_info; entry has a call's number and arguments, exit its outcome in the first two.
type syscallInfo struct {
	op   uint8
	_    [3]uint8
	arch uint32
	_    [2]uint64 // instruction and stack pointer
	data [8]uint64
}

func (i *syscallInfo) entry() *syscallEntry {
	return &syscallEntry{number: i.data[0], args: [6]uint64(i.data[1:7])}
}

// failed says that the call whose exit this is returned an error.
func (i *syscallInfo) failed() bool {
	return *(*uint8)(unsafe.Pointer(&i.data[1])) != 0 // is_error, a byte
}

// syscallAt tells at which side of which system call a thread stopped.
func syscallAt(tid int) (*syscallInfo, error) {
	i := &syscallInfo{}
	_, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid),
		unsafe.Sizeof(*i), uintptr(unsafe.Pointer(i)), 0, 0)
	if e != 0 {
		return nil, e
	}
	return i, nil
}

// stopped is a thread that stopped, and why.
type stopped struct {
	tid   int
	sig   int // syscallStop, or a signal
	event int // PTRACE_EVENT_*, 0 = none
}

// childInfo is siginfo_t as waitid(2) fills it.
type childInfo struct {
	_      [2]int32 // number, error
	code   int32
	_      [0]uintptr // what follows is aligned as a pointer
	pid    int32
	_      uint32 // user
	status int32
	_      [104]byte
}

// waitFor calls waitid(2) for the threads that this thread traces, and returns 0 if there is nothing to tell.
func waitFor(kind, id, options int) (*childInfo, error) {
	for {
		i := &childInfo{}
		err := unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(i)), options|unix.WNOHANG|unix.WALL|unix.WNOTHREAD, nil)
		if err != unix.EINTR {
			return i, err
		}
	}
}

// nextStop returns a thread that has stopped, if there is one. Without WEXITED nobody is reaped: whose child ends while it
// is traced still gets to know how.
func nextStop() (stopped, bool) {
	i, err := waitFor(unix.P_ALL, 0, unix.WSTOPPED)
	if err != nil || i.pid == 0 {
		return stopped{}, false
	}
	return stopped{tid: int(i.pid), sig: int(i.status) & 0xff, event: int(i.status) >> 8}, true
}

// ended says that a traced thread has ended without a stop. Unless it is to be kept for whoever started it, it is
// reaped: a traced thread that is not hinders its process from ending.
func ended(tid int, keep bool) bool {
	// To look only, at first: a stop is told, and would be taken, whatever is asked for.
	i, err := waitFor(unix.P_PID, tid, unix.WEXITED|unix.WNOWAIT)
	if err != nil || i.pid == 0 {
		return err == unix.ECHILD
	}
	if i.code != cldExited && i.code != cldKilled && i.code != cldDumped {
		return false
	}
	if !keep {
		_, _ = waitFor(unix.P_PID, tid, unix.WEXITED)
	}
	return true
}

// What became of a thread, by the code of its siginfo_t: others than these are stops.
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)
