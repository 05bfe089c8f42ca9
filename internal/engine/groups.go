package engine

import (
	"context"
	"errors"
	"math"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/shard"
)

// groupHost runs the group coordinator of one shard within its loop: it hands out tokens, journals what the
// coordinator wants kept, and delivers replies when that is committed.
type groupHost struct {
	coord   *group.Coordinator // nil while the shard has no leader here
	waiters map[uint64]func(any)
	token   uint64
}

// lead makes a coordinator for a new term.
func (h *groupHost) lead(l *loop) {
	h.resign(l, base.Errorf(base.CodeNotReady, "the coordinator has moved: ask again"))
	h.coord = group.NewCoordinator(l.e.opts.Groups, l.m.Offsets, l.now())
	h.waiters = map[uint64]func(any){}
}

// resign answers everyone who waits.
func (h *groupHost) resign(l *loop, cause error) {
	if h.coord == nil {
		return
	}
	h.deliver(h.coord.Resign(asError(cause)))
	h.coord = nil
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

// finish journals what the last call changed, and delivers its replies after that. If it cannot be
// journaled they are delivered all the same: a membership is then only as durable as this process.
func (h *groupHost) finish(l *loop, replies []group.Reply) {
	changes := h.coord.Changes()
	if len(changes) == 0 {
		h.deliver(replies)
		return
	}
	l.command(&shard.Command{Groups: changes}, func(*shard.Applied, error) { h.deliver(replies) })
}

func (h *groupHost) deadline() (at int64, ok bool) {
	if h.coord == nil {
		return 0, false
	}
	at = h.coord.NextDeadline()
	return at, at != math.MaxInt64
}

func (h *groupHost) tick(l *loop) {
	if h.coord != nil {
		h.finish(l, h.coord.Tick(l.now()))
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
		if h.coord == nil {
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

func (e *Engine) groupDecide(ctx context.Context, id base.ShardID, fn func(c *group.Coordinator, now int64) []group.Command) error {
	done, t := make(chan struct{}), newTicket()
	var failure error
	finish := func(_ *shard.Applied, err error) { failure = err; close(done) }
	e.loop(id).post(message{call: func(l *loop) {
		if !t.use() {
			return
		}
		defer t.done()
		if l.groups.coord == nil {
			finish(nil, l.why)
			return
		}
		commands := fn(l.groups.coord, l.now())
		if commands = append(commands, l.groups.coord.Changes()...); len(commands) == 0 {
			finish(nil, nil)
			return
		}
		l.command(&shard.Command{Groups: commands}, finish)
	}})
	if err := e.await(ctx, done); err != nil {
		t.withdraw()
		return err
	}
	return failure
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
