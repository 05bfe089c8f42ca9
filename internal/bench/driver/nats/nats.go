// Package nats drives NATS servers with nats.go: core NATS, which delivers to those who listen and keeps nothing,
// and JetStream, which keeps streams.
package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"godwit/internal/bench/driver"
)

// The bounds of what is waited for where the caller gives none.
const (
	dialTimeout  = 5 * time.Second
	flushTimeout = time.Minute
	closeTimeout = 10 * time.Second
	closeGrace   = time.Second // for a last write to a server that may not be reading
)

// subject is where the messages of a destination go.
func subject(layout string, destination int) string {
	return fmt.Sprintf("%s.%06d", layout, destination)
}

// everything matches all subjects of a layout.
func everything(layout string) string { return layout + ".*" }

// link is a connection with what became of it.
type link struct {
	*nats.Conn
	logf func(format string, args ...any)
	lost func(said string) // of messages that are not delivered; may be nil
	end  atomic.Pointer[error]
	raw  atomic.Pointer[net.Conn] // the one dialed last
	over chan struct{}            // closed when the connection will not come back
}

// connect makes a connection that comes back by itself, unless its network is cut.
func connect(ctx context.Context, o driver.Options, network *driver.Network, lost func(string)) (*link, error) {
	if network == nil {
		network = o.Net
	}
	l := &link{logf: o.Logf, lost: lost, over: make(chan struct{})}
	u := url.URL{Scheme: "nats", Host: o.URL.Host, User: o.URL.User}
	dialer := dialer{network, &l.raw, func() { l.fail(driver.ErrCut) }}
	nc, err := nats.Connect(u.String(),
		nats.Name("godwit-bench"),
		nats.SetCustomDialer(dialer),
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ClosedHandler(func(*nats.Conn) {
			l.fail(nats.ErrConnectionClosed)
			close(l.over)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil && l.Err() == nil {
				l.logf("disconnected: %v", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { l.logf("connected again") }),
		nats.ErrorHandler(l.heard),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", u.Redacted(), err)
	}
	l.Conn = nc
	if err := l.Err(); err != nil { // cut while connecting
		nc.Close()
		return nil, err
	}
	return l, ctx.Err()
}

// heard is what the client library says outside of calls.
func (l *link) heard(_ *nats.Conn, sub *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrSlowConsumer) && l.lost != nil {
		said := err.Error()
		if sub != nil {
			if n, err := sub.Dropped(); err == nil {
				said = fmt.Sprintf("%s (%d dropped so far)", said, n)
			}
		}
		l.lost(said)
		return
	}
	l.logf("%v", err)
}

// fail keeps what ended the connection, and ends it.
func (l *link) fail(err error) {
	if l.end.CompareAndSwap(nil, &err) && errors.Is(err, driver.ErrCut) && l.Conn != nil {
		go l.Conn.Close() // not from within its dialer
	}
}

// Err is what ended the connection.
func (l *link) Err() error {
	if err := l.end.Load(); err != nil {
		return *err
	}
	return nil
}

// close ends the connection on purpose. The client library would write what it has left, for up to a minute.
func (l *link) close() {
	l.fail(nats.ErrConnectionClosed)
	hanging := time.AfterFunc(closeGrace, func() {
		if c := l.raw.Load(); c != nil {
			_ = (*c).Close() // ends the write
		}
	})
	defer hanging.Stop()
	l.Conn.Close()
}

// dialer connects through a network that may be cut.
type dialer struct {
	net *driver.Network
	raw *atomic.Pointer[net.Conn] // is told of the connection
	cut func()
}

func (d dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	c, err := d.net.DialContext(ctx, network, address)
	if errors.Is(err, driver.ErrCut) {
		d.cut()
	}
	if err == nil {
		d.raw.Store(&c)
	}
	return c, err
}

// describe says what the server said of itself when it was connected.
func (l *link) describe() (string, error) {
	v := l.ConnectedServerVersion()
	if v == "" {
		return "", fmt.Errorf("not connected: %w", nats.ErrDisconnected)
	}
	return "NATS server " + v, nil
}
