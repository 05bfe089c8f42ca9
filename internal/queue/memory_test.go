package queue

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// heapOf is how many bytes make takes that it keeps.
func heapOf(make func() any) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// counted is a view of n records that are due one a second, from 1,000 s on, without holding them: as a state store on disk.
type counted struct{ n int64 }

func (v counted) due(i int64) int64 { return 1_000_000 + i*1000 }

func (v counted) Scan(from []byte, fn func(key, value []byte) bool) error {
	at := int64(binary.BigEndian.Uint64(from[1:]))
	e := laterEntry{}
	value := e.appendTo([]byte{valueVersion})
	for i := max(0, (at-v.due(0)+999)/1000); i < v.n; i++ {
		if !fn(LaterKey{v.due(i), 2 * i}.encode(), value) {
			return nil
		}
	}
	return nil
}

// delayed admits n delayed records, each with one that is not delayed behind it, and takes checkpoints.
func delayed(n int64) *Queue {
	v := counted{n}
	o := DefaultOptions()
	o.MaxWindow, o.Lock = 0, 0
	q := New(o, v)
	for i := int64(0); i < n; {
		var metas []Meta
		for end := min(n, i+1000); i < end; i++ {
			metas = append(metas, Meta{Offset: 2 * i, NotBefore: v.due(i)})
		}
		q.Apply(q.Admit(1, 2*i, metas))
		cmd, got := q.Acquire(1, &Want{Consumer: "a", Records: 1000})
		q.Apply(cmd)
		var acks []Ack
		for _, t := range got {
			acks = append(acks, Ack{Span: t.Span, Type: AckAccept})
		}
		cmd, _ = q.Acknowledge(1, "a", acks, true)
		q.Apply(cmd)
		q.Checkpoint(func(_, _ []byte) {})
	}
	return q
}

// TestDelayedRecordsTakeLittleMemory: a million of them, each among records that were delivered, take a bit each. And as
// time goes on, no more than the near future is held.
func TestDelayedRecordsTakeLittleMemory(t *testing.T) {
	const n = 1_000_000
	var q *Queue
	size := heapOf(func() any {
		q = delayed(n)
		return q
	})
	if d := q.Describe(2 * n); d.Waiting != n || d.Done != n-1 && d.Done != n {
		t.Fatalf("%+v", d)
	}
	t.Logf("%d bytes, %d runs", size, q.applied.runs.size)
	if size > 3<<20 {
		t.Errorf("%d delayed records take %d bytes", n, size)
	}
	v, seen := counted{n}, 0
	for clock := v.due(0) - 60_000; clock < v.due(300); clock += 1000 {
		cmds, err := q.Tick(clock)
		if err != nil {
			t.Fatal(err)
		}
		for _, cmd := range cmds {
			q.Apply(cmd)
		}
		cmd, got := q.Acquire(clock, &Want{Consumer: "a", Records: 10})
		if cmd == nil {
			continue
		}
		q.Apply(cmd)
		for _, g := range got {
			if g.Span != (Span{2 * int64(seen), 2 * int64(seen)}) || clock < v.due(int64(seen)) {
				t.Fatalf("at %d record %v came, want %d at %d", clock, g, 2*seen, v.due(int64(seen)))
			}
			seen++
		}
		if q.applied.runs.apart > 62 {
			t.Fatalf("%d delayed records are in memory", q.applied.runs.apart)
		}
	}
	if seen != 300 {
		t.Errorf("%d records came", seen)
	}
}

// TestPlainRecordsTakeNoMemory: a million plain pending records are one run.
func TestPlainRecordsTakeNoMemory(t *testing.T) {
	q := New(Options{}, nil)
	q.Apply(q.Admit(1, 1_000_000, nil))
	if q.applied.runs.size != 1 {
		t.Errorf("%d runs", q.applied.runs.size)
	}
}

// BenchmarkAcquireAck is the cost of a record that is decided, encoded, decoded, applied by the leader, and settled the
// same way.
func BenchmarkAcquireAck(b *testing.B) {
	for _, batch := range []int64{1, 500} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) { benchmarkShare(b, batch, 1) })
	}
	// Many consumers settle out of order: the window is in pieces.
	b.Run("batch=1,held=2000", func(b *testing.B) { benchmarkShare(b, 1, 2000) })
	b.Run("lanes", benchmarkLanes)
}

func commit(b *testing.B, q *Queue, cmd Command, buf []byte) []byte {
	buf = AppendCommand(buf[:0], cmd)
	decoded, err := DecodeCommand(buf)
	if err != nil {
		b.Fatal(err)
	}
	q.Apply(decoded)
	return buf
}

func benchmarkShare(b *testing.B, batch, held int64) {
	o := DefaultOptions()
	o.MaxWindow = 100_000
	q := New(o, nil)
	var buf []byte
	var open []Span
	next := int64(0)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += int(batch) {
		read := &Read{From: next, To: next + batch, Batches: []Span{{next, next + batch - 1}}}
		cmd, got := q.Acquire(1, &Want{Consumer: "consumer-1", Records: int(batch), Read: read})
		buf = commit(b, q, cmd, buf)
		next += batch
		if open = append(open, got[0].Span); int64(len(open)) < held {
			continue
		}
		i := n * 7919 % len(open)
		cmd, _ = q.Acknowledge(1, "consumer-1", []Ack{{Span: open[i], Type: AckAccept}}, true)
		buf = commit(b, q, cmd, buf)
		open = slices.Delete(open, i, i+1)
	}
}

// benchmarkLanes has 100 message groups.
func benchmarkLanes(b *testing.B) {
	q := New(Options{Lock: 30_000}, nil)
	var buf []byte
	next := int64(0)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		var metas []Meta
		for range 1000 {
			metas = append(metas, Meta{Offset: next, Lane: fmt.Sprint(next % 100)})
			next++
		}
		buf = commit(b, q, q.Admit(1, next, metas), buf)
		for {
			cmd, got := q.Acquire(1, &Want{Consumer: "a", Records: 1})
			if cmd == nil {
				break
			}
			buf = commit(b, q, cmd, buf)
			cmd, _ = q.Acknowledge(1, "a", []Ack{{Span: got[0].Span, Type: AckAccept}}, true)
			buf = commit(b, q, cmd, buf)
			n++
		}
	}
}
