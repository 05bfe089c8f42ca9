package amqp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"godwit/internal/bench/driver"
)

// link is a connection with its only channel. It does not come back: the client library of its time leaves that to
// programs.
type link struct {
	conn *amqp.Connection
	ch   *amqp.Channel
	raw  socket

	ended chan struct{} // closed when the channel is
	why   error         // of the end; nil if it was asked for. Set before ended is closed
}

// socket closes itself when nothing more can be read. The library does so only when its pending write, which may
// have been waiting for the target for long, has returned.
type socket struct{ net.Conn }

func (s socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err != nil {
		_ = s.Conn.Close()
	}
	return n, err
}

// connect makes a link through network or, if that is nil, the driver's.
func connect(ctx context.Context, o driver.Options, network *driver.Network) (*link, error) {
	if network == nil {
		network = o.Net
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l := &link{ended: make(chan struct{})}
	var abort func() bool
	config := amqp.Config{
		SASL: []amqp.Authentication{credentials(o.URL)}, Vhost: vhost(o.URL), Properties: amqp.NewConnectionProperties(),
		Dial: func(kind, address string) (net.Conn, error) {
			c, err := network.DialContext(ctx, kind, address)
			if err != nil {
				return nil, err
			}
			l.raw = socket{c}
			abort = context.AfterFunc(ctx, func() { _ = c.Close() })
			return l.raw, nil
		},
	}
	config.Properties.SetClientConnectionName("godwit-bench")
	var err error
	l.conn, err = amqp.DialConfig((&url.URL{Scheme: "amqp", Host: o.URL.Host}).String(), config)
	if err == nil {
		l.ch, err = l.conn.Channel()
	}
	if abort != nil && !abort() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if l.raw.Conn != nil {
			_ = l.raw.Close()
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", ctx.Err(), err)
		}
		return nil, fmt.Errorf("connecting to %s: %w", o.URL.Host, err)
	}
	go l.watch(l.ch.NotifyClose(make(chan *amqp.Error, 1)), l.conn.NotifyBlocked(make(chan amqp.Blocking, 8)), o.Logf)
	return l, nil
}

// credentials are those of a URL or, without any, what brokers take by default from loopback.
func credentials(u *url.URL) *amqp.PlainAuth {
	if u.User == nil {
		return &amqp.PlainAuth{Username: "guest", Password: "guest"}
	}
	password, _ := u.User.Password()
	return &amqp.PlainAuth{Username: u.User.Username(), Password: password}
}

// vhost is the path of a URL without its slash; "/" if there is none.
func vhost(u *url.URL) string {
	if v := strings.TrimPrefix(u.Path, "/"); v != "" {
		return v
	}
	return "/"
}

// watch keeps what ended the channel, and notes when the target does not want messages.
func (l *link) watch(closes <-chan *amqp.Error, blocks <-chan amqp.Blocking, logf func(string, ...any)) {
	for {
		select {
		case b, ok := <-blocks:
			switch {
			case !ok:
				blocks = nil
			case b.Active:
				logf("the target takes no messages (connection.blocked): %s", b.Reason)
			default:
				logf("the target takes messages again")
			}
		case e, ok := <-closes:
			if ok {
				l.why = e
			}
			close(l.ended)
			return
		}
	}
}

// setup calls the library, whose calls have no context, and cuts the connection when ctx ends.
func (l *link) setup(ctx context.Context, do func() error) error {
	stop := context.AfterFunc(ctx, l.abandon)
	err := do()
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	return err
}

// Err is what ended the link.
func (l *link) Err() error {
	select {
	case <-l.ended:
	default:
		return nil
	}
	if l.why == nil {
		return amqp.ErrClosed
	}
	return l.why
}

// close ends the link in good order: what was sent over it has reached the target. It is no error if the
// connection was lost before.
func (l *link) close() error {
	late := time.AfterFunc(closeTimeout, l.abandon)
	err := l.ch.Close()
	if lost := l.conn.Close(); err == nil && !errors.Is(lost, amqp.ErrClosed) {
		err = lost
	}
	<-l.ended
	if !late.Stop() {
		return fmt.Errorf("the target has not answered within %v to the end of a connection: %w", closeTimeout, err)
	}
	return nil
}

// abandon ends the link at once.
func (l *link) abandon() { _ = l.raw.Close() }
