// Package clock is how time enters the broker: the system clock, and a manual twin for tests.
package clock

import (
	"sync"
	"time"
)

// Clock tells wall-clock time. It may step backwards, as wall clocks do; who needs order keeps
// the largest value seen.
type Clock interface {
	Now() time.Time
}

// System is the machine's clock.
type System struct{}

// Now is time.Now.
func (System) Now() time.Time { return time.Now() }

// Manual stands still until a test moves it. It is safe for concurrent use.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual starts a manual clock at start.
func NewManual(start time.Time) *Manual { return &Manual{now: start} }

// Now is the time last set.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves the clock by d, which may be negative.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}
