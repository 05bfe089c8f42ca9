package queue

import (
	"encoding/binary"
	"slices"

	"godwit/internal/base"
)

// laterSize is the length of a key of the ordered view: kind, due, offset.
const laterSize = 1 + 8 + 8

// promoteBatch bounds the records of one Promote.
const promoteBatch = 1000

// encode makes the key under which an entry is stored: keys sort by due time, then offset.
func (k LaterKey) encode() []byte {
	b := append(make([]byte, 0, laterSize), keyLater)
	b = binary.BigEndian.AppendUint64(b, uint64(k.Due))
	return binary.BigEndian.AppendUint64(b, uint64(k.Offset))
}

func decodeLaterKey(b []byte) (k LaterKey, ok bool) {
	if len(b) != laterSize || b[0] != keyLater {
		return k, false
	}
	k = LaterKey{int64(binary.BigEndian.Uint64(b[1:])), int64(binary.BigEndian.Uint64(b[9:]))}
	return k, k.Due >= 0 && k.Offset >= 0
}

// promoteAt is when promote should run next: a horizon before the next record is due if there is room in memory, when it is due if
// memory is full, and never before there is room again if it is full with what is due.
func (q *Queue) promoteAt() int64 {
	g := q.guess()
	due := g.watch.nextDue
	switch {
	case q.view == nil || due == never:
		return never
	case q.roomFor(due, due-q.Options.Horizon):
		return due - q.Options.Horizon
	case q.roomFor(due, due):
		return due
	}
	return never
}

// roomFor says whether a record that is due then may come into memory now.
func (q *Queue) roomFor(due, now int64) bool {
	most, apart := q.Options.MaxRuns, q.guess().runs.apart
	return most == 0 || apart < most || due <= now && apart < 2*most
}

// promote takes what is due within the horizon into memory, at most promoteBatch records at a time.
func (q *Queue) promote(now int64) (Command, error) {
	g := q.guess()
	x := g.watch
	limit := now + q.Options.Horizon
	items, next, err := q.dueStored(limit)
	if err != nil {
		return nil, err
	}
	for len(x.later.items) > 0 {
		top := x.later.items[0]
		if x.known[top.LaterKey] == top.seq && (top.Due > limit || len(items) >= 2*promoteBatch) {
			next = min(next, top.Due)
			break
		}
		if x.later.pop(); x.known[top.LaterKey] == top.seq {
			items = append(items, top)
		}
	}
	slices.SortFunc(items, func(a, b laterItem) int { return compareLater(a.LaterKey, b.LaterKey) })
	cmd := &Promote{Step: q.next(now)}
	i := 0
	for ; i < len(items) && i < promoteBatch; i++ {
		it := &items[i]
		r := g.runs.at(it.Offset)
		if r == nil || r.stateAt(it.Offset) != Waiting || it.epoch != g.epoch {
			cmd.Stale = append(cmd.Stale, it.LaterKey)
			continue
		}
		if most := q.Options.MaxRuns; most > 0 && g.runs.apart+len(cmd.Records) >= most && (it.Due > now || g.runs.apart+len(cmd.Records) >= 2*most) {
			break
		}
		m := Meta{Offset: it.Offset, NotBefore: it.Due}
		if t := it.trait; t != nil {
			m.Lane, m.Priority, m.Expires = t.lane, t.priority, t.expires
		}
		cmd.Records = append(cmd.Records, Promoted{Meta: m, Deliveries: it.count})
	}
	for _, it := range items[i:] {
		next = min(next, it.Due)
		if _, ok := x.known[it.LaterKey]; ok {
			x.later.push(it)
		}
	}
	x.nextDue = next
	if i == 0 {
		return nil, nil
	}
	return q.decide(cmd), nil
}

// dueStored lists entries of the view that are due up to limit and not on their way out, and when the next one behind them
// is due.
func (q *Queue) dueStored(limit int64) (items []laterItem, next int64, err error) {
	x := q.guess().watch
	next = never
	var bad error
	err = q.view.Scan(LaterKey{}.encode(), func(key, value []byte) bool {
		k, ok := decodeLaterKey(key)
		if !ok {
			if len(key) == 0 || key[0] != keyLater {
				return false // the keys behind
			}
			bad = base.Errorf(base.CodeCorruption, "queue state: damaged key of %d bytes in the ordered view", len(key))
			return false
		}
		if k.Due > limit || len(items) == promoteBatch {
			next = k.Due
			return false
		}
		_, gone := x.gone[k]
		if _, newer := x.known[k]; gone || newer {
			return true
		}
		e, ok := decodeLater(value)
		if !ok {
			bad = base.Errorf(base.CodeCorruption, "queue state: damaged entry for offset %d in the ordered view", k.Offset)
			return false
		}
		items = append(items, laterItem{LaterKey: k, laterEntry: e})
		return true
	})
	if err == nil {
		err = bad
	}
	return items, next, err
}
