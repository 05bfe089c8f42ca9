package engine

import (
	"context"
	"math"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/streams"
	"godwit/internal/meta"
	"godwit/internal/shard"
)

// streamsHost runs the coordinator of streams groups of one shard within its loop: it journals what the coordinator decides, and answers
// when that is committed.
type streamsHost struct {
	coord *streams.Coordinator // nil while the shard has no leader here
	view  *meta.View           // that the coordinator knows
	flights
}

// streamsTopics is a view of the metadata as the coordinator wants it.
type streamsTopics struct{ view *meta.View }

func (t streamsTopics) ByName(namespace, name string) (streams.Topic, bool) {
	s, ok := t.view.Stream(namespace, name)
	return streamsTopic(s, ok)
}

func (t streamsTopics) ByID(id base.StreamID) (streams.Topic, bool) {
	s, ok := t.view.StreamByID(id)
	return streamsTopic(s, ok)
}

func streamsTopic(s *meta.Stream, ok bool) (streams.Topic, bool) {
	if !ok {
		return streams.Topic{}, false
	}
	return streams.Topic{ID: s.ID, Name: s.Name, Partitions: len(s.Partitions)}, true
}

// lead makes a coordinator from what is committed.
func (h *streamsHost) lead(l *loop) {
	opts := l.e.opts.Streams
	opts.Configs = func(k streams.Key) map[string]string { return l.e.groupConfigs.get(k) }
	h.view = l.e.View()
	h.coord, h.last = streams.NewCoordinator(opts, l.m.Streams, streamsTopics{h.view}, l.now()), nil
}

// resign ends the coordinator. Those who wait for entries in flight are answered as these are settled.
func (h *streamsHost) resign() { h.coord, h.last = nil, nil }

// leader is the coordinator, which knows the metadata as of now; nil while the shard has no leader here.
func (h *streamsHost) leader(l *loop) *streams.Coordinator {
	if v := l.e.View(); h.coord != nil && v != h.view {
		h.view = v
		h.coord.SetTopics(streamsTopics{v})
	}
	return h.coord
}

// decide runs fn in the coordinator and has reply called when what it decided, and what it may have seen, is committed.
func (h *streamsHost) decide(l *loop, fn func(c *streams.Coordinator, now int64), reply func(error)) {
	c := h.leader(l)
	if c == nil {
		reply(l.why)
		return
	}
	fn(c, l.now())
	changes := c.Changes()
	if len(changes) == 0 {
		h.rest(reply)
		return
	}
	h.journal(l, &shard.Command{Streams: changes}, func(error) {
		switch {
		case h.coord != c: // replaced already
		case l.term == 0:
			h.resign()
		default:
			h.lead(l)
		}
	}, reply)
}

// deadline is the Unix ms at which tick has something to do; math.MaxInt64 for never.
func (h *streamsHost) deadline() int64 {
	if h.coord == nil {
		return math.MaxInt64
	}
	return h.coord.NextDeadline()
}

func (h *streamsHost) tick(l *loop) {
	if h.coord != nil && h.coord.NextDeadline() <= l.now() {
		h.decide(l, func(c *streams.Coordinator, now int64) { c.Tick(now) }, func(error) {})
	}
}

// exists reports whether the name is taken by a streams group.
func (h *streamsHost) exists(k group.Key) bool {
	return h.coord != nil && h.coord.Exists(k)
}

// streamsOffsets is what the coordinator of groups has to know of streams groups, whose offsets it keeps.
type streamsOffsets struct{ l *loop }

func (s streamsOffsets) Exists(k group.Key) bool { return s.l.streams.exists(k) }

func (s streamsOffsets) CheckCommit(req *group.CommitRequest) *base.Error {
	check := &streams.CommitCheck{
		Key: req.Key, MemberID: req.MemberID, Epoch: req.Generation,
		Anonymous: req.Anonymous(), Transactional: req.Transactional(), Classic: req.Classic,
	}
	for _, at := range req.Offsets {
		check.Partitions = append(check.Partitions, at.Partition)
	}
	return s.l.streams.leader(s.l).CheckCommit(check)
}

func (s streamsOffsets) CheckFetch(req *group.FetchOffsetsRequest) *base.Error {
	return s.l.streams.coord.CheckFetch(req.Key, req.MemberID, req.Epoch)
}

func (s streamsOffsets) Reads(k group.Key, topic string) bool {
	return s.l.streams.coord.Reads(k, topic)
}

// StreamsDecide runs fn in the coordinator of a streams group, and returns when what it decided, and what its answer may
// rest on, is committed. taken reports whether the name belongs to a group of another type; an empty classic group gives up its name,
// and its offsets are the streams group's then.
func (e *Engine) StreamsDecide(ctx context.Context, k streams.Key, fn func(c *streams.Coordinator, now int64, taken bool)) error {
	return e.streamsDecide(ctx, e.View().GroupShard(k.Namespace, k.Group), func(l *loop, c *streams.Coordinator, now int64) {
		groups := l.groups.coord
		fn(c, now, !c.Exists(k) && (l.shares.exists(k) || groups != nil && !groups.Vacant(k)))
	})
}

func (e *Engine) streamsDecide(ctx context.Context, id base.ShardID, fn func(l *loop, c *streams.Coordinator, now int64)) error {
	return e.consult(ctx, id, func(l *loop, reply func(error)) {
		l.streams.decide(l, func(c *streams.Coordinator, now int64) { fn(l, c, now) }, reply)
	})
}

// EachStreamsShard runs fn in the coordinator of every shard that may have groups, one after the other.
func (e *Engine) EachStreamsShard(ctx context.Context, fn func(c *streams.Coordinator)) error {
	for _, id := range e.View().GroupShards() {
		if err := e.streamsDecide(ctx, id, func(_ *loop, c *streams.Coordinator, _ int64) { fn(c) }); err != nil {
			return err
		}
	}
	return nil
}

// DeleteStreamsGroup deletes a streams group without members, and its offsets: these first, so that what is left after a loss of
// power is still a streams group, which can be deleted again.
func (e *Engine) DeleteStreamsGroup(ctx context.Context, k streams.Key) error {
	var refused *base.Error
	err := e.streamsDecide(ctx, e.View().GroupShard(k.Namespace, k.Group), func(l *loop, c *streams.Coordinator, _ int64) {
		if !c.Empty(k) {
			refused = c.Delete(k)
			return
		}
		l.groups.decide(l, func(groups *group.Coordinator, _ int64) []group.Command {
			if cmd := groups.DeleteStreams(k); cmd != nil {
				return []group.Command{cmd}
			}
			return nil
		}, false, func(error) {}) // if it is lost, so is what follows
		refused = c.Delete(k)
	})
	if err == nil && refused != nil {
		return refused
	}
	return err
}

// ReleaseStreamsName gives up the name of a streams group without members for a classic group, which has its offsets then.
func (e *Engine) ReleaseStreamsName(ctx context.Context, k streams.Key) error {
	return e.streamsDecide(ctx, e.View().GroupShard(k.Namespace, k.Group), func(_ *loop, c *streams.Coordinator, _ int64) { c.Release(k) })
}

// expireStreams forgets streams groups without members and offsets.
func (e *Engine) expireStreams(ctx context.Context) error {
	for _, id := range e.View().GroupShards() {
		err := e.streamsDecide(ctx, id, func(l *loop, c *streams.Coordinator, _ int64) {
			if groups := l.groups.coord; groups != nil {
				c.Expire(func(k streams.Key) bool { return groups.HasOffsets(k) })
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
