package mqtt

import (
	"fmt"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/session/state"
)

// closeTimeout is how long a handler may take when its consumer is closed.
const closeTimeout = 10 * time.Second

// inbox is the session state of a connection that receives: paho's own, which acknowledges a message when its handler
// has returned, but for those that the handler did not take.
type inbox struct {
	*state.State
	link   *link
	handle func(*paho.Publish) bool

	turn   chan struct{} // has an element from when a message is handed to the handler until it was acknowledged
	leave  chan struct{} // closed when no further message is to be handed over
	held   bool          // turn is held; of paho's goroutine that calls take and Ack
	refuse bool          // the message is not to be acknowledged; of the same goroutine
}

func newInbox(l *link, handle func(*paho.Publish) bool) *inbox {
	return &inbox{State: state.NewInMemory(), link: l, handle: handle, turn: make(chan struct{}, 1), leave: make(chan struct{})}
}

// take hands a message over. Paho calls Ack after it, from the same goroutine.
func (b *inbox) take(r paho.PublishReceived) (bool, error) {
	b.refuse = true
	if b.link.Err() != nil {
		return true, nil // a dead receiver handles nothing
	}
	select {
	case b.turn <- struct{}{}:
		b.held = true
		b.refuse = b.handle == nil || !b.handle(r.Packet)
	case <-b.leave:
	}
	return true, nil
}

// Ack acknowledges a message that was taken.
func (b *inbox) Ack(p *packets.Publish) error {
	var err error
	if !b.refuse && p.QoS > 0 {
		err = b.State.Ack(p)
	}
	if b.held {
		b.held = false
		<-b.turn
	}
	return err
}

// ConnectionLost keeps the broker's words.
func (b *inbox) ConnectionLost(p *packets.Disconnect) error {
	b.link.lost(p)
	return b.State.ConnectionLost(p)
}

// close hands no more over and waits until the message being handled is acknowledged.
func (b *inbox) close() error {
	close(b.leave)
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case b.turn <- struct{}{}: // for good
		return nil
	case <-t.C:
		return fmt.Errorf("handling the last message takes longer than %v", closeTimeout)
	}
}
