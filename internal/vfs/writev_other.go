//go:build !linux

package vfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pwritev writes buffer by buffer: darwin has no pwritev(2) in its stable interface.
func pwritev(fd uintptr, off int64, bufs [][]byte) error {
	for _, b := range bufs {
		for len(b) > 0 {
			n, err := unix.Pwrite(int(fd), b, off)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err != nil:
				return os.NewSyscallError("pwrite", err)
			case n == 0:
				return io.ErrShortWrite
			}
			b, off = b[n:], off+int64(n)
		}
	}
	return nil
}
