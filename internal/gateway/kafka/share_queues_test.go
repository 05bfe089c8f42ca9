package kafka

import (
	"context"
	"slices"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/share"
	"godwit/internal/groupconf"
	"godwit/internal/queue"
)

// testGroup is the share group of tests.
var testGroup = share.Key{Namespace: base.DefaultNamespace, Group: "g"}

// memQueues are the queues of share groups over logs in memory: the real state machines, called directly. Every group has a
// queue in every partition, from offset 0 on, but for those that a test takes away.
type memQueues struct {
	queues  map[broker.ShareQueue]*queue.Queue
	without map[string]bool // groups that have no queue
	watches map[*memShareWatch]bool
	calls   int // of ShareAcquire
}

// queue is under the lock.
func (m *memLogs) queue(name broker.ShareQueue) (*queue.Queue, *memLog, *base.Error) {
	st, ok := m.Meta().StreamByID(name.Stream)
	if !ok || int(name.Index) >= len(st.Partitions) || m.shareQueues.without[name.Key.Group] {
		return nil, nil, base.Errorf(base.CodeUnknownPartition, "no queue")
	}
	h := &m.shareQueues
	if h.queues == nil {
		h.queues = map[broker.ShareQueue]*queue.Queue{}
	}
	q := h.queues[name]
	if q == nil {
		q = queue.New(queue.DefaultOptions(), nil)
		h.queues[name] = q
	}
	return q, m.log(st.Partitions[name.Index].Log), nil
}

func (m *memLogs) ShareSettings(k share.Key) groupconf.Share {
	return groupconf.ResolveShare(m.GroupConfig(k), nil)
}

func (m *memLogs) ShareAcquire(_ context.Context, req *broker.ShareAcquire) []shareAcquired {
	m.lm.Lock()
	defer m.lm.Unlock()
	m.shareQueues.calls++
	out := make([]shareAcquired, len(req.Queues))
	records, bytes, some := req.Records, req.Bytes, false
	for i, name := range req.Queues {
		q, l, err := m.queue(name)
		if err != nil {
			out[i].Err = err
			continue
		}
		next, any := q.Next(m.now)
		if !any || records <= 0 || bytes <= 0 {
			continue
		}
		rd := &queue.Read{From: next, To: next}
		size := 0
		for _, b := range l.batches {
			if b.last < next {
				continue
			}
			if size += len(b.b); size > bytes && (some || len(rd.Batches) > 0) {
				break
			}
			rd.Batches, rd.To = append(rd.Batches, queue.Span{First: b.base, Last: b.last}), b.last+1
		}
		cmd, taken := q.Acquire(m.now, &queue.Want{Consumer: req.Member, Records: records, Batch: req.Batch, Strict: req.Strict, Read: rd})
		if cmd != nil {
			q.Apply(cmd)
		}
		if len(taken) == 0 {
			continue
		}
		r := &memory{}
		for _, b := range l.batches {
			if b.last >= taken[0].First && b.base <= taken[len(taken)-1].Last {
				r.b = append(r.b, b.b...)
			}
		}
		some, bytes = true, bytes-len(r.b)
		for _, t := range taken {
			records -= int(t.Len())
		}
		out[i].Ranges, out[i].Records = taken, r
	}
	return out
}

func (m *memLogs) ShareAcknowledge(_ context.Context, acks []broker.ShareAcks) []error {
	m.lm.Lock()
	defer m.lm.Unlock()
	out := make([]error, len(acks))
	for i, a := range acks {
		q, _, err := m.queue(a.ShareQueue)
		if err != nil {
			out[i] = err
			continue
		}
		cmd, errs := q.Acknowledge(m.now, a.Member, a.Ranges, true)
		if k := slices.IndexFunc(errs, func(e *base.Error) bool { return e != nil }); k >= 0 {
			out[i] = errs[k]
		} else if cmd != nil {
			q.Apply(cmd)
			m.tellShares(a.ShareQueue)
		}
	}
	return out
}

func (m *memLogs) ShareRelease(_ context.Context, member string, queues []broker.ShareQueue) error {
	m.lm.Lock()
	defer m.lm.Unlock()
	for _, name := range queues {
		if q, _, err := m.queue(name); err == nil {
			if cmd := q.Release(m.now, member, false); cmd != nil {
				q.Apply(cmd)
				m.tellShares(name)
			}
		}
	}
	return nil
}

func (m *memLogs) ShareOffsets(_ context.Context, k share.Key, partitions []share.Partition) (out []broker.ShareOffset, err error) {
	m.lm.Lock()
	defer m.lm.Unlock()
	if partitions == nil {
		for name := range m.shareQueues.queues {
			if name.Key == k {
				partitions = append(partitions, share.Partition{Stream: name.Stream, Index: name.Index})
			}
		}
		slices.SortFunc(partitions, func(a, b share.Partition) int { return int(a.Index - b.Index) })
	}
	for _, p := range partitions {
		o := broker.ShareOffset{Partition: p, Epoch: m.epoch}
		if q, l, err := m.queue(broker.ShareQueue{Key: k, Stream: p.Stream, Index: p.Index}); err != nil {
			o.Err = err
		} else {
			o.Description = q.Describe(l.end)
		}
		out = append(out, o)
	}
	return out, nil
}

// heldBy is how many records a member of group g holds in a partition.
func (m *memLogs) heldBy(member string, p share.Partition) int64 {
	m.lm.Lock()
	defer m.lm.Unlock()
	q, _, err := m.queue(broker.ShareQueue{Key: testGroup, Stream: p.Stream, Index: p.Index})
	if err != nil {
		return -1
	}
	return q.Held(member)
}

func (m *memLogs) NewShareWatch() ShareWatch {
	m.lm.Lock()
	defer m.lm.Unlock()
	w := &memShareWatch{m: m, on: map[broker.ShareQueue]bool{}, c: make(chan struct{}, 1)}
	if m.shareQueues.watches == nil {
		m.shareQueues.watches = map[*memShareWatch]bool{}
	}
	m.shareQueues.watches[w] = true
	return w
}

// tellShares tells the watches of a queue; under the lock.
func (m *memLogs) tellShares(name broker.ShareQueue) {
	for w := range m.shareQueues.watches {
		if w.on[name] {
			w.ready = append(w.ready, name)
			select {
			case w.c <- struct{}{}:
			default:
			}
		}
	}
}

// putShared appends a batch and tells the queues over the log.
func (m *memLogs) putShared(p share.Partition, batch []byte) {
	st, _ := m.Meta().StreamByID(p.Stream)
	m.put(st.Partitions[p.Index].Log, batch)
	m.lm.Lock()
	defer m.lm.Unlock()
	m.tellShares(broker.ShareQueue{Key: testGroup, Stream: p.Stream, Index: p.Index})
}

// memShareWatch is a watch over queues in memory; its fields are under the logs' lock.
type memShareWatch struct {
	m     *memLogs
	on    map[broker.ShareQueue]bool
	ready []broker.ShareQueue
	c     chan struct{}
}

func (w *memShareWatch) Add(q broker.ShareQueue) {
	w.m.lm.Lock()
	defer w.m.lm.Unlock()
	w.on[q] = true
}

func (w *memShareWatch) C() <-chan struct{} { return w.c }

func (w *memShareWatch) Take() []broker.ShareQueue {
	w.m.lm.Lock()
	defer w.m.lm.Unlock()
	out := w.ready
	w.ready = nil
	select {
	case <-w.c:
	default:
	}
	return out
}

func (w *memShareWatch) Close() {
	w.m.lm.Lock()
	defer w.m.lm.Unlock()
	delete(w.m.shareQueues.watches, w)
}
