package engine

import (
	"testing"
	"time"

	"godwit/internal/shard"
)

// TestLossesAreRecords trims logs that hold markers and an aborted transaction: of neither anybody loses anything.
func TestLossesAreRecords(t *testing.T) {
	r := newRig(t, nil)
	s := r.subscribed(1, map[string]string{"retention.ms": "60000"})
	fill := func() { // an aborted transaction of two records, a committed one, two plain records: 7 offsets, 3 records
		t.Helper()
		st, _ := r.State(s.Partitions[0].Log)
		producer := 9000 + st.HighWatermark
		for _, commit := range []bool{false, true} {
			records := []kv{{"a", "1"}, {"b", "2"}}
			if commit {
				records = records[:1]
			}
			_, err := r.inTxn(s, producer, 0, 0, records...)
			r.must(err)
			r.must(r.end(s, producer, 1, commit))
			producer++
		}
		r.must(r.write(s, 0, kv{"d", "1"}, kv{"e", "1"}))
	}
	fill()
	r.commit(s, 0, "at the start", 0)
	r.commit(s, 0, "in the aborted one", 1)
	r.commit(s, 0, "at a marker", 4)
	r.commit(s, 0, "amid plain records", 6)
	r.clock.Advance(2 * time.Minute)
	r.must(r.Retain(ctx))
	want := func(cause shard.Cause, counts map[string]int64) {
		t.Helper()
		for _, l := range r.ledger() {
			if l.Cause == cause && counts[l.Group] != l.Count {
				t.Errorf("%s lost %d records in [%d, %d) by %s, want %d", l.Group, l.Count, l.From, l.To, cause, counts[l.Group])
			}
			if l.Cause == cause {
				delete(counts, l.Group)
			}
		}
		for g := range counts {
			t.Errorf("nothing is said of %s", g)
		}
	}
	want(shard.CauseRetention, map[string]int64{"at the start": 3, "in the aborted one": 3, "at a marker": 2, "amid plain records": 1, "workers": 3})

	fill() // offsets 7 to 13
	_, err := r.DeleteRecords(ctx, s, 0, 10)
	r.must(err)
	want(shard.CauseDeleteRecords, map[string]int64{}) // two aborted records and their marker
	_, err = r.DeleteRecords(ctx, s, 0, 11)
	r.must(err)
	want(shard.CauseDeleteRecords, map[string]int64{"at the start": 1, "in the aborted one": 1, "at a marker": 1, "amid plain records": 1, "workers": 1})
}

// TestKeptRuns counts runs that touch, overlap and miss what is asked for.
func TestKeptRuns(t *testing.T) {
	var k keptRuns
	for _, r := range []keptRun{{0, 4, 5}, {5, 9, 5}, {11, 19, 3}, {20, 21, 2}} {
		k = k.add(r)
	}
	if len(k) != 3 || k[0] != (keptRun{0, 9, 10}) {
		t.Fatalf("runs %v", k)
	}
	for _, c := range []struct{ from, to, want int64 }{
		{0, 22, 15}, {0, 0, 0}, {3, 7, 4}, {10, 11, 0}, {9, 12, 2}, {12, 20, 3}, {11, 13, 2}, {21, 30, 1}, {22, 30, 0}, {7, 3, 0},
	} {
		if got := k.within(c.from, c.to); got != c.want {
			t.Errorf("[%d, %d) has %d records, want %d", c.from, c.to, got, c.want)
		}
	}
}
