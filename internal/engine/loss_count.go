package engine

import (
	"context"
	"sort"

	"godwit/internal/queue"
	"godwit/internal/recordbatch"
	"godwit/internal/shard"
	"godwit/internal/storage/segment"
)

// keptRun is a run of offsets with records that consumers could have got.
type keptRun struct{ base, last, records int64 }

func (r *keptRun) dense() bool { return r.records == r.last-r.base+1 }

// keptRuns are the runs of a stretch of a log, ascending. Offsets outside are those of markers, of records of aborted
// transactions, which nobody was to see, and of what compaction removed.
type keptRuns []keptRun

// add takes the next batch. Where no offset is missing one run has many batches.
func (k keptRuns) add(r keptRun) keptRuns {
	if n := len(k); n > 0 && k[n-1].last+1 == r.base && k[n-1].dense() && r.dense() {
		k[n-1].last, k[n-1].records = r.last, k[n-1].records+r.records
		return k
	}
	return append(k, r)
}

// within counts the records in [from, to). A run with holes that is only partly inside counts by its share of offsets.
func (k keptRuns) within(from, to int64) (n int64) {
	for i := sort.Search(len(k), func(i int) bool { return k[i].last >= from }); i < len(k) && k[i].base < to; i++ {
		r := &k[i]
		n += max(0, min(r.records, min(r.last+1, to)-max(r.base, from)))
	}
	return n
}

// lossCounter makes the count of a trim, of which groups at these positions have not seen all. The headers of the batches that go are read
// now, since the loop does not wait for disks; where neither a group nor a queue is behind nothing is read, and
// offsets count, for a queue that is made meanwhile.
func (e *Engine) lossCounter(ctx context.Context, p *trimPlan, groups []position) (func(from, to int64) int64, error) {
	part := p.stream.Partitions[p.partition]
	st, ok := e.State(part.Log)
	if !ok {
		return func(int64, int64) int64 { return 0 }, nil
	}
	low := p.start
	for _, g := range groups {
		low = min(low, max(g.offset, st.Start))
	}
	err := e.Call(ctx, part.Shard, func(m *shard.Machine) {
		m.QueuesOf(part.Log, func(_ shard.QueueKey, q *queue.Queue) {
			if undone := q.Undone(p.start); len(undone) > 0 {
				low = min(low, max(undone[0].First, st.Start))
			}
		})
	})
	if err != nil {
		return nil, err
	}
	if low >= p.start {
		return func(from, to int64) int64 { return max(0, to-from) }, nil
	}
	// The list comes before the files: a transaction leaves it only when no file has its records.
	src := &lagReader{store: e.store, log: part.Log, aborted: e.Aborted(part.Log)}
	defer src.close()
	var kept keptRuns
	err = src.headers(ctx, low, p.start, func(_ *segment.File, _ int64, h *recordbatch.Info) (bool, error) {
		if src.counts(h) {
			kept = kept.add(keptRun{h.BaseOffset, h.LastOffset(), int64(h.Records)})
		}
		return true, nil
	})
	return kept.within, err
}
