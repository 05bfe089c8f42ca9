package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
	"godwit/internal/recordbatch"
	"godwit/internal/storage/wal"
	"godwit/internal/vfs"
)

// fakeLog is a source for an index: offset i has a record if it is set, of so many bytes.
type fakeLog struct {
	sizes []int64
	step  int
	read  int // offsets counted
	left  int // offsets until it fails; below 0: never
}

func (f *fakeLog) count(_ context.Context, from, to int64, step func(int64, tally)) error {
	var t tally
	for at := from; at < to; at++ {
		if f.left == 0 {
			return errTestEnds
		}
		f.left--
		f.read++
		if n := f.sizes[at]; n > 0 {
			t.add(tally{1, n, 1})
		}
		if int(at)%f.step == f.step-1 && at+1 < to {
			step(at+1, t)
			t = tally{}
		}
	}
	step(to, t)
	return nil
}

func (f *fakeLog) first(_ context.Context, from, to int64) (int64, error) {
	for at := from; at < to; at++ {
		if f.sizes[at] > 0 {
			return at * 1000, nil
		}
	}
	return -1, nil
}

var errTestEnds = base.Errorf(base.CodeTimeout, "the test ends it")

// TestLagIndexModel asks an index in any order, while the log grows, is rewritten and trimmed, and holds it against a count of all.
func TestLagIndexModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fakeLog{step: rapid.IntRange(1, 20).Draw(t, "step"), left: -1}
		x := &lagIndex{}
		start := int64(0)
		grow := func(n int) {
			for range n {
				f.sizes = append(f.sizes, int64(rapid.IntRange(0, 3).Draw(t, "size")))
			}
		}
		grow(30)
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				grow(rapid.IntRange(1, 20).Draw(t, "more"))
			case 1:
				a := rapid.Int64Range(start, int64(len(f.sizes)-1)).Draw(t, "base")
				b := rapid.Int64Range(a, int64(len(f.sizes)-1)).Draw(t, "last")
				for at := a; at <= b; at++ {
					if at%2 == 0 {
						f.sizes[at] = 0
					}
				}
				x.rewritten(a, b)
			case 2:
				start = rapid.Int64Range(start, int64(len(f.sizes)-1)).Draw(t, "start")
				clear(f.sizes[:start])
				x.trim(start)
			}
			f.left = -1
			if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
				f.left = rapid.IntRange(0, 20).Draw(t, "left")
			}
			from := rapid.Int64Range(start, int64(len(f.sizes))).Draw(t, "from")
			to := rapid.Int64Range(from, int64(len(f.sizes))).Draw(t, "to")
			got, first, err := x.behind(context.Background(), f, from, to)
			checkLagIndex(t, x, f)
			if err != nil {
				continue
			}
			want, wantFirst := tally{}, int64(-1)
			for at := from; at < to; at++ {
				if n := f.sizes[at]; n > 0 {
					want.add(tally{1, n, 1})
					if wantFirst < 0 {
						wantFirst = at * 1000
					}
				}
			}
			if got != want || first != wantFirst {
				t.Fatalf("[%d, %d): %+v since %d, want %+v since %d; %+v", from, to, got, first, want, wantFirst, x.chunks)
			}
		}
	})
}

// checkLagIndex verifies the guarantees of an index.
func checkLagIndex(t *rapid.T, x *lagIndex, f *fakeLog) {
	for i, c := range x.chunks {
		if c.from >= c.to || i > 0 && x.chunks[i-1].to != c.from {
			t.Fatalf("chunks %+v", x.chunks)
		}
		var want tally
		for at := c.from; at < c.to; at++ {
			if n := f.sizes[at]; n > 0 {
				want.add(tally{1, n, 1})
			}
		}
		if c.known && c.tally != want {
			t.Fatalf("chunk %+v has %+v", c, want)
		}
	}
}

// TestLagIndexStaysSmall also counts what has to be read again: little, when a position moves on.
func TestLagIndexStaysSmall(t *testing.T) {
	f := &fakeLog{step: 10, left: -1, sizes: slices.Repeat([]int64{1}, 200_000)}
	x := &lagIndex{}
	end := int64(100_000)
	for at := int64(0); end < 200_000; at, end = at+7, end+50 {
		before := f.read
		got, first, err := x.behind(context.Background(), f, at, end)
		if err != nil || got.records != end-at || first != at*1000 {
			t.Fatalf("[%d, %d): %+v, %d, %v", at, end, got, first, err)
		}
		if len(x.chunks) > maxLagChunks || len(x.firsts) > maxLagFirsts {
			t.Fatalf("%d chunks, %d positions", len(x.chunks), len(x.firsts))
		}
		if n := f.read - before; at > 0 && n > 500 {
			t.Fatalf("[%d, %d): %d offsets read anew", at, end, n)
		}
	}
}

// plainLags counts from all that there is. What aborted transactions left counts only if committed is false, and is told apart by
// how a client reads.
func (r *rig) plainLags(s *meta.Stream, positions []int64, committed bool) []Lag {
	r.t.Helper()
	st, _ := r.State(s.Partitions[0].Log)
	end := st.HighWatermark
	visible := map[int64]bool{}
	if committed {
		end = st.LastStable
		got, _ := r.committed(s, 0, 1<<20)
		for _, o := range got {
			visible[o.offset] = true
		}
	}
	out := make([]Lag, len(positions))
	var rd recordbatch.Reader
	defer rd.Close()
	for i := range out {
		out[i] = Lag{Start: st.Start, End: end}
	}
	for _, raw := range r.batches(s, st) {
		for i, at := range positions {
			r.must(rd.Reset(raw, 1<<20))
			if rd.Info.IsControl() || rd.Info.BaseOffset >= end {
				continue
			}
			var all, below int64
			for rd.Next() {
				if committed && !visible[rd.Record.Offset] && rd.Record.Offset >= st.Start {
					all, below = 0, 0
					break
				}
				if all++; rd.Record.Offset < max(at, st.Start) {
					below++
				} else if out[i].Records == 0 && all == below+1 {
					out[i].Age = r.clock.Now().UnixMilli() - rd.Record.Timestamp
				}
			}
			if all > below {
				out[i].Records += all - below
				out[i].Bytes += int64(len(raw)) - int64(len(raw))*below/all
			}
		}
	}
	return out
}

// batches reads all batches of a log.
func (r *rig) batches(s *meta.Stream, st LogState) (out [][]byte) {
	r.t.Helper()
	for next := st.Start; next < st.HighWatermark; {
		recs, err := r.Read(s.Partitions[0].Log, next, 1<<20, true)
		r.must(err)
		b, err := recs.AppendTo(nil)
		r.must(err)
		recs.Release()
		if len(b) == 0 {
			break // compaction emptied the end
		}
		for len(b) > 0 {
			h, err := recordbatch.ParseHeader(b)
			r.must(err)
			out, b, next = append(out, b[:h.Size]), b[h.Size:], h.LastOffset()+1
		}
	}
	return out
}

// TestLagModel lets positions be asked for in any order while records are written in and out of transactions, compacted,
// deleted and recovered, and compares with counting all of them.
func TestLagModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, nil)
		defer r.Abort()
		s := r.create("t", 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "60000", "min.cleanable.dirty.ratio": "0.01"})
		m := &txnModel{r: r, s: s, open: map[int64]int64{}, epochs: map[int64]int16{}, seqs: map[int64]int32{}}
		log := s.Partitions[0].Log
		c := NewLagCounter(r.Engine)
		key := func(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "key") }
		producer := func(t *rapid.T) int64 { return rapid.Int64Range(1, 3).Draw(t, "producer") }
		tick := func(t *rapid.T) {
			r.clock.Advance(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
		}
		many := func(t *rapid.T) {
			var records []kv
			for range rapid.IntRange(1, 8).Draw(t, "records") {
				records = append(records, kv{key(t), "x"})
			}
			r.must(r.write(s, 0, records...))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write":     many,
			"write two": func(t *rapid.T) { many(t); many(t) },
			"write in":  func(t *rapid.T) { m.write(t, producer(t), key(t)) },
			"commit":    func(t *rapid.T) { m.end(t, producer(t), true) },
			"abort":     func(t *rapid.T) { m.end(t, producer(t), false) },
			"compact":   func(*rapid.T) { r.seal(); r.must(r.Compact(ctx)) },
			"lose power": func(*rapid.T) {
				r.must(r.powerLoss(50))
				c = NewLagCounter(r.Engine)
			},
			"delete": func(t *rapid.T) {
				st, _ := r.State(log)
				_, err := r.DeleteRecords(ctx, s, 0, rapid.Int64Range(st.Start, st.HighWatermark).Draw(t, "before"))
				r.must(err)
			},
			"": func(t *rapid.T) {
				tick(t)
				st, _ := r.State(log)
				at := rapid.SliceOfN(rapid.Int64Range(0, st.HighWatermark+2), 1, 4).Draw(t, "positions")
				for _, committed := range []bool{false, true} {
					got, err := c.Lags(ctx, log, at, committed)
					r.must(err)
					if want := r.plainLags(s, at, committed); !slices.Equal(got, want) {
						t.Fatalf("positions %v, committed %v:\ngot  %+v\nwant %+v", at, committed, got, want)
					}
				}
			},
		})
	})
}

// TestLagForgets bounds what is remembered of many logs.
func TestLagForgets(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 20, nil)
	c := NewLagCounter(r.Engine)
	c.most = 40
	for i := range 20 {
		r.must(r.write(s, i, kv{"a", "1"}, kv{"b", "2"}))
		for range 2 {
			got, err := c.Lags(ctx, s.Partitions[i].Log, []int64{1}, false)
			if r.must(err); got[0].Records != 1 {
				t.Fatalf("lag %+v", got)
			}
		}
	}
	ring := 1
	for e := c.newest.next; e != c.newest; e = e.next {
		ring++
	}
	if len(c.entries) != ring || ring < 2 || ring > 10 || c.weight > 40 {
		t.Fatalf("%d logs of weight %d, %d in the ring", len(c.entries), c.weight, ring)
	}
}

// TestLagInTime gives up when it is told to, and goes on from there when it is asked again.
func TestLagInTime(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	r.must(r.write(s, 0, kv{"a", "1"}, kv{"b", "2"}))
	c := NewLagCounter(r.Engine)
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err := c.Lags(over, s.Partitions[0].Log, []int64{0}, false)
	r.wantCode(err, base.CodeTimeout)
	got, err := c.Lags(ctx, s.Partitions[0].Log, []int64{0, 2}, false)
	r.must(err)
	if got[0].Records != 2 || got[1].Records != 0 || got[1].End != 2 {
		t.Fatalf("lags %+v", got)
	}
	_, err = c.Lags(ctx, 1<<40, []int64{0}, false)
	r.wantCode(err, base.CodeUnknownPartition)
}

// BenchmarkLag counts a million records in 100,000 batches for the first time, and then again as a monitor does: the
// group reads on a little, and little is written.
func BenchmarkLag(b *testing.B) {
	e, s := lagBench(b)
	log := s.Partitions[0].Log
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if got, err := NewLagCounter(e).Lags(ctx, log, []int64{0}, false); err != nil || got[0].Records != 1_000_000 {
				b.Fatal(got, err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/batch")
	})
	for _, groups := range []int{1, 100} {
		b.Run(fmt.Sprintf("again/groups=%d", groups), func(b *testing.B) {
			c, at := NewLagCounter(e), make([]int64, groups)
			for i := range at {
				at[i] = int64(i) * 1000
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Lags(ctx, log, at, false); err != nil {
					b.Fatal(err)
				}
				for i := range at {
					at[i] = (at[i] + 15) % 900_000
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(groups), "ns/group")
		})
	}
}

// lagBench is an engine on the real file system, with a log of 10,000 writes of ten batches of ten records.
func lagBench(b *testing.B) (*Engine, *meta.Stream) {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	e, err := Open(Options{FS: vfs.Default, Dir: b.TempDir(), Rand: rand.New(rand.NewPCG(8, 9)), Shards: 1, FileSize: 8 << 20, Durability: wal.OS,
		Stepped: true, Groups: group.DefaultOptions(), Limits: meta.Limits{DefaultPartitions: 1, DefaultReplicas: 1, MaxReplicas: 1}})
	must(err)
	b.Cleanup(func() { must(e.Close(ctx)) })
	must(e.Start())
	id := e.NewID()
	_, err = e.DecideMeta(ctx, func(s *meta.State, now int64) (*meta.Command, error) {
		return s.DecideCreate(&meta.CreateStream{Namespace: base.DefaultNamespace, Name: "t", Partitions: 1, Replicas: 1}, id, now, e.opts.Limits)
	})
	must(err)
	var s *meta.Stream
	must(e.AwaitView(ctx, func(v *meta.View) bool { s, _ = v.StreamByID(id); return s != nil && s.Ready == 1 }))
	var one recordbatch.Builder
	one.Begin(recordbatch.Info{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, 0, 0)
	for i := range int32(10) {
		one.Add(&recordbatch.Record{OffsetDelta: i, Timestamp: 1_700_000_000_000, Value: make([]byte, 100)})
	}
	batch, err := one.AppendTo(nil)
	must(err)
	info, err := recordbatch.ParseHeader(batch)
	must(err)
	for range 10_000 {
		a := &Append{Items: []AppendItem{{Log: s.Partitions[0].Log, Shard: s.Partitions[0].Shard, Data: bytes.Repeat(batch, 10), Batches: slices.Repeat([]recordbatch.Info{info}, 10)}}}
		a.Done = func(a *Append) { must(a.Items[0].Err) }
		e.Append(a)
		e.Drain()
	}
	must(e.Roll(ctx))
	must(e.Checkpoint(ctx))
	return e, s
}
