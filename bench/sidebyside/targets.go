//go:build linux

package main

import (
	"fmt"
	"runtime"
	"strings"
)

// target is one figure that was asked for and what became of it.
type target struct {
	What     string  `json:"what"`
	Want     string  `json:"want"`
	Measured float64 `json:"measured"`
	Min      float64 `json:"min"`
	Max      float64 `json:"max"`
	Unit     string  `json:"unit"`
	Met      bool    `json:"met"`
	Limit    string  `json:"limit,omitempty"` // what stood in the way, where that was measured
}

// verdict is the last column of the table.
func (t target) verdict() string {
	switch {
	case t.Met && t.Limit != "":
		return "met (" + t.Limit + ")"
	case t.Met:
		return "met"
	case t.Limit != "":
		return "not met (" + t.Limit + ")"
	}
	return "not met"
}

// nearCeiling is the share of a ceiling from which on it counts as reached.
const nearCeiling = 0.9

// targets judges the run. What was not measured is left out.
func targets(r *recorder) []target {
	var out []target
	out = append(out, produceTargets(r)...)
	out = append(out, readTargets(r)...)
	out = append(out, startTargets(r)...)
	return append(out, scaleTargets(r)...)
}

func atLeast(what string, s summary, bound float64, unit string) (target, bool) {
	return target{
		What: what, Want: fmt.Sprintf(">= %g%s", bound, spaced(unit)), Measured: s.Median, Min: s.Min, Max: s.Max,
		Unit: unit, Met: s.Median >= bound,
	}, s.ok()
}

func atMost(what string, s summary, bound float64, unit string) (target, bool) {
	return target{
		What: what, Want: fmt.Sprintf("<= %g%s", bound, spaced(unit)), Measured: s.Median, Min: s.Min, Max: s.Max,
		Unit: unit, Met: s.Median <= bound,
	}, s.ok()
}

func spaced(unit string) string {
	if unit == "x" || unit == "" {
		return unit
	}
	return " " + unit
}

func produceTargets(r *recorder) []target {
	var out []target
	for _, kase := range r.cases("produce") {
		figure := func(broker, metric string) summary { return r.get("produce", kase, broker, metric) }
		speed := figure(godwitName, mThroughput)
		limit := produceLimit(r, kase)
		t, ok := atLeast("produce, "+kase+": Godwit synced / Kafka unsynced, throughput", ratio(speed, figure(kafkaName, mThroughput)), 1.5, "x")
		if ok {
			if !t.Met && strings.HasPrefix(limit, "disk") {
				t.Met = true // asked for "until the disk is the limit"
			}
			if t.Measured < 1.5 {
				t.Limit = limit
			}
			out = append(out, t)
		}
		t, ok = atLeast("produce, "+kase+": Godwit synced / Kafka flushing every message, throughput", ratio(speed, figure(kafkaFlushName, mThroughput)), 10, "x")
		if ok {
			if !t.Met {
				t.Limit = limit
			}
			out = append(out, t)
		}
		t, ok = atMost("produce, "+kase+": Godwit / Kafka, broker CPU per GiB", ratio(figure(godwitName, mCPU), figure(kafkaName, mCPU)), 0.4, "x")
		if ok {
			out = append(out, t)
		}
	}
	return out
}

// produceLimit names the ceiling that synced producing reached, if it reached one.
func produceLimit(r *recorder, kase string) string {
	if ceiling := diskCeiling(r); ceiling > 0 {
		if share := r.get("produce", kase, godwitName, mDevice).Median / ceiling; share >= nearCeiling {
			return fmt.Sprintf("disk at %.0f %% of its ceiling", 100*share)
		}
	}
	sink := r.get("produce", kase, sinkName, mThroughput)
	if sink.ok() {
		if share := r.get("produce", kase, godwitName, mThroughput).Median / sink.Median; share >= nearCeiling {
			return fmt.Sprintf("load tool at %.0f %% of its ceiling", 100*share)
		}
	}
	return coresLimit(r.get("produce", kase, godwitName, mThroughput), r.get("produce", kase, godwitName, mCPU),
		r.get("produce", kase, godwitName, mClientCPU), r.get("produce", kase, godwitName, mOtherCPU))
}

// coresLimit says so when no core was left, and who had them.
func coresLimit(rate, broker, client, others summary) string {
	gibPerSec := rate.Median / 1024
	b, c, o := broker.Median*gibPerSec, client.Median*gibPerSec, others.Median
	if b+c+o < nearCeiling*float64(runtime.NumCPU()) {
		return ""
	}
	return fmt.Sprintf("all cores busy: broker %s, load %s, others %s", number(b), number(c), number(o))
}

// diskCeiling is the best rate of synced groups that the disk gave in this run.
func diskCeiling(r *recorder) float64 {
	var best float64
	for _, c := range r.cases("disk") {
		best = max(best, r.get("disk", c, "disk", mThroughput).Median)
	}
	return best
}

func readTargets(r *recorder) []target {
	var out []target
	for _, kase := range r.cases("read") {
		figure := func(broker, metric string) summary { return r.get("read", kase, broker, metric) }
		t, ok := atLeast("catch-up read, "+kase+": Godwit / Kafka, throughput", ratio(figure(godwitName, mThroughput), figure(kafkaName, mThroughput)), 1.5, "x")
		if ok {
			if !t.Met {
				t.Limit = readLimit(figure(godwitName, mClientCPU), figure(godwitName, mCPU))
			}
			out = append(out, t)
		}
		t, ok = atMost("catch-up read, "+kase+": Godwit / Kafka, broker CPU per GiB", ratio(figure(godwitName, mCPU), figure(kafkaName, mCPU)), 1, "x")
		if ok {
			out = append(out, t)
		}
	}
	return out
}

// readLimit says so when the reader costs so much more than the broker that the broker hardly matters.
func readLimit(reader, broker summary) string {
	const much = 2
	if !reader.ok() || !broker.ok() || broker.Median == 0 || reader.Median < much*broker.Median {
		return ""
	}
	return fmt.Sprintf("the reader costs %s times the broker's CPU", number(reader.Median/broker.Median))
}

func startTargets(r *recorder) []target {
	var out []target
	if t, ok := atMost("idle memory, resident", r.get("start", "empty", godwitName, mRSS), 64, "MiB"); ok {
		out = append(out, t)
	}
	if t, ok := atMost("cold start to ready", r.get("start", "empty", godwitName, mReady), 300, "ms"); ok {
		out = append(out, t)
	}
	return out
}

func scaleTargets(r *recorder) []target {
	var out []target
	for _, kase := range r.cases("scale") {
		ready := r.get("scale", kase, godwitName, mReady)
		if t, ok := atMost(kase+": ready", ready, 10_000, "ms"); ok {
			out = append(out, t)
		}
		if t, ok := atMost(kase+": resident", r.get("scale", kase, godwitName, mRSS), 1536, "MiB"); ok {
			out = append(out, t)
		}
	}
	return append(out, manyTargets(r)...)
}

// manyTargets compare, for each way of choosing partitions, many with 12.
func manyTargets(r *recorder) []target {
	var out []target
	rate := func(kase, broker string) summary { return r.get("many", kase, broker, mThroughput) }
	for _, many := range r.cases("many") {
		way, _, _ := strings.Cut(many, ", ")
		few := way + ", 12 partitions"
		if many == few {
			continue
		}
		t, ok := atLeast("throughput, "+many+" / 12", ratio(rate(many, godwitName), rate(few, godwitName)), 0.7, "x")
		if !ok {
			continue
		}
		if own := ratio(rate(many, sinkName), rate(few, sinkName)); !t.Met && own.ok() {
			t.Limit = fmt.Sprintf("the producer's own ceiling falls to %s", number(own.Median))
		}
		out = append(out, t)
	}
	return out
}
