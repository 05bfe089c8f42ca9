package load

import (
	"context"
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

// Session makes load and accounts for it.
type Session struct{}

// Subscription is one cursor that the session audits: it gets every acknowledged message once, over all
// its consumers.
type Subscription struct{}

// NewSession makes a session without producers.
func NewSession(o Options) *Session { return &Session{} }

// AddProducer connects one more producer, before the session sends.
func (s *Session) AddProducer(ctx context.Context, open func(driver.ProducerOptions) (driver.Producer, error)) error {
	return nil
}

// Subscription is the one with a name, made at the first call.
func (s *Session) Subscription(name string) *Subscription { return &Subscription{} }

// Handler is what one consumer of the subscription calls with its deliveries, from one goroutine at a time.
func (u *Subscription) Handler() func(driver.Delivery) bool { return nil }

// Mute leaves the subscription out of the latencies.
func (u *Subscription) Mute() {}

// Received counts distinct messages.
func (u *Subscription) Received() int64 { return 0 }

// Missing counts acknowledged messages that have not arrived; exact while nothing is being sent.
func (u *Subscription) Missing() int64 { return 0 }

// Wait returns when n distinct messages have arrived, or with ctx's error.
func (u *Subscription) Wait(ctx context.Context, n int64) error { return nil }

// Send runs a phase, until all of its messages are done.
func (s *Session) Send(ctx context.Context, p Phase) (Sent, error) { return Sent{}, nil }

// Wait returns when every subscription has every acknowledged message, or when nothing new has arrived for
// idle.
func (s *Session) Wait(ctx context.Context, idle time.Duration) error { return nil }

// Audit counts over all phases and subscriptions; exact while nothing is being sent.
func (s *Session) Audit() result.Audit { return result.Audit{} }

// Latency is from the intended send time to the acknowledgement and to the consumers' handlers, for a phase
// that was recorded; nil for one without messages.
func (s *Session) Latency(phase uint32) (producer, endToEnd *result.Latency) { return nil, nil }

// Progress is cheap.
func (s *Session) Progress() Progress { return Progress{} }

// Now is the session's clock: monotonic, in nanoseconds since the session was made.
func (s *Session) Now() int64 { return 0 }

// Close closes the producers.
func (s *Session) Close() error { return nil }
