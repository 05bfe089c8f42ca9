package engine

import (
	"container/heap"
	"math"

	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/groupconf"
	"godwit/internal/queue"
	"godwit/internal/shard"
)

// queueHost runs the queues of one shard within its loop: it journals what they decide, answers when that is committed, and
// tells those who wait for records.
type queueHost struct {
	hosted  map[shard.QueueKey]*hostedQueue // with a leader here that has decided something
	due     dueQueues
	working map[shard.QueueKey]struct{} // an entry in flight makes, sets back or deletes the queue
	jobs    map[shard.QueueKey]*letterJob
	tried   map[shard.QueueKey]uint64 // the last effect that may have been carried out, in part or unconfirmed
}

// hostedQueue is what the host knows of one queue.
type hostedQueue struct {
	key     shard.QueueKey
	flights flights
	at      int64  // Unix ms at which its Tick is due, as entered in queueHost.due; math.MaxInt64: not
	config  uint64 // version of the configurations that its options are from
	seen    groupconf.Share

	lettersAt int64 // Unix ms before which no dead letter is written, since one could not be
}

// dueQueue is an entry of a heap; it counts while the queue has this time.
type dueQueue struct {
	at int64
	q  *hostedQueue
}

type dueQueues []dueQueue

func (d dueQueues) Len() int           { return len(d) }
func (d dueQueues) Less(i, j int) bool { return d[i].at < d[j].at }
func (d dueQueues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueQueues) Push(v any)        { *d = append(*d, v.(dueQueue)) }
func (d *dueQueues) Pop() any {
	old := *d
	v := old[len(old)-1]
	old[len(old)-1] = dueQueue{}
	*d = old[:len(old)-1]
	return v
}

// The limits of queues that are no configuration of groups.
const (
	queueHorizon = 60_000  // ms: what is delayed further waits in the state store
	queueRuns    = 100_000 // runs in memory that are not plain
	maxUnsaved   = 20_000  // changes to what waits in the state store before a checkpoint is made for them
	tickAgain    = 1_000   // ms after which the state store is asked again that could not be read
)

// queueOptions are a group's rules for its queues.
func queueOptions(s *groupconf.Share) queue.Options {
	o := queue.DefaultOptions()
	o.Lock, o.MaxWindow, o.MaxDeliveries = s.LockDuration, int64(s.MaxLocks), int32(s.DeliveryLimit)
	o.Horizon, o.MaxRuns = queueHorizon, queueRuns
	o.Silent = 1 << queue.CauseRetention // goes to the loss ledger with the trim
	if s.DeadLetters == "" {
		o.Silent |= 1<<queue.CauseRejected | 1<<queue.CauseLimit
	}
	return o
}

// lead begins a term, or goes on in one after decisions were lost.
func (h *queueHost) lead(l *loop) {
	h.hosted, h.due, h.working = map[shard.QueueKey]*hostedQueue{}, nil, map[shard.QueueKey]struct{}{}
	if h.jobs == nil {
		h.jobs, h.tried = map[shard.QueueKey]*letterJob{}, map[shard.QueueKey]uint64{}
	}
	l.m.Queues(func(k shard.QueueKey, q *queue.Queue) {
		if effects := q.Effects(); len(effects) > 0 {
			h.tried[k] = effects[len(effects)-1].ID
		}
		hq := h.host(l, k, q)
		h.schedule(l, hq, q)
		h.letters(l, hq, q)
		l.e.queueWatches.signal(k)
	})
}

// host finds what is known of a queue, and brings the queue's options up to date.
func (h *queueHost) host(l *loop, k shard.QueueKey, q *queue.Queue) *hostedQueue {
	hq := h.hosted[k]
	if hq == nil {
		hq = &hostedQueue{key: k, at: math.MaxInt64}
		h.hosted[k] = hq
	} else if hq.config == l.e.groupConfigs.version.Load() {
		return hq
	}
	hq.config = l.e.groupConfigs.version.Load()
	hq.seen = groupconf.ResolveShare(l.e.groupConfigs.get(k.Group), l.e.opts.Shares.Defaults)
	q.Options = queueOptions(&hq.seen)
	return hq
}

// open finds a queue to decide on.
func (h *queueHost) open(l *loop, k shard.QueueKey) (*hostedQueue, *queue.Queue, error) {
	if l.term == 0 {
		return nil, nil, l.why
	}
	log, ok := l.m.Writable(k.Log)
	if !ok {
		return nil, nil, unknownLog()
	}
	q, _, ok := l.m.Queue(k)
	if !ok {
		return nil, nil, base.Errorf(base.CodeUnknownPartition, "group %s has no queue in this partition: it has to subscribe to the topic", k.Group.Group)
	}
	hq := h.host(l, k, q)
	if cmd := q.Trim(l.now(), log.Start()); cmd != nil {
		h.journal(l, hq, q, cmd, func(error) {})
	}
	return hq, q, nil
}

func unknownLog() error {
	return base.Errorf(base.CodeUnknownPartition, "this server does not host this topic-partition")
}

// journal proposes what a queue decided and has reply called when it is settled. Of a nil command reply is called when all is
// settled that was decided before.
func (h *queueHost) journal(l *loop, hq *hostedQueue, q *queue.Queue, cmd queue.Command, reply func(error)) {
	if cmd == nil {
		hq.flights.rest(reply)
		return
	}
	h.schedule(l, hq, q)
	hq.flights.journal(l, &shard.Command{Queues: []shard.QueueCommand{{QueueKey: hq.key, Do: cmd}}}, func(error) {}, reply)
}

// schedule notes when the queue's Tick is due.
func (h *queueHost) schedule(l *loop, hq *hostedQueue, q *queue.Queue) {
	if l.term != 0 {
		h.enter(hq, hq.dueAt(l.now(), q))
	}
}

// dueAt is when the queue, or what it left to do, is to be looked at.
func (hq *hostedQueue) dueAt(now int64, q *queue.Queue) int64 {
	at := q.NextDeadline()
	if hq.lettersAt > now {
		at = min(at, hq.lettersAt)
	}
	return at
}

func (h *queueHost) enter(hq *hostedQueue, at int64) {
	if at == hq.at {
		return
	}
	if hq.at = at; at != math.MaxInt64 {
		heap.Push(&h.due, dueQueue{at, hq})
	}
}

// deadline is the Unix ms at which tick has something to do; math.MaxInt64 for never.
func (h *queueHost) deadline() int64 {
	for len(h.due) > 0 {
		if top := h.due[0]; top.at == top.q.at {
			return top.at
		}
		heap.Pop(&h.due)
	}
	return math.MaxInt64
}

// tick has the queues decide whose time has come.
func (h *queueHost) tick(l *loop) {
	now := l.now()
	for h.deadline() <= now {
		hq := heap.Pop(&h.due).(dueQueue).q
		hq.at = math.MaxInt64
		_, q, err := h.open(l, hq.key)
		if err != nil {
			continue
		}
		commands, err := q.Tick(now)
		for _, cmd := range commands {
			h.journal(l, hq, q, cmd, func(error) {})
		}
		next := hq.dueAt(now, q)
		if err != nil {
			l.e.opts.Log.Warn("delayed records of a queue cannot be looked up; it is tried again", "group", hq.key.Group.Group, "log", hq.key.Log, "error", err)
			next = max(next, now+tickAgain)
		}
		h.enter(hq, max(next, now+1))
		h.letters(l, hq, q)
		l.e.queueWatches.signal(hq.key) // what was delayed may be due without a command
	}
}

// applied looks at what an entry changed.
func (h *queueHost) applied(l *loop, c *shard.Command, a *shard.Applied) {
	for i := range c.Queues {
		qc := &c.Queues[i]
		if _, ok := qc.Do.(*queue.Acquire); !ok {
			l.e.queueWatches.signal(qc.QueueKey)
		}
		q, _, ok := l.m.Queue(qc.QueueKey)
		if !ok {
			h.forget(qc.QueueKey)
			continue
		}
		if q.Unsaved() > maxUnsaved {
			l.e.checkpointSoon()
		}
		if l.term != 0 {
			hq := h.host(l, qc.QueueKey, q)
			h.schedule(l, hq, q)
			h.letters(l, hq, q)
		}
	}
	for _, id := range a.Grown {
		l.m.QueuesOf(id, func(k shard.QueueKey, _ *queue.Queue) { l.e.queueWatches.signal(k) })
	}
	for _, id := range a.Dropped {
		l.e.queueWatches.signalLog(id)
		for k := range h.hosted {
			if k.Log == id {
				h.forget(k)
			}
		}
	}
}

// forget drops what is known of a queue that is gone.
func (h *queueHost) forget(k shard.QueueKey) {
	if hq := h.hosted[k]; hq != nil {
		hq.at = math.MaxInt64
		delete(h.hosted, k)
	}
	delete(h.tried, k)
}

// follow trims the queues of a log whose start rises with an entry that was just proposed.
func (h *queueHost) follow(l *loop, log base.LogID, start int64) {
	if _, ok := l.m.Writable(log); !ok {
		return // its queues go with it, before the trim would come
	}
	l.m.QueuesOf(log, func(k shard.QueueKey, q *queue.Queue) {
		if _, _, ok := l.m.Queue(k); !ok || l.term == 0 {
			return
		}
		if cmd := q.Trim(l.now(), start); cmd != nil {
			h.journal(l, h.host(l, k, q), q, cmd, func(error) {})
		}
	})
}

// locate finds the shard and the key of a queue.
func (e *Engine) locate(q ShareQueue) (base.ShardID, shard.QueueKey, error) {
	s, ok := e.View().StreamByID(q.Stream)
	if !ok || q.Index < 0 || int(q.Index) >= len(s.Partitions) {
		return 0, shard.QueueKey{}, unknownLog()
	}
	p := s.Partitions[q.Index]
	return p.Shard, shard.QueueKey{Group: q.Key, Log: p.Log}, nil
}

// ShareSettings are the settings of a share group as they are now.
func (e *Engine) ShareSettings(k share.Key) groupconf.Share {
	return groupconf.ResolveShare(e.groupConfigs.get(k), e.opts.Shares.Defaults)
}
