package engine

import (
	"context"
	"errors"
	"iter"
	"math"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
	"godwit/internal/shard"
)

// groupHost runs the group coordinator of one shard within its loop: it hands out tokens, journals what the
// coordinator wants kept, and delivers replies when that is committed.
type groupHost struct {
	coord   *group.Coordinator // nil while the shard has no leader here
	view    *meta.View         // that the coordinator knows
	waiters map[uint64]func(any)
	token   uint64
	flights
}

// groupTopics is a view of the metadata as the coordinator wants it.
type groupTopics struct{ view *meta.View }

func (t groupTopics) ByName(namespace, name string) (group.Topic, bool) {
	return groupTopic(t.view.Stream(namespace, name))
}

func (t groupTopics) ByID(id base.StreamID) (group.Topic, bool) {
	return groupTopic(t.view.StreamByID(id))
}

func (t groupTopics) Names(namespace string) iter.Seq[string] {
	return func(yield func(string) bool) {
		t.view.All(func(s *meta.Stream) bool { return s.Namespace != namespace || yield(s.Name) })
	}
}

func groupTopic(s *meta.Stream, ok bool) (group.Topic, bool) {
	if !ok {
		return group.Topic{}, false
	}
	return group.Topic{ID: s.ID, Name: s.Name, Partitions: len(s.Partitions)}, true
}

// lead makes a coordinator for a new term.
func (h *groupHost) lead(l *loop) {
	h.resign(l, base.Errorf(base.CodeNotReady, "the coordinator has moved: ask again"))
	opts := l.e.opts.Groups
	opts.Taken = func(k group.Key) bool { return l.shares.exists(k) || l.streams.exists(k) }
	opts.Streams = streamsOffsets{l}
	opts.Consumer.Configs = func(k group.Key) map[string]string { return l.e.groupConfigs.get(k) }
	h.coord = group.NewCoordinator(opts, l.m.Offsets, l.now())
	h.view, h.last = nil, nil
	if h.waiters == nil {
		h.waiters = map[uint64]func(any){}
	}
}

// leader is the coordinator, which knows the metadata as of now; nil while the shard has no leader here.
func (h *groupHost) leader(l *loop) *group.Coordinator {
	if v := l.e.View(); h.coord != nil && v != h.view {
		h.view = v
		h.coord.SetTopics(groupTopics{v})
	}
	return h.coord
}

// resign answers everyone who waits.
func (h *groupHost) resign(l *loop, cause error) {
	if h.coord == nil {
		return
	}
	h.deliver(h.coord.Resign(asError(cause)))
	h.coord, h.last = nil, nil
}

func asError(err error) *base.Error {
	var e *base.Error
	if errors.As(err, &e) {
		return e
	}
	return &base.Error{Code: base.CodeOf(err), Msg: err.Error()}
}

func (h *groupHost) deliver(replies []group.Reply) {
	for _, r := range replies {
		if fn := h.waiters[r.Token]; fn != nil {
			delete(h.waiters, r.Token)
			fn(r.Response)
		}
	}
}

// finish journals what the last call changed, and delivers its replies after that. If it cannot be journaled they say so: the
// coordinator that they are from may be gone, and the next one know nothing of them.
func (h *groupHost) finish(l *loop, replies []group.Reply) {
	changes := h.coord.Changes()
	if len(changes) == 0 {
		h.deliver(replies)
		return
	}
	h.keep(l, changes, func(err error) {
		if err != nil {
			replies = group.Failed(replies, asError(err))
		}
		h.deliver(replies)
	})
}

// keep has reply called when the commands, which are of the last call, are committed or lost. A coordinator that has gone ahead
// of lost commands is replaced by one that is made of what is saved.
func (h *groupHost) keep(l *loop, commands []group.Command, reply func(error)) {
	coord := h.coord
	h.journal(l, &shard.Command{Groups: commands}, func(error) {
		if h.coord == coord && l.term != 0 && group.Binding(commands) {
			h.lead(l)
		}
	}, reply)
}

// decide journals what fn returns and what it changed, and has reply called after that. If that is nothing, and the answer may
// rest on changes that are in flight, it waits for these.
func (h *groupHost) decide(l *loop, fn func(c *group.Coordinator, now int64) []group.Command, rests bool, reply func(error)) {
	c := h.leader(l)
	if c == nil {
		reply(l.why)
		return
	}
	commands := fn(c, l.now())
	commands = append(commands, c.Changes()...)
	switch {
	case len(commands) > 0:
		h.keep(l, commands, reply)
	case rests:
		h.rest(reply)
	default:
		reply(nil)
	}
}

// endTxn enters the end of a transaction into a group, whatever is kept aside there.
func (h *groupHost) endTxn(l *loop, cmd *group.EndTxnOffsets, reply func(error)) {
	h.decide(l, func(c *group.Coordinator, _ int64) []group.Command {
		c.EndTxn(cmd)
		return []group.Command{cmd}
	}, true, reply)
}

// deadline is the Unix ms at which tick has something to do; math.MaxInt64 for never.
func (h *groupHost) deadline() int64 {
	if h.coord == nil {
		return math.MaxInt64
	}
	return h.coord.NextDeadline()
}

func (h *groupHost) tick(l *loop) {
	if c := h.leader(l); c != nil {
		h.finish(l, c.Tick(l.now()))
	}
}

// GroupCall runs a request of the classic protocol in the coordinator of its group and waits for the answer, for
// as long as the coordinator makes it wait. When ctx ends first the request is withdrawn.
func (e *Engine) GroupCall(ctx context.Context, k group.Key, fn func(c *group.Coordinator, now int64, token uint64) []group.Reply) (any, error) {
	l := e.loop(e.View().GroupShard(k.Namespace, k.Group))
	done := make(chan struct{})
	var answer any
	var failure error
	var token uint64
	l.post(message{call: func(l *loop) {
		h := &l.groups
		if h.leader(l) == nil {
			failure = l.why
			close(done)
			return
		}
		h.token++
		token = h.token
		h.waiters[token] = func(a any) { answer = a; close(done) }
		h.finish(l, fn(h.coord, l.now(), token))
	}})
	if err := e.await(ctx, done); err != nil {
		l.post(message{call: func(l *loop) {
			if h := &l.groups; h.coord != nil && h.waiters[token] != nil {
				delete(h.waiters, token)
				h.finish(l, h.coord.Cancel(l.now(), token))
			}
		}})
		return nil, err
	}
	return answer, failure
}

// GroupDecide runs fn in the coordinator of a group; what commands it returns are journaled, and GroupDecide waits for
// that.
func (e *Engine) GroupDecide(ctx context.Context, k group.Key, fn func(c *group.Coordinator, now int64) []group.Command) error {
	return e.groupDecide(ctx, e.View().GroupShard(k.Namespace, k.Group), fn)
}

// GroupHeartbeat is GroupDecide for a request of a group of the consumer protocol: replies of other requests, which fn returns,
// are delivered, and the answer waits for the changes on which it rests, be they those of an earlier request.
func (e *Engine) GroupHeartbeat(ctx context.Context, k group.Key, fn func(c *group.Coordinator, now int64) []group.Reply) error {
	return e.consult(ctx, e.View().GroupShard(k.Namespace, k.Group), func(l *loop, reply func(error)) {
		var replies []group.Reply
		l.groups.decide(l, func(c *group.Coordinator, now int64) []group.Command {
			replies = fn(c, now)
			return nil
		}, true, func(err error) {
			l.groups.deliver(replies) // of a classic group that was: they only tell to join again
			reply(err)
		})
	})
}

func (e *Engine) groupDecide(ctx context.Context, id base.ShardID, fn func(c *group.Coordinator, now int64) []group.Command) error {
	return e.consult(ctx, id, func(l *loop, reply func(error)) { l.groups.decide(l, fn, false, reply) })
}

// EachGroupShard is GroupDecide for every shard that may have groups, one after the other.
func (e *Engine) EachGroupShard(ctx context.Context, fn func(c *group.Coordinator, now int64) []group.Command) error {
	for _, id := range e.View().GroupShards() {
		if err := e.groupDecide(ctx, id, fn); err != nil {
			return err
		}
	}
	return nil
}
