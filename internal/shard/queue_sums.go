package shard

import (
	"godwit/internal/coord/share"
	"godwit/internal/queue"
)

// QueueSums is how the queues of one group in one shard stand, taken together.
type QueueSums struct {
	Queues    int64
	Available int64 // records that no consumer holds, as in [queue.Description]
	InFlight  int64 // records held by consumers
	Letters   int64 // effects outstanding: ranges of records on their way to the dead-letter topic
	Totals    queue.Totals
}

func sumsOf(d *queue.Description) QueueSums {
	return QueueSums{1, d.Available + d.Waiting, d.InFlight, int64(d.Effects), d.Totals}
}

// Add adds what others have.
func (s *QueueSums) Add(o *QueueSums) {
	s.Queues, s.Available, s.InFlight, s.Letters = s.Queues+o.Queues, s.Available+o.Available, s.InFlight+o.InFlight, s.Letters+o.Letters
	s.Totals.Deliveries, s.Totals.Acked = s.Totals.Deliveries+o.Totals.Deliveries, s.Totals.Acked+o.Totals.Acked
	for i := range s.Totals.Archived {
		s.Totals.Archived[i] += o.Totals.Archived[i]
	}
}

// sub takes away what Add added.
func (s *QueueSums) sub(o *QueueSums) {
	s.Queues, s.Available, s.InFlight, s.Letters = s.Queues-o.Queues, s.Available-o.Available, s.InFlight-o.InFlight, s.Letters-o.Letters
	s.Totals.Deliveries, s.Totals.Acked = s.Totals.Deliveries-o.Totals.Deliveries, s.Totals.Acked-o.Totals.Acked
	for i := range s.Totals.Archived {
		s.Totals.Archived[i] -= o.Totals.Archived[i]
	}
}

// queueSums keeps the sums of all groups. Queues that changed are counted again when somebody asks, each once.
type queueSums struct {
	groups  map[share.Key]*QueueSums
	changed map[*storedQueue]struct{}
}

// touch notes that a queue changed.
func (s *queueSums) touch(q *storedQueue) {
	if s.changed == nil {
		s.changed = map[*storedQueue]struct{}{}
	}
	s.changed[q] = struct{}{}
}

// drop takes a queue out that is gone. A group without queues has no sums.
func (s *queueSums) drop(q *storedQueue) {
	delete(s.changed, q)
	g := s.groups[q.key.Group]
	if g == nil {
		return
	}
	if g.sub(&q.counted); g.Queues == 0 {
		delete(s.groups, q.key.Group)
	}
	q.counted = QueueSums{}
}

// QueueSums calls fn for each group with queues here, in no order. It costs what changed since the last call, and the groups.
func (m *Machine) QueueSums(fn func(share.Key, *QueueSums)) {
	s := &m.queues.sums
	for q := range s.changed { // sums do not depend on the order
		s.drop(q)
		d := q.Describe(0)
		q.counted = sumsOf(&d)
		g := s.groups[q.key.Group]
		if g == nil {
			g = &QueueSums{}
			s.groups[q.key.Group] = g
		}
		g.Add(&q.counted)
	}
	clear(s.changed)
	for k, g := range s.groups {
		fn(k, g)
	}
}
