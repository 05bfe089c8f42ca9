package vfs

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// copyChunk is how much SendFile reads at once where there is no sendfile.
const copyChunk = 128 << 10

var copyPool = sync.Pool{New: func() any { return new([copyChunk]byte) }}

// SendFile writes n bytes of the file from offset off on to the connection, by sendfile(2) where
// connection and file allow it. The file's own position is neither used nor moved, so any number of
// calls may run on one file. Write deadlines of the connection hold.
//
// Fewer than n bytes always come with an error: io.ErrUnexpectedEOF if the file ends
// before off+n. If anything was sent before an error, the connection is of no more use to its protocol.
//
// With sendfile the kernel's socket buffers refer to the page cache after the call returned: bytes that
// were sent must never be overwritten.
func SendFile(c net.Conn, f File, off, n int64) (sent int64, err error) {
	sent, handled, err := sendfile(c, f, off, n)
	if handled {
		return sent, err
	}
	copied, err := copyFile(c, f, off+sent, n-sent)
	return sent + copied, err
}

// copyFile reads and writes through a pooled buffer.
func copyFile(c net.Conn, f File, off, n int64) (sent int64, err error) {
	buf := copyPool.Get().(*[copyChunk]byte)
	defer copyPool.Put(buf)
	for sent < n {
		b := buf[:min(n-sent, copyChunk)]
		got, err := f.ReadAt(b, off+sent)
		if got < len(b) {
			if err == nil || err == io.EOF {
				err = shortFile(off, n, off+sent+int64(got))
			}
			return sent, err
		}
		wrote, err := c.Write(b)
		sent += int64(wrote)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

func shortFile(off, n, end int64) error {
	return fmt.Errorf("sending bytes %d to %d of a file that ends at %d: %w", off, off+n, end, io.ErrUnexpectedEOF)
}
