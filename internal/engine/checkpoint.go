package engine

import (
	"context"
	"sync"

	"godwit/internal/base"
	"godwit/internal/shard"
	"godwit/internal/storage/segment"
)

// checkpointer moves what the shards hold in memory into the state store, so that recovery need not replay
// the whole log, and does what becomes possible with it: files are sealed, dead ones removed.
type checkpointer struct {
	mu      sync.Mutex // one checkpoint at a time
	pending []delta    // gathered, not yet flushed: kept when a flush fails
	last    []uint64   // index of each shard at its last gathered delta
	stores  []*shardStore
	soon    chan struct{} // capacity 1: a checkpoint is wanted out of turn
}

// delta is what changed in one shard up to an index.
type delta struct {
	shard       base.ShardID
	index, term uint64
	keys, vals  [][]byte
}

// Checkpoint writes what changed since the last one and removes what nothing needs any more. It may run beside
// everything else.
//
// The order matters. Every entry below the first barrier was in its shard's mailbox before the barrier was
// answered, so gathering, which goes through the mailboxes, sees it applied. The second barrier puts everything that was
// gathered on disk as log before it gets there as state, whatever the durability.
func (e *Engine) Checkpoint(ctx context.Context) error {
	e.ckpt.mu.Lock()
	defer e.ckpt.mu.Unlock()
	from, err := e.barrier(ctx)
	if err != nil {
		return err
	}
	for _, l := range e.loops {
		if err := e.gather(ctx, l); err != nil {
			return err
		}
	}
	if len(e.ckpt.pending) == 0 && from == e.state.ReplayFrom() {
		return nil
	}
	if _, err := e.barrier(ctx); err != nil {
		return err
	}
	for i := range e.ckpt.pending {
		d := &e.ckpt.pending[i]
		err := e.state.Write(d.shard, d.index, d.term, func(put func(key, value []byte), del func(key []byte)) {
			for k, key := range d.keys {
				if d.vals[k] == nil {
					del(key)
				} else {
					put(key, d.vals[k])
				}
			}
		})
		if err != nil {
			return err
		}
	}
	if err := e.seal(from.File()); err != nil {
		return err
	}
	if err := e.state.Flush(from); err != nil {
		return err
	}
	e.ckpt.pending = nil
	for _, s := range e.ckpt.stores {
		s.flushed()
	}
	_, err = e.store.RemoveDead(from.File())
	return err
}

func (e *Engine) barrier(ctx context.Context) (base.Position, error) {
	type answer struct {
		at  base.Position
		err error
	}
	done, got := make(chan struct{}), new(answer)
	e.journal.Barrier(func(p base.Position, err error) {
		*got = answer{p, err}
		close(done)
	})
	if err := e.await(ctx, done); err != nil {
		return 0, err
	}
	return got.at, got.err
}

// gather takes the delta of one shard.
func (e *Engine) gather(ctx context.Context, l *loop) error {
	d := delta{shard: l.id}
	err := e.Call(ctx, l.id, func(m *shard.Machine) {
		if d.index, d.term = m.Index, m.Term; d.index == e.ckpt.last[l.id] {
			return
		}
		m.Checkpoint(func(key, value []byte) {
			d.keys = append(d.keys, append([]byte(nil), key...))
			if value != nil {
				value = append([]byte{}, value...)
			}
			d.vals = append(d.vals, value)
			e.ckpt.stores[l.id].hand(d.keys[len(d.keys)-1], value)
		})
		e.ckpt.last[l.id] = d.index
		e.ckpt.pending = append(e.ckpt.pending, d)
	})
	return err
}

// seal completes the WAL files below number, all of whose entries are applied.
func (e *Engine) seal(number uint32) error {
	files := e.store.Files()
	for i, f := range files {
		if f.Kind != segment.KindWAL || f.Sealed() || f.Number >= number {
			continue
		}
		if err := e.store.Seal(f, files[i+1].PrevEnd); err != nil {
			return err
		}
	}
	return nil
}

// watchFiles makes a checkpoint whenever the log goes on to a new file, so that files are sealed
// and what recovery would replay stays bounded; and when much waits in memory for one.
func (e *Engine) watchFiles() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case <-e.writer.Rolled():
		case <-e.ckpt.soon:
		case <-e.stop:
			return
		}
		if err := e.Checkpoint(ctx); err != nil {
			e.opts.Log.Warn("checkpoint failed; it is tried again", "error", err)
		}
	}
}
