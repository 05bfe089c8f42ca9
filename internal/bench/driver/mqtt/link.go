package mqtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	pahosession "github.com/eclipse/paho.golang/paho/session"

	"godwit/internal/bench/driver"
)

// The bounds of what is waited for where the caller gives none.
const (
	answerTimeout = 30 * time.Second // for the broker's answer to a connection or subscription
	keepAlive     = 60               // s without a packet until paho sends a ping
)

// keepFor is how long a durable session outlives its last connection, in seconds: longer than any benchmark, but what an
// interrupted one leaves behind does not stay for ever.
const keepFor uint32 = 2 * 24 * 3600

// errClosed is what ended a connection that was closed on purpose.
var errClosed = errors.New("closed")

// session is what a connection is for.
type session struct {
	net     *driver.Network
	id      string // the client ID; empty for one of no importance
	durable bool   // outlives its connections
	receive int    // messages of QoS 1 and 2 that the broker may send ahead; 0 for as many as the protocol allows

	handle  func(*paho.Publish) bool // of what arrives; false leaves it unacknowledged
	window  *window                  // of what is sent; nil where nothing is
	written func(upTo int64)
}

// link is a connection with what became of it.
type link struct {
	d      *mqtt
	client *paho.Client
	wire   *wire
	ack    *paho.Connack
	inbox  *inbox // nil where nothing arrives
	end    atomic.Pointer[error]
	ended  chan struct{} // closed when end is set
	close  func() error  // in good order, once
}

// connect connects and waits until the broker has accepted.
func (d *mqtt) connect(ctx context.Context, s session) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if s.net == nil {
		s.net = d.o.Net
	}
	raw, err := s.net.DialContext(ctx, "tcp", d.o.URL.Host)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", d.o.URL.Host, err)
	}
	l := &link{d: d, ended: make(chan struct{})}
	l.close = sync.OnceValue(l.leave)
	l.wire = newWire(raw, l.fail, s.written)
	l.client = paho.NewClient(l.config(&s))
	l.ack, err = l.client.Connect(ctx, d.hello(&s))
	if err != nil {
		_ = l.wire.Close()
		if l.ack != nil && l.ack.ReasonCode >= 0x80 {
			err = fmt.Errorf("the broker refuses the connection: %s", (&packets.Connack{ReasonCode: l.ack.ReasonCode}).Reason())
		}
		return nil, fmt.Errorf("connecting to %s: %w", d.o.URL.Host, err)
	}
	d.mu.Lock()
	d.links[l] = struct{}{}
	d.mu.Unlock()
	return l, nil
}

// config is paho's part of a connection.
func (l *link) config(s *session) paho.ClientConfig {
	c := paho.ClientConfig{
		Conn: l.wire, PacketTimeout: answerTimeout, OnClientError: l.fail,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){},
	}
	var m pahosession.SessionManager
	if s.window != nil {
		s.window.lost = l.lost
		m = s.window
	} else {
		l.inbox = newInbox(l, s.handle)
		m = l.inbox
		c.OnPublishReceived = append(c.OnPublishReceived, l.inbox.take)
	}
	c.Session = m
	return c
}

// hello is the first packet.
func (d *mqtt) hello(s *session) *paho.Connect {
	if s.id == "" {
		s.id = fmt.Sprintf("%s.%d", d.id, d.clients.Add(1))
	}
	c := &paho.Connect{ClientID: s.id, KeepAlive: keepAlive, CleanStart: !s.durable, Properties: &paho.ConnectProperties{RequestProblemInfo: true}}
	if s.durable {
		keep := keepFor
		c.Properties.SessionExpiryInterval = &keep
	}
	if s.window != nil {
		s.receive = 1 // nothing comes; paho allocates room for it
	}
	if s.receive > 0 {
		n := uint16(min(s.receive, 1<<16-1))
		c.Properties.ReceiveMaximum = &n
	}
	if user := d.o.URL.User; user != nil {
		c.Username, c.UsernameFlag = user.Username(), true
		if password, ok := user.Password(); ok {
			c.Password, c.PasswordFlag = []byte(password), true
		}
	}
	return c
}

// subscribe returns when the broker has made a subscription.
func (l *link) subscribe(ctx context.Context, filter string, qos byte) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	go func() {
		select {
		case <-l.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	const notRetained = 2 // retained messages are none of this run's
	retain := byte(notRetained)
	if strings.HasPrefix(filter, "$SYS/") {
		retain = 0
	}
	ack, err := l.client.Subscribe(ctx, &paho.Subscribe{
		Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos, RetainHandling: retain}},
	})
	if e := l.Err(); e != nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("subscribing to %s: %w", filter, err)
	}
	if granted := ack.Reasons[0]; granted < qos {
		return driver.Unsupported("the broker grants QoS %d to a subscription that asks for QoS %d", granted, qos)
	}
	return nil
}

// lost is told by paho that the connection is over; a packet says why, if the broker sent one.
func (l *link) lost(p *packets.Disconnect) {
	if p != nil {
		l.fail(fmt.Errorf("disconnected by the broker: %s", p.Reason()))
	}
}

// fail keeps what ended the connection.
func (l *link) fail(err error) {
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the broker closed the connection: %w", err)
	}
	if l.end.CompareAndSwap(nil, &err) {
		close(l.ended)
		if !errors.Is(err, errClosed) && !errors.Is(err, net.ErrClosed) {
			l.d.o.Logf("%v", err)
		}
	}
}

// Err is what ended the connection.
func (l *link) Err() error {
	if err := l.end.Load(); err != nil {
		return *err
	}
	return nil
}

// alive says whether neither side has ended the connection, as far as is known.
func (l *link) alive() bool { return l.Err() == nil && l.wire.alive() }

// leave says goodbye, if the connection still is, and frees it.
func (l *link) leave() error {
	defer func() {
		l.d.mu.Lock()
		delete(l.d.links, l)
		l.d.mu.Unlock()
	}()
	if !l.alive() {
		l.fail(net.ErrClosed)
		_ = l.wire.Close()
		<-l.client.Done()
		return nil
	}
	var err error
	if l.inbox != nil {
		err = l.inbox.close()
	}
	l.fail(errClosed)
	l.wire.leave()
	_ = l.client.Disconnect(&paho.Disconnect{}) // an error only says that the connection is gone
	return err
}
