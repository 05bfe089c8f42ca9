package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/internal/bench/driver"
)

// metadataAge is how soon a client asks again for topics that it does not know: with the client's default of 5 s it
// would take long to learn of many.
const metadataAge = 250 * time.Millisecond

const clientID = "godwit-bench"

// client is a connection with what became of it.
type client struct {
	*kgo.Client
	d      *kafka
	cancel context.CancelFunc // ends all of its requests
	end    atomic.Pointer[error]
}

// connect makes a client; network is the driver's if it is nil. It fails if no broker answers.
func (d *kafka) connect(ctx context.Context, network *driver.Network, options ...kgo.Opt) (*client, error) {
	return d.connectBy(ctx, kgo.NewClient, network, options...)
}

// connectBy is connect with a function that makes the library's client.
func (d *kafka) connectBy(ctx context.Context, make func(...kgo.Opt) (*kgo.Client, error), network *driver.Network, options ...kgo.Opt) (*client, error) {
	if network == nil {
		network = d.o.Net
	}
	own, cancel := context.WithCancel(context.Background())
	c := &client{d: d, cancel: cancel}
	dial := func(ctx context.Context, proto, addr string) (net.Conn, error) {
		conn, err := network.DialContext(ctx, proto, addr)
		if errors.Is(err, driver.ErrCut) {
			c.fail(err)
		}
		return conn, err
	}
	var err error
	c.Client, err = make(append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(d.o.URL.Host, ",")...),
		kgo.ClientID(clientID),
		kgo.WithContext(own),
		kgo.Dialer(dial),
		kgo.WithLogger(logger{c}),
		kgo.MetadataMinAge(metadataAge),
		kgo.DisableClientMetrics(),
	}, options...)...)
	if err != nil {
		cancel()
		return nil, err
	}
	if err := c.Ping(ctx); err != nil {
		c.abandon()
		return nil, fmt.Errorf("connecting to %s: %w", d.o.URL.Host, err)
	}
	d.mu.Lock()
	d.clients[c] = struct{}{}
	d.mu.Unlock()
	return c, nil
}

// fail keeps what ended the client, and ends its requests.
func (c *client) fail(err error) {
	if c.end.CompareAndSwap(nil, &err) {
		c.cancel()
	}
}

// Err is what ended the client.
func (c *client) Err() error {
	if err := c.end.Load(); err != nil {
		return *err
	}
	return nil
}

// abandon ends the client without leaving groups or waiting for answers.
func (c *client) abandon() {
	c.fail(kgo.ErrClientClosed)
	c.finish()
}

// finish frees what the client holds.
func (c *client) finish() {
	c.d.mu.Lock()
	delete(c.d.clients, c)
	c.d.mu.Unlock()
	c.CloseAllowingRebalance()
	c.cancel()
}

// logger passes on what the client warns of.
type logger struct{ c *client }

func (logger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log leaves out all details but the error: texts that are equal are counted, not repeated.
func (l logger) Log(_ kgo.LogLevel, msg string, keyvals ...any) {
	if l.c.Err() != nil {
		return // ended on purpose, or it is known why
	}
	for i := 0; i+1 < len(keyvals); i += 2 {
		if keyvals[i] == "err" && keyvals[i+1] != nil {
			msg = fmt.Sprintf("%s: %v", msg, keyvals[i+1])
		}
	}
	l.c.d.o.Logf("%s", msg)
}
