package engine

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/recordbatch"
	"godwit/internal/shard"
)

var ctx = context.Background()

// seal goes on to a new file, so that what is there can be compacted.
func (r *rig) seal() {
	r.t.Helper()
	r.must(r.Roll(ctx))
	r.must(r.Checkpoint(ctx))
}

func TestRetentionByTimeRecordsLosses(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, map[string]string{"retention.ms": "60000"})
	r.must(r.write(s, 0, kv{"a", "1"}, kv{"b", "2"}))
	r.clock.Advance(40 * time.Second)
	r.must(r.write(s, 0, kv{"c", "3"}))
	r.commit(s, 0, "behind", 1)
	r.commit(s, 0, "ahead", 3)
	r.clock.Advance(30 * time.Second)
	r.must(r.Retain(ctx))
	if got, at := r.read(s, 0, 0); !reflect.DeepEqual(got, []kv{{"c", "3"}}) || at[0] != 2 {
		t.Fatalf("kept %v at %v", got, at)
	}
	want := shard.Loss{Namespace: "default", Group: "behind", Stream: s.ID, Name: "t", From: 1, To: 2, Count: 1, Cause: shard.CauseRetention, Time: r.clock.Now().UnixMilli()}
	if got := r.ledger(); !reflect.DeepEqual(got, []shard.Loss{want}) {
		t.Fatalf("ledger %+v, want %+v", got, want)
	}
	r.must(r.powerLoss(0))
	if got := r.ledger(); !reflect.DeepEqual(got, []shard.Loss{want}) {
		t.Fatalf("ledger after a power loss %+v, want %+v", got, want)
	}
	if n := r.LostRecords()[shard.CauseRetention]; n != 1 {
		t.Fatalf("metric counts %d lost records, want 1", n)
	}
}

func TestRetentionBySizeKeepsAtLeastThatMuch(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, map[string]string{"retention.bytes": "3000"})
	for i := range 10 {
		r.must(r.write(s, 0, kv{fmt.Sprint(i), strings.Repeat("x", 1000)}))
	}
	r.must(r.Retain(ctx))
	st, _ := r.State(s.Partitions[0].Log)
	if st.Size < 3000 || st.Size > 3000+1100 {
		t.Fatalf("%d bytes are kept, want 3000 and less than one batch more", st.Size)
	}
	if _, at := r.read(s, 0, 0); at[0] != st.Start || at[len(at)-1] != 9 {
		t.Fatalf("kept %v, the start is %d", at, st.Start)
	}
}

func TestDeleteRecords(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	r.must(r.write(s, 0, kv{"a", "1"}, kv{"b", "2"}, kv{"c", "3"}))
	r.commit(s, 0, "g", 0)
	start, err := r.DeleteRecords(ctx, s, 0, 2)
	if err != nil || start != 2 {
		t.Fatalf("start %d, %v", start, err)
	}
	if _, err := r.DeleteRecords(ctx, s, 0, 4); base.CodeOf(err) != base.CodeOffsetOutOfRange {
		t.Fatalf("beyond the watermark: %v", err)
	}
	if got := r.ledger(); len(got) != 1 || got[0].Cause != shard.CauseDeleteRecords || got[0].Count != 2 {
		t.Fatalf("ledger %+v", got)
	}
	if start, err = r.DeleteRecords(ctx, s, 0, -1); err != nil || start != 3 {
		t.Fatalf("to the watermark: start %d, %v", start, err)
	}
	r.must(r.powerLoss(0))
	if st, _ := r.State(s.Partitions[0].Log); st.Start != 3 || st.HighWatermark != 3 {
		t.Fatalf("after a power loss: %+v", st)
	}
	r.must(r.write(s, 0, kv{"d", "4"}))
	if _, at := r.read(s, 0, 0); !reflect.DeepEqual(at, []int64{3}) {
		t.Fatalf("the next record is at %v, want 3", at)
	}
}

func TestCompactionKeepsTheLastOfEachKey(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "60000", "min.cleanable.dirty.ratio": "0.01"})
	r.must(r.write(s, 0, kv{"a", "1"}, kv{"b", "1"}, kv{"a", "2"}))
	r.must(r.write(s, 0, kv{"c", "1"}, kv{"b", "-"}))
	r.must(r.write(s, 0, kv{"c", "2"}))
	r.commit(s, 0, "g", 1)
	r.seal()
	r.must(r.Compact(ctx))
	want := []kv{{"a", "2"}, {"b", "-"}, {"c", "2"}}
	check := func(when string) {
		t.Helper()
		if got, at := r.read(s, 0, 0); !reflect.DeepEqual(got, want) || at[len(at)-1] != 5 {
			t.Fatalf("%s: kept %v at %v, want %v", when, got, at, want)
		}
	}
	check("after compaction")
	// Offsets 1 (b=1) and 3 (c=1) were not seen; 0 was.
	if got := r.ledger(); len(got) != 1 || got[0].Cause != shard.CauseCompaction || got[0].From != 1 || got[0].To != 4 || got[0].Count != 2 {
		t.Fatalf("ledger %+v", got)
	}
	r.must(r.powerLoss(0))
	check("after a power loss")

	// A tombstone goes once its time has passed, at the next compaction.
	r.clock.Advance(2 * time.Minute)
	r.must(r.write(s, 0, kv{"a", "3"}))
	r.must(r.write(s, 0, kv{"d", "1"}))
	r.seal()
	r.must(r.Compact(ctx))
	want = []kv{{"c", "2"}, {"a", "3"}, {"d", "1"}}
	if got, _ := r.read(s, 0, 0); !reflect.DeepEqual(got, want) {
		t.Fatalf("second compaction kept %v, want %v", got, want)
	}
}

func TestReaderGetsPastAnEmptiedTail(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, map[string]string{"cleanup.policy": "compact"})
	r.must(r.write(s, 0, kv{"a", "1"}))
	r.must(r.write(s, 0, kv{noKey, "goes"}, kv{noKey, "too"}))
	r.seal()
	r.must(r.Compact(ctx))
	if got, _ := r.read(s, 0, 0); !reflect.DeepEqual(got, []kv{{"a", "1"}}) {
		t.Fatalf("kept %v", got)
	}
	p := s.Partitions[0]
	st, _ := r.State(p.Log)
	for next := int64(0); next < st.HighWatermark; {
		recs, err := r.Read(p.Log, next, 1<<20, true)
		r.must(err)
		b, err := recs.AppendTo(nil)
		recs.Release()
		r.must(err)
		if len(b) == 0 {
			t.Fatalf("a reader at %d gets nothing, though the log goes on to %d", next, st.HighWatermark)
		}
		for len(b) > 0 {
			info, err := recordbatch.ParseHeader(b)
			r.must(err)
			next, b = info.LastOffset()+1, b[info.Size:]
		}
	}
}

func TestCompactionLeavesYoungRecords(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "60000"})
	r.must(r.write(s, 0, kv{"a", "1"}, kv{"a", "2"}))
	r.seal()
	r.must(r.Compact(ctx))
	if got, _ := r.read(s, 0, 0); len(got) != 2 {
		t.Fatalf("kept %v before min.compaction.lag.ms", got)
	}
	r.clock.Advance(2 * time.Minute)
	r.must(r.Compact(ctx))
	if got, _ := r.read(s, 0, 0); !reflect.DeepEqual(got, []kv{{"a", "2"}}) {
		t.Fatalf("kept %v after min.compaction.lag.ms", got)
	}
}

func TestCompactAndDelete(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "60000"})
	r.must(r.write(s, 0, kv{"a", "1"}, kv{"b", "1"}))
	r.clock.Advance(2 * time.Minute)
	r.must(r.write(s, 0, kv{"c", "1"}, kv{"c", "2"}))
	r.seal()
	r.must(r.Retain(ctx)) // the file's newest record is young: nothing goes
	r.must(r.Compact(ctx))
	if got, _ := r.read(s, 0, 0); !reflect.DeepEqual(got, []kv{{"a", "1"}, {"b", "1"}, {"c", "2"}}) {
		t.Fatalf("kept %v", got)
	}
	r.clock.Advance(2 * time.Minute)
	r.must(r.Retain(ctx))
	if got, _ := r.read(s, 0, 0); len(got) != 0 {
		t.Fatalf("kept %v after retention.ms", got)
	}
}

func TestDeletedTopicGivesSpaceBack(t *testing.T) {
	r := newRig(t, nil)
	keep := r.create("keep", 1, nil)
	big := r.create("big", 3, nil)
	r.must(r.write(keep, 0, kv{"k", "v"}))
	for i := range 60 {
		r.must(r.write(big, i%3, kv{"k", strings.Repeat("x", 20_000)}))
	}
	r.seal()
	before := r.disk.Used()
	_, err := r.DecideMeta(ctx, func(s *meta.State, _ int64) (*meta.Command, error) { return s.DecideDelete(big.ID) })
	r.must(err)
	r.Drain()
	r.seal()
	r.must(r.Compact(ctx))
	r.must(r.Checkpoint(ctx))
	if after := r.disk.Used(); before-after < 900_000 {
		t.Fatalf("deleting 1.2 MB of records freed %d bytes", before-after)
	}
	if got, _ := r.read(keep, 0, 0); !reflect.DeepEqual(got, []kv{{"k", "v"}}) {
		t.Fatalf("the other topic has %v", got)
	}
	r.must(r.powerLoss(0))
	if got, _ := r.read(keep, 0, 0); !reflect.DeepEqual(got, []kv{{"k", "v"}}) {
		t.Fatalf("after a power loss the other topic has %v", got)
	}
	if _, ok := r.View().Stream("default", "big"); ok {
		t.Fatal("the deleted topic is back")
	}
}
