package engine

import (
	"context"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/partlog"
	"godwit/internal/shard"
)

// Expire forgets what idleness ends: offsets of groups that have been empty for long, streams groups without members and offsets, and producers that stopped
// writing.
func (e *Engine) Expire(ctx context.Context) error {
	name := func(id base.StreamID) (string, bool) {
		if s, ok := e.View().StreamByID(id); ok {
			return s.Name, true
		}
		return "", false
	}
	err := e.EachGroupShard(ctx, func(c *group.Coordinator, now int64) []group.Command { return c.Expire(now, name) })
	if err != nil {
		return err
	}
	if err := e.expireStreams(ctx); err != nil {
		return err
	}
	for _, l := range e.loops {
		_, err := e.Decide(ctx, l.id, func(m *shard.Machine, now int64) (*shard.Command, error) {
			before := now - e.opts.ProducerExpiry.Milliseconds()
			m.Logs(func(log *partlog.Log) { log.ExpireGuards(before) })
			if before <= 0 || !m.HasProducersBefore(before) {
				return nil, nil
			}
			return &shard.Command{Expire: before}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
