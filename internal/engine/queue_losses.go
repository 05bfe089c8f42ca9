package engine

import (
	"context"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/queue"
	"godwit/internal/shard"
)

// logTrim is a trim that is to be proposed, and what has to be known to say what it costs the queues of its log.
type logTrim struct {
	shard.Trim
	plan  *trimPlan
	cause shard.Cause
	count func(from, to int64) int64 // records in [from, to), as far as the trim goes
}

// trim proposes trims of one shard, with what they cost the queues there, and has the queues follow.
func (e *Engine) trim(ctx context.Context, id base.ShardID, trims []logTrim) error {
	return e.consult(ctx, id, func(l *loop, reply func(error)) {
		c := &shard.Command{}
		for i := range trims {
			tr := trims[i].Trim
			tr.Losses = append(tr.Losses, l.queueLosses(&trims[i])...)
			c.Trim = append(c.Trim, tr)
		}
		l.command(c, func(_ *shard.Applied, err error) { reply(err) })
		for i := range trims {
			l.queues.follow(l, trims[i].Log, trims[i].Start)
		}
	})
}

// queueLosses says what a trim takes from the queues of its log: records that they had not done with, be it that nobody
// looked at them, or that who did has not said so.
func (l *loop) queueLosses(t *logTrim) (out []shard.Loss) {
	log, ok := l.m.Writable(t.Log)
	if !ok || l.term == 0 {
		return nil
	}
	l.m.QueuesOf(t.Log, func(k shard.QueueKey, q *queue.Queue) {
		loss := shard.Loss{Namespace: k.Group.Namespace, Group: k.Group.Group, Stream: t.plan.stream.ID, Name: t.plan.stream.Name,
			Partition: t.plan.partition, From: -1, To: t.Start, Cause: t.cause}
		for _, s := range q.Undone(t.Start) {
			from := max(s.First, log.Start())
			if from > s.Last {
				continue
			}
			if loss.From < 0 {
				loss.From = from
			}
			loss.Count += t.count(from, s.Last+1)
		}
		if loss.Count > 0 {
			out = append(out, loss)
		}
	})
	return out
}

// queuePositions tells which offsets of logs the queues there have not looked at. What compaction takes from a queue's
// window, records that it gave out or is about to, is not counted.
func (e *Engine) queuePositions(ctx context.Context, plans []trimPlan, out map[group.Partition][]position) error {
	byShard := map[base.ShardID][]*trimPlan{}
	for i := range plans {
		p := &plans[i]
		id := p.stream.Partitions[p.partition].Shard
		byShard[id] = append(byShard[id], p)
	}
	for id := range e.loops {
		of := byShard[base.ShardID(id)]
		if of == nil {
			continue
		}
		err := e.Call(ctx, base.ShardID(id), func(m *shard.Machine) {
			for _, p := range of {
				at := group.Partition{Stream: p.stream.ID, Index: p.partition}
				m.QueuesOf(p.stream.Partitions[p.partition].Log, func(k shard.QueueKey, q *queue.Queue) {
					out[at] = append(out[at], position{k.Group, q.End()})
				})
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
