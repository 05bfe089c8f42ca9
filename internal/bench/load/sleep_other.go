//go:build !linux

package load

// newSleeper makes the most precise sleeper of this system.
func newSleeper() sleeper { return newTimerSleeper() }
