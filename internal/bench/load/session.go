package load

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/result"
)

// Options are what a session is made with.
type Options struct {
	Run          uint64 // tells the session's messages from leftovers of others
	Keys         int    // of each producer, at least 1: its message n has key n mod Keys
	Destinations int    // of the layout, at least 1; all messages of a key go to one of them
	Size         int    // of a payload in bytes, at least HeaderSize
	InFlight     int    // unacknowledged messages of each producer, at most; at least 1
	NoAck        bool   // the protocol does not acknowledge: what is written counts as acknowledged
	Seed         uint64 // of arrival times and payloads
}

// Phase is a stretch of load that all producers send together.
type Phase struct {
	ID uint32 // is in its messages' headers; phases with one ID are measured as one
	// Rate is in messages a second, of all producers together; 0 closes the loop: every producer sends
	// as fast as its window lets.
	Rate    float64
	Poisson bool // arrivals at random, as from many independent senders; otherwise evenly spaced
	// The phase is over after Duration or Messages, whichever comes first; 0 leaves one out, not both.
	Duration time.Duration
	Messages int64 // of all producers together
	Record   bool  // the phase's latencies are kept
}

// Sent is what became of a phase.
type Sent struct {
	Offered int64 // messages that were due, or that the closed loop had room for
	Acked   int64
	Failed  int64         // refused, or not acknowledged until the session gave up
	Elapsed time.Duration // from the phase's begin to its end
	Errors  []string      // why messages failed: distinct texts, at most 5
	// ReceivedDuring counts, for each subscription, distinct messages between begin and end.
	ReceivedDuring map[string]int64
	AckedDuring    int64 // between begin and end
}

// Progress is how a session stands.
type Progress struct {
	Sent, Acked, Failed int64
	Received            int64 // distinct messages, over all subscriptions
}

var errClosed = errors.New("the session is closed")

// Session makes load and accounts for it. Its methods may be called from many goroutines.
type Session struct {
	o          Options
	epoch      time.Time
	newSleeper func() sleeper

	phase  sync.Mutex // held while a phase is sent, and while producers are added or closed
	closed bool       // guarded by phase

	producers atomic.Pointer[[]*producer] // replaced, never changed

	mu     sync.Mutex
	phases map[uint32]bool // guarded by mu; whether a phase is recorded
	subs   []*Subscription // guarded by mu; in the order in which they were made
}

// NewSession makes a session without producers.
func NewSession(o Options) *Session {
	s := &Session{o: o, epoch: time.Now(), newSleeper: newSleeper, phases: make(map[uint32]bool)}
	s.producers.Store(new([]*producer))
	return s
}

// Now is the session's clock: monotonic, in nanoseconds since the session was made.
func (s *Session) Now() int64 { return int64(time.Since(s.epoch)) }

// AddProducer connects one more producer; it takes part from the next phase on. The session decides about Done,
// InFlight and NoAck.
func (s *Session) AddProducer(ctx context.Context, open func(driver.ProducerOptions) (driver.Producer, error)) error {
	s.phase.Lock()
	defer s.phase.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return errClosed
	}
	all := *s.producers.Load()
	p := newProducer(s, len(all))
	var err error
	p.driver, err = open(driver.ProducerOptions{NoAck: s.o.NoAck, InFlight: s.o.InFlight, Done: p.done})
	if err != nil {
		return errors.Join(err, p.sleeper.close())
	}
	all = append(slices.Clip(all), p)
	s.producers.Store(&all)
	return nil
}

// Subscription is the one with a name, made at the first call.
func (s *Session) Subscription(name string) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.subs {
		if u.name == name {
			return u
		}
	}
	u := newSubscription(s, name)
	s.subs = append(s.subs, u)
	return u
}

// all are the subscriptions so far.
func (s *Session) all() []*Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.subs)
}

// recorded says whether there is a phase, and whether it is recorded.
func (s *Session) recorded(phase uint32) (record, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, known = s.phases[phase]
	return record, known
}

// Wait returns when every subscription has every acknowledged message, or when nothing new has arrived at any for
// idle; with ctx's error when ctx ends.
func (s *Session) Wait(ctx context.Context, idle time.Duration) error {
	begin := s.Now()
	t := time.NewTimer(idle)
	defer t.Stop()
	for _, u := range s.all() {
		for n := u.Missing(); n > 0; n = u.Missing() {
			arrived, forget := u.notify(u.Received() + n)
			select {
			case <-arrived:
			case <-t.C:
				left := idle - min(s.SinceLast(), time.Duration(s.Now()-begin))
				if left <= 0 {
					forget()
					return nil
				}
				t.Reset(left)
			case <-ctx.Done():
				forget()
				return ctx.Err()
			}
			forget()
		}
	}
	return nil
}

// SinceLast is how long ago the last message arrived at any subscription; if none has, how long the session exists.
func (s *Session) SinceLast() time.Duration {
	last := int64(0)
	for _, u := range s.all() {
		last = max(last, u.last())
	}
	return time.Duration(s.Now() - last)
}

// Audit counts over all phases and subscriptions; exact while nothing is being sent.
func (s *Session) Audit() result.Audit {
	w := s.window()
	a := result.Audit{Sent: w.sent, Acked: w.acks.acked, Failed: w.acks.failed}
	for _, u := range s.all() {
		a.Expected += a.Acked
		a.Delivered += u.Received()
		a.Lost += u.Missing()
		u.each(func(c *consumer) {
			a.Duplicates += c.duplicates
			a.Disordered += c.disordered
			a.Foreign += c.foreign
		})
	}
	return a
}

// Latency is from the intended send time to the acknowledgement, and to the handlers of all consumers, for a phase
// that was recorded; nil for one without messages.
func (s *Session) Latency(phase uint32) (producer, endToEnd *result.Latency) {
	sent, received := newLatencies(), newLatencies()
	for _, p := range *s.producers.Load() {
		p.mu.Lock()
		if l := p.kept[phase]; l != nil {
			sent.merge(l)
		}
		p.mu.Unlock()
	}
	for _, u := range s.all() {
		u.each(func(c *consumer) {
			for _, k := range c.kept {
				if k.phase == phase && k.latencies != nil {
					received.merge(k.latencies)
				}
			}
		})
	}
	return sent.result(), received.result()
}

// Progress is cheap.
func (s *Session) Progress() Progress {
	w := s.window()
	p := Progress{Sent: w.sent, Acked: w.acks.acked, Failed: w.acks.failed}
	for _, n := range w.received {
		p.Received += n
	}
	return p
}

// Close closes the producers, all at once. What was counted stays.
func (s *Session) Close() error {
	s.phase.Lock()
	defer s.phase.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var wg sync.WaitGroup
	all := *s.producers.Load()
	errs := make([]error, len(all))
	for i, p := range all {
		wg.Go(func() { errs[i] = errors.Join(p.driver.Close(), p.sleeper.close()) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
