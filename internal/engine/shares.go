package engine

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/meta"
	"godwit/internal/shard"
)

// shareHost runs the coordinator of share groups of one shard within its loop: it journals what the coordinator decides, answers
// when that is committed, and has the shards of partitions make and delete queues.
type shareHost struct {
	coord *share.Coordinator // nil while the shard has no leader here
	view  *meta.View         // that the coordinator knows
	flights
	rounds map[share.Key]*queueRound
	idle   map[share.Key][]func(error) // wait until nothing is outstanding for a group

	again backoff // for what is outstanding
}

// topicsOf is a view of the metadata as the coordinator wants it.
type topicsOf struct{ view *meta.View }

func (t topicsOf) ByName(namespace, name string) (share.Topic, bool) {
	return topicOf(t.view.Stream(namespace, name))
}

func (t topicsOf) ByID(id base.StreamID) (share.Topic, bool) { return topicOf(t.view.StreamByID(id)) }

func topicOf(s *meta.Stream, ok bool) (share.Topic, bool) {
	if !ok {
		return share.Topic{}, false
	}
	return share.Topic{ID: s.ID, Name: s.Name, Partitions: len(s.Partitions)}, true
}

// lead makes a coordinator for a new term.
func (h *shareHost) lead(l *loop) {
	h.renew(l)
	h.again = backoff{}
	h.resend(l)
}

// renew makes a coordinator from what is committed.
func (h *shareHost) renew(l *loop) {
	h.resign(base.Errorf(base.CodeNotReady, "the coordinator has moved: ask again"))
	h.view = l.e.View()
	h.coord = share.NewCoordinator(l.e.opts.Shares, l.m.Shares, topicsOf{h.view}, l.now())
	h.rounds, h.idle = map[share.Key]*queueRound{}, map[share.Key][]func(error){}
}

// resign ends the coordinator. Those who wait for entries in flight are answered as these are settled.
func (h *shareHost) resign(cause error) {
	for _, waiting := range h.idle {
		for _, fn := range waiting {
			fn(cause)
		}
	}
	h.coord, h.last, h.idle, h.rounds, h.again = nil, nil, nil, nil, backoff{}
}

// decide runs fn in the coordinator and has reply called when what it decided, and what it may have seen, is committed.
func (h *shareHost) decide(l *loop, fn func(c *share.Coordinator, now int64), reply func(error)) {
	if h.coord == nil {
		reply(l.why)
		return
	}
	if v := l.e.View(); v != h.view {
		h.view = v
		h.coord.SetTopics(topicsOf{v})
	}
	fn(h.coord, l.now())
	changes := h.coord.Changes()
	if len(changes) == 0 {
		h.rest(reply)
		return
	}
	coord := h.coord
	h.journal(l, &shard.Command{Shares: changes}, func(err error) {
		if h.coord == coord {
			h.lost(l, err)
		}
	}, reply)
}

// lost makes a new coordinator when decisions were not committed: the old one has gone ahead of them. What is outstanding waits a
// little, since it may be its confirmation that a full disk refused.
func (h *shareHost) lost(l *loop, err error) {
	if l.term == 0 {
		h.resign(err)
		return
	}
	h.renew(l)
	h.again.fail(l.now())
}

// applied looks at what an entry changed in the state.
func (h *shareHost) applied(l *loop, c *shard.Command) {
	if c.Forget != nil && h.coord != nil {
		h.coord.StreamDeleted(*c.Forget)
		h.settled(l)
	}
	for _, cmd := range c.Shares {
		switch cmd := cmd.(type) {
		case *share.SetConfig:
			l.e.groupConfigs.put(cmd.Key, cmd.Values)
			l.e.queueWatches.signalGroup(cmd.Key)
		case *share.Update:
			if len(cmd.Queues) > 0 {
				h.dispatch(l, cmd.Key)
			}
		case *share.DeleteGroup:
			h.dispatch(l, cmd.Key)
		case *share.ConfirmQueues:
			h.settled(l)
		}
	}
}

// settled tells those who wait for groups for which nothing is outstanding any more.
func (h *shareHost) settled(l *loop) {
	for k, waiting := range h.idle {
		if len(l.m.Shares.Effects(k)) > 0 {
			continue
		}
		delete(h.idle, k)
		for _, fn := range waiting {
			fn(nil)
		}
	}
}

// deadline is the Unix ms at which tick has something to do; math.MaxInt64 for never.
func (h *shareHost) deadline() int64 {
	if h.coord == nil {
		return math.MaxInt64
	}
	return min(h.coord.NextDeadline(), h.again.deadline())
}

func (h *shareHost) tick(l *loop) {
	if h.coord == nil {
		return
	}
	if h.again.due(l.now()) {
		h.resend(l)
	}
	h.decide(l, func(c *share.Coordinator, now int64) { c.Tick(now) }, func(error) {})
}

// exists reports whether the name is taken by a share group.
func (h *shareHost) exists(k group.Key) bool { return h.coord != nil && h.coord.Exists(k) }

// ShareDecide runs fn in the coordinator of a share group, and returns when what it decided, and what its answer may
// rest on, is committed. taken reports whether the name belongs to a group of another type.
func (e *Engine) ShareDecide(ctx context.Context, k share.Key, fn func(c *share.Coordinator, now int64, taken bool)) error {
	return e.shareDecide(ctx, e.View().GroupShard(k.Namespace, k.Group), func(l *loop, c *share.Coordinator, now int64) {
		fn(c, now, !c.Exists(k) && (l.streams.exists(k) || l.groups.coord != nil && l.groups.coord.Exists(k)))
	})
}

func (e *Engine) shareDecide(ctx context.Context, id base.ShardID, fn func(l *loop, c *share.Coordinator, now int64)) error {
	return e.consult(ctx, id, func(l *loop, reply func(error)) {
		l.shares.decide(l, func(c *share.Coordinator, now int64) { fn(l, c, now) }, reply)
	})
}

// EachShareShard runs fn in the coordinator of every shard that may have groups, one after the other.
func (e *Engine) EachShareShard(ctx context.Context, fn func(c *share.Coordinator)) error {
	for _, id := range e.View().GroupShards() {
		if err := e.shareDecide(ctx, id, func(_ *loop, c *share.Coordinator, _ int64) { fn(c) }); err != nil {
			return err
		}
	}
	return nil
}

// ShareSettled waits until nothing is to be done any more for the queues of a share group.
func (e *Engine) ShareSettled(ctx context.Context, k share.Key) error {
	return e.consult(ctx, e.View().GroupShard(k.Namespace, k.Group), func(l *loop, reply func(error)) {
		h := &l.shares
		switch {
		case h.coord == nil:
			reply(l.why)
		case len(l.m.Shares.Effects(k)) == 0:
			reply(nil)
		default:
			h.idle[k] = append(h.idle[k], reply)
		}
	})
}

// GroupConfig is the explicit configuration of a group, whatever its type; not to be written to.
func (e *Engine) GroupConfig(k share.Key) map[string]string { return e.groupConfigs.get(k) }

// GroupConfigs calls fn for every group with a configuration, in no order.
func (e *Engine) GroupConfigs(fn func(share.Key, map[string]string)) { e.groupConfigs.each(fn) }

// configMap publishes the configurations of all groups of the node, since those who need them are in other shards.
type configMap struct {
	m       sync.Map
	version atomic.Uint64 // rises with each change
}

func (m *configMap) get(k share.Key) map[string]string {
	v, ok := m.m.Load(k)
	if !ok {
		return nil
	}
	return v.(map[string]string)
}

func (m *configMap) put(k share.Key, values map[string]string) {
	if len(values) == 0 {
		m.m.Delete(k)
	} else {
		m.m.Store(k, values)
	}
	m.version.Add(1)
}

func (m *configMap) each(fn func(share.Key, map[string]string)) {
	m.m.Range(func(k, v any) bool {
		fn(k.(share.Key), v.(map[string]string))
		return true
	})
}
