package load

import (
	"math"
	"slices"
	"testing"
	"time"
)

// dues lists when all messages of a phase are due.
func dues(p Phase, n int, seed uint64) (all []int64) {
	for i := range n {
		s := newSchedule(p, i, n, seed)
		for due, ok := s.next(); ok; due, ok = s.next() {
			all = append(all, due)
		}
	}
	slices.Sort(all)
	return all
}

// TestProducersAreStaggered wants the messages of several producers as even as those of one.
func TestProducersAreStaggered(t *testing.T) {
	p := Phase{Rate: 1000, Duration: 2 * time.Second}
	for _, n := range []int{1, 3, 64} {
		all := dues(p, n, 1)
		if len(all) != 2000 {
			t.Fatalf("%d producers: %d messages", n, len(all))
		}
		for i, due := range all {
			if want := int64(i) * int64(time.Millisecond); max(due-want, want-due) > 10 {
				t.Fatalf("%d producers: message %d is due after %v", n, i, time.Duration(due))
			}
		}
	}
}

// TestPoisson looks at arrivals of one and of many producers: how many there are, and the spaces between them, over
// all producers, are those of one Poisson process.
func TestPoisson(t *testing.T) {
	p := Phase{Rate: 10_000, Poisson: true, Duration: 20 * time.Second}
	const want = 200_000
	for _, n := range []int{1, 7, 64} {
		all := dues(p, n, 42)
		if off := math.Abs(float64(len(all) - want)); off > 5*math.Sqrt(want) {
			t.Errorf("%d producers: %d messages, %d on average", n, len(all), want)
		}
		gaps := make([]float64, len(all)-1)
		var sum, squares float64
		for i := range gaps {
			gaps[i] = float64(all[i+1]-all[i]) * p.Rate / 1e9
			sum += gaps[i]
			squares += gaps[i] * gaps[i]
		}
		mean := sum / float64(len(gaps))
		if deviation := math.Sqrt(squares/float64(len(gaps)) - mean*mean); math.Abs(mean-1) > 0.02 || math.Abs(deviation-1) > 0.02 {
			t.Errorf("%d producers: spaces have mean %.3f and deviation %.3f, in means", n, mean, deviation)
		}
		// Kolmogorov-Smirnov: the distance from the exponential distribution, at 0.1 % significance.
		slices.Sort(gaps)
		farthest := 0.0
		for i, g := range gaps {
			f := 1 - math.Exp(-g)
			farthest = max(farthest, math.Abs(f-float64(i)/float64(len(gaps))))
		}
		if limit := 1.95 / math.Sqrt(float64(len(gaps))); farthest > limit {
			t.Errorf("%d producers: distance %.5f from exponential spaces, %.5f at most", n, farthest, limit)
		}
	}
}

// TestScheduleRepeats wants the same arrivals for a seed, and others for another seed, producer or phase.
func TestScheduleRepeats(t *testing.T) {
	p := Phase{ID: 1, Rate: 1000, Poisson: true, Messages: 100}
	first := dues(p, 1, 1)
	if !slices.Equal(first, dues(p, 1, 1)) {
		t.Error("one seed, two schedules")
	}
	if slices.Equal(first, dues(p, 1, 2)) {
		t.Error("two seeds, one schedule")
	}
	q := p
	q.ID = 2
	if slices.Equal(first, dues(q, 1, 1)) {
		t.Error("two phases, one schedule")
	}
	if a, b := newSchedule(p, 0, 2, 1), newSchedule(p, 1, 2, 1); a.random.Uint64() == b.random.Uint64() {
		t.Error("two producers, one schedule")
	}
}

// TestShares deals messages out to producers.
func TestShares(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		for _, messages := range []int64{1, 5, 700} {
			if got := len(dues(Phase{Rate: 1e6, Messages: messages}, n, 1)); int64(got) != messages {
				t.Errorf("%d messages of %d producers are %d", messages, n, got)
			}
		}
	}
	if share(0, 0, 3) >= 0 {
		t.Error("no limit is one")
	}
	if got := len(dues(Phase{Rate: 1000, Messages: 10, Duration: 5 * time.Millisecond}, 1, 1)); got != 5 {
		t.Errorf("%d messages in the time of 5", got)
	}
}
