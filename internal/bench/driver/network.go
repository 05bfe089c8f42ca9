package driver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// ErrCut is what a cut network answers.
var ErrCut = errors.New("network cut")

// Network is how clients reach their target: it counts bytes and can be cut, as if the client's process had been
// killed. The zero value is ready. A network made by Child also counts for its parent.
type Network struct {
	// Local is the address to connect from; the zero value leaves the choice to the system.
	Local netip.Addr

	parent         *Network
	sent, received atomic.Int64

	mu    sync.Mutex
	cut   bool               // guarded by mu
	conns map[*conn]struct{} // guarded by mu; open ones
}

// Child is a network of its own whose bytes also count for n.
func (n *Network) Child() *Network { return &Network{Local: n.Local, parent: n} }

// Bytes are what clients have sent and received since the beginning, in bytes, protocol overhead included,
// TCP's excluded.
func (n *Network) Bytes() (sent, received int64) { return n.sent.Load(), n.received.Load() }

// Cut resets all connections and refuses new ones for good.
func (n *Network) Cut() {
	n.mu.Lock()
	n.cut = true
	conns := n.conns
	n.conns = nil
	n.mu.Unlock()
	for c := range conns {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not an orderly end: the other side must notice by itself
		}
		_ = c.Conn.Close()
	}
}

// DialContext connects, as net.Dialer does.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if n.Local.IsValid() {
		d.LocalAddr = &net.TCPAddr{IP: n.Local.AsSlice()}
	}
	raw, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, n: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		_ = raw.Close()
		return nil, ErrCut
	}
	if n.conns == nil {
		n.conns = make(map[*conn]struct{})
	}
	n.conns[c] = struct{}{}
	return c, nil
}

// Dial connects without a context, for client libraries that have none.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

// conn counts the bytes of one connection.
type conn struct {
	net.Conn
	n *Network
}

func (c *conn) Read(b []byte) (int, error) {
	k, err := c.Conn.Read(b)
	for n := c.n; n != nil; n = n.parent {
		n.received.Add(int64(k))
	}
	return k, err
}

func (c *conn) Write(b []byte) (int, error) {
	k, err := c.Conn.Write(b)
	for n := c.n; n != nil; n = n.parent {
		n.sent.Add(int64(k))
	}
	return k, err
}

func (c *conn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}
