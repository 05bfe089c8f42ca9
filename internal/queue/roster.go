package queue

import (
	"math"

	"godwit/internal/base"
)

// ConsumerOptions say how a consumer takes part.
type ConsumerOptions struct {
	MaxInFlight int64 // records that it may hold: prefetch, max-ack-pending; 0: no limit
	Priority    int   // higher is served first (AMQP x-priority)
	Exclusive   bool  // nobody else may consume
}

// roster is the consumers that the leader knows to be there. It is not journaled.
type roster struct {
	members map[string]*member
	clock   uint64 // counts joins and answers
}

type member struct {
	ConsumerOptions
	joined, served uint64
}

// Join enters a consumer, or changes its options. A queue that gives records to whoever asks, as a share group does, needs
// no joins. CodePolicyViolation: somebody has the queue exclusively, or somebody is there and this one wants it so.
func (q *Queue) Join(consumer string, o ConsumerOptions) error {
	r := &q.roster
	for name, m := range r.members {
		if name != consumer && (m.Exclusive || o.Exclusive) {
			return base.Errorf(base.CodePolicyViolation, "the queue cannot be consumed by %q and another consumer: one of them is exclusive; close it first", consumer)
		}
	}
	r.clock++
	if m := r.members[consumer]; m != nil {
		m.ConsumerOptions = o
		return nil
	}
	if r.members == nil {
		r.members = map[string]*member{}
	}
	r.members[consumer] = &member{ConsumerOptions: o, joined: r.clock}
	return nil
}

// Leave removes a consumer. What it holds it keeps until Release or the deadline.
func (q *Queue) Leave(consumer string) { delete(q.roster.members, consumer) }

// Active is the consumer that gets all records; empty if there is no such.
func (q *Queue) Active() string {
	best := ""
	for name, m := range q.roster.members {
		if m.Exclusive {
			return name
		}
		if b := q.roster.members[best]; q.Options.SingleActive &&
			(b == nil || m.Priority > b.Priority || m.Priority == b.Priority && m.joined < b.joined) {
			best = name
		}
	}
	return best
}

// Turn is the consumer to serve next, for callers that push: of those that may hold more the one of highest priority, then the one that
// holds fewest, then the one that waits for longest. credit is how many records it may take.
func (q *Queue) Turn() (consumer string, credit int64) {
	var best *member
	for name, m := range q.roster.members {
		may := q.credit(name)
		if may <= 0 {
			continue
		}
		if best == nil || q.before(name, m, consumer, best) {
			consumer, best, credit = name, m, may
		}
	}
	return consumer, credit
}

func (q *Queue) before(name string, m *member, other string, o *member) bool {
	if m.Priority != o.Priority {
		return m.Priority > o.Priority
	}
	if a, b := q.Held(name), q.Held(other); a != b {
		return a < b
	}
	if m.served != o.served {
		return m.served < o.served
	}
	return m.joined < o.joined
}

// credit is how many more records the consumer may hold.
func (q *Queue) credit(consumer string) int64 {
	if a := q.Active(); a != "" && a != consumer {
		return 0
	}
	may := int64(math.MaxInt64)
	m := q.roster.members[consumer]
	if m != nil && m.MaxInFlight > 0 {
		may = m.MaxInFlight - q.Held(consumer)
	}
	if most := q.Options.MaxInFlight; most > 0 {
		may = min(may, most-q.guess().count[Acquired])
		if n := int64(len(q.roster.members)); m != nil && q.Options.FairSpread {
			may = min(may, (most+n-1)/n-q.Held(consumer))
		}
	}
	return max(0, may)
}

// serve notes that the consumer was given records.
func (r *roster) serve(consumer string) {
	if m := r.members[consumer]; m != nil {
		r.clock++
		m.served = r.clock
	}
}
