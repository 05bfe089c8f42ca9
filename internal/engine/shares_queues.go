package engine

import (
	"maps"
	"slices"

	"godwit/internal/base"
	"godwit/internal/coord/share"
)

// queueRound is one round of effects for one group: what its queues lack, sent to the shards of the partitions.
type queueRound struct {
	left  int // shards that have not answered
	done  []share.QueueVersion
	err   error
	again bool // more is wanted meanwhile
}

// queueWork is what a shard is asked to do for one queue.
type queueWork struct {
	share.QueueChange
	log base.LogID
}

// dispatch sends what is outstanding for a group, one round at a time, so that a shard gets it in order. It comes again as long as it
// is not confirmed; a shard leaves alone what it has done, by the version.
func (h *shareHost) dispatch(l *loop, k share.Key) {
	if h.coord == nil {
		return
	}
	if r := h.rounds[k]; r != nil {
		r.again = true
		return
	}
	view, work := l.e.View(), map[base.ShardID][]queueWork{}
	for _, e := range l.m.Shares.Effects(k) {
		// A topic that is gone takes its queues along.
		if s, ok := view.StreamByID(e.Stream); ok && int(e.Index) < len(s.Partitions) {
			p := s.Partitions[e.Index]
			work[p.Shard] = append(work[p.Shard], queueWork{e, p.Log})
		}
	}
	if len(work) == 0 {
		return
	}
	r := &queueRound{left: len(work)}
	h.rounds[k] = r
	for _, id := range slices.Sorted(maps.Keys(work)) {
		report := func(done []share.QueueVersion, err error) {
			l.post(message{call: func(l *loop) { h.answered(l, k, r, done, err) }})
		}
		l.e.loop(id).post(message{call: func(o *loop) { o.workQueues(k, work[id], report) }})
	}
}

// answered takes one shard's answer; the last one ends the round.
func (h *shareHost) answered(l *loop, k share.Key, r *queueRound, done []share.QueueVersion, err error) {
	if h.rounds[k] != r {
		return // of a coordinator that is no more
	}
	r.done = append(r.done, done...)
	if err != nil {
		r.err = err
	}
	if r.left--; r.left > 0 {
		return
	}
	delete(h.rounds, k)
	if r.err != nil {
		h.again.fail(l.now())
	} else {
		h.again.succeed()
	}
	h.decide(l, func(c *share.Coordinator, _ int64) { c.Confirm(k, r.done) }, func(err error) {
		if err == nil && r.again {
			h.dispatch(l, k)
		}
	})
}

// resend sends everything that is outstanding and not on its way.
func (h *shareHost) resend(l *loop) {
	for _, k := range l.m.Shares.Outstanding() {
		h.dispatch(l, k)
	}
}
