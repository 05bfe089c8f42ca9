package engine

import "math"

// backoff says when what failed in other shards is sent again: soon at first, then ever later.
type backoff struct {
	at   int64 // Unix ms; 0: nothing failed
	wait int64 // ms, from the next failure on; 0: the shortest
}

// The shortest and the longest wait, ms.
const (
	minBackoff = 100
	maxBackoff = 5_000
)

// fail plans to send again, unless that is planned already.
func (b *backoff) fail(now int64) {
	if b.at == 0 {
		b.wait = max(b.wait, minBackoff)
		b.at = now + b.wait
		b.wait = min(2*b.wait, maxBackoff)
	}
}

// succeed makes the next wait short. What is planned stays so.
func (b *backoff) succeed() { b.wait = 0 }

// due reports whether it is time, and takes it as done then.
func (b *backoff) due(now int64) bool {
	if b.at == 0 || b.at > now {
		return false
	}
	b.at = 0
	return true
}

// deadline is the Unix ms from which on it is due; math.MaxInt64 for never.
func (b *backoff) deadline() int64 {
	if b.at == 0 {
		return math.MaxInt64
	}
	return b.at
}
