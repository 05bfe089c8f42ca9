package engine

import (
	"context"

	"godwit/internal/coord/share"
	"godwit/internal/coord/txn"
	"godwit/internal/shard"
)

// Sums is how the transactions and queues of the node stand, taken together.
type Sums struct {
	Txns   txn.Standing
	Groups map[share.Key]*shard.QueueSums // share groups with queues
}

// Sums asks every shard. It costs what is open, what queues changed since the last call, and the groups of each shard.
func (e *Engine) Sums(ctx context.Context) (*Sums, error) {
	out := &Sums{Txns: txn.Standing{Oldest: -1}, Groups: map[share.Key]*shard.QueueSums{}}
	for _, l := range e.loops {
		err := e.Call(ctx, l.id, func(m *shard.Machine) {
			t := m.Txns.Standing()
			out.Txns.Open, out.Txns.Ending = out.Txns.Open+t.Open, out.Txns.Ending+t.Ending
			if t.Oldest >= 0 && (out.Txns.Oldest < 0 || t.Oldest < out.Txns.Oldest) {
				out.Txns.Oldest = t.Oldest
			}
			m.QueueSums(func(k share.Key, s *shard.QueueSums) {
				g := out.Groups[k]
				if g == nil {
					g = &shard.QueueSums{}
					out.Groups[k] = g
				}
				g.Add(s)
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
