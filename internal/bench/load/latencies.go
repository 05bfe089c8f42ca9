package load

import (
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"godwit/internal/bench/result"
)

// longest is what latencies are cut off at; their mean and maximum are not.
const longest = 10 * time.Minute

// latencies are those of one producer or consumer in one phase. Not safe for concurrent use.
type latencies struct {
	hist     *hdrhistogram.Histogram // microseconds, to 3 digits
	sum      float64                 // nanoseconds
	min, max int64                   // nanoseconds
}

func newLatencies() *latencies {
	return &latencies{hist: hdrhistogram.New(1, longest.Microseconds(), 3), min: math.MaxInt64}
}

// Times keeps how long something took that is no message. The zero value is ready; safe for concurrent use.
type Times struct {
	mu   sync.Mutex
	kept *latencies // guarded by mu; nil if there is none
}

// Record keeps one.
func (t *Times) Record(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = newLatencies()
	}
	t.kept.record(int64(d))
}

// Latency is their distribution, nil if there is none.
func (t *Times) Latency() *result.Latency {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		return nil
	}
	return t.kept.result()
}

// record keeps one latency, in nanoseconds.
func (l *latencies) record(ns int64) {
	ns = max(ns, 0) // a delivery's time may be that of a read before the message was complete
	// Cannot fail: the value is within the histogram's range.
	_ = l.hist.RecordValue(min(ns/1e3, longest.Microseconds()))
	l.sum += float64(ns)
	l.min = min(l.min, ns)
	l.max = max(l.max, ns)
}

// merge adds what o has.
func (l *latencies) merge(o *latencies) {
	l.hist.Merge(o.hist) // drops nothing: both have the same range
	l.sum += o.sum
	l.min = min(l.min, o.min)
	l.max = max(l.max, o.max)
}

// result is nil if nothing was recorded.
func (l *latencies) result() *result.Latency {
	n := l.hist.TotalCount()
	if n == 0 {
		return nil
	}
	lowest, highest := float64(l.min)/1e3, float64(l.max)/1e3
	r := &result.Latency{Count: n, Mean: l.sum / float64(n) / 1e3, Max: highest, Curve: make([]float64, len(result.Percentiles))}
	for i, p := range result.Percentiles {
		switch p {
		case 0:
			r.Curve[i] = lowest
		case 100:
			r.Curve[i] = highest
		default:
			// The histogram answers with the upper end of a bucket, which may be above all that it holds.
			r.Curve[i] = min(max(float64(l.hist.ValueAtPercentile(p)), lowest), highest)
		}
	}
	return r
}
