package engine

import "godwit/internal/shard"

// flights has the answers of one coordinator wait for the entries that hold the decisions they rest on. A coordinator is ahead
// of what is committed, so also an answer that decided nothing may rest on what is in flight.
type flights struct {
	last *flight // the newest entry that is not settled; nil if all are
}

// flight is one entry with decisions, and who is to be answered when it is settled.
type flight struct{ replies []func(error) }

// journal proposes decisions and has reply called when they are settled; if they are not committed, lost is called before.
func (f *flights) journal(l *loop, c *shard.Command, lost, reply func(error)) {
	mine := &flight{[]func(error){reply}}
	f.last = mine
	l.command(c, func(_ *shard.Applied, err error) {
		if f.last == mine {
			f.last = nil
		}
		if err != nil {
			lost(err)
		}
		for _, fn := range mine.replies {
			fn(err)
		}
	})
}

// rest has reply called when everything that was journaled so far is settled: at once, if it is.
func (f *flights) rest(reply func(error)) {
	if f.last == nil {
		reply(nil)
		return
	}
	f.last.replies = append(f.last.replies, reply)
}
