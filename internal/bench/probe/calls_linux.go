package probe

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// syscallEntry is a system call as its thread is about to make it.
type syscallEntry struct {
	number uint64
	args   [6]uint64
}

// Reasons why syncs may go unseen.
const (
	blindRing    = "it uses io_uring, whose syncs cannot be seen from outside"
	blindAIO     = "it uses io_submit, whose syncs cannot be seen from outside"
	blindArch    = "it makes system calls of another architecture than this program's"
	blindEnded   = "it ended while it was traced"
	blindLost    = "it, or others, made more system calls than could be recorded"
	blindThrough = "it writes through to files (O_SYNC, O_DSYNC), which tracepoints do not tell from other writes"
	blindOld     = "the kernel does not tell about system calls: Linux 5.3 or newer is needed"
)

// syncOf says whether the call, if it returns success, promises that data is on stable storage; the path may be "".
// sync_file_range does not: it leaves out metadata and the disk's cache.
func syncOf(tid int, e *syscallEntry) (Sync, bool) {
	fd := int(int32(e.args[0]))
	switch e.number {
	case unix.SYS_FSYNC:
		return Sync{Call: "fsync", Path: pathOf(tid, fd)}, true
	case unix.SYS_FDATASYNC:
		return Sync{Call: "fdatasync", Path: pathOf(tid, fd)}, true
	case unix.SYS_SYNCFS:
		return Sync{Call: "syncfs", Path: pathOf(tid, fd)}, true
	case unix.SYS_SYNC:
		return Sync{Call: "sync"}, true
	case unix.SYS_MSYNC:
		if e.args[2]&unix.MS_SYNC == 0 {
			return Sync{}, false
		}
		return Sync{Call: "msync", Path: mappedAt(tid, e.args[0])}, true
	case unix.SYS_PWRITEV2:
		if e.args[5]&(unix.RWF_DSYNC|unix.RWF_SYNC) != 0 || writesThrough(tid, fd) {
			return Sync{Call: "pwritev2", Path: pathOf(tid, fd)}, true
		}
	case unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_PWRITE64, unix.SYS_PWRITEV:
		if writesThrough(tid, fd) {
			return Sync{Call: writeNames[e.number], Path: pathOf(tid, fd)}, true
		}
	}
	return Sync{}, false
}

var writeNames = map[uint64]string{
	unix.SYS_WRITE:    "write",
	unix.SYS_WRITEV:   "writev",
	unix.SYS_PWRITE64: "pwrite64",
	unix.SYS_PWRITEV:  "pwritev",
}

// blindOf names the reason why a sync may go unseen after this call.
func blindOf(e *syscallEntry) string {
	switch e.number {
	case unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER:
		return blindRing
	case unix.SYS_IO_SUBMIT:
		return blindAIO
	}
	return ""
}

// nativeArch is the kernel's name for the architecture whose numbers this program knows; 0 = it is not told.
func nativeArch() uint32 {
	return map[string]uint32{
		"amd64":   unix.AUDIT_ARCH_X86_64,
		"arm64":   unix.AUDIT_ARCH_AARCH64,
		"riscv64": unix.AUDIT_ARCH_RISCV64,
		"loong64": unix.AUDIT_ARCH_LOONGARCH64,
		"ppc64le": unix.AUDIT_ARCH_PPC64LE,
		"s390x":   unix.AUDIT_ARCH_S390X,
	}[runtime.GOARCH]
}

// pathOf is the file behind a thread's descriptor, "" if that cannot be told.
func pathOf(tid, fd int) string {
	path, err := os.Readlink(procPath(tid, "fd/"+strconv.Itoa(fd)))
	if err != nil {
		return ""
	}
	return path
}

// writesThrough says that writes to the descriptor return after the data is stable: it was opened with O_DSYNC, or O_SYNC, which
// includes that.
func writesThrough(tid, fd int) bool {
	f, err := unix.Open(procPath(tid, "fdinfo/"+strconv.Itoa(fd)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(f)
	var buf [128]byte // "pos:\t0\nflags:\t02\n..."
	n, err := unix.Read(f, buf[:])
	if err != nil {
		return false
	}
	return opensThrough(string(buf[:n]))
}

// opensThrough looks at the flags, in octal, of a text from /proc/PID/fdinfo.
func opensThrough(fdinfo string) bool {
	_, rest, _ := strings.Cut(fdinfo, "flags:")
	line, _, _ := strings.Cut(rest, "\n")
	flags, err := strconv.ParseUint(strings.TrimSpace(line), 8, 64)
	return err == nil && flags&unix.O_DSYNC != 0
}

// mappedAt is the file mapped at an address, "" if there is none.
func mappedAt(tid int, address uint64) string {
	b, err := os.ReadFile(procPath(tid, "maps"))
	if err != nil {
		return ""
	}
	return mappedIn(string(b), address)
}

// mappedIn looks in the text of a maps file: "7f00-7f10 rw-s 00000000 fe:00 1234    /path".
func mappedIn(maps string, address uint64) string {
	for line := range strings.Lines(maps) {
		span, rest, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(span, "-")
		low, err1 := strconv.ParseUint(from, 16, 64)
		high, err2 := strconv.ParseUint(to, 16, 64)
		if err1 != nil || err2 != nil || address < low || address >= high {
			continue
		}
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			return strings.TrimRight(rest[i:], "\n")
		}
		return ""
	}
	return ""
}

// ringFile is what the descriptor of an io_uring leads to.
const ringFile = "anon_inode:[io_uring]"

// ringIn says that the process holds an io_uring.
func ringIn(pid int) bool {
	for _, fd := range numbered(procPath(pid, "fd")) {
		if pathOf(pid, fd) == ringFile {
			return true
		}
	}
	return false
}
