package amqp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"godwit/internal/bench/driver"
)

// method is a class and a method of AMQP 0-9-1.
type method struct{ class, id uint16 }

var (
	connectionStart  = method{10, 10}
	connectionTune   = method{10, 30}
	connectionOpen   = method{10, 40}
	connectionOpenOK = method{10, 41}
	channelClose     = method{20, 40}
	queueDeclare     = method{50, 10}
	basicConsume     = method{60, 20}
	basicCancel      = method{60, 30}
	basicPublish     = method{60, 40}
	basicDeliver     = method{60, 60}
	basicAck         = method{60, 80}
	basicNack        = method{60, 120}
)

// broken is a broker that does what a test wants and a real one does rarely: it refuses messages, ends channels
// and consumers, stops reading. What the test does not care about it answers as it should. It routes nothing.
type broken struct {
	// heard is called for every method, with its arguments, in the order in which they come on a connection. When it has
	// answered it returns true.
	heard func(c *peer, m method, arguments []byte) bool

	l  net.Listener
	wg sync.WaitGroup
}

// peer is the broken broker's side of a connection.
type peer struct {
	net.Conn
	r         *bufio.Reader
	published uint64 // messages
}

// start listens until the test ends.
func (b *broken) start(t *testing.T) driver.Options {
	t.Helper()
	var err error
	if b.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	network := &driver.Network{}
	t.Cleanup(func() {
		_ = b.l.Close()
		network.Cut()
		b.wg.Wait()
	})
	b.wg.Go(func() {
		for {
			c, err := b.l.Accept()
			if err != nil {
				return
			}
			b.wg.Go(func() {
				defer c.Close()
				err := b.serve(&peer{Conn: c, r: bufio.NewReader(c)})
				if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
					t.Logf("the broken broker's connection ended: %v", err)
				}
			})
		}
	})
	u := &url.URL{Scheme: "amqp", Host: b.l.Addr().String()}
	return driver.Options{URL: u, Net: network, Logf: t.Logf}
}

// serve reads frames until the client goes.
func (b *broken) serve(c *peer) error {
	if _, err := io.ReadFull(c.r, make([]byte, 8)); err != nil { // AMQP 0 0 9 1
		return err
	}
	c.method(0, connectionStart, []byte{0, 9}, make([]byte, 4), long("PLAIN"), long("en_US"))
	for {
		var head [7]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			return err
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(c.r, payload); err != nil {
			return err
		}
		if head[0] != 1 { // of a method: only what it is about matters here
			continue
		}
		m := method{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])}
		arguments := payload[4 : len(payload)-1]
		if m == basicPublish {
			c.published++
		}
		if b.heard == nil || !b.heard(c, m, arguments) {
			c.answer(binary.BigEndian.Uint16(head[1:]), m)
		}
	}
}

// answer is what follows a request in the specification.
func (c *peer) answer(channel uint16, m method) {
	ok := method{m.class, m.id + 1}
	switch m {
	case method{10, 11}: // start-ok
		c.method(0, connectionTune, []byte{0, 0, 0, 2, 0, 0, 0, 0})
	case connectionOpen:
		c.method(0, connectionOpenOK, short(""))
	case method{20, 10}: // channel.open
		c.method(channel, ok, long(""))
	case queueDeclare:
		c.method(channel, ok, short("queue"), make([]byte, 8))
	case basicConsume:
		c.method(channel, ok, short(consumerTag))
	case basicCancel:
		c.method(channel, ok, short(consumerTag))
	case method{50, 30}, method{50, 40}: // purge, delete
		c.method(channel, ok, make([]byte, 4))
	case method{10, 50}, channelClose, method{40, 10}, method{40, 20}, method{50, 20}, method{60, 10}, method{85, 10}:
		c.method(channel, ok)
	case method{10, 31}, method{20, 41}, basicPublish, basicAck, basicNack: // have no answer
	default:
		panic(fmt.Sprintf("the broken broker does not know method %v", m))
	}
}

// method sends one. That the client is gone is found when reading.
func (c *peer) method(channel uint16, m method, arguments ...[]byte) {
	payload := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, m.class), m.id)
	for _, a := range arguments {
		payload = append(payload, a...)
	}
	c.frame(1, channel, payload)
}

func (c *peer) frame(kind byte, channel uint16, payload []byte) {
	f := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	f = append(binary.BigEndian.AppendUint32(f, uint32(len(payload))), payload...)
	_, _ = c.Write(append(f, 0xCE))
}

// confirm acknowledges message n of channel 1 or refuses it.
func (c *peer) confirm(m method, n uint64) {
	c.method(1, m, binary.BigEndian.AppendUint64(nil, n), []byte{0})
}

// deliver sends message n to the consumer.
func (c *peer) deliver(n uint64, redelivered bool, body string) {
	again := byte(0)
	if redelivered {
		again = 1
	}
	c.method(1, basicDeliver, short(consumerTag), binary.BigEndian.AppendUint64(nil, n), []byte{again}, short("exchange"), short("key"))
	c.frame(2, 1, append(binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, uint64(len(body))), 0, 0))
	c.frame(3, 1, []byte(body))
}

func short(s string) []byte { return append([]byte{byte(len(s))}, s...) }

func long(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}
