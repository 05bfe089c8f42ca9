package main

import (
	"bytes"
	"time"

	"godwit/interop/canon"
)

// side of a client that a limit concerns.
type side int

const (
	writing side = iota
	reading
)

func (s side) String() string { return [...]string{"writing", "reading"}[s] }

// limit is something that a client cannot express, whatever the broker does. adapt turns a record into the nearest one that
// the client can write, or into what it makes of the record when it reads. Without an entry here a difference is a failure.
type limit struct {
	client string
	side   side
	reason string
	adapt  func(*canon.Record)
}

// clockTime is the timestamp of a record whose writer takes the time of its own clock.
const clockTime = -1

var limits = []limit{
	{"kcat", writing, "has no option for timestamps: records carry kcat's own clock", func(r *canon.Record) {
		r.Timestamp = clockTime
	}},
	{"kcat", writing, "skips input of length 0: an empty value with a null key is written as a null value", func(r *canon.Record) {
		if r.Key == nil && len(r.Value) == 0 {
			r.Value = nil
		}
	}},
	{"kcat", writing, "-Z makes empty key and empty value null together: a null value with an empty key gets a null key", func(r *canon.Record) {
		if r.Value == nil && len(r.Key) == 0 {
			r.Key = nil
		}
	}},
	{"kcat", writing, "takes headers as arguments: no NUL bytes in values, no empty names", func(r *canon.Record) {
		for i, h := range r.Headers {
			if h.Value != nil {
				r.Headers[i].Value = bytes.ReplaceAll(h.Value, []byte{0}, []byte{})
			}
			if h.Name == "" {
				r.Headers[i].Name = "unnamed"
			}
		}
	}},
	{"sarama-0.11", writing, "has no zstd, which came with Kafka 2.1: writes in the other codecs only", func(*canon.Record) {}},
	{"kafkajs", writing, "cannot write a null header value (it measures its length): written as empty", noNullHeaders},
	{"kafkajs", writing, "takes headers as an object: equal names become neighbours", groupHeaders},
	{"kafkajs", reading, "returns headers as an object: equal names become neighbours", groupHeaders},
	{"platformatic", writing, "encodes timestamps more than 2^31 ms from the first of the batch wrongly: kept within", nearTime},
	{"kafka-python", writing, "refuses null header values: written as empty", noNullHeaders},
	{"kafka-python", writing, "refuses a record with neither key nor value: written with an empty value", notBothNull},
	{"aiokafka", writing, "refuses a record with neither key nor value: written with an empty value", notBothNull},
}

func noNullHeaders(r *canon.Record) {
	for i := range r.Headers {
		if r.Headers[i].Value == nil {
			r.Headers[i].Value = []byte{}
		}
	}
}

// nearTime brings a timestamp to within 2^31 ms of baseTime, where the canonical batches start.
func nearTime(r *canon.Record) {
	const most = 1<<31 - 1
	r.Timestamp = min(max(r.Timestamp, baseTime-most), baseTime+most)
}

func notBothNull(r *canon.Record) {
	if r.Key == nil && r.Value == nil {
		r.Value = []byte{}
	}
}

func groupHeaders(r *canon.Record) {
	out := []canon.Header{}
	done := make(map[string]bool)
	for _, h := range r.Headers {
		if done[h.Name] {
			continue
		}
		done[h.Name] = true
		for _, other := range r.Headers {
			if other.Name == h.Name {
				out = append(out, other)
			}
		}
	}
	r.Headers = out
}

// adapted is a copy of rs as seen through the limits of one side of a client.
func adapted(rs []canon.Record, client string, s side) []canon.Record {
	out := make([]canon.Record, len(rs))
	for i, r := range rs {
		r.Headers = append([]canon.Header{}, r.Headers...)
		for _, l := range limits {
			if l.client == client && l.side == s {
				l.adapt(&r)
			}
		}
		out[i] = r
	}
	return out
}

// window is when a writer ran; a timestamp from its clock lies within, give or take a second.
type window struct{ from, to time.Time }

func (w window) holds(ms int64) bool {
	return ms >= w.from.Add(-time.Second).UnixMilli() && ms <= w.to.Add(time.Second).UnixMilli()
}
