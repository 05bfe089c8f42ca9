package txn

import (
	"maps"
	"math"
	"slices"
	"time"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// Options are the broker's settings of transactions.
type Options struct {
	MaxTimeout      time.Duration // longest time-out that a producer may ask for, transaction.max.timeout.ms
	Expiry          time.Duration // after which an ID without a transaction is forgotten, transactional.id.expiration.ms
	MaxParticipants int           // partitions and groups of one transaction
}

// DefaultOptions are Kafka's, and a limit of our own.
func DefaultOptions() Options {
	return Options{MaxTimeout: 15 * time.Minute, Expiry: 7 * 24 * time.Hour, MaxParticipants: 100_000}
}

// Coordinator runs the transactions of one shard, for its leader. It has one owner.
type Coordinator struct {
	opts    Options
	now     int64 // largest time seen, Unix ms
	live    *State
	timers  timers
	changes []Command
}

// NewCoordinator takes over the transactional IDs of a state. Time-outs go on as they were.
func NewCoordinator(opts Options, s *State, now int64) *Coordinator {
	c := &Coordinator{opts: opts, now: now, live: s.clone(), timers: timers{ends: map[Key]*timer{}}}
	for _, k := range slices.SortedFunc(maps.Keys(c.live.txns), compareKeys) {
		c.schedule(k)
	}
	return c
}

// Live is the state with what is in flight; not to be changed, nor kept over the next call.
func (c *Coordinator) Live() *State { return c.live }

// Exists reports whether there is such a transactional ID, or is about to be.
func (c *Coordinator) Exists(k Key) bool { return c.live.Exists(k) }

// Changes hands out the commands that came up since the last call, in order.
func (c *Coordinator) Changes() []Command {
	out := c.changes
	c.changes = nil
	if invariants.Expensive {
		c.Check()
	}
	return out
}

// decide enters a decision about a transactional ID.
func (c *Coordinator) decide(k Key, cmd Command) {
	c.live.Apply(cmd)
	clear(c.live.dirty) // it is never checkpointed
	c.changes = append(c.changes, cmd)
	c.schedule(k)
}

// StreamDeleted notes that the stream is gone and the state knows it: the command is in the journal already.
func (c *Coordinator) StreamDeleted(id base.StreamID) {
	busy := slices.SortedFunc(maps.Keys(c.live.busy), compareKeys)
	c.live.Apply(&StreamDeleted{id})
	clear(c.live.dirty)
	for _, k := range busy {
		c.schedule(k)
	}
}

// Confirm notes what has been done for the ending of that serial number, see [State.Ending].
func (c *Coordinator) Confirm(now int64, k Key, serial int64, partitions []Partition, groups []string) {
	c.advance(now)
	if t := c.live.txns[k]; t != nil && t.Status.preparing() && t.Serial == serial && len(partitions)+len(groups) > 0 {
		c.decide(k, &Confirm{k, serial, c.now, partitions, groups})
	}
}

// advance moves the coordinator's time, which never goes back.
func (c *Coordinator) advance(now int64) { c.now = max(c.now, now) }

// deadline is when something is to be done by itself, Unix ms; math.MaxInt64 for never.
func (c *Coordinator) deadline(h *Head) int64 {
	switch {
	case h.Status.preparing():
		return math.MaxInt64
	case h.Status == Ongoing:
		return h.Started + int64(h.TimeoutMs)
	}
	return h.Updated + c.opts.Expiry.Milliseconds()
}

func (c *Coordinator) schedule(k Key) {
	if t := c.live.txns[k]; t != nil {
		c.timers.set(k, c.deadline(&t.Head))
	} else {
		c.timers.drop(k)
	}
}

// NextDeadline is the Unix ms at which Tick may have something to do; math.MaxInt64 for never.
func (c *Coordinator) NextDeadline() int64 { return c.timers.next() }

// Tick aborts the transactions that are open for too long, and forgets the IDs that nobody has used.
func (c *Coordinator) Tick(now int64) {
	c.advance(now)
	for k, ok := c.timers.due(c.now); ok; k, ok = c.timers.due(c.now) {
		if t := c.live.txns[k]; t.Status == Ongoing {
			c.abort(k, t)
		} else {
			c.decide(k, &Forget{k})
		}
	}
}

// checkKey refuses names that no transactional ID can have.
func checkKey(k Key) *base.Error {
	switch {
	case k.ID == "":
		return base.Errorf(base.CodeInvalidRequest, "The transactional ID is empty.")
	case len(k.ID) > MaxID:
		return base.Errorf(base.CodeInvalidRequest, "The transactional ID has %d bytes; at most %d are allowed.", len(k.ID), MaxID)
	}
	return nil
}

// Check verifies the state and that each ID has its deadline, and panics where that does not hold.
func (c *Coordinator) Check() {
	c.live.Check()
	invariants.Check(len(c.timers.ends) == len(c.live.txns), "%d transactional IDs, %d deadlines", len(c.live.txns), len(c.timers.ends))
	for k, t := range c.live.txns {
		e := c.timers.ends[k]
		invariants.Check(e != nil && e.end == c.deadline(&t.Head), "%v has no deadline or another: %+v", k, e)
		invariants.Check(e.queued <= e.end, "%v is looked at late", k)
	}
}
