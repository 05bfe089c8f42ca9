package vfs

import (
	"io"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// iovMax is how many buffers one call takes (IOV_MAX in limits.h).
const iovMax = 1024

type iovecs [iovMax]unix.Iovec

var iovecPool = sync.Pool{New: func() any { return new(iovecs) }}

// pwritev writes all buffers at off, in as many calls as it takes.
func pwritev(fd uintptr, off int64, bufs [][]byte) error {
	return gather(sysPwritev, fd, off, bufs)
}

// sysPwritev is pwritev(2) for the first n vectors.
func sysPwritev(fd uintptr, iov *iovecs, n int, off int64) (int, unix.Errno) {
	// On 64-bit systems the kernel takes the offset from the first of its two arguments.
	wrote, _, errno := unix.Syscall6(unix.SYS_PWRITEV, fd, uintptr(unsafe.Pointer(iov)), uintptr(n), uintptr(off), 0, 0)
	return int(wrote), errno
}

func gather(write func(fd uintptr, iov *iovecs, n int, off int64) (int, unix.Errno), fd uintptr, off int64, bufs [][]byte) error {
	iov := iovecPool.Get().(*iovecs)
	defer iovecPool.Put(iov)
	skip := 0 // bytes of bufs[0] that are written already
	for {
		n := 0
		for i := 0; i < len(bufs) && n < iovMax; i++ {
			b := bufs[i]
			if i == 0 {
				b = b[skip:]
			}
			if len(b) == 0 {
				continue
			}
			iov[n].Base = &b[0]
			iov[n].SetLen(len(b))
			n++
		}
		if n == 0 {
			return nil
		}
		wrote, errno := write(fd, iov, n, off)
		runtime.KeepAlive(bufs)
		clear(iov[:n]) // the pool must not keep the buffers alive
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return os.NewSyscallError("pwritev", errno)
		case wrote == 0:
			return io.ErrShortWrite
		}
		off += int64(wrote)
		bufs, skip = advance(bufs, skip, wrote)
	}
}

// advance drops n written bytes from the front; skip is what was already dropped of bufs[0].
func advance(bufs [][]byte, skip, n int) ([][]byte, int) {
	for len(bufs) > 0 {
		left := len(bufs[0]) - skip
		if n < left {
			return bufs, skip + n
		}
		n -= left
		bufs, skip = bufs[1:], 0
	}
	return nil, 0
}
