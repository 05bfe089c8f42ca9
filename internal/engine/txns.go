package engine

import (
	"context"
	"math"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/txn"
	"godwit/internal/partlog"
	"godwit/internal/shard"
)

// txnHost runs the transaction coordinator of one shard within its loop: it journals what the coordinator decides, answers when
// that is committed, and has the outcome of a transaction entered into its partitions and groups, in whatever shards they are.
type txnHost struct {
	coord *txn.Coordinator // nil while the shard has no leader here
	flights
	rounds map[txn.Key]*txnRound
	ended  map[txn.Key][]func(error) // wait until nothing is outstanding for a transactional ID
	resend backoff
}

// txnRound is the way of one ending to all that is outstanding of it.
type txnRound struct {
	left       int // markers, taken together, and groups that have not answered
	serial     int64
	partitions []txn.Partition // done
	groups     []string        // done
	failed     bool
}

// lead makes a coordinator for a new term.
func (h *txnHost) lead(l *loop) {
	h.renew(l)
	h.resend = backoff{}
	h.dispatchAll(l)
}

// renew makes a coordinator from what is committed.
func (h *txnHost) renew(l *loop) {
	h.resign(base.Errorf(base.CodeNotReady, "the coordinator has moved: ask again"))
	h.coord = txn.NewCoordinator(l.e.opts.Txns, l.m.Txns, l.now())
	h.rounds, h.ended = map[txn.Key]*txnRound{}, map[txn.Key][]func(error){}
}

// resign ends the coordinator. Those who wait for entries in flight are answered as these are settled.
func (h *txnHost) resign(cause error) {
	for _, waiting := range h.ended {
		for _, fn := range waiting {
			fn(cause)
		}
	}
	h.coord, h.last, h.rounds, h.ended = nil, nil, nil, nil
}

// decide runs fn in the coordinator and has reply called when what it decided, and what it may have seen, is committed.
func (h *txnHost) decide(l *loop, fn func(c *txn.Coordinator, now int64), reply func(error)) {
	if h.coord == nil {
		reply(l.why)
		return
	}
	fn(h.coord, l.now())
	changes := h.coord.Changes()
	if len(changes) == 0 {
		h.rest(reply)
		return
	}
	coord := h.coord
	h.journal(l, &shard.Command{Txns: changes}, func(err error) {
		switch {
		case h.coord != coord:
		case l.term == 0:
			h.resign(err)
		default:
			// The coordinator has gone ahead of what is committed. What is outstanding waits a little, since it may be its confirmation
			// that a full disk refused.
			h.renew(l)
			h.resend.fail(l.now())
		}
	}, reply)
}

// applied looks at what an entry changed in the state.
func (h *txnHost) applied(l *loop, c *shard.Command) {
	if h.coord == nil {
		return
	}
	if c.Forget != nil {
		h.coord.StreamDeleted(*c.Forget)
		h.settled(l)
	}
	for _, cmd := range c.Txns {
		switch cmd := cmd.(type) {
		case *txn.Update:
			h.dispatch(l, cmd.Key)
		case *txn.Confirm:
			h.settled(l)
		}
	}
}

// settled tells those who wait for transactional IDs of which nothing is outstanding any more.
func (h *txnHost) settled(l *loop) {
	for k, waiting := range h.ended {
		if _, open := l.m.Txns.Ending(k); open {
			continue
		}
		delete(h.ended, k)
		for _, fn := range waiting {
			fn(nil)
		}
	}
}

// dispatch sends out what is outstanding of a transactional ID's ending, unless that is on its way.
func (h *txnHost) dispatch(l *loop, k txn.Key) {
	end, open := l.m.Txns.Ending(k)
	if !open || h.rounds[k] != nil {
		return
	}
	r := &txnRound{serial: end.Serial, left: 1 + len(end.Groups)}
	h.rounds[k] = r
	markers, partitions := h.markers(l, &end, r)
	l.e.WriteMarkers(markers, func(errs []error) {
		l.post(message{call: func(l *loop) {
			for i, err := range errs {
				if markerDone(err) {
					r.partitions = append(r.partitions, partitions[i])
				} else {
					r.failed = true
				}
			}
			h.answered(l, k, r)
		}})
	})
	for _, name := range end.Groups {
		g := group.Key{Namespace: k.Namespace, Group: name}
		cmd := &group.EndTxnOffsets{Key: g, ProducerID: end.ProducerID, Epoch: end.Epoch, Version: end.Version, Commit: end.Commit}
		report := func(err error) {
			l.post(message{call: func(l *loop) {
				if err != nil {
					r.failed = true
				} else {
					r.groups = append(r.groups, name)
				}
				h.answered(l, k, r)
			}})
		}
		l.e.loop(l.e.View().GroupShard(g.Namespace, g.Group)).post(message{call: func(o *loop) { o.groups.endTxn(o, cmd, report) }})
	}
}

// markerDone reports whether nothing is left to do for a marker. A log that is gone took its transactions along; one that has heard of
// a later step of the producer has nothing left to end.
func markerDone(err error) bool {
	if err == nil {
		return true
	}
	c := base.CodeOf(err)
	return c == base.CodeUnknownPartition || c == base.CodeFencedProducer
}

// markers are those of an ending, with the partitions they are for. A partition whose topic is gone is done.
func (h *txnHost) markers(l *loop, end *txn.Ending, r *txnRound) (out []Marker, of []txn.Partition) {
	view := l.e.View()
	for _, p := range end.Partitions {
		s, ok := view.StreamByID(p.Stream)
		if !ok || int(p.Index) >= len(s.Partitions) {
			r.partitions = append(r.partitions, p)
			continue
		}
		at := s.Partitions[p.Index]
		of = append(of, p)
		out = append(out, Marker{Log: at.Log, Shard: at.Shard, Marker: partlog.Marker{ProducerID: end.ProducerID, Epoch: end.Epoch,
			CoordinatorEpoch: int32(l.term), Commit: end.Commit, Version: end.Version}})
	}
	return out, of
}

// answered counts one answer; the last one ends the round.
func (h *txnHost) answered(l *loop, k txn.Key, r *txnRound) {
	if r.left--; r.left > 0 || h.rounds[k] != r {
		return
	}
	delete(h.rounds, k)
	if r.failed {
		h.resend.fail(l.now())
	} else {
		h.resend.succeed()
	}
	if end, open := l.m.Txns.Ending(k); open && end.Serial != r.serial {
		h.dispatch(l, k) // the deletion of a topic completed the one before, and the next has ended meanwhile
	}
	h.decide(l, func(c *txn.Coordinator, now int64) { c.Confirm(now, k, r.serial, r.partitions, r.groups) }, func(error) {})
}

// dispatchAll sends everything that is outstanding and not on its way.
func (h *txnHost) dispatchAll(l *loop) {
	for _, k := range l.m.Txns.Outstanding() {
		h.dispatch(l, k)
	}
}

// deadline is the Unix ms at which tick has something to do; math.MaxInt64 for never.
func (h *txnHost) deadline() int64 {
	if h.coord == nil {
		return math.MaxInt64
	}
	return min(h.coord.NextDeadline(), h.resend.deadline())
}

func (h *txnHost) tick(l *loop) {
	if h.coord == nil {
		return
	}
	if h.resend.due(l.now()) {
		h.dispatchAll(l)
	}
	h.decide(l, func(c *txn.Coordinator, now int64) { c.Tick(now) }, func(error) {})
}

// TxnDecide runs fn in the coordinator of a transactional ID, and returns when what it decided, and what its answer may rest on,
// is committed.
func (e *Engine) TxnDecide(ctx context.Context, k txn.Key, fn func(c *txn.Coordinator, now int64)) error {
	return e.txnDecide(ctx, e.View().GroupShard(k.Namespace, k.ID), fn)
}

// EachTxnShard runs fn in the coordinator of every shard that may have transactions, one after the other.
func (e *Engine) EachTxnShard(ctx context.Context, fn func(c *txn.Coordinator, now int64)) error {
	for _, id := range e.View().GroupShards() {
		if err := e.txnDecide(ctx, id, fn); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) txnDecide(ctx context.Context, id base.ShardID, fn func(c *txn.Coordinator, now int64)) error {
	return e.consult(ctx, id, func(l *loop, reply func(error)) { l.txns.decide(l, fn, reply) })
}

// TxnEnded waits until a transaction whose outcome is decided has it in all its partitions and groups.
func (e *Engine) TxnEnded(ctx context.Context, k txn.Key) error {
	return e.consult(ctx, e.View().GroupShard(k.Namespace, k.ID), func(l *loop, reply func(error)) {
		h := &l.txns
		_, open := l.m.Txns.Ending(k)
		switch {
		case h.coord == nil:
			reply(l.why)
		case open:
			h.ended[k] = append(h.ended[k], reply)
		default:
			h.rest(reply)
		}
	})
}
