package broker

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/coord/group"
	"godwit/internal/engine"
	"godwit/internal/meta"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
	"godwit/internal/vfs"
)

// rig is a broker on a disk in memory.
type rig struct {
	t     *testing.T
	clock *clock.Manual
	e     *engine.Engine
	*Broker
	lags *Lags
	seqs map[int64]int32
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewManual(time.UnixMilli(1_700_000_000_000)), seqs: map[int64]int32{}}
	limits := meta.Limits{DefaultPartitions: 1, DefaultReplicas: 1, MaxReplicas: 1}
	var err error
	r.e, err = engine.Open(engine.Options{FS: vfs.NewCrashing(), Dir: "/data", Clock: r.clock, Rand: rand.New(rand.NewPCG(1, 2)), Shards: 3, FileSize: 256 << 10,
		Groups: group.DefaultOptions(), Limits: limits})
	r.must(err)
	r.must(r.e.Start())
	t.Cleanup(func() { r.must(r.e.Close(context.Background())) })
	r.Broker = New(r.e, Options{Node: 1, Limits: limits})
	r.lags = NewLags(r.Broker, r.clock)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) create(name string, partitions int) *meta.Stream {
	r.t.Helper()
	s, err := r.CreateStream(r.t.Context(), meta.CreateStream{Namespace: base.DefaultNamespace, Name: name, Partitions: partitions, Replicas: 1})
	r.must(err)
	return s
}

// write appends a batch of n records; of a transaction, unless producer is below 0.
func (r *rig) write(s *meta.Stream, partition int, producer int64, n int) {
	r.t.Helper()
	info := recordbatch.Info{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	if producer >= 0 {
		info = recordbatch.Info{ProducerID: producer, BaseSequence: r.seqs[producer], Attributes: 0x10}
		r.seqs[producer] += int32(n)
	}
	var b recordbatch.Builder
	b.Begin(info, 0, 0)
	for i := range n {
		b.Add(&recordbatch.Record{OffsetDelta: int32(i), Timestamp: r.clock.Now().UnixMilli(), Value: []byte("value")})
	}
	data, err := b.AppendTo(nil)
	r.must(err)
	info, err = recordbatch.ParseHeader(data)
	r.must(err)
	p, guard := s.Partitions[partition], partlog.Guard(0)
	for try := 0; ; try++ {
		done := make(chan struct{})
		a := &Append{Items: []AppendItem{{Log: p.Log, Shard: p.Shard, Data: data, Batches: []recordbatch.Info{info}, Guard: guard}}, BumpsEpoch: true}
		a.Done = func(*Append) { close(done) }
		r.Append(a)
		<-done
		if err := a.Items[0].Err; try > 0 || base.CodeOf(err) != base.CodeUnverifiedTxn {
			r.must(err)
			return
		}
		guard = a.Items[0].Guard
	}
}

// end writes the marker of a transaction.
func (r *rig) end(s *meta.Stream, producer int64, commit bool) {
	r.t.Helper()
	done := make(chan []error, 1)
	p := s.Partitions[0]
	r.e.WriteMarkers([]engine.Marker{{Log: p.Log, Shard: p.Shard, Marker: partlog.Marker{ProducerID: producer, Epoch: 1, Commit: commit, Version: 2}}},
		func(errs []error) { done <- errs })
	r.must((<-done)[0])
}

func (r *rig) commit(name string, s *meta.Stream, partition int32, offset int64) {
	r.t.Helper()
	res := r.CommitOffsets(r.t.Context(), group.CommitRequest{Key: group.Key{Namespace: base.DefaultNamespace, Group: name}, Generation: -1, Retention: -1,
		Offsets: []group.CommitOffset{{Partition: group.Partition{Stream: s.ID, Index: partition}, Offset: offset, Epoch: -1, Metadata: "note"}}})
	if res.Err != nil {
		r.t.Fatal(res.Err)
	}
	for _, err := range res.Errs {
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestLagOfTransactions has markers, aborted records and an open transaction between what a group has to read.
func TestLagOfTransactions(t *testing.T) {
	r := newRig(t)
	s := r.create("t", 1)
	r.write(s, 0, -1, 3) // 0-2
	r.clock.Advance(time.Second)
	r.write(s, 0, 1, 3)  // 3-5
	r.end(s, 1, false)   // 6
	r.write(s, 0, 2, 3)  // 7-9
	r.end(s, 2, true)    // 10
	r.write(s, 0, 3, 2)  // 11-12, open
	r.write(s, 0, -1, 2) // 13-14
	r.clock.Advance(time.Second)
	for _, tc := range []struct{ at, all, age, committed, committedAge int64 }{
		{0, 13, 2000, 6, 2000}, {2, 11, 2000, 4, 2000}, {3, 10, 1000, 3, 1000}, {5, 8, 1000, 3, 1000}, {6, 7, 1000, 3, 1000},
		{8, 6, 1000, 2, 1000}, {10, 4, 1000, 0, 0}, {14, 1, 1000, 0, 0}, {15, 0, 0, 0, 0},
	} {
		r.commit("g", s, 0, tc.at)
		for _, committed := range []bool{false, true} {
			g, err := r.lags.Group(t.Context(), base.DefaultNamespace, "g", committed)
			r.must(err)
			records, age, end := tc.all, tc.age, int64(15)
			if committed {
				records, age, end = tc.committed, tc.committedAge, 11
			}
			p := g.Partitions[0]
			if p.Records != records || p.Age != age || p.End != end || (p.Bytes > 0) != (records > 0) || p.Committed != tc.at || p.Metadata != "note" {
				t.Errorf("from %d, committed %v: %+v, want %+v", tc.at, committed, p, tc)
			}
		}
	}
	r.end(s, 3, false)
	g, err := r.lags.Group(t.Context(), base.DefaultNamespace, "g", true)
	if r.must(err); g.Partitions[0].End != 16 || g.Partitions[0].Records != 0 {
		t.Errorf("after the end: %+v", g.Partitions[0])
	}
}

// TestLagOfAllGroups lists what several groups have in several topics, for a second without looking again.
func TestLagOfAllGroups(t *testing.T) {
	r := newRig(t)
	a, b := r.create("a", 2), r.create("b", 1)
	gone := r.create("gone", 1)
	for range 3 {
		r.write(a, 0, -1, 2)
		r.write(a, 1, -1, 4)
		r.write(b, 0, -1, 1)
	}
	r.commit("second", b, 0, 1)
	r.commit("first", a, 1, 5)
	r.commit("first", a, 0, 99)
	r.commit("first", b, 0, 0)
	r.commit("first", gone, 0, 0)
	r.must(r.DeleteStream(t.Context(), gone.ID))
	list := func() []GroupLag {
		t.Helper()
		out, err := r.lags.Groups(t.Context(), base.DefaultNamespace, false)
		r.must(err)
		return out
	}
	got := list()
	if len(got) != 2 || got[0].Group != "first" || got[1].Group != "second" || len(got[0].Partitions) != 3 {
		t.Fatalf("listed %+v", got)
	}
	for i, want := range []struct {
		topic     string
		partition int32
		records   int64
	}{{"a", 0, 0}, {"a", 1, 7}, {"b", 0, 3}} {
		if p := got[0].Partitions[i]; p.Topic != want.topic || p.Partition != want.partition || p.Records != want.records || p.Err != nil {
			t.Errorf("partition %d: %+v, want %+v", i, p, want)
		}
	}
	if sum := Total(got[0].Partitions); sum.Records != 10 || sum.Bytes <= 0 || !sum.Whole || sum.Age != 0 {
		t.Errorf("total %+v", sum)
	}
	r.write(b, 0, -1, 1)
	if sum := Total(list()[1].Partitions); sum.Records != 2 {
		t.Errorf("looked again at once: %+v", sum)
	}
	r.clock.Advance(lagListAge)
	if sum := Total(list()[1].Partitions); sum.Records != 3 || sum.Age != 1000 {
		t.Errorf("after a second: %+v", sum)
	}
	if _, err := r.lags.Group(t.Context(), base.DefaultNamespace, "none", false); base.CodeOf(err) != base.CodeUnknownGroup {
		t.Errorf("no group: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	<-r.lags.turn // as if another was listing
	if _, err := r.lags.Groups(over, "other", false); base.CodeOf(err) != base.CodeTimeout {
		t.Errorf("in no time: %v", err)
	}
}
