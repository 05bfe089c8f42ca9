package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"godwit/interop/canon"
)

func canonical() *written {
	return &written{topic: "t", client: "franz-go", codec: "none", records: byPartition(batches())}
}

// read is what a faultless reader returns: partitions in turn, records passed through their text form.
func read(t *testing.T, w *written) []canon.Record {
	t.Helper()
	var text bytes.Buffer
	for _, rs := range w.records {
		for _, r := range rs {
			text.Write(canon.Line(r))
		}
	}
	var out []canon.Record
	err := canon.ReadLines(&text, func(r canon.Record) error {
		out = append(out, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCompareAcceptsWhatWasWritten(t *testing.T) {
	w := canonical()
	if err := w.compare("franz-go", read(t, w)); err != nil {
		t.Fatal(err)
	}
}

func TestCompareSeesEveryDifference(t *testing.T) {
	find := func(rs []canon.Record, key string) *canon.Record {
		for i := range rs {
			if string(rs[i].Key) == key {
				return &rs[i]
			}
		}
		t.Fatalf("no record has key %q", key)
		return nil
	}
	cases := []struct {
		name   string
		change func([]canon.Record) []canon.Record
		want   string
	}{
		{"missing", func(rs []canon.Record) []canon.Record { return rs[1:] }, "records read"},
		{"repeated", func(rs []canon.Record) []canon.Record { return append(rs, rs[0]) }, "records read"},
		{"out of order", func(rs []canon.Record) []canon.Record { rs[0], rs[1] = rs[1], rs[0]; return rs }, "offset 1, want 0"},
		{"partition", func(rs []canon.Record) []canon.Record { rs[0].Partition = 7; return rs }, "partition 7"},
		{"timestamp", func(rs []canon.Record) []canon.Record { find(rs, "time 5").Timestamp++; return rs }, "timestamp 2, want 1"},
		{"empty for null", func(rs []canon.Record) []canon.Record { find(rs, "tombstone").Value = []byte{}; return rs }, `value "", want null`},
		{"null for empty", func(rs []canon.Record) []canon.Record { find(rs, "empty value").Value = nil; return rs }, `value null, want ""`},
		{"null key", func(rs []canon.Record) []canon.Record { find(rs, "key").Key = nil; return rs }, `key null, want "key"`},
		{"a bit", func(rs []canon.Record) []canon.Record { find(rs, "big").Value[1000] ^= 1; return rs }, "value"},
		{"header value", func(rs []canon.Record) []canon.Record {
			find(rs, "headers 3").Headers[0].Value = []byte{}
			return rs
		}, `headers [ "null"="" ], want [ "null"=null ]`},
		{"header order", func(rs []canon.Record) []canon.Record {
			h := find(rs, "headers 5").Headers
			h[0], h[1] = h[1], h[0]
			return rs
		}, "headers"},
		{"header lost", func(rs []canon.Record) []canon.Record { find(rs, "headers 8").Headers = nil; return rs }, "headers"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := canonical()
			err := w.compare("franz-go", c.change(read(t, w)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestLimitsLeaveTheCanonicalSetAlone(t *testing.T) {
	for _, l := range limits {
		for _, b := range batches() {
			adapted(b, l.client, l.side)
		}
		w := canonical()
		if err := w.compare("franz-go", read(t, w)); err != nil {
			t.Fatalf("after %s, %s: %v", l.client, l.side, err)
		}
	}
}

func TestLimitsNameClients(t *testing.T) {
	known := map[string]bool{
		"sarama": true, "sarama-0.11": true, "java": true, "java-2.1": true, "kcat": true, "confluent": true,
		"aiokafka": true, "kafka-python": true, "kafkajs": true, "platformatic": true,
	}
	for _, l := range limits {
		if !known[l.client] {
			t.Errorf("limit of %q, which is no client", l.client)
		}
	}
}

func TestClockTimeIsHeldAgainstTheRun(t *testing.T) {
	now := time.Now()
	when := window{now, now.Add(time.Second)}
	want := canon.Record{Timestamp: clockTime}
	if err := same(want, canon.Record{Timestamp: now.UnixMilli()}, when); err != nil {
		t.Error(err)
	}
	if err := same(want, canon.Record{Timestamp: now.Add(time.Minute).UnixMilli()}, when); err == nil {
		t.Error("a timestamp a minute after the run passes")
	}
}

func TestGroupHeadersKeepsTheOrderOfFirstNames(t *testing.T) {
	r := canon.Record{Headers: []canon.Header{{Name: "a"}, {Name: "b"}, {Name: "a", Value: []byte("2")}}}
	groupHeaders(&r)
	if got := shortHeaders(r.Headers); got != `[ "a"=null "a"="2" "b"=null ]` {
		t.Errorf("got %s", got)
	}
}

func TestCheckOffsets(t *testing.T) {
	set := [][]canon.Record{{{Partition: 0}, {Partition: 1}, {Partition: 0}}, {{Partition: 1}}}
	if err := checkOffsets(set, [][]int64{{0, 0, 1}, {1}}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][][]int64{{{0, 0, 1}}, {{0, 0}, {1}}, {{0, 0, 2}, {1}}, {{0, 0, 1}, {0}}} {
		if err := checkOffsets(set, bad); err == nil {
			t.Errorf("%v passes", bad)
		}
	}
}
