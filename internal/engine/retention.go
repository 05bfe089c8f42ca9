package engine

import (
	"context"
	"sync"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
	"godwit/internal/shard"
	"godwit/internal/storage/segment"
)

// trimPlan is what retention wants to take off one log.
type trimPlan struct {
	stream    *meta.Stream
	partition int32
	start     int64 // new log start offset
}

// Retain removes what the retention of the streams no longer keeps, and records what groups had not seen of it. It also
// reminds the shards of what the metadata still wants of them.
func (e *Engine) Retain(ctx context.Context) error {
	e.loops[base.MetaShard].post(message{call: func(l *loop) { l.effects.resend(l) }})
	now := e.opts.Clock.Now().UnixMilli()
	var plans []trimPlan
	e.View().All(func(s *meta.Stream) bool {
		if s.Config.CleanupDelete {
			plans = e.planTrims(plans, s, now)
		}
		return true
	})
	plans, err := e.holdBack(ctx, plans)
	if err != nil {
		return err
	}
	return e.carryOut(ctx, plans, shard.CauseRetention)
}

func (e *Engine) planTrims(plans []trimPlan, s *meta.Stream, now int64) []trimPlan {
	ms, bytes := s.Config.RetentionMs, s.Config.RetentionBytes
	if ms < 0 && bytes < 0 {
		return plans
	}
	for i, p := range s.Partitions {
		st, ok := e.State(p.Log)
		if !ok || st.Size == 0 {
			continue
		}
		if start := e.retained(p.Log, st, now, ms, bytes); start > st.Start {
			plans = append(plans, trimPlan{s, int32(i), start})
		}
	}
	return plans
}

// retained finds the first offset to keep. By time, units go from the front while their newest record is
// older than ms; by size, while at least bytes stay without them.
func (e *Engine) retained(log base.LogID, st LogState, now, ms, bytes int64) int64 {
	start, left := st.Start, st.Size
	e.store.Units(log, func(u segment.Unit) bool {
		if u.Last >= st.HighWatermark {
			return false // added after the state was read
		}
		old := ms >= 0 && u.MaxTimestamp >= 0 && now-u.MaxTimestamp > ms
		surplus := bytes >= 0 && left-u.Bytes >= bytes
		if !old && !surplus {
			return false
		}
		start, left = u.Last+1, left-u.Bytes
		return true
	})
	return start
}

// DeleteRecords raises the start of a partition's log to before (-1: the high watermark), and returns the new start.
func (e *Engine) DeleteRecords(ctx context.Context, s *meta.Stream, partition int32, before int64) (int64, error) {
	log := s.Partitions[partition].Log
	st, ok := e.State(log)
	if !ok {
		return 0, base.Errorf(base.CodeUnknownPartition, "this server does not host this topic-partition")
	}
	if before == -1 {
		before = st.HighWatermark
	}
	if before < 0 || before > st.HighWatermark {
		return 0, base.Errorf(base.CodeOffsetOutOfRange, "offset %d is above the high watermark %d", before, st.HighWatermark)
	}
	if before > st.Start {
		if err := e.carryOut(ctx, []trimPlan{{s, partition, before}}, shard.CauseDeleteRecords); err != nil {
			return 0, err
		}
	}
	if st, ok = e.State(log); !ok {
		return 0, base.Errorf(base.CodeUnknownPartition, "this server does not host this topic-partition")
	}
	return st.Start, nil
}

// carryOut proposes trims, one entry for each shard, with what they cost each group.
func (e *Engine) carryOut(ctx context.Context, plans []trimPlan, cause shard.Cause) error {
	if len(plans) == 0 {
		return nil
	}
	positions, err := e.positions(ctx, plans)
	if err != nil {
		return err
	}
	byShard := map[base.ShardID][]logTrim{}
	for i := range plans {
		p := &plans[i]
		part := p.stream.Partitions[p.partition]
		groups := positions[group.Partition{Stream: p.stream.ID, Index: p.partition}]
		count, err := e.lossCounter(ctx, p, groups)
		if err != nil {
			return err
		}
		losses := e.lost(p, groups, cause, count)
		byShard[part.Shard] = append(byShard[part.Shard], logTrim{shard.Trim{Log: part.Log, Start: p.start, Losses: losses}, p, cause, count})
	}
	for id := range e.loops {
		trims := byShard[base.ShardID(id)]
		if trims == nil {
			continue
		}
		if err := e.trim(ctx, base.ShardID(id), trims); err != nil {
			return err
		}
	}
	return nil
}

// position is where a group stands in a partition.
type position struct {
	key    group.Key
	offset int64
}

// positions asks every shard with groups where they stand in the partitions of the plans.
func (e *Engine) positions(ctx context.Context, plans []trimPlan) (map[group.Partition][]position, error) {
	out := map[group.Partition][]position{}
	for _, id := range e.View().GroupShards() {
		err := e.Call(ctx, id, func(m *shard.Machine) {
			for i := range plans {
				at := group.Partition{Stream: plans[i].stream.ID, Index: plans[i].partition}
				for k, offset := range m.Offsets.Positions(at) {
					out[at] = append(out[at], position{k, offset})
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lost says what a trim takes from groups that have not seen it.
func (e *Engine) lost(p *trimPlan, groups []position, cause shard.Cause, count func(from, to int64) int64) (out []shard.Loss) {
	st, ok := e.State(p.stream.Partitions[p.partition].Log)
	if !ok {
		return nil
	}
	for _, g := range groups {
		from := max(g.offset, st.Start)
		if n := count(from, p.start); from < p.start && n > 0 {
			out = append(out, shard.Loss{Namespace: g.key.Namespace, Group: g.key.Group, Stream: p.stream.ID, Name: p.stream.Name,
				Partition: p.partition, From: from, To: p.start, Count: n, Cause: cause})
		}
	}
	return out
}

// lossTotals sums the losses of the node for its metrics.
type lossTotals struct {
	mu      sync.Mutex
	records map[shard.Cause]int64
}

func (c *lossTotals) add(ls []shard.Loss) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.records == nil {
		c.records = map[shard.Cause]int64{}
	}
	for _, l := range ls {
		c.records[l.Cause] += l.Count
	}
}

// restore counts what the ledger still has from before the start.
func (c *lossTotals) restore(ls []shard.Loss) { c.add(ls) }

// LostRecords is the number of records that groups did not see, by cause, as far as the ledger goes back.
func (e *Engine) LostRecords() map[shard.Cause]int64 {
	e.losses.mu.Lock()
	defer e.losses.mu.Unlock()
	out := map[shard.Cause]int64{}
	for k, v := range e.losses.records {
		out[k] = v
	}
	return out
}

// Losses collects the loss ledger of all shards, oldest first within a shard.
func (e *Engine) Losses(ctx context.Context) ([]shard.Loss, error) {
	var out []shard.Loss
	for _, l := range e.loops {
		if err := e.Call(ctx, l.id, func(m *shard.Machine) { out = append(out, m.Losses()...) }); err != nil {
			return nil, err
		}
	}
	return out, nil
}
