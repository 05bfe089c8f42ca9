package load

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/result"
)

func delivery(b []byte) driver.Delivery { return driver.Delivery{Payload: b} }

// TestSpans holds a set of spans against a map.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const top = 40
		var s spans
		dumb := make(map[uint64]bool)
		number := rapid.Uint64Range(0, top)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				x := number.Draw(t, "x")
				if got := s.add(x); got == dumb[x] {
					t.Fatalf("add %d: %v", x, got)
				}
				dumb[x] = true
			},
			"remove": func(t *rapid.T) {
				x := number.Draw(t, "x")
				if got := s.remove(x); got != dumb[x] {
					t.Fatalf("remove %d: %v", x, got)
				}
				delete(dumb, x)
			},
			"": func(t *rapid.T) {
				for i, e := range s {
					if e.lo >= e.hi || i > 0 && e.lo <= s[i-1].hi {
						t.Fatalf("spans %v", s)
					}
				}
				lo := number.Draw(t, "lo")
				hi := lo + number.Draw(t, "more")
				n := int64(0)
				for x := lo; x < hi; x++ {
					if dumb[x] {
						n++
					}
				}
				if got := s.within(lo, hi); got != n {
					t.Fatalf("%d numbers of %v from %d to %d are %d", n, s, lo, hi, got)
				}
			},
		})
	})
}

// taken is a driver that keeps messages until the test decides about them.
type taken struct {
	o        driver.ProducerOptions
	messages []driver.Message
	refuse   bool
}

func (d *taken) Send(_ context.Context, m driver.Message) error {
	if d.refuse {
		return errBroken
	}
	m.Payload = append([]byte(nil), m.Payload...)
	d.messages = append(d.messages, m)
	return nil
}

func (d *taken) Flush(context.Context) error { return nil }
func (d *taken) Close() error                { return nil }

// sent is a message of the model.
type sent struct {
	driver.Message
	header Header
	done   bool
	acked  bool
}

// model is the dumb twin of a session's audit.
type model struct {
	*Session
	drivers []*taken
	hands   [][]func(driver.Delivery) bool // of each consumer of each subscription

	sent    []*sent
	arrived []map[Header]bool  // of each subscription: sequence numbers seen
	highest []map[Header]int64 // of each consumer, numbered over all subscriptions: by producer and key
	want    result.Audit       // but for what follows from the maps
}

// place is a message's without its sequence number.
func place(h Header) Header { return Header{Producer: h.Producer, Key: h.Key} }

func newModel(t *rapid.T, producers, subs, consumers int) *model {
	m := &model{Session: NewSession(Options{Run: 5, Keys: 2, Destinations: 3, Size: 64, InFlight: 1000})}
	m.phases[9] = true
	for range producers {
		d := &taken{}
		m.drivers = append(m.drivers, d)
		err := m.AddProducer(context.Background(), func(o driver.ProducerOptions) (driver.Producer, error) { d.o = o; return d, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range subs {
		u := m.Subscription(string(rune('a' + i)))
		var hands []func(driver.Delivery) bool
		for range consumers {
			hands = append(hands, u.Handler())
			m.highest = append(m.highest, make(map[Header]int64))
		}
		m.hands = append(m.hands, hands)
		m.arrived = append(m.arrived, make(map[Header]bool))
	}
	return m
}

// send has a producer send one message, or refuses it.
func (m *model) send(producer int, refuse bool) {
	p, d := (*m.producers.Load())[producer], m.drivers[producer]
	d.refuse = refuse
	index, _ := p.take(context.Background(), nil, 1)
	p.send(context.Background(), index, 9, m.Now())
	m.want.Sent++
	if refuse {
		m.want.Failed++
		return
	}
	last := d.messages[len(d.messages)-1]
	h, err := ParseHeader(last.Payload)
	if err != nil {
		panic(err)
	}
	m.sent = append(m.sent, &sent{Message: last, header: h})
}

// finish tells a producer about a message.
func (m *model) finish(x *sent, err error) {
	m.drivers[x.header.Producer].o.Done(x.Tag, err)
	switch {
	case x.done:
	case err == nil:
		x.acked = true
		m.want.Acked++
	default:
		m.want.Failed++
	}
	x.done = true
}

// deliver hands a message to a consumer.
func (m *model) deliver(x *sent, sub, consumer int) {
	m.hands[sub][consumer](driver.Delivery{Payload: x.Payload, At: time.Now()})
	id := Header{Producer: x.header.Producer, Key: x.header.Key, Sequence: x.header.Sequence}
	highest := m.highest[sub*len(m.hands[sub])+consumer]
	before, seen := highest[place(id)]
	switch {
	case m.arrived[sub][id]:
		m.want.Duplicates++
	default:
		m.want.Delivered++
		if seen && int64(id.Sequence) < before {
			m.want.Disordered++
		}
	}
	m.arrived[sub][id] = true
	highest[place(id)] = max(before, int64(id.Sequence))
}

// check compares the audits; with every message done they must be equal.
func (m *model) check(t *rapid.T) {
	for _, x := range m.sent {
		if !x.done {
			m.finish(x, nil)
		}
	}
	want := m.want
	for sub := range m.arrived {
		missing := int64(0)
		for _, x := range m.sent {
			h := Header{Producer: x.header.Producer, Key: x.header.Key, Sequence: x.header.Sequence}
			if x.acked && !m.arrived[sub][h] {
				missing++
			}
		}
		want.Expected += want.Acked
		want.Lost += missing
		u := m.Subscription(string(rune('a' + sub)))
		if u.Missing() != missing || u.Received() != int64(len(m.arrived[sub])) {
			t.Fatalf("subscription %d: %d missing, want %d; %d received, want %d", sub, u.Missing(), missing, u.Received(), len(m.arrived[sub]))
		}
	}
	if got := m.Audit(); got != want {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

// TestAuditIsTheModel sends, acknowledges, fails, delivers, repeats and reorders at random.
func TestAuditIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		producers, subs, consumers := rapid.IntRange(1, 3).Draw(t, "producers"), rapid.IntRange(1, 2).Draw(t, "subs"), rapid.IntRange(1, 3).Draw(t, "consumers")
		m := newModel(t, producers, subs, consumers)
		one := func(t *rapid.T) *sent {
			if len(m.sent) == 0 {
				m.send(0, false)
			}
			return m.sent[len(m.sent)-1-rapid.IntRange(0, min(len(m.sent)-1, 20)).Draw(t, "back")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"send":   func(t *rapid.T) { m.send(rapid.IntRange(0, producers-1).Draw(t, "producer"), false) },
			"refuse": func(t *rapid.T) { m.send(rapid.IntRange(0, producers-1).Draw(t, "producer"), true) },
			"ack":    func(t *rapid.T) { m.finish(one(t), nil) },
			"fail":   func(t *rapid.T) { m.finish(one(t), errBroken) },
			"deliver": func(t *rapid.T) {
				m.deliver(one(t), rapid.IntRange(0, subs-1).Draw(t, "sub"), rapid.IntRange(0, consumers-1).Draw(t, "consumer"))
			},
			"foreign": func(t *rapid.T) {
				b := append([]byte(nil), one(t).Payload...)
				h, _ := ParseHeader(b)
				switch rapid.IntRange(0, 6).Draw(t, "damage") {
				case 0:
					h.Run++
				case 1:
					h.Producer = uint32(producers)
				case 2:
					h.Key = 2
				case 3:
					h.Phase++
				case 4:
					h.Sequence += 1 << rapid.IntRange(32, 63).Draw(t, "bit")
				case 5:
					b = b[:rapid.IntRange(HeaderSize, len(b)-1).Draw(t, "size")]
				case 6:
					b = append(b, 0)
				}
				h.Put(b)
				m.hands[0][0](delivery(b))
				m.want.Foreign++
			},
		})
		m.check(t)
	})
}
