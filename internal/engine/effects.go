package engine

import (
	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/shard"
)

// effectHost sends what the metadata asks of other shards, and notes in the journal when all of them have done
// it. What is outstanding is part of the metadata, so a restart or a lost write only means to send again.
type effectHost struct {
	sent map[base.StreamID]*sending
}

// sending is one round of effects for one stream.
type sending struct {
	left   int // shards that have not answered
	failed bool
	done   meta.EffectDone
	again  bool // the stream changed meanwhile
}

// dispatch sends the outstanding effects of a stream, one round at a time.
func (h *effectHost) dispatch(l *loop, id base.StreamID) {
	if h.sent == nil {
		h.sent = map[base.StreamID]*sending{}
	}
	if s := h.sent[id]; s != nil {
		s.again = true
		return
	}
	effects := l.m.Meta.Effects(id)
	if len(effects) == 0 {
		return
	}
	s := &sending{left: len(effects), done: meta.EffectDone{Stream: id}}
	if st, ok := l.m.Meta.View.StreamByID(id); ok {
		s.done.Ready = len(st.Partitions)
	} else {
		s.done.Dropped = true
	}
	h.sent[id] = s
	for _, ef := range effects {
		c := &shard.Command{Create: ef.Create, Drop: ef.Drop}
		if ef.Forget {
			c.Forget = &ef.Stream
		}
		report := func(_ *shard.Applied, err error) {
			l.post(message{call: func(l *loop) { h.answered(l, s, err) }})
		}
		l.e.loop(ef.Shard).post(message{call: func(o *loop) { o.command(c, report) }})
	}
}

// answered takes one shard's answer; the last one ends the round.
func (h *effectHost) answered(l *loop, s *sending, err error) {
	s.failed = s.failed || err != nil
	if s.left--; s.left > 0 {
		return
	}
	id := s.done.Stream
	if s.failed {
		delete(h.sent, id) // tried again by the next resend
		return
	}
	c := &meta.Command{Done: &s.done}
	l.m.Guess.Apply(c)
	l.command(&shard.Command{Meta: c.Encode()}, func(_ *shard.Applied, err error) {
		delete(h.sent, id)
		if err == nil && s.again {
			h.dispatch(l, id)
		}
	})
}

// resend sends everything that is outstanding and not on its way: at the beginning of a term, and from time to time, since a
// full disk may have refused it.
func (h *effectHost) resend(l *loop) {
	if l.term == 0 {
		return
	}
	for _, id := range l.m.Meta.Outstanding() {
		h.dispatch(l, id)
	}
}
