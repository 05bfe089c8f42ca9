package vfs

import (
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendfileMax bounds one call: what Linux transfers at most at once is just below 2 GiB.
const sendfileMax = 1 << 30

// transfer is one SendFile on its way. It is pooled with its bound step, so that a call allocates nothing for it.
type transfer struct {
	file     int
	off, end int64
	err      error
	short    bool
	step     func(fd uintptr) bool
}

var transfers = sync.Pool{New: func() any {
	t := new(transfer)
	t.step = t.run
	return t
}}

// sendfile reports handled == false if the rest has to be copied.
func sendfile(c net.Conn, f File, off, n int64) (sent int64, handled bool, err error) {
	fd := f.Fd()
	if fd == InvalidFd || n <= 0 {
		return 0, false, nil
	}
	var raw syscall.RawConn
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default:
		return 0, false, nil
	}
	if err != nil {
		return 0, true, err
	}
	t := transfers.Get().(*transfer)
	defer transfers.Put(t)
	t.file, t.off, t.end, t.err, t.short = int(fd), off, off+n, nil, false
	err = raw.Write(t.step)
	sent = t.off - off
	switch {
	case t.err == unix.EINVAL || t.err == unix.ENOSYS || t.err == unix.EOPNOTSUPP:
		return sent, false, nil // this file system has no sendfile
	case t.err != nil:
		return sent, true, os.NewSyscallError("sendfile", t.err)
	case err != nil:
		return sent, true, err
	case t.short:
		return sent, true, shortFile(off, n, t.off)
	}
	return sent, true, nil
}

// run sends what the socket takes now; it returns false to be called again when the socket can take more.
func (t *transfer) run(socket uintptr) bool {
	for t.off < t.end {
		// The kernel advances t.off, an offset of this call alone.
		n, err := unix.Sendfile(int(socket), t.file, &t.off, int(min(t.end-t.off, sendfileMax)))
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return false
		case err != nil:
			t.err = err
			return true
		case n == 0:
			t.short = true
			return true
		}
	}
	return true
}
