package mqtt

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/eclipse/paho.golang/paho"

	"godwit/internal/bench/driver"
)

// Open makes the sessions of durable subscriptions; topics exist when somebody uses them.
func (d *mqtt) Open(ctx context.Context, l driver.Layout) (driver.Space, error) {
	for _, sub := range l.Subscriptions {
		if err := d.refuse(sub); err != nil {
			return nil, err
		}
	}
	s := &space{d: d, layout: l.Name, members: make(map[string][]*member)}
	for _, sub := range l.Subscriptions {
		if !sub.Durable {
			continue
		}
		if err := s.keep(ctx, sub); err != nil {
			return nil, errors.Join(fmt.Errorf("making the session of %s: %w", sub.Name, err), s.Remove(ctx))
		}
	}
	return s, nil
}

// space is a layout that exists.
type space struct {
	d      *mqtt
	layout string

	mu      sync.Mutex
	members map[string][]*member // guarded by mu; of each durable subscription
}

// member is a session of a durable subscription.
type member struct {
	id    string
	made  bool  // the broker has it; guarded by space.mu
	taken bool  // by a consumer; guarded by space.mu
	link  *link // the consumer's, once it is connected; guarded by space.mu
}

// topic is where the messages of a destination go.
func (s *space) topic(destination int) string { return s.layout + "/" + strconv.Itoa(destination) }

// filter matches the topics of a layout. The consumers of a shared subscription share by its name.
func (s *space) filter(sub driver.Subscription) string {
	all := s.layout + "/+"
	if sub.Shared {
		return "$share/" + s.layout + "-" + sub.Name + "/" + all
	}
	return all
}

// keep makes the first session of a subscription and leaves it to the broker. The name is new, so it need not ask for a
// clean start; mosquitto 2.0 saves no session that once did, until it is resumed.
func (s *space) keep(ctx context.Context, sub driver.Subscription) error {
	m := s.claim(sub)
	defer s.release(m)
	l, err := s.d.connect(ctx, session{id: m.id, durable: true})
	if err != nil {
		return err
	}
	if err := s.join(ctx, l, m, sub); err != nil {
		return errors.Join(err, l.close())
	}
	return l.close()
}

// claim takes the first session of a subscription that no living consumer has. Where consumers do not share, there is
// only one, and its next consumer drives out the one before.
func (s *space) claim(sub driver.Subscription) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members[sub.Name] {
		if !m.taken || !sub.Shared || m.link != nil && !m.link.alive() {
			m.taken, m.link = true, nil
			return m
		}
	}
	m := &member{id: fmt.Sprintf("%s.%s.%d", s.layout, sub.Name, len(s.members[sub.Name])), taken: true}
	s.members[sub.Name] = append(s.members[sub.Name], m)
	return m
}

// release gives a session back that is not used after all.
func (s *space) release(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.taken = false
}

// join subscribes a session for the first time.
func (s *space) join(ctx context.Context, l *link, m *member, sub driver.Subscription) error {
	if e := l.ack.Properties.SessionExpiryInterval; e != nil && *e == 0 {
		return driver.Unsupported("the broker keeps no sessions")
	}
	if err := l.subscribe(ctx, s.filter(sub), s.d.qos); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.made = true
	return nil
}

func (s *space) Consumer(ctx context.Context, sub driver.Subscription, o driver.ConsumerOptions) (driver.Consumer, error) {
	if err := s.d.refuse(sub); err != nil {
		return nil, err
	}
	as := session{net: o.Net, receive: o.Prefetch, handle: func(m *paho.Publish) bool {
		return o.Handle(driver.Delivery{Payload: m.Payload, Redelivered: m.Duplicate()})
	}}
	if !sub.Durable {
		l, err := s.d.connect(ctx, as)
		if err != nil {
			return nil, err
		}
		if err := l.subscribe(ctx, s.filter(sub), s.d.qos); err != nil {
			return nil, errors.Join(err, l.close())
		}
		return consumer{l}, nil
	}
	m := s.claim(sub)
	l, err := s.resume(ctx, as, m, sub, o.Lost)
	if err != nil {
		s.release(m)
		return nil, err
	}
	return consumer{l}, nil
}

// resume connects a consumer to a session.
func (s *space) resume(ctx context.Context, as session, m *member, sub driver.Subscription, lost func(string)) (*link, error) {
	as.id, as.durable = m.id, true
	l, err := s.d.connect(ctx, as)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	made := m.made
	s.mu.Unlock()
	if made && !l.ack.SessionPresent && lost != nil {
		lost("Session Present = 0: the broker no longer has session " + m.id)
	}
	if !made || !l.ack.SessionPresent {
		if err := s.join(ctx, l, m, sub); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.link = l
	return l, nil
}

// consumer is a link that receives.
type consumer struct{ *link }

func (c consumer) Close() error { return c.close() }

// Discard is not possible.
func (*space) Discard(context.Context, int) error {
	return driver.Unsupported("MQTT has no way to remove messages that wait for a session")
}

// Remove ends all sessions. Nothing else of a layout stays on a broker.
func (s *space) Remove(ctx context.Context) error {
	s.mu.Lock()
	var ids []string
	for _, members := range s.members {
		for _, m := range members {
			ids = append(ids, m.id)
		}
	}
	clear(s.members)
	s.mu.Unlock()
	var errs []error
	for _, id := range ids {
		l, err := s.d.connect(ctx, session{id: id}) // not durable: the broker forgets it
		if err != nil {
			errs = append(errs, fmt.Errorf("ending session %s: %w", id, err))
			continue
		}
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
