package engine

import (
	"context"
	"slices"
	"time"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
	"godwit/internal/shard"
	"godwit/internal/storage/compact"
)

const (
	compactKeys    = 1 << 20   // keys remembered in one pass over a log
	compactRecords = 256 << 20 // bytes of one batch's records
	compactRate    = 64 << 20  // bytes per second while clients write
)

// newCompactor makes the node's compactor. It leaves the disk to the log: beside traffic it reads and writes at
// compactRate, without traffic as fast as it can.
func (e *Engine) newCompactor() *compact.Compactor {
	o := compact.Options{FileSize: e.opts.FileSize, MaxKeys: compactKeys, MaxRecords: compactRecords}
	if !e.opts.Stepped {
		p := &pacer{e: e, at: e.opts.Clock.Now()}
		o.Pause = p.pause
	}
	return compact.New(e.store, o)
}

// pacer lets work through at a rate while the log is being written.
type pacer struct {
	e       *Engine
	at      time.Time
	bytes   int64 // since at
	written int64 // the log's counter at at
}

func (p *pacer) pause(ctx context.Context, n int64) error {
	if p.bytes += n; p.bytes < compactRate/16 {
		return ctx.Err()
	}
	now, written := p.e.opts.Clock.Now(), p.e.writer.Stats.Bytes.Load()
	due := time.Duration(p.bytes) * time.Second / compactRate
	busy := written > p.written
	wait := due - now.Sub(p.at)
	if busy && wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	p.at, p.bytes, p.written = p.e.opts.Clock.Now(), 0, written
	return ctx.Err()
}

// compactJob is a log to be compacted and what its losses will be called.
type compactJob struct {
	compact.Job
	stream    *meta.Stream
	partition int32
	shard     base.ShardID
}

// Compact compacts the logs that their configuration says are due, and then moves what is alive out of files that are
// mostly dead.
func (e *Engine) Compact(ctx context.Context) error {
	e.compacting.Lock()
	defer e.compacting.Unlock()
	now := e.opts.Clock.Now().UnixMilli()
	jobs, roll := e.compactJobs(now)
	if roll {
		if err := e.Roll(ctx); err != nil {
			return err
		}
		if err := e.Checkpoint(ctx); err != nil { // it seals
			return err
		}
		jobs, _ = e.compactJobs(now)
	}
	if len(jobs) > 0 {
		if err := e.cleanLogs(ctx, jobs, now); err != nil {
			return err
		}
	}
	replay := e.state.ReplayFrom().File()
	if files := compact.Candidates(e.store.Files(), replay); len(files) > 0 {
		if err := e.compactor.Relocate(ctx, e.Term(), now, files); err != nil {
			return err
		}
	}
	_, err := e.store.RemoveDead(replay)
	return err
}

// compactJobs finds the logs that are dirty enough, or whose records have waited long enough. roll says that a log would
// be, but for records in the file being written.
func (e *Engine) compactJobs(now int64) (jobs []compactJob, roll bool) {
	e.View().All(func(s *meta.Stream) bool {
		if !s.Config.CleanupCompact {
			return true
		}
		for i, p := range s.Partitions {
			st, ok := e.State(p.Log)
			if !ok || st.Size == 0 {
				continue
			}
			in := e.compactor.Inspect(p.Log, st.LastStable, now-s.Config.MinCompactionLagMs)
			if due(&in, s, now) {
				jobs = append(jobs, compactJob{stream: s, partition: int32(i), shard: p.Shard, Job: compact.Job{
					Log: p.Log, Start: st.Start, Bound: in.DirtyTo, DeleteRetention: s.Config.DeleteRetentionMs, Aborted: e.abortedOf(p.Log)}})
			}
			roll = roll || e.wantsRoll(p.Log, s, now)
		}
		return true
	})
	return jobs, roll
}

// abortedOf lists the aborted transactions of a log for the compactor.
func (e *Engine) abortedOf(log base.LogID) []compact.Aborted {
	all := e.Aborted(log)
	out := make([]compact.Aborted, len(all))
	for i := range all {
		out[i] = compact.Aborted{Producer: all[i].ProducerID, First: all[i].First, Last: all[i].Last}
	}
	return out
}

// due applies min.cleanable.dirty.ratio and max.compaction.lag.ms.
func due(in *compact.State, s *meta.Stream, now int64) bool {
	if in.DirtyBytes == 0 {
		return false
	}
	ratio := float64(in.DirtyBytes) / float64(in.DirtyBytes+in.CleanBytes)
	return ratio >= s.Config.MinCleanableDirtyRatio || now-in.Oldest > s.Config.MaxCompactionLagMs
}

// wantsRoll reports whether records of a compacted log have lain in the file being written for longer than
// segment.ms or max.compaction.lag.ms.
func (e *Engine) wantsRoll(log base.LogID, s *meta.Stream, now int64) bool {
	oldest, ok := e.store.OldestUnsealed(log)
	return ok && now-oldest > min(s.Config.SegmentMs, s.Config.MaxCompactionLagMs)
}

// cleanLogs compacts logs, a bounded number at a time, and records what groups lose by it.
func (e *Engine) cleanLogs(ctx context.Context, jobs []compactJob, now int64) error {
	const atATime = 256
	for batch := range slices.Chunk(jobs, atATime) {
		plans := make([]trimPlan, len(batch))
		for i := range batch {
			plans[i] = trimPlan{stream: batch[i].stream, partition: batch[i].partition}
		}
		positions, err := e.positions(ctx, plans)
		if err == nil {
			err = e.queuePositions(ctx, plans, positions)
		}
		if err != nil {
			return err
		}
		raw := make([]compact.Job, len(batch))
		groups := make([][]position, len(batch))
		for i := range batch {
			j := &batch[i]
			groups[i] = positions[group.Partition{Stream: j.stream.ID, Index: j.partition}]
			for _, g := range groups[i] {
				j.Watch = append(j.Watch, g.offset)
			}
			slices.Sort(j.Watch)
			j.Watch = slices.Compact(j.Watch)
			raw[i] = j.Job
		}
		err = e.compactor.Clean(ctx, e.Term(), now, raw, func(i int, o *compact.Outcome) error {
			return e.recordOutcome(ctx, &batch[i], groups[i], o)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordOutcome writes into the ledger what compaction takes from groups, and forgets aborted transactions that have left the log.
func (e *Engine) recordOutcome(ctx context.Context, j *compactJob, groups []position, o *compact.Outcome) error {
	c := &shard.Command{}
	for _, g := range groups {
		for _, r := range o.Removed {
			if r.Watched == g.offset {
				c.Losses = append(c.Losses, shard.Loss{Namespace: g.key.Namespace, Group: g.key.Group, Stream: j.stream.ID, Name: j.stream.Name,
					Partition: j.partition, From: r.First, To: r.Last + 1, Count: r.Count, Cause: shard.CauseCompaction})
			}
		}
	}
	if len(o.Vanished) > 0 {
		c.Purged = []shard.Purged{{Log: j.Log, Last: o.Vanished}}
	}
	if c.Losses == nil && c.Purged == nil {
		return nil
	}
	_, err := e.Decide(ctx, j.shard, func(*shard.Machine, int64) (*shard.Command, error) { return c, nil })
	return err
}
