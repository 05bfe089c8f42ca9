package engine

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
	"godwit/internal/shard"
	"godwit/internal/vfs"
)

// txnBatch builds a transactional batch with one record for each key.
func (r *rig) txnBatch(producer int64, epoch int16, sequence int32, records ...kv) ([]byte, recordbatch.Info) {
	r.t.Helper()
	var b recordbatch.Builder
	b.Begin(recordbatch.Info{Attributes: 0x10, ProducerID: producer, ProducerEpoch: epoch, BaseSequence: sequence}, 0, 0)
	for i, rec := range records {
		b.Add(&recordbatch.Record{OffsetDelta: int32(i), Timestamp: r.clock.Now().UnixMilli(), Key: []byte(rec.key), Value: []byte(rec.value)})
	}
	data, err := b.AppendTo(nil)
	r.must(err)
	info, err := recordbatch.ParseHeader(data)
	r.must(err)
	return data, info
}

// inTxn writes a transactional batch, with a guard if it needs one, and returns its offset.
func (r *rig) inTxn(s *meta.Stream, producer int64, epoch int16, sequence int32, records ...kv) (int64, error) {
	r.t.Helper()
	data, info := r.txnBatch(producer, epoch, sequence, records...)
	it := r.try(s, data, info, 0)
	if it.Err != nil && base.CodeOf(it.Err) == base.CodeUnverifiedTxn {
		it = r.try(s, data, info, it.Guard)
	}
	return it.BaseOffset, it.Err
}

func (r *rig) try(s *meta.Stream, data []byte, info recordbatch.Info, guard partlog.Guard) AppendItem {
	r.t.Helper()
	p := s.Partitions[0]
	done := false
	a := &Append{Items: []AppendItem{{Log: p.Log, Shard: p.Shard, Data: data, Batches: []recordbatch.Info{info}, Guard: guard}}, BumpsEpoch: true}
	a.Done = func(*Append) { done = true }
	r.Append(a)
	r.Drain()
	if !done {
		r.t.Fatal("an append was not answered")
	}
	return a.Items[0]
}

// end writes a marker.
func (r *rig) end(s *meta.Stream, producer int64, epoch int16, commit bool) error {
	r.t.Helper()
	var out []error
	p := s.Partitions[0]
	m := Marker{Log: p.Log, Shard: p.Shard, Marker: partlog.Marker{ProducerID: producer, Epoch: epoch, Commit: commit, Version: 2}}
	r.WriteMarkers([]Marker{m}, func(errs []error) { out = errs })
	r.Drain()
	if len(out) != 1 {
		r.t.Fatalf("a marker was answered with %v", out)
	}
	return out[0]
}

// seen is a record as a reader of committed records gets it.
type seen struct {
	offset int64
	kv
}

// committed reads what a client with read_committed would, by the rules of Kafka's: fetch by fetch it drops the batches of producers in
// the list of aborted transactions, from their first offset to their abort marker. markers counts those it met.
func (r *rig) committed(s *meta.Stream, from int64, maxBytes int) (out []seen, markers int) {
	r.t.Helper()
	log := s.Partitions[0].Log
	st, _ := r.State(log)
	var rd recordbatch.Reader
	defer rd.Close()
	for next := max(from, st.Start); next < st.LastStable; {
		recs, err := r.ReadCommitted(log, next, maxBytes, true)
		r.must(err)
		b, err := recs.AppendTo(nil)
		r.must(err)
		aborted, void := recs.Aborted(), map[int64]bool{}
		recs.Release()
		if !slices.IsSortedFunc(aborted, func(a, b partlog.Aborted) int { return int(a.First - b.First) }) {
			r.t.Fatalf("aborted transactions %v are out of order", aborted)
		}
		if len(b) == 0 {
			break
		}
		at := next
		for len(b) > 0 {
			r.must(rd.Reset(b, 1<<20))
			info := rd.Info
			for len(aborted) > 0 && aborted[0].First <= info.LastOffset() {
				void[aborted[0].ProducerID] = true
				aborted = aborted[1:]
			}
			for rd.Next() {
				switch rec := &rd.Record; {
				case info.IsControl():
					markers++
					kind, err := recordbatch.ParseControl(rec.Key)
					r.must(err)
					if kind == recordbatch.ControlAbort {
						delete(void, info.ProducerID)
					}
				case info.IsTransactional() && void[info.ProducerID], rec.Offset < at:
				default:
					out = append(out, seen{rec.Offset, kv{string(rec.Key), string(rec.Value)}})
				}
			}
			r.must(rd.Err())
			next = info.LastOffset() + 1
			b = b[info.Size:]
		}
	}
	return out, markers
}

func (r *rig) wantCode(err error, code base.Code) {
	r.t.Helper()
	if err == nil || base.CodeOf(err) != code {
		r.t.Fatalf("error %v, want code %d", err, code)
	}
}

func (r *rig) wantStable(s *meta.Stream, stable, hw int64) {
	r.t.Helper()
	if st, _ := r.State(s.Partitions[0].Log); st.LastStable != stable || st.HighWatermark != hw {
		r.t.Fatalf("%+v, want last stable offset %d, high watermark %d", st, stable, hw)
	}
}

func TestTransactions(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	log := s.Partitions[0].Log
	at, err := r.inTxn(s, 7, 0, 0, kv{"a", "1"}, kv{"b", "1"})
	r.must(err)
	r.must(r.write(s, 0, kv{"c", "1"}))
	_, err = r.inTxn(s, 8, 0, 0, kv{"d", "1"})
	r.must(err)
	r.wantStable(s, at, 4)
	if got, _ := r.committed(s, 0, 1<<20); len(got) != 0 {
		t.Fatalf("%v is seen while the transactions are open", got)
	}
	w := r.NewWatch()
	defer w.Close()
	w.Add(log)
	r.must(r.end(s, 8, 1, true))
	r.wantStable(s, at, 5)
	r.must(r.end(s, 7, 1, false))
	r.wantStable(s, 6, 6)
	if got := w.Take(); !slices.Equal(got, []base.LogID{log}) {
		t.Fatalf("the watch tells of %v", got)
	}
	want := []seen{{2, kv{"c", "1"}}, {3, kv{"d", "1"}}}
	check := func(when string) {
		t.Helper()
		r.wantStable(s, 6, 6)
		for from := range int64(6) {
			for _, size := range []int{1, 200, 1 << 20} {
				got, _ := r.committed(s, from, size)
				if i := slices.IndexFunc(want, func(o seen) bool { return o.offset >= from }); i < 0 && got != nil || i >= 0 && !reflect.DeepEqual(got, want[i:]) {
					t.Fatalf("%s: %v from offset %d on, in fetches of %d bytes; want of %v", when, got, from, size, want)
				}
			}
		}
	}
	check("at once")
	// Once more, and too late.
	r.must(r.end(s, 7, 1, false))
	r.must(r.end(s, 8, 1, true))
	r.wantCode(r.end(s, 7, 0, true), base.CodeFencedProducer)
	_, err = r.inTxn(s, 7, 0, 2, kv{"e", "1"})
	r.wantCode(err, base.CodeFencedProducer)
	check("after repeated markers")
	for _, when := range []string{"replayed", "checkpointed", "checkpointed and replayed"} {
		r.must(r.powerLoss(0))
		check(when)
		r.must(r.Checkpoint(ctx))
	}
	// The oldest goes with the start of the log.
	_, err = r.DeleteRecords(ctx, s, 0, 6)
	r.must(err)
	if got := r.Aborted(log); len(got) != 0 {
		t.Fatalf("aborted transactions %v are listed below the start", got)
	}
	r.must(r.Checkpoint(ctx))
	r.must(r.powerLoss(0))
	if got := r.Aborted(log); len(got) != 0 {
		t.Fatalf("aborted transactions %v came back", got)
	}
}

// TestOpenTransactionSurvives: a power loss, and the expiry of idle producers.
func TestOpenTransactionSurvives(t *testing.T) {
	r := newRig(t, func(o *Options) { o.ProducerExpiry = time.Hour })
	s := r.create("t", 1, nil)
	_, err := r.inTxn(s, 7, 3, 0, kv{"a", "1"})
	r.must(err)
	r.must(r.Checkpoint(ctx))
	r.clock.Advance(5 * time.Hour)
	r.must(r.Expire(ctx))
	r.must(r.powerLoss(0))
	r.wantStable(s, 0, 1)
	_, err = r.inTxn(s, 7, 3, 1, kv{"a", "2"})
	r.must(err)
	r.must(r.end(s, 7, 4, true))
	r.wantStable(s, 3, 3)
	r.clock.Advance(5 * time.Hour)
	r.must(r.Expire(ctx))
	r.must(r.Call(ctx, s.Partitions[0].Shard, func(m *shard.Machine) {
		if l, _ := m.Log(s.Partitions[0].Log); len(l.ProducerStates()) != 0 {
			t.Errorf("producers %+v did not expire", l.ProducerStates())
		}
	}))
}

// TestMarkerAfterLostWrite: a marker that a failed sync took away is written again when it is asked for again.
func TestMarkerAfterLostWrite(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	_, err := r.inTxn(s, 7, 0, 0, kv{"a", "1"})
	r.must(err)
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	r.wantCode(r.end(s, 7, 1, true), base.CodeStorage)
	r.Drain()
	r.wantStable(s, 0, 1)
	r.must(r.end(s, 7, 1, true))
	r.wantStable(s, 2, 2)
}

// TestRepeatedMarkerWaits: one that says the same as a marker in flight fares like that one.
func TestRepeatedMarkerWaits(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	p := s.Partitions[0]
	_, err := r.inTxn(s, 7, 0, 0, kv{"a", "1"})
	r.must(err)
	m := Marker{Log: p.Log, Shard: p.Shard, Marker: partlog.Marker{ProducerID: 7, Epoch: 1, Version: 2}}
	twice := func() (out []error) {
		r.WriteMarkers([]Marker{m, m}, func(errs []error) { out = errs })
		r.Drain()
		return out
	}
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	for _, err := range twice() {
		r.wantCode(err, base.CodeStorage)
	}
	if errs := twice(); len(errs) != 2 || errs[0] != nil || errs[1] != nil {
		t.Fatalf("errors %v", errs)
	}
	r.wantStable(s, 2, 2)
	gone := Marker{Log: 999, Shard: p.Shard, Marker: m.Marker}
	r.WriteMarkers([]Marker{gone, m}, func(errs []error) {
		r.wantCode(errs[0], base.CodeUnknownPartition)
		r.must(errs[1])
	})
	r.Drain()
}

// TestCompactedMarkersGo: the marker of an aborted transaction stays until its records are gone and as long as a tombstone after
// that; before it goes, the transaction leaves the list.
func TestCompactedMarkersGo(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "60000", "min.cleanable.dirty.ratio": "0.01"})
	log := s.Partitions[0].Log
	_, err := r.inTxn(s, 7, 0, 0, kv{"a", "void"})
	r.must(err)
	r.must(r.end(s, 7, 1, false))
	_, err = r.inTxn(s, 8, 0, 0, kv{"a", "1"})
	r.must(err)
	r.must(r.end(s, 8, 1, true))
	type state struct {
		records []seen
		markers int
		listed  int
	}
	round := 0
	pass := func(advance time.Duration) state {
		t.Helper()
		round++
		r.clock.Advance(advance)
		r.must(r.write(s, 0, kv{"tick", fmt.Sprint(round)}))
		r.seal()
		r.must(r.Compact(ctx))
		got, markers := r.committed(s, 0, 1<<20)
		return state{got, markers, len(r.Aborted(log))}
	}
	for i, want := range []struct {
		advance         time.Duration
		markers, listed int
	}{
		{0, 2, 1}, // the record goes; both markers had batches when the pass began
		{0, 2, 0}, // the list is shorter now, and the abort marker gets a horizon
		{30 * time.Second, 2, 0},
		{40 * time.Second, 1, 0}, // the commit marker has a record
	} {
		got := pass(want.advance)
		if got.markers != want.markers || got.listed != want.listed || got.records[0] != (seen{2, kv{"a", "1"}}) || len(got.records) != 2 {
			t.Fatalf("pass %d: %+v, want %d markers and %d listed", i+1, got, want.markers, want.listed)
		}
	}
	r.must(r.Checkpoint(ctx))
	r.must(r.powerLoss(0))
	if got, _ := r.committed(s, 0, 1<<20); len(got) != 2 || len(r.Aborted(log)) != 0 {
		t.Fatalf("after a power loss: %v, %v", got, r.Aborted(log))
	}
}

// txnModel is what the log should have: all records ever written, and what became of them.
type txnModel struct {
	r      *rig
	s      *meta.Stream
	all    []modelRecord
	open   map[int64]int64 // producer -> first offset of its transaction
	epochs map[int64]int16
	seqs   map[int64]int32
}

type modelRecord struct {
	seen
	producer int64 // -1: no transaction
	aborted  bool
}

func (m *txnModel) write(t *rapid.T, producer int64, key string) {
	rec := kv{key, fmt.Sprint(len(m.all))}
	st, _ := m.r.State(m.s.Partitions[0].Log)
	at := st.HighWatermark
	var err error
	if producer < 0 {
		err = m.r.write(m.s, 0, rec)
	} else {
		at, err = m.r.inTxn(m.s, producer, m.epochs[producer], m.seqs[producer], rec)
		m.seqs[producer]++
		if _, ok := m.open[producer]; !ok {
			m.open[producer] = at
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	m.all = append(m.all, modelRecord{seen{at, rec}, producer, false})
}

func (m *txnModel) end(t *rapid.T, producer int64, commit bool) {
	first, ok := m.open[producer]
	if !ok {
		return
	}
	m.epochs[producer]++
	if err := m.r.end(m.s, producer, m.epochs[producer], commit); err != nil {
		t.Fatal(err)
	}
	for i := range m.all {
		if r := &m.all[i]; r.producer == producer && r.offset >= first {
			r.aborted = !commit
		}
	}
	delete(m.open, producer)
	m.seqs[producer] = 0
}

// stable is the last stable offset.
func (m *txnModel) stable() int64 {
	st, _ := m.r.State(m.s.Partitions[0].Log)
	out := st.HighWatermark
	for _, first := range m.open {
		out = min(out, first)
	}
	return out
}

// committed lists the records below the last stable offset that were not aborted; the last of each key only, if so wanted.
func (m *txnModel) committed(compacted bool) (out []seen) {
	last := map[string]seen{}
	for _, r := range m.all {
		if !r.aborted && r.offset < m.stable() {
			out = append(out, r.seen)
			last[r.key] = r.seen
		}
	}
	if compacted {
		out = slices.SortedFunc(maps.Values(last), func(a, b seen) int { return int(a.offset - b.offset) })
	}
	return out
}

// check compares what readers get. A log that was compacted some time ago may have more than the last of each key, but nothing that was
// aborted, and nothing twice.
func (m *txnModel) check(t *rapid.T, from int64, size int) {
	st, _ := m.r.State(m.s.Partitions[0].Log)
	if st.LastStable != m.stable() {
		t.Fatalf("last stable offset %d, want %d", st.LastStable, m.stable())
	}
	got, _ := m.r.committed(m.s, from, size)
	all, must := m.committed(false), m.committed(true)
	i := 0
	for _, o := range got {
		for i < len(all) && all[i] != o {
			i++
		}
		if i == len(all) {
			t.Fatalf("%v is read, in %v; committed are %v", o, got, all)
		}
		i++
	}
	for _, o := range must {
		if o.offset >= from && !slices.Contains(got, o) {
			t.Fatalf("%v is missing in %v from %d on", o, got, from)
		}
	}
}

// TestTransactionModel writes, ends transactions, compacts, checkpoints and loses power at random: readers of committed records get what a
// plain list of them says.
func TestTransactionModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, nil)
		defer r.Abort()
		s := r.create("t", 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "60000", "min.cleanable.dirty.ratio": "0.01"})
		m := &txnModel{r: r, s: s, open: map[int64]int64{}, epochs: map[int64]int16{}, seqs: map[int64]int32{}}
		key := func(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key") }
		producer := func(t *rapid.T) int64 { return rapid.Int64Range(1, 3).Draw(t, "producer") }
		rt.Repeat(map[string]func(*rapid.T){
			"write":      func(t *rapid.T) { m.write(t, -1, key(t)) },
			"write in a": func(t *rapid.T) { m.write(t, producer(t), key(t)) },
			"write in b": func(t *rapid.T) { m.write(t, producer(t), key(t)) },
			"commit":     func(t *rapid.T) { m.end(t, producer(t), true) },
			"abort":      func(t *rapid.T) { m.end(t, producer(t), false) },
			"wait": func(t *rapid.T) {
				r.clock.Advance(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
			},
			"checkpoint": func(*rapid.T) { r.must(r.Checkpoint(ctx)) },
			"lose power": func(*rapid.T) { r.must(r.powerLoss(50)) },
			"compact":    func(*rapid.T) { r.seal(); r.must(r.Compact(ctx)) },
			"end of all": func(t *rapid.T) {
				for p := range int64(3) {
					m.end(t, p+1, rapid.Bool().Draw(t, "commit"))
				}
				r.seal()
				r.must(r.Compact(ctx))
				if got, _ := r.committed(s, 0, 1<<20); !reflect.DeepEqual(got, m.committed(true)) {
					t.Fatalf("compacted to %v, want %v", got, m.committed(true))
				}
			},
			"": func(t *rapid.T) {
				st, _ := r.State(s.Partitions[0].Log)
				m.check(t, 0, 1<<20)
				m.check(t, rapid.Int64Range(0, st.HighWatermark).Draw(t, "from"), rapid.SampledFrom([]int{1, 150, 400}).Draw(t, "size"))
			},
		})
	})
}
