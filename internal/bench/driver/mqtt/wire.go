package mqtt

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// The bounds of a wire.
const (
	readBuffer = 64 << 10        // bytes; paho reads headers byte by byte
	keepBuffer = 1 << 20         // bytes of a write buffer that is kept for the next use
	endTimeout = 2 * time.Second // for the last bytes of both directions together
)

// wire is the connection that paho gets. Paho writes each packet in four pieces; a wire collects them, and whatever
// packets come while it is writing, and writes them in one go.
//
// Paho holds the lock of a connection that has one while it writes a packet; Write must only be called so.
type wire struct {
	net.Conn
	in *bufio.Reader

	mu      sync.Mutex    // Lock, Unlock
	out     []byte        // guarded by mu; to be written
	taken   int64         // guarded by mu; bytes that were in out so far
	err     error         // guarded by mu; of writing, sticky
	orderly bool          // guarded by mu; Close waits for the other side to end first
	more    chan struct{} // has an element if out is not empty; may have one without

	written func(upTo int64) // told how many of the bytes taken were written; may be nil
	failed  func(error)      // told, maybe more than once, that reading or writing has ended

	closing chan struct{} // closed by Close
	flushed chan struct{} // closed when nothing is written any more
	close   func() error  // once
}

// newWire makes one. Its goroutine ends with Close.
func newWire(c net.Conn, failed func(error), written func(upTo int64)) *wire {
	w := &wire{
		Conn: c, in: bufio.NewReaderSize(c, readBuffer), more: make(chan struct{}, 1), failed: failed, written: written,
		closing: make(chan struct{}), flushed: make(chan struct{}),
	}
	w.close = sync.OnceValue(w.end)
	go w.write()
	return w
}

// Lock begins a packet.
func (w *wire) Lock() { w.mu.Lock() }

// Unlock ends a packet.
func (w *wire) Unlock() {
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// Write takes a piece of a packet. It never blocks: what is in flight bounds the bytes that wait.
func (w *wire) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.out = append(w.out, b...)
	w.taken += int64(len(b))
	return len(b), nil
}

// position is how many bytes were taken so far.
func (w *wire) position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.in.Read(b)
	if err != nil {
		w.failed(err)
	}
	return n, err
}

// write writes what was taken, until Close.
func (w *wire) write() {
	defer close(w.flushed)
	var spare []byte
	for last := false; !last; {
		select {
		case <-w.more:
		case <-w.closing:
			last = true
		}
		w.mu.Lock()
		batch, upTo := w.out, w.taken
		w.out = spare[:0]
		w.mu.Unlock()
		if len(batch) > 0 && !w.send(batch, upTo) {
			return
		}
		if spare = batch; cap(spare) > keepBuffer {
			spare = nil
		}
	}
}

// send writes a batch and says whether it could.
func (w *wire) send(batch []byte, upTo int64) bool {
	if _, err := w.Conn.Write(batch); err != nil {
		w.mu.Lock()
		w.err, w.out = err, nil
		w.mu.Unlock()
		w.failed(err)
		_ = w.Conn.Close() // whoever reads notices
		return false
	}
	if w.written != nil {
		w.written(upTo)
	}
	return true
}

// alive says whether this side still has the connection open.
func (w *wire) alive() bool { return w.Conn.SetReadDeadline(time.Time{}) == nil }

// leave makes Close wait until the other side has ended the connection: if something unread were left, TCP would
// reset it, and the other side might not read what was sent last.
func (w *wire) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orderly = true
}

// Close writes what was taken and ends the connection.
func (w *wire) Close() error { return w.close() }

func (w *wire) end() error {
	late := time.AfterFunc(endTimeout, func() { _ = w.Conn.Close() })
	defer late.Stop()
	close(w.closing)
	<-w.flushed
	w.mu.Lock()
	orderly := w.orderly && w.err == nil
	if w.err == nil {
		w.err = net.ErrClosed
	}
	w.mu.Unlock()
	if orderly {
		_, _ = io.Copy(io.Discard, w.Conn)
	}
	return w.Conn.Close()
}
