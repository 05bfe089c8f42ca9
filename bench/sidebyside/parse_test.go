//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestParseProducerPerf(t *testing.T) {
	const text = `299521 records sent, 59904.2 records/sec (58.50 MB/sec), 489.0 ms avg latency, 1275.0 ms max latency.
1000000 records sent, 65526.505471 records/sec (63.99 MB/sec), 436.17 ms avg latency, 1275.00 ms max latency, 409 ms 50th, 728 ms 95th, 1161 ms 99th, 1225 ms 99.9th.
`
	out, err := parseProducerPerf(text)
	if err != nil {
		t.Fatal(err)
	}
	if out.mibPerSec != 63.99 || out.p50 != 409 || out.p99 != 1161 {
		t.Errorf("got %+v", out)
	}
	if _, err := parseProducerPerf("org.apache.kafka.common.errors.TimeoutException: late\n" + text); err == nil {
		t.Error("failed sends passed for a result")
	}
	if _, err := parseProducerPerf("Exception in thread main\n"); err == nil {
		t.Error("no closing line passed for a result")
	}
}

func TestParseConsumerPerf(t *testing.T) {
	const text = `start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-12-01 02:37:49:458, 2026-12-01 02:37:59:218, 3906.2832, 400.2339, 4000034, 409839.5492, 3916, 5844, 668.4263, 684468.5147
`
	rate, n, err := parseConsumerPerf(text)
	if err != nil || rate != 668.4263 || n != 4000034 {
		t.Errorf("got %v MiB/s, %d records, %v", rate, n, err)
	}
	if _, _, err := parseConsumerPerf("nothing\n"); err == nil {
		t.Error("no figures passed for a result")
	}
}

func TestParseStatCPU(t *testing.T) {
	stat := "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 75 0 0 20 0 1 0 100 1000 10"
	got, err := parseStatCPU([]byte(stat))
	if err != nil || got != 3.25 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseStatCPU([]byte("42 (cut) S 1")); err == nil {
		t.Error("a cut line passed")
	}
}

func TestHasMarker(t *testing.T) {
	for line, want := range map[string]bool{
		"ready":                          true,
		"godwit ready on 127.0.0.1:9092": true,
		"already there":                  false,
		"already ready":                  true,
		"msg=ready":                      true,
		"readyness":                      false,
	} {
		if hasMarker(line, "ready") != want {
			t.Errorf("%q: got %v", line, !want)
		}
	}
}

func TestWatcherFindsALineWrittenInParts(t *testing.T) {
	w := newWatcher("ready")
	for _, part := range []string{"starting\nrea", "dy", " now\nmore\n"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-w.ready:
	default:
		t.Errorf("not found in %q", w.String())
	}
	if _, err := w.Write([]byte(strings.Repeat("x", outputLimit+1))); err != nil {
		t.Fatal(err)
	}
}
