//go:build linux

package main

import (
	"encoding/json"
	"math"
	"slices"
	"sync"
)

// seriesKey names one figure of one broker.
type seriesKey struct {
	Phase, Case, Broker, Metric string
}

// recorder collects the values of every figure, one per round, in the order in which they came.
type recorder struct {
	mu       sync.Mutex
	order    []seriesKey
	values   map[seriesKey][]float64
	commands []command
	notes    []string
}

// command is one exact command line and what it was used for.
type command struct {
	Use  string `json:"use"`
	Line string `json:"line"`
}

func newRecorder() *recorder {
	return &recorder{values: map[seriesKey][]float64{}}
}

func (r *recorder) add(phase, kase, broker, metric string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := seriesKey{phase, kase, broker, metric}
	if _, ok := r.values[k]; !ok {
		r.order = append(r.order, k)
	}
	r.values[k] = append(r.values[k], v)
}

// command records a command line once per use.
func (r *recorder) command(use, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.commands {
		if c.Use == use {
			return
		}
	}
	r.commands = append(r.commands, command{use, line})
}

// note records a remark that belongs beside the figures, such as a phase that could not run.
func (r *recorder) note(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, s)
}

func (r *recorder) get(phase, kase, broker, metric string) summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return summarize(r.values[seriesKey{phase, kase, broker, metric}])
}

// largest is the largest median of a metric over all that was measured.
func (r *recorder) largest(metric string) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out float64
	for k, v := range r.values {
		if k.Metric == metric {
			out = max(out, summarize(v).Median)
		}
	}
	return out
}

// cases lists the cases of a phase in the order in which they were first measured.
func (r *recorder) cases(phase string) []string {
	return r.distinct(phase, func(k seriesKey) string { return k.Case })
}

// brokers lists the brokers of a phase in the order in which they were first measured.
func (r *recorder) brokers(phase string) []string {
	return r.distinct(phase, func(k seriesKey) string { return k.Broker })
}

func (r *recorder) distinct(phase string, f func(seriesKey) string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, k := range r.order {
		if v := f(k); k.Phase == phase && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// summary is a median with its spread. N is 0 when nothing was measured.
type summary struct {
	N                int
	Median, Min, Max float64
	Values           []float64
}

func (s summary) ok() bool { return s.N > 0 }

func summarize(values []float64) summary {
	if len(values) == 0 {
		return summary{}
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	mid := len(sorted) / 2
	median := sorted[mid]
	if len(sorted)%2 == 0 {
		median = (sorted[mid-1] + sorted[mid]) / 2
	}
	return summary{N: len(values), Median: median, Min: sorted[0], Max: sorted[len(sorted)-1], Values: values}
}

// ratio divides a by b: medians by medians, and round by round for the spread, as the two values of
// a round were taken under the same conditions.
func ratio(a, b summary) summary {
	if !a.ok() || !b.ok() || b.Median == 0 {
		return summary{}
	}
	out := summary{N: min(a.N, b.N), Median: a.Median / b.Median, Min: math.Inf(1), Max: math.Inf(-1)}
	for i := range out.N {
		if b.Values[i] == 0 {
			continue
		}
		q := a.Values[i] / b.Values[i]
		out.Values = append(out.Values, q)
		out.Min, out.Max = min(out.Min, q), max(out.Max, q)
	}
	if len(out.Values) == 0 {
		return summary{}
	}
	return out
}

// seriesJSON is one figure in the machine-readable output.
type seriesJSON struct {
	Phase  string    `json:"phase"`
	Case   string    `json:"case"`
	Broker string    `json:"broker"`
	Metric string    `json:"metric"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Values []float64 `json:"values"`
}

func (r *recorder) series() []seriesJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]seriesJSON, 0, len(r.order))
	for _, k := range r.order {
		s := summarize(r.values[k])
		out = append(out, seriesJSON{k.Phase, k.Case, k.Broker, k.Metric, unitOf(k.Metric), s.Median, s.Min, s.Max, s.Values})
	}
	return out
}

// MarshalJSON writes every series, command and note.
func (r *recorder) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Series   []seriesJSON `json:"series"`
		Commands []command    `json:"commands"`
		Notes    []string     `json:"notes"`
	}{r.series(), r.commands, r.notes})
}

// Metrics and their units.
const (
	mThroughput  = "throughput"   // payload per second
	mP50         = "p50"          // request latency as the load tool saw it
	mP99         = "p99"          //
	mCPU         = "cpu"          // broker CPU seconds per GiB of payload
	mDeferred    = "deferred-cpu" // broker CPU seconds per GiB spent after the load ended, until quiet
	mClientCPU   = "client-cpu"   // load tool CPU seconds per GiB of payload
	mOtherCPU    = "other-cpu"    // cores busy with neither broker nor load tool
	mRSS         = "rss"          // resident set of the broker
	mPSS         = "pss"          // proportional set of the broker
	mWritten     = "written"      // bytes the broker wrote (/proc/PID/io) per byte of payload
	mDevice      = "device"       // device writes during the load, per second
	mDeviceBusy  = "device-busy"  // share of the load's time the device was busy
	mUnwritten   = "unwritten"    // dirty page cache left when the load ended
	mReady       = "ready"        // exec until the broker said that it is ready
	mMetadata    = "metadata"     // exec until the first successful metadata request
	mCreate      = "create"       // time to create the topics
	mTouch       = "touch"        // time to write one record to each partition
	mTouchRate   = "touch-rate"   // partitions first written to per second
	mStopTime    = "stop"         // SIGTERM until exit
	mRecords     = "records"      // records counted after a restart
	mSyncLatency = "sync"         // one write and fdatasync of a group, median
	mSeconds     = "seconds"      // length of the run
)

func unitOf(metric string) string {
	switch metric {
	case mThroughput, mDevice:
		return "MiB/s"
	case mP50, mP99, mReady, mMetadata, mSyncLatency:
		return "ms"
	case mCPU, mClientCPU, mDeferred:
		return "CPU s/GiB"
	case mOtherCPU:
		return "cores"
	case mRSS, mPSS, mUnwritten:
		return "MiB"
	case mWritten:
		return "B/B"
	case mDeviceBusy:
		return "%"
	case mCreate, mTouch, mStopTime, mSeconds:
		return "s"
	case mTouchRate:
		return "1/s"
	}
	return ""
}
