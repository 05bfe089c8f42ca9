package amqp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"godwit/internal/bench/driver"
)

// opened is a layout with a durable subscription at a broken broker.
func opened(t *testing.T, b *broken) (context.Context, driver.Space) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	d, err := New(ctx, b.start(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(ctx, driver.Layout{Name: "l", Destinations: 1, Subscriptions: []driver.Subscription{work}})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, s
}

var work = driver.Subscription{Name: "work", Durable: true}

// outcomes are what a producer says of its messages.
type outcomes struct {
	mu   sync.Mutex
	errs map[uint64]error // guarded by mu; by tag
	n    int              // guarded by mu; calls
}

func (o *outcomes) done(tag uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.errs == nil {
		o.errs = make(map[uint64]error)
	}
	o.errs[tag] = err
	o.n++
}

func TestRefusedMessages(t *testing.T) {
	ctx, s := opened(t, &broken{heard: func(c *peer, m method, _ []byte) bool {
		switch {
		case m != basicPublish:
		case c.published%3 == 0:
			c.confirm(basicNack, c.published)
		default:
			c.confirm(basicAck, c.published)
		}
		return false
	}})
	var got outcomes
	p, err := s.Producer(ctx, driver.ProducerOptions{InFlight: 7, Done: got.done})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(30) {
		if err := p.Send(ctx, driver.Message{Tag: i + 1, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for tag, err := range got.errs {
		if refused := tag%3 == 0; errors.Is(err, errRefused) != refused || !refused && err != nil {
			t.Errorf("message %d, refused: %v, is reported with %v", tag, refused, err)
		}
	}
	if got.n != 30 {
		t.Errorf("%d of 30 messages are reported", got.n)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestChannelException(t *testing.T) {
	ctx, s := opened(t, &broken{heard: func(c *peer, m method, _ []byte) bool {
		switch {
		case m != basicPublish:
		case c.published == 1:
			c.confirm(basicAck, 1)
		case c.published == 5:
			c.method(1, channelClose, []byte{404 >> 8, 404 & 0xff}, short("no exchange here"), []byte{0, 60, 0, 40})
		}
		return false
	}})
	var got outcomes
	p, err := s.Producer(ctx, driver.ProducerOptions{InFlight: 10, Done: got.done})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(5) {
		if err := p.Send(ctx, driver.Message{Tag: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if len(got.errs) != 5 || got.errs[1] != nil {
		t.Errorf("of 5 messages, the first one confirmed, is reported: %v", got.errs)
	}
	for tag := range uint64(4) {
		if err := got.errs[tag+2]; err == nil || !strings.Contains(err.Error(), "no exchange here") {
			t.Errorf("message %d is reported with %v", tag+2, err)
		}
	}
	if err := p.Send(ctx, driver.Message{Tag: 6}); err == nil {
		t.Error("a channel that was closed takes messages")
	}
	if err := p.Close(); err != nil {
		t.Errorf("closing what has ended: %v", err)
	}
}

// TestHangingWrite has a target that does not read any more: only the end of the context ends Send.
func TestHangingWrite(t *testing.T) {
	release := make(chan struct{})
	ctx, s := opened(t, &broken{heard: func(_ *peer, m method, _ []byte) bool {
		if m == basicPublish {
			<-release
		}
		return false
	}})
	t.Cleanup(func() { close(release) }) // before the broker's own cleanup
	var got outcomes
	p, err := s.Producer(ctx, driver.ProducerOptions{InFlight: 10, Done: got.done})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Send(ctx, driver.Message{Tag: 0}); err != nil {
		t.Fatal(err)
	}
	for {
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		err = p.Send(soon, driver.Message{Tag: 1, Payload: make([]byte, 64<<20)}) // more than the system buffers
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) { // it was over before the write began
			break
		}
	}
	if err == nil || ctx.Err() != nil {
		t.Fatalf("sending to a target that does not read ends with %v", err)
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got.n != 1 || got.errs[0] == nil {
		t.Errorf("of the one message that was taken, and not acknowledged, is reported: %v", got.errs)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestSilentTarget(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = New(ctx, driver.Options{URL: parse(t, "amqp://"+l.Addr().String()), Net: &driver.Network{}, Logf: t.Logf})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connecting to a target that says nothing ends with %v", err)
	}
}

// consumedToTheEnd has a consumer connect, and returns it when it has ended by itself.
func consumedToTheEnd(ctx context.Context, t *testing.T, s driver.Space) driver.Consumer {
	t.Helper()
	c, err := s.Consumer(ctx, work, driver.ConsumerOptions{Handle: func(driver.Delivery) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.(*consumer).ended:
	case <-ctx.Done():
		t.Fatal("the consumer goes on")
	}
	return c
}

func TestCancelledConsumer(t *testing.T) {
	ctx, s := opened(t, &broken{heard: func(c *peer, m method, _ []byte) bool {
		if m == basicConsume {
			c.answer(1, m)
			c.method(1, basicCancel, short(consumerTag), []byte{1})
		}
		return m == basicConsume
	}})
	c := consumedToTheEnd(ctx, t, s)
	if err := c.Err(); !errors.Is(err, errCancelled) {
		t.Errorf("a consumer that the target cancelled says %v", err)
	}
}

// delivering sends ten messages to its consumer, the last one for the second time, and notes its acknowledgements.
func delivering(acks chan<- string) *broken {
	return &broken{heard: func(c *peer, m method, arguments []byte) bool {
		switch m {
		case basicConsume:
			c.answer(1, m)
			for i := range uint64(10) {
				c.deliver(i+1, i == 9, fmt.Sprint(i))
			}
		case basicAck:
			acks <- fmt.Sprintf("%d multiple=%d", binary.BigEndian.Uint64(arguments), arguments[8])
		}
		return m == basicConsume
	}}
}

func TestAcknowledgements(t *testing.T) {
	each := work
	each.AckEach = true
	for _, test := range []struct {
		sub  driver.Subscription
		want []string
	}{
		{work, []string{"2 multiple=1", "4 multiple=1", "6 multiple=1", "8 multiple=1", "10 multiple=1"}},
		{each, []string{"1 multiple=0", "2 multiple=0", "4 multiple=0", "5 multiple=0", "7 multiple=0", "8 multiple=0", "10 multiple=0"}},
		{driver.Subscription{Name: "passing"}, nil},
	} {
		acks := make(chan string, 20)
		ctx, s := opened(t, delivering(acks))
		var bodies string
		arrived := make(chan struct{})
		c, err := s.Consumer(ctx, test.sub, driver.ConsumerOptions{Prefetch: 2 * ackPart, Handle: func(d driver.Delivery) bool {
			bodies += string(d.Payload)
			if d.Redelivered != (string(d.Payload) == "9") {
				t.Errorf("message %s, redelivered: %v", d.Payload, d.Redelivered)
			}
			if len(bodies) == 10 {
				close(arrived)
			}
			return !test.sub.AckEach || (len(bodies)%3 != 0)
		}})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Fatal("ten messages do not arrive")
		}
		if err := errors.Join(c.Err(), c.Close(), c.Err()); err != nil {
			t.Error(err)
		}
		close(acks)
		got := slices.Collect(func(yield func(string) bool) {
			for a := range acks {
				if !yield(a) {
					return
				}
			}
		})
		if !slices.Equal(got, test.want) || bodies != "0123456789" {
			t.Errorf("subscription %+v: messages %s are acknowledged with %q, want %q", test.sub, bodies, got, test.want)
		}
	}
}

// TestLostConnection has the target go while a consumer waits.
func TestLostConnection(t *testing.T) {
	ctx, s := opened(t, &broken{heard: func(c *peer, m method, _ []byte) bool {
		if m == basicConsume {
			c.answer(1, m)
			_ = c.Close()
		}
		return m == basicConsume
	}})
	c := consumedToTheEnd(ctx, t, s)
	var said *amqp.Error
	if err := c.Err(); !errors.As(err, &said) || !strings.Contains(err.Error(), io.EOF.Error()) {
		t.Errorf("a consumer that lost its connection says %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing it: %v", err)
	}
	if c.Err() == nil {
		t.Error("after closing it says nothing")
	}
}

// TestFromStart has a subscription ask for what no queue has kept.
func TestFromStart(t *testing.T) {
	ctx, s := opened(t, &broken{})
	late := driver.Subscription{Name: "late", Durable: true, FromStart: true}
	if _, err := s.Consumer(ctx, late, driver.ConsumerOptions{}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("reading from the start ends with %v", err)
	}
	known := work
	known.FromStart = true
	c, err := s.Consumer(ctx, known, driver.ConsumerOptions{})
	if err != nil {
		t.Fatalf("reading all that is in a queue: %v", err)
	}
	if err := errors.Join(c.Close(), s.Remove(ctx)); err != nil {
		t.Error(err)
	}
}
