package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/gateway/intake"
)

// conn is one connection. The reader owns in, the worker all fields below it.
type conn struct {
	s      *Server
	nc     net.Conn
	budget *intake.Budget

	// ctx ends when nothing more will be read: what waits shall end, what was received is answered.
	ctx    context.Context
	cancel context.CancelCauseFunc
	why    atomic.Pointer[string] // the first reason for the end
	busy   atomic.Int64           // requests read and not yet answered

	in     *bufio.Reader
	frames chan *frame
	wake   chan struct{} // capacity 1; receives when a produce request is done

	software software
	pending  []*produce // begun and not answered, oldest first
	out      []byte     // responses that are not written yet
	unsent   []*request // whose responses are in out
	broken   error      // writing failed
}

// frame is one request as read.
type frame struct {
	rc   *request
	buf  *intake.Buffer
	body []byte // behind the header; in buf
}

// readAhead is how many requests are read while one is being answered. Reading on is how the end of a
// peer is noticed.
const readAhead = 8

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, budget: intake.NewBudget(s.opts.MaxConnInFlightBytes), in: bufio.NewReaderSize(nc, 4096),
		frames: make(chan *frame, readAhead), wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	return c
}

// finish ends the reading. The worker answers what was received and closes.
func (c *conn) finish(reason string, cause error) {
	c.why.CompareAndSwap(nil, &reason)
	c.cancel(cause)
	// The reader sets a deadline, then looks at ctx: whichever comes last, it stops.
	c.nc.SetReadDeadline(time.Unix(1, 0))
}

// errIdle ends a connection on which nothing happens.
var errIdle = errors.New("idle")

// read is the reader: it runs until the stream ends.
func (c *conn) read() {
	defer close(c.frames)
	for {
		f, err := c.readFrame()
		if err != nil {
			c.finish(c.blame(err), err)
			return
		}
		c.busy.Add(1)
		// The worker takes frames until the channel is closed.
		c.frames <- f
	}
}

// blame finds the reason for the end of a connection in a read error, and logs it if it is the peer's
// fault.
func (c *conn) blame(err error) string {
	var bad *malformed
	var timeout net.Error
	switch {
	case errors.As(err, &bad):
		c.s.complain.warn(c.s.log, "a connection is closed", "remote", c.nc.RemoteAddr(), "error", err)
		return endedMalformed
	case errors.Is(err, errIdle):
		return endedIdle
	case errors.As(err, &timeout) && timeout.Timeout():
		c.s.complain.warn(c.s.log, "a connection is closed: a request did not arrive whole in time", "remote", c.nc.RemoteAddr())
		return endedSlow
	}
	return endedPeer
}

// readFrame reads one request and parses its header.
func (c *conn) readFrame() (*frame, error) {
	size, err := c.awaitRequest()
	if err != nil {
		return nil, err
	}
	if size < minHeader {
		return nil, malformedf("a request of %d bytes", size)
	}
	head, err := c.peek(4 + minHeader)
	if err != nil {
		return nil, err
	}
	key, version := int16(binary.BigEndian.Uint16(head[4:])), int16(binary.BigEndian.Uint16(head[6:]))
	a := c.s.apis.find(key)
	if err := c.s.check(a, key, version, size); err != nil {
		return nil, err
	}
	c.in.Discard(4)
	buf, err := c.fill(a, int(size))
	if err != nil {
		return nil, err
	}
	c.s.metrics.received.Add(float64(size) + 4)
	f, err := c.parse(a, buf)
	if err != nil {
		buf.Release()
	}
	return f, err
}

// awaitRequest waits for the length of the next request, which it leaves unread.
func (c *conn) awaitRequest() (int32, error) {
	for {
		c.nc.SetReadDeadline(time.Now().Add(c.s.opts.IdleTimeout))
		head, err := c.peek(4)
		switch {
		case err == nil:
			return int32(binary.BigEndian.Uint32(head)), nil
		case !isTimeout(err) || c.ctx.Err() != nil || len(head) > 0:
			return 0, err
		case c.busy.Load() == 0:
			return 0, errIdle
		}
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// peek looks at the next n bytes, unless the connection is ending.
func (c *conn) peek(n int) ([]byte, error) {
	if c.ctx.Err() != nil {
		return nil, context.Cause(c.ctx)
	}
	return c.in.Peek(n)
}

// check refuses what is not served, and what is too large, before memory is spent on it.
func (s *Server) check(a *served, key, version int16, size int32) error {
	limit := s.opts.MaxControlBytes
	switch {
	case a == nil:
		return malformedf("API %d (%s) is not served", key, kmsg.NameForKey(key))
	case a.key == kmsg.ApiVersions && version >= 0:
		// A version that is not served has an answer.
	case version < a.min || version > a.max:
		return malformedf("%s version %d is not served, %d to %d are", a.name, version, a.min, a.max)
	case a.key == kmsg.Produce:
		limit = s.opts.MaxRequestBytes
	}
	if int(size) > limit {
		return malformedf("a %s request of %d bytes; the limit is %d", a.name, size, limit)
	}
	return nil
}

// fill reads the body of a request into memory that the budgets allow.
func (c *conn) fill(a *served, size int) (*intake.Buffer, error) {
	all := c.s.controls
	if a.key == kmsg.Produce {
		all = c.s.produces
	}
	if err := c.budget.Take(c.ctx, int64(size)); err != nil {
		return nil, err
	}
	if err := all.Take(c.ctx, int64(size)); err != nil {
		c.budget.Put(int64(size))
		return nil, err
	}
	var buf *intake.Buffer
	if a.key == kmsg.Produce {
		buf = c.s.buffers.Get(size)
	} else {
		buf = intake.Own(size)
	}
	buf.Charge(c.budget, all)
	c.nc.SetReadDeadline(time.Now().Add(c.s.opts.ReadTimeout))
	err := context.Cause(c.ctx)
	if err == nil {
		_, err = io.ReadFull(c.in, buf.B)
	}
	if err != nil {
		buf.Release()
		return nil, err
	}
	return buf, nil
}

// parse makes the frame of a request that was read whole.
func (c *conn) parse(a *served, buf *intake.Buffer) (*frame, error) {
	h, err := parseHeader(buf.B)
	if err != nil {
		return nil, err
	}
	if flexible(a.key, h.version) {
		if h.body, err = skipTags(h.body); err != nil {
			return nil, err
		}
	}
	rc := &request{server: c.s, conn: c, api: a, version: h.version, correlate: h.correlate, namespace: base.DefaultNamespace,
		clientID: h.clientID, local: c.nc.LocalAddr(), remote: c.nc.RemoteAddr(), received: time.Now()}
	return &frame{rc: rc, buf: buf, body: h.body}, nil
}
