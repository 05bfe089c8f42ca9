package kafka

import (
	"encoding/binary"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// work is the worker: it answers the frames in their order until there are no more, and closes the connection.
func (c *conn) work() {
	defer c.end()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var next *frame // waits until all before it are answered
	frames := (<-chan *frame)(c.frames)
	for frames != nil || next != nil || len(c.pending) > 0 {
		in := frames
		if next != nil || len(c.pending) >= c.s.opts.MaxPipelined {
			in = nil
		}
		if len(c.pending) > 0 {
			timer.Reset(time.Until(c.pending[0].deadline))
		}
		select {
		case f, ok := <-in:
			if !ok {
				frames = nil
			} else if f.rc.api.key == kmsg.Produce {
				c.begin(f)
			} else {
				next = f
			}
		case <-c.wake:
			c.settle()
		case <-timer.C:
			c.settle()
		}
		if next != nil && len(c.pending) == 0 {
			c.flush()
			c.run(next)
			next = nil
		}
		if stuck := next != nil || len(c.pending) >= c.s.opts.MaxPipelined; stuck || len(c.frames) == 0 || len(c.out) >= flushAt {
			c.flush() // nothing more can be gathered now
		}
	}
	c.flush()
}

// end closes the connection and says why.
func (c *conn) end() {
	reason := endedPeer
	c.finish(reason, net.ErrClosed)
	c.nc.Close()
	c.s.sessions.leave(c)
	c.s.leaveShares(c)
	if r := c.why.Load(); r != nil {
		reason = *r
	}
	c.s.metrics.ended.WithLabelValues(reason).Inc()
}

// abort ends the connection at once, without answering what is still open.
func (c *conn) abort(reason string, err error) {
	if c.broken == nil {
		c.broken = err
	}
	c.finish(reason, err)
	c.nc.Close()
}

// run answers one request that is not a produce request.
func (c *conn) run(f *frame) {
	defer c.busy.Add(-1)
	defer f.buf.Release()
	if c.broken != nil {
		return
	}
	rc := f.rc
	defer c.guard(rc)
	rc.software = c.software
	rc.api.m.requests.Inc()
	reply, err := c.handle(f)
	if err != nil {
		c.complain(rc, err)
		return
	}
	c.software = rc.software
	switch r := reply.(type) {
	case nil:
	case recordsReply:
		c.sendRecords(rc, r)
	case kmsg.Response:
		c.queue(rc, r)
		c.flush()
	}
}

// panicked is a handler's panic as an error.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// guard is deferred around all that is done for one request, up to the encoding of its answer: a panic ends the
// connection and nothing else.
func (c *conn) guard(rc *request) {
	if v := recover(); v != nil {
		c.complain(rc, &panicked{v, debug.Stack()})
	}
}

// handle runs the handler of a request.
func (c *conn) handle(f *frame) (reply any, err error) {
	rc := f.rc
	if rc.api.key == kmsg.ApiVersions && (rc.version < rc.api.min || rc.version > rc.api.max) {
		return c.s.unsupportedApiVersions(rc), nil
	}
	return rc.api.run(c.s, c.ctx, rc, f.body)
}

// complain ends the connection because a request has no answer.
func (c *conn) complain(rc *request, err error) {
	switch e := err.(type) {
	case *panicked:
		c.s.metrics.panics.Inc()
		c.s.log.Error("a handler panicked; its connection is closed", "api", rc.api.name, "version", rc.version,
			"client", rc.clientID, "remote", rc.remote, "panic", fmt.Sprint(e.value), "stack", string(e.stack))
		c.abort(endedPanic, err)
	default:
		c.s.complain.warn(c.s.log, "a connection is closed", "api", rc.api.name, "version", rc.version,
			"client", rc.clientID, "remote", rc.remote, "error", err)
		c.abort(endedMalformed, err)
	}
}

// flushAt is the size of gathered responses at which they are written even if more could be gathered.
const flushAt = 64 << 10

// queue encodes a response behind those that wait to be written.
func (c *conn) queue(rc *request, r kmsg.Response) {
	at := len(c.out)
	c.out = appendHeader(c.out, rc, r.IsFlexible())
	c.out = r.AppendTo(c.out)
	binary.BigEndian.PutUint32(c.out[at:], uint32(len(c.out)-at-4))
	c.unsent = append(c.unsent, rc)
}

// appendHeader begins a response: room for the length, and the header, whose version is 0 for ApiVersions.
func appendHeader(dst []byte, rc *request, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(rc.correlate))
	if flexible && rc.api.key != kmsg.ApiVersions {
		dst = append(dst, 0) // no tagged fields
	}
	return dst
}

// slowest is the rate in bytes a second that a peer has to take on average, once WriteTimeout is over.
const slowest = 64 << 10

// allow gives the peer time to take n bytes.
func (c *conn) allow(n int) {
	c.nc.SetWriteDeadline(time.Now().Add(c.s.opts.WriteTimeout + time.Duration(n)*(time.Second/slowest)))
}

// flush writes the responses that wait.
func (c *conn) flush() {
	if len(c.out) > 0 && c.broken == nil {
		c.allow(len(c.out))
		n, err := c.nc.Write(c.out)
		c.s.metrics.sent.Add(float64(n))
		c.wrote(err)
	}
	for i, rc := range c.unsent {
		rc.api.answered(rc.received)
		c.unsent[i] = nil
	}
	c.unsent = c.unsent[:0]
	if cap(c.out) > flushAt {
		c.out = nil // an idle connection keeps little
	}
	c.out = c.out[:0]
}

// wrote ends the connection if a write failed.
func (c *conn) wrote(err error) {
	switch {
	case err == nil || c.broken != nil:
	case isTimeout(err):
		c.s.complain.warn(c.s.log, "a connection is closed: it takes responses too slowly", "remote", c.nc.RemoteAddr())
		c.abort(endedSlow, err)
	default:
		c.abort(endedPeer, err)
	}
}
