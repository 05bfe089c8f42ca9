package mqtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/log"
	pahosession "github.com/eclipse/paho.golang/paho/session"
)

// errLost is what becomes of messages that were not acknowledged when their connection ended.
var errLost = errors.New("the connection ended before the acknowledgement")

// window is the session state of a connection that sends: it has the messages in flight. Paho's own waits for
// each acknowledgement in a goroutine, or tells nobody.
type window struct {
	qos   byte
	size  int
	done  func(tag uint64, err error)
	free  chan uint16               // packet IDs that no message has
	next  uint16                    // the ID of the message that is being sent; the sender's
	conn  io.Writer                 // set before anything is sent
	lost  func(*packets.Disconnect) // told that the connection has ended
	ended chan struct{}             // closed when nothing more is sent

	mu     sync.Mutex
	slots  []slot        // guarded by mu; by packet ID
	count  int           // guarded by mu; messages in flight
	idle   chan struct{} // guarded by mu; if not nil, closed when none are
	over   bool          // guarded by mu; ended is closed
	queue  []waiting     // guarded by mu; messages of QoS 0 that are not written, in order
	sentTo int64         // guarded by mu; bytes written to the connection
}

// slot is what is known of a message in flight.
type slot struct {
	tag  uint64
	used bool
}

// waiting is a message of QoS 0 whose last byte is before the end-th of its connection.
type waiting struct {
	id  uint16
	end int64
}

func newWindow(size int, qos byte, done func(tag uint64, err error)) *window {
	return &window{size: min(size, 1<<16-1), qos: qos, done: done, ended: make(chan struct{})}
}

// ConAckReceived makes as much room as both sides allow.
func (w *window) ConAckReceived(conn io.Writer, _ *packets.Connect, ack *packets.Connack) error {
	if p := ack.Properties; w.qos > 0 && p != nil && p.ReceiveMaximum != nil {
		w.size = min(w.size, int(*p.ReceiveMaximum))
	}
	if w.size == 0 {
		return errors.New("protocol error: the broker's Receive Maximum is 0")
	}
	w.conn = conn
	w.slots = make([]slot, w.size+1)
	w.free = make(chan uint16, w.size)
	for id := range w.size {
		w.free <- uint16(id + 1)
	}
	return nil
}

// open waits for room and takes it for the message that is sent next.
func (w *window) open(ctx context.Context, tag uint64) (id uint16, err error) {
	select {
	case id = <-w.free:
	default:
		select {
		case id = <-w.free:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-w.ended:
			return 0, errLost
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		w.free <- id
		return 0, errLost
	}
	w.slots[id] = slot{tag: tag, used: true}
	w.count++
	w.next = id
	return id, nil
}

// AddToSession gives a message the ID that open took for it.
func (w *window) AddToSession(_ context.Context, p pahosession.Packet, _ chan<- packets.ControlPacket) error {
	p.SetIdentifier(w.next)
	return nil
}

// PacketReceived takes acknowledgements.
func (w *window) PacketReceived(p *packets.ControlPacket, _ chan<- *packets.Publish) error {
	switch c := p.Content.(type) {
	case *packets.Puback:
		w.finish(c.PacketID, refused(c.ReasonCode, c.Reason))
	case *packets.Pubrec:
		if err := refused(c.ReasonCode, c.Reason); err != nil {
			w.finish(c.PacketID, err)
			return nil
		}
		_, err := (&packets.Pubrel{PacketID: c.PacketID}).WriteTo(w.conn)
		return err
	case *packets.Pubcomp:
		w.finish(c.PacketID, refused(c.ReasonCode, c.Reason))
	}
	return nil
}

// refused is the error that a reason code stands for.
func refused(code byte, reason func() string) error {
	if code < 0x80 {
		return nil
	}
	return fmt.Errorf("the broker refuses the message: 0x%02x %s", code, reason())
}

// withdraw makes a message one that was never sent, unless it was reported on.
func (w *window) withdraw(id uint16) bool {
	w.mu.Lock()
	_, ok := w.take(id)
	w.mu.Unlock()
	if ok {
		w.room(id)
	}
	return ok
}

// take ends a message, once. The caller holds mu and reports on it.
func (w *window) take(id uint16) (tag uint64, ok bool) {
	if int(id) >= len(w.slots) || !w.slots[id].used {
		return 0, false
	}
	tag = w.slots[id].tag
	w.slots[id] = slot{}
	return tag, true
}

// finish reports on a message, once, and makes room.
func (w *window) finish(id uint16, err error) {
	w.mu.Lock()
	tag, ok := w.take(id)
	w.mu.Unlock()
	if !ok {
		return
	}
	w.done(tag, err)
	w.room(id)
}

// room makes the ID of a message that has been reported on free again.
func (w *window) room(id uint16) {
	w.free <- id
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count--; w.count == 0 && w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
}

// wrote is told where a message of QoS 0 ends, for written to report on it.
func (w *window) wrote(id uint16, end int64) {
	w.mu.Lock()
	already := w.sentTo >= end
	if !already && !w.over {
		w.queue = append(w.queue, waiting{id: id, end: end})
	}
	w.mu.Unlock()
	if already {
		w.finish(id, nil)
	}
}

// written reports on the messages of QoS 0 whose bytes were written to the connection.
func (w *window) written(upTo int64) {
	w.mu.Lock()
	w.sentTo = upTo
	n := 0
	for n < len(w.queue) && w.queue[n].end <= upTo {
		n++
	}
	batch := w.queue[:n:n]
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	w.mu.Unlock()
	for _, m := range batch {
		w.finish(m.id, nil)
	}
}

// drained waits until no message is in flight.
func (w *window) drained(ctx context.Context) error {
	w.mu.Lock()
	if w.count == 0 {
		w.mu.Unlock()
		return nil
	}
	if w.idle == nil {
		w.idle = make(chan struct{})
	}
	idle := w.idle
	w.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ConnectionLost fails what is in flight.
func (w *window) ConnectionLost(p *packets.Disconnect) error {
	w.lost(p)
	w.mu.Lock()
	var left []uint16
	for id, s := range w.slots {
		if s.used {
			left = append(left, uint16(id))
		}
	}
	if !w.over {
		w.over = true
		close(w.ended)
	}
	w.queue = nil
	w.mu.Unlock()
	for _, id := range left {
		w.finish(id, errLost)
	}
	return nil
}

// Ack has nothing to acknowledge: nothing is subscribed to.
func (*window) Ack(*packets.Publish) error { return nil }

// Close has nothing left to do after ConnectionLost.
func (*window) Close() error { return nil }

// SetErrorLogger ignores it: there is nothing to say that a caller is not told.
func (*window) SetErrorLogger(log.Logger) {}

// SetDebugLogger ignores it as well.
func (*window) SetDebugLogger(log.Logger) {}
