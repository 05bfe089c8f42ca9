package mqtt

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/packets"
)

// broker is as much of an MQTT 5 broker as the driver needs, in memory. It deals shared subscriptions out in turn,
// members that are away included, as mosquitto does. It holds clients to the protocol: what breaks it fails the test.
// Its faults are those of its options.
type broker struct {
	t  *testing.T
	o  brokerOptions
	ln net.Listener
	wg sync.WaitGroup

	mu       sync.Mutex
	conns    map[*peer]struct{} // guarded by mu
	sessions map[string]*kept   // guarded by mu; by client ID
	order    []*kept            // guarded by mu; sessions in the order they were made
	turns    map[string]int     // guarded by mu; messages dealt to each shared subscription
	hellos   []packets.Connect  // guarded by mu; of all connections
	most     int                // guarded by mu; unacknowledged messages that a client had
	held     []func()           // guarded by mu; acknowledgements that holdAcks keeps back
}

type brokerOptions struct {
	connack  packets.Properties // what it says of itself
	version  string             // on $SYS/broker/version; empty for none
	refuse   byte               // reason code of every connection, if not 0
	puback   byte               // reason code of every message, if not 0
	granted  *byte              // QoS of every subscription
	holdAcks bool               // until release
}

// kept is a session.
type kept struct {
	id      string
	expires bool // with its connection
	filters map[string]byte
	peer    *peer // nil while nobody is connected
	quota   int   // messages that may be unacknowledged
	next    uint16
	queue   []packets.Publish
	flight  []*flying
}

// flying is a message that was sent and not acknowledged.
type flying struct {
	packets.Publish
	received bool // QoS 2: PUBREC came
}

// peer is a connection.
type peer struct {
	b       *broker
	wire    *wire
	session *kept
	unacked int                 // of its own messages
	second  map[uint16]struct{} // its messages of QoS 2 that wait for PUBREL
}

// startBroker runs one until the test ends.
func startBroker(t *testing.T, o brokerOptions) *broker {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, o: o, ln: ln, conns: make(map[*peer]struct{}), sessions: make(map[string]*kept), turns: make(map[string]int)}
	b.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p := &peer{b: b, wire: newWire(c, func(error) {}, nil), second: make(map[uint16]struct{})}
			b.mu.Lock()
			b.conns[p] = struct{}{}
			b.mu.Unlock()
			b.wg.Go(p.serve)
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		b.drop()
		b.wg.Wait()
	})
	return b
}

func (b *broker) url() string { return "mqtt://" + b.ln.Addr().String() }

// drop ends all connections without a word.
func (b *broker) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.conns {
		_ = p.wire.Conn.Close()
	}
}

// forget ends all sessions that nobody is connected to.
func (b *broker) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.peer == nil {
			b.remove(s)
		}
	}
}

// release sends the acknowledgements that were held back so far.
func (b *broker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ack := range b.held {
		ack()
	}
	b.held = nil
}

// remove ends a session. The caller holds mu.
func (b *broker) remove(s *kept) {
	if b.sessions[s.id] != s {
		return
	}
	delete(b.sessions, s.id)
	for i, o := range b.order {
		if o == s {
			b.order = append(b.order[:i:i], b.order[i+1:]...)
			return
		}
	}
}

// serve answers one connection until it ends.
func (p *peer) serve() {
	defer func() {
		p.b.mu.Lock()
		delete(p.b.conns, p)
		if s := p.session; s != nil && s.peer == p {
			s.peer = nil
			if s.expires {
				p.b.remove(s)
			}
		}
		p.b.mu.Unlock()
		_ = p.wire.Close()
	}()
	for {
		c, err := packets.ReadPacket(p.wire)
		if err != nil || !p.answer(c.Content) {
			return
		}
	}
}

// answer does what a packet asks for and says whether the connection goes on.
func (p *peer) answer(c packets.Packet) bool {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if connect, ok := c.(*packets.Connect); ok {
		return p.connect(connect)
	}
	if p.session == nil {
		p.b.t.Errorf("the first packet is %v", c)
		return false
	}
	if p.session.peer != p {
		return false // taken over
	}
	switch c := c.(type) {
	case *packets.Subscribe:
		p.subscribe(c)
	case *packets.Publish:
		return p.publish(c)
	case *packets.Pubrel:
		delete(p.second, c.PacketID)
		p.acknowledge(&packets.Pubcomp{PacketID: c.PacketID})
	case *packets.Puback:
		p.session.acked(c.PacketID, 1)
	case *packets.Pubrec:
		p.session.acked(c.PacketID, 2)
	case *packets.Pubcomp:
		p.session.acked(c.PacketID, 3)
	case *packets.Pingreq:
		p.send(packets.NewControlPacket(packets.PINGRESP).Content)
	case *packets.Disconnect:
		return false
	default:
		p.b.t.Errorf("a client sent %v", c)
		return false
	}
	return true
}

// send sends; an error shows when reading.
func (p *peer) send(c packets.Packet) { _, _ = c.WriteTo(p.wire) }

func (p *peer) connect(c *packets.Connect) bool {
	b := p.b
	b.hellos = append(b.hellos, *c)
	props := b.o.connack
	ack := &packets.Connack{ReasonCode: b.o.refuse, Properties: &props}
	if b.o.refuse != 0 {
		p.send(ack)
		return false
	}
	s := b.sessions[c.ClientID]
	if s != nil && s.peer != nil {
		s.peer.send(&packets.Disconnect{ReasonCode: packets.DisconnectSessionTakenOver})
		_ = s.peer.wire.Close()
		s.peer = nil
	}
	if s != nil && c.CleanStart {
		b.remove(s)
		s = nil
	}
	ack.SessionPresent = s != nil
	if s == nil {
		s = &kept{id: c.ClientID, filters: make(map[string]byte)}
		b.sessions[s.id] = s
		b.order = append(b.order, s)
	}
	s.expires = c.Properties.SessionExpiryInterval == nil
	s.quota = 1<<16 - 1
	if m := c.Properties.ReceiveMaximum; m != nil {
		s.quota = int(*m)
	}
	s.peer, p.session = p, s
	p.send(ack)
	s.resume()
	return true
}

// resume sends again what was not acknowledged, and goes on with what waits.
func (s *kept) resume() {
	for _, f := range s.flight {
		if f.received {
			s.peer.send(&packets.Pubrel{PacketID: f.PacketID})
			continue
		}
		f.Duplicate = true
		s.peer.send(&f.Publish)
	}
	s.pump()
}

// pump sends what waits, as far as the client lets it.
func (s *kept) pump() {
	for s.peer != nil && len(s.queue) > 0 && (s.queue[0].QoS == 0 || len(s.flight) < s.quota) {
		m := s.queue[0]
		s.queue = s.queue[1:]
		if m.QoS > 0 {
			s.next = s.next%(1<<16-1) + 1
			m.PacketID = s.next
			s.flight = append(s.flight, &flying{Publish: m})
		}
		s.peer.send(&m)
	}
}

// acked takes step 1 (PUBACK), 2 (PUBREC) or 3 (PUBCOMP) of a message.
func (s *kept) acked(id uint16, step int) {
	for i, f := range s.flight {
		if f.PacketID != id {
			continue
		}
		if wrong := f.QoS == 1 && step != 1 || f.QoS == 2 && (step == 1 || f.received != (step == 3)); wrong {
			s.peer.b.t.Errorf("step %d of acknowledging a message of QoS %d", step, f.QoS)
		}
		if step == 2 {
			f.received = true
			s.peer.send(&packets.Pubrel{PacketID: id})
			return
		}
		s.flight = append(s.flight[:i:i], s.flight[i+1:]...)
		s.pump()
		return
	}
	s.peer.b.t.Errorf("message %d is acknowledged and was not sent", id)
}

func (p *peer) subscribe(c *packets.Subscribe) {
	ack := &packets.Suback{PacketID: c.PacketID, Properties: &packets.Properties{}}
	for _, sub := range c.Subscriptions {
		p.session.filters[sub.Topic] = sub.QoS
		qos := sub.QoS
		if g := p.b.o.granted; g != nil {
			qos = *g
		}
		ack.Reasons = append(ack.Reasons, qos)
	}
	p.send(ack)
	for _, sub := range c.Subscriptions {
		if sub.Topic == versionTopic && p.b.o.version != "" {
			p.send(&packets.Publish{Topic: versionTopic, Payload: []byte(p.b.o.version), Retain: true})
		}
	}
}

func (p *peer) publish(c *packets.Publish) bool {
	if c.QoS > 0 {
		p.unacked++
		p.b.most = max(p.b.most, p.unacked)
	}
	if m := p.b.o.connack.ReceiveMaximum; m != nil && p.unacked > int(*m) {
		p.b.t.Errorf("%d messages are unacknowledged, %d are allowed", p.unacked, *m)
		p.send(&packets.Disconnect{ReasonCode: packets.DisconnectReceiveMaximumExceeded})
		return false
	}
	if _, again := p.second[c.PacketID]; c.QoS == 2 && again {
		p.b.t.Errorf("message %d is sent again before it was released", c.PacketID)
	}
	if p.b.o.puback == 0 {
		p.b.route(c)
	}
	switch c.QoS {
	case 1:
		p.acknowledge(&packets.Puback{PacketID: c.PacketID, ReasonCode: p.b.o.puback})
	case 2:
		ack := &packets.Pubrec{PacketID: c.PacketID, ReasonCode: p.b.o.puback}
		if ack.ReasonCode >= 0x80 {
			p.acknowledge(ack)
			break
		}
		p.second[c.PacketID] = struct{}{}
		p.send(ack)
	}
	return true
}

// acknowledge ends the way of a client's message.
func (p *peer) acknowledge(c packets.Packet) {
	ack := func() {
		p.unacked--
		p.send(c)
	}
	if p.b.o.holdAcks {
		p.b.held = append(p.b.held, ack)
		return
	}
	ack()
}

// route gives a message to all sessions that want it. The caller holds mu.
func (b *broker) route(c *packets.Publish) {
	groups := make(map[string][]*kept)
	for _, s := range b.order {
		for filter, qos := range s.filters {
			group, plain := "", filter
			if rest, ok := strings.CutPrefix(filter, "$share/"); ok {
				group, plain, _ = strings.Cut(rest, "/")
			}
			switch level, ok := strings.CutSuffix(plain, "+"); {
			case !ok || !strings.HasPrefix(c.Topic, level) || strings.Contains(c.Topic[len(level):], "/"):
			case group != "":
				groups[filter] = append(groups[filter], s)
			default:
				s.give(c, qos)
			}
		}
	}
	for filter, members := range groups {
		s := members[b.turns[filter]%len(members)]
		b.turns[filter]++
		s.give(c, s.filters[filter])
	}
}

// give queues a message for a session.
func (s *kept) give(c *packets.Publish, qos byte) {
	m := packets.Publish{Topic: c.Topic, Payload: c.Payload, QoS: min(c.QoS, qos)}
	if m.QoS == 0 && s.peer == nil {
		return
	}
	s.queue = append(s.queue, m)
	s.pump()
}
