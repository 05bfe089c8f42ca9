package load

import (
	"math/rand/v2"
	"time"
)

// schedule says when the messages of one producer are due in a phase with a rate.
type schedule struct {
	interval float64    // nanoseconds between two messages, on average
	offset   float64    // nanoseconds until the first one, if they are evenly spaced
	random   *rand.Rand // of a Poisson process; nil for even spaces
	until    int64      // nanoseconds; nothing is due then or later; 0 has no end
	left     int64      // messages; negative has no end

	n  int64   // messages so far
	at float64 // when the last one of a Poisson process was due
}

// newSchedule is the schedule of producer i of n. Together their messages are as even, or as random, as those of
// one producer at the whole rate: even ones take turns and do not go in lockstep.
func newSchedule(p Phase, i, n int, seed uint64) *schedule {
	s := &schedule{
		interval: float64(n) / p.Rate * float64(time.Second),
		offset:   float64(i) / p.Rate * float64(time.Second),
		until:    int64(p.Duration),
		left:     share(p.Messages, i, n),
	}
	if p.Poisson {
		s.random = rand.New(rand.NewPCG(seed^uint64(p.ID)<<32, uint64(i)))
	}
	return s
}

// share is the part of producer i of n in messages; negative if there is no limit.
func share(messages int64, i, n int) int64 {
	if messages == 0 {
		return -1
	}
	part := messages / int64(n)
	if int64(i) < messages%int64(n) {
		part++
	}
	return part
}

// next is when the next message is due, in nanoseconds from the begin of the phase; false after the last one.
func (s *schedule) next() (int64, bool) {
	if s.left == 0 {
		return 0, false
	}
	at := s.offset + float64(s.n)*s.interval
	if s.random != nil {
		s.at += s.random.ExpFloat64() * s.interval
		at = s.at
	}
	due := int64(at)
	if s.until > 0 && due >= s.until {
		return 0, false
	}
	s.n++
	s.left--
	return due, true
}
