package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"godwit/interop/canon"
)

// codecs in the order of Kafka's attribute bits.
var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// baseTime is the timestamp of an ordinary canonical record: 2023-11-14 22:13:20 UTC, in milliseconds.
const baseTime = 1_700_000_000_000

// batches is the canonical set: what every writer sends and every reader must see. Partition 0 is about keys and values,
// partition 1 about headers, partition 2 about timestamps; then come big records everywhere, and a last small one.
func batches() [][]canon.Record {
	first := slices.Concat(inPartition(0, keysAndValues()), inPartition(1, headers()), inPartition(2, timestamps()))
	return [][]canon.Record{first, big(), last()}
}

// total is the number of records in the canonical set.
func total(set [][]canon.Record) int {
	n := 0
	for _, b := range set {
		n += len(b)
	}
	return n
}

func keysAndValues() []canon.Record {
	b := allBytes()
	pairs := [][2][]byte{
		{[]byte("key"), []byte("value")},
		{nil, []byte("null key")},
		{{}, []byte("empty key")},
		{[]byte("tombstone"), nil},
		{[]byte("empty value"), {}},
		{nil, nil},
		{nil, {}},
		{{}, nil},
		{{}, {}},
		{b, b},
		{[]byte{0}, []byte{0}},
		{[]byte("ключ-鍵-🔑"), []byte("Großbuchstaben, 値, 🐦")},
		{[]byte("NULL"), []byte("NULL")},
		{[]byte("lines"), []byte("one\ntwo\r\nthree\t\"quoted\" \\ slash")},
		{[]byte("repeats"), bytes.Repeat([]byte("bar-tailed godwit "), 600)},
	}
	out := make([]canon.Record, len(pairs))
	for i, p := range pairs {
		out[i] = canon.Record{Timestamp: baseTime + int64(i), Key: p[0], Value: p[1]}
	}
	return out
}

func headers() []canon.Record {
	many := make([]canon.Header, 60)
	for i := range many {
		many[i] = canon.Header{Name: fmt.Sprintf("h%02d", i), Value: fmt.Appendf(nil, "value %d", i*i)}
	}
	text := func(s string) []byte { return []byte(s) }
	sets := [][]canon.Header{
		{},
		{{Name: "name", Value: text("value")}},
		{{Name: "empty", Value: []byte{}}},
		{{Name: "null", Value: nil}},
		{{Name: "text", Value: text("NULL")}},
		{{Name: "twice", Value: text("1")}, {Name: "twice", Value: text("2")}},
		{{Name: "a", Value: text("1")}, {Name: "b", Value: text("2")}, {Name: "a", Value: text("3")}},
		{{Name: "z", Value: text("1")}, {Name: "a", Value: text("2")}, {Name: "m", Value: text("3")}},
		{{Name: "", Value: text("empty name")}},
		{{Name: "schlüssel-鍵", Value: text("größe, 値, 🐦")}},
		{{Name: "binary", Value: allBytes()}, {Name: "not utf-8", Value: []byte{0xff, 0xfe, 0xc3, 0x28, 0x80}}},
		{{Name: "punctuation", Value: text("a=b,c=d;\"e\"")}},
		many,
	}
	out := make([]canon.Record, len(sets))
	for i, h := range sets {
		out[i] = canon.Record{Timestamp: baseTime, Key: fmt.Appendf(nil, "headers %d", i), Value: text("v"), Headers: h}
	}
	return out
}

// timestamps go up, down and far back, so that the first is not the smallest and the last not the largest of the batch.
func timestamps() []canon.Record {
	const day = 24 * 3600 * 1000
	at := []int64{baseTime, baseTime - 1000, baseTime, baseTime + 400*day, baseTime + 1, 1, 1_000_000_000_000, baseTime - day}
	out := make([]canon.Record, len(at))
	for i, ts := range at {
		out[i] = canon.Record{Timestamp: ts, Key: fmt.Appendf(nil, "time %d", i), Value: fmt.Appendf(nil, "%d", ts)}
	}
	return out
}

// big has one record of 200 KiB for each partition: incompressible, all the same, and in between.
func big() []canon.Record {
	const size = 200 << 10
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, size)
	mixed := make([]byte, size)
	for i := range size {
		noise[i] = byte(r.Uint32())
		mixed[i] = "ACGT"[r.IntN(4)]
	}
	flat := bytes.Repeat([]byte{'x'}, size)
	out := make([]canon.Record, 0, canon.Partitions)
	for p, v := range [][]byte{noise, flat, mixed} {
		out = append(out, canon.Record{
			Partition: int32(p), Timestamp: baseTime + 1000, Key: []byte("big"), Value: v,
			Headers: []canon.Header{{Name: "size", Value: []byte("200 KiB")}},
		})
	}
	return out
}

func last() []canon.Record {
	out := make([]canon.Record, canon.Partitions)
	for p := range out {
		out[p] = canon.Record{Partition: int32(p), Timestamp: baseTime + 2000, Key: []byte("last"), Value: []byte("the end"), Headers: []canon.Header{}}
	}
	return out
}

func inPartition(p int32, rs []canon.Record) []canon.Record {
	for i := range rs {
		rs[i].Partition = p
		if rs[i].Headers == nil {
			rs[i].Headers = []canon.Header{}
		}
	}
	return rs
}

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
