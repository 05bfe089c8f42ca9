package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringBytes is the size of the ring of each CPU, a power of two: room for some 4,000 records until it is read.
const ringBytes = 512 << 10

// tracepoint is an event of the kernel's "syscalls" group.
type tracepoint struct {
	name   string // "sys_enter_fsync"
	filter string // in the language of tracepoint filters; "" = all
}

// syncTracepoints are those of the calls that sync, whatever their descriptor was opened for.
func syncTracepoints() []tracepoint {
	return []tracepoint{
		{name: "sys_enter_fsync"}, {name: "sys_exit_fsync"},
		{name: "sys_enter_fdatasync"}, {name: "sys_exit_fdatasync"},
		{name: "sys_enter_syncfs"}, {name: "sys_exit_syncfs"},
		{name: "sys_enter_sync"}, {name: "sys_exit_sync"},
		{name: "sys_enter_msync", filter: fmt.Sprintf("flags & %d", unix.MS_SYNC)}, {name: "sys_exit_msync"},
		{name: "sys_enter_pwritev2", filter: fmt.Sprintf("flags & %d", unix.RWF_DSYNC|unix.RWF_SYNC)}, {name: "sys_exit_pwritev2"},
		{name: opening, filter: fmt.Sprintf("flags & %d", unix.O_DSYNC)},
	}
}

// opening is the call by which a file comes to be written through; openat2 is not seen.
const opening = "sys_enter_openat"

// recorder has the kernel record calls of all processes, by perf_event_open(2): the calls go on at once, and the records, in one
// ring of memory for each CPU, are read later.
type recorder struct {
	points  map[uint16]tracepoint // by the kernel's number of it
	fds     []int                 // of everything; those of rings come first
	rings   []ring
	wake    int // eventfd: ends a wait
	clock   clock
	pending []record
}

// ring is the memory of one CPU.
type ring struct {
	memory []byte
	buf    []byte // what was last read, in one piece
}

// clock turns the kernel's monotonic time into this program's.
type clock struct {
	kernel int64
	here   time.Time
}

func (c clock) time(ns int64) time.Time { return c.here.Add(time.Duration(ns - c.kernel)) }

func kernelClock() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}
	return ts.Nano()
}

// newClock reads both clocks, a few times: if the thread is interrupted between the two, they are apart.
func newClock() (best clock) {
	apart := int64(-1)
	for range 20 {
		before, here, after := kernelClock(), time.Now(), kernelClock()
		if d := after - before; apart < 0 || d < apart {
			apart, best = d, clock{before + d/2, here}
		}
	}
	return best
}

// newRecorder starts to record; wakeEach has wait return for every record, not only for many. The error says what the
// kernel lacks, or refuses.
func newRecorder(wakeEach bool) (*recorder, error) {
	ids, err := tracepointIDs()
	if err != nil {
		return nil, err
	}
	r := &recorder{points: ids, wake: -1, clock: newClock()}
	if err := r.open(wakeEach); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// open makes what the recorder consists of, and starts it.
func (r *recorder) open(wakeEach bool) (err error) {
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	cpus, err := onlineCPUs()
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		if err := r.openRing(cpu, wakeEach); err != nil {
			return err
		}
	}
	for i, cpu := range cpus {
		if err := r.openPoints(cpu, r.fds[i], wakeEach); err != nil {
			return err
		}
	}
	for _, fd := range r.fds {
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return fmt.Errorf("PERF_EVENT_IOC_ENABLE: %w", err)
		}
	}
	return r.check()
}

func eventAttr(kind uint32, config uint64, wakeEach bool) *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type: kind, Config: config, Sample: 1, Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_RAW,
		Bits: unix.PerfBitDisabled | unix.PerfBitUseClockID, Clockid: unix.CLOCK_MONOTONIC,
	}
	a.Size = uint32(unsafe.Sizeof(*a))
	if a.Wakeup = 1; !wakeEach {
		a.Bits |= unix.PerfBitWatermark
		a.Wakeup = ringBytes / 4
	}
	return a
}

// openRing makes a CPU's ring; of itself it holds the births of processes.
func (r *recorder) openRing(cpu int, wakeEach bool) error {
	a := eventAttr(unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_DUMMY, wakeEach)
	a.Bits |= unix.PerfBitTask
	fd, err := unix.PerfEventOpen(a, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("perf_event_open for CPU %d: %w", cpu, err)
	}
	r.fds = append(r.fds, fd)
	m, err := unix.Mmap(fd, 0, os.Getpagesize()+ringBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the ring of CPU %d: %w", cpu, err)
	}
	r.rings = append(r.rings, ring{memory: m})
	return nil
}

// openPoints has a CPU's tracepoints write into its ring.
func (r *recorder) openPoints(cpu, output int, wakeEach bool) error {
	for id, p := range r.points {
		fd, err := unix.PerfEventOpen(eventAttr(unix.PERF_TYPE_TRACEPOINT, uint64(id), wakeEach), -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("perf_event_open of %s for CPU %d: %w", p.name, cpu, err)
		}
		r.fds = append(r.fds, fd)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, output); err != nil {
			return fmt.Errorf("PERF_EVENT_IOC_SET_OUTPUT: %w", err)
		}
		if p.filter == "" {
			continue
		}
		text, err := unix.BytePtrFromString(p.filter)
		if err != nil {
			return err
		}
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_SET_FILTER, uintptr(unsafe.Pointer(text))); e != 0 {
			return fmt.Errorf("filter %q of %s: %w", p.filter, p.name, e)
		}
	}
	return nil
}

// check makes a call that fails, and looks for it: there are systems that take these orders and do nothing.
func (r *recorder) check() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Fsync(-1); err != unix.EBADF {
		return fmt.Errorf("fsync of no file: %w", err)
	}
	if err := r.read(); err != nil {
		return err
	}
	found := slices.ContainsFunc(r.pending, func(c record) bool {
		return c.kind == recordCall && int(c.tid) == unix.Gettid() && r.points[c.point].name == "sys_exit_fsync"
	})
	if !found {
		return errors.New("the kernel records no system calls")
	}
	return nil
}

// wait returns when there is something to read, when wakeUp was called, or after a time.
func (r *recorder) wait(limit time.Duration) {
	polled := []unix.PollFd{{Fd: int32(r.wake), Events: unix.POLLIN}}
	for _, fd := range r.fds[:len(r.rings)] {
		polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	_, _ = unix.Poll(polled, int(limit.Milliseconds())) // EINTR: looked once more than needed
}

func (r *recorder) wakeUp() { _, _ = unix.Write(r.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// read takes what is in the rings.
func (r *recorder) read() error {
	for i := range r.rings {
		rs, err := decodeRecords(r.rings[i].take())
		r.pending = append(r.pending, rs...)
		if err != nil {
			return err
		}
	}
	return nil
}

// take empties the ring.
func (r *ring) take() []byte {
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
	data := r.memory[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&page.Data_head), page.Data_tail
	r.buf = r.buf[:0]
	for tail < head {
		at := int(tail % ringBytes)
		piece := data[at:min(ringBytes, at+int(head-tail))]
		r.buf = append(r.buf, piece...)
		tail += uint64(len(piece))
	}
	atomic.StoreUint64(&page.Data_tail, tail)
	return r.buf
}

// before returns, in their order, the records older than a kernel time; those of all CPUs have been read if what the kernel
// recorded until then was.
func (r *recorder) before(ns int64) (old []record) {
	slices.SortStableFunc(r.pending, func(a, b record) int { return int(max(min(a.at-b.at, 1), -1)) })
	n, _ := slices.BinarySearchFunc(r.pending, ns, func(c record, ns int64) int { return int(max(min(c.at-ns, 1), -1)) })
	old = slices.Clone(r.pending[:n])
	r.pending = slices.Delete(r.pending, 0, n)
	return old
}

// disable ends recording; what was recorded can still be read.
func (r *recorder) disable() {
	for _, fd := range r.fds {
		_ = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0)
	}
}

func (r *recorder) close() {
	for _, m := range r.rings {
		_ = unix.Munmap(m.memory)
	}
	for _, fd := range r.fds {
		_ = unix.Close(fd)
	}
	if r.wake >= 0 {
		_ = unix.Close(r.wake)
	}
}

// onlineCPUs are those of the machine, not those this process is bound to.
func onlineCPUs() ([]int, error) {
	text := firstLine("/sys/devices/system/cpu/online")
	cpus, ok := cpuList(text)
	if !ok {
		return nil, fmt.Errorf("/sys/devices/system/cpu/online has %q, not a list of CPUs", text)
	}
	return cpus, nil
}

// cpuList reads "0-3,8,10-11".
func cpuList(text string) (cpus []int, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		a, err1 := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || a < 0 || b < a || b > 1<<16 {
			return nil, false
		}
		for cpu := a; cpu <= b; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, len(cpus) > 0
}

// tracepointIDs reads the numbers of the tracepoints from tracefs.
func tracepointIDs() (map[uint16]tracepoint, error) {
	root, err := openTracefs()
	if err != nil {
		return nil, fmt.Errorf("tracefs: %w", err)
	}
	defer unix.Close(root)
	ids := map[uint16]tracepoint{}
	for _, p := range syncTracepoints() {
		fd, err := unix.Openat(root, "events/syscalls/"+p.name+"/id", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("tracepoint %s: %w", p.name, err)
		}
		f := os.NewFile(uintptr(fd), p.name)
		b, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("tracepoint %s: %w", p.name, err)
		}
		id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("number of tracepoint %s: %w", p.name, err)
		}
		ids[uint16(id)] = p
	}
	return ids, nil
}

// openTracefs opens the folder of tracefs where it is mounted, or mounts it where nobody else sees it.
func openTracefs() (int, error) {
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if _, err := os.Stat(dir + "/events/syscalls"); err == nil {
			return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
	}
	fs, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
}
