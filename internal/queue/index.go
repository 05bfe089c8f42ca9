package queue

import (
	"cmp"
	"maps"
	"slices"
)

// index finds what a leader needs in its guess: what can be acquired next, and who holds how much. Plain records
// are not in it: their chunks tell where they are.
type index struct {
	levels  map[uint8]*heap[Span] // may be available, by priority; checked when taken
	prios   []uint8               // of levels, highest first
	delayed heap[delay]           // available, not yet due
	lanes   map[string]*lane      // with records in memory
	held    map[string]int64      // records by consumer
	later   heap[laterItem]       // entries that the view may not show yet
	gone    map[LaterKey]uint64   // entries that the view may still show; value: command
	known   map[LaterKey]uint64   // the command that made the valid item of later
	nextDue int64                 // no entry of the ordered view is due before, Unix ms
	freed   []string              // lanes whose first record may have become available
}

// delay is records that become due.
type delay struct {
	due int64
	Span
}

// laterItem is an entry of the ordered view, and the command that made it.
type laterItem struct {
	LaterKey
	laterEntry
	seq uint64
}

// lane is the records of a message group in memory that are not settled.
type lane struct {
	pending  []int64 // offsets, ascending
	acquired int     // of pending
}

func newIndex(c *core) *index {
	x := &index{
		levels:  map[uint8]*heap[Span]{},
		lanes:   map[string]*lane{},
		held:    map[string]int64{},
		gone:    map[LaterKey]uint64{},
		known:   map[LaterKey]uint64{},
		delayed: heap[delay]{less: func(a, b delay) bool { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.First, b.First)) < 0 }},
		later:   heap[laterItem]{less: func(a, b laterItem) bool { return compareLater(a.LaterKey, b.LaterKey) < 0 }},
	}
	c.runs.each(c.start, c.end, func(r *run) bool {
		if r.state == Available || r.state == Acquired {
			x.moved(nil, r)
		}
		return true
	})
	return x
}

func compareLater(a, b LaterKey) int {
	return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Offset, b.Offset))
}

// clear forgets the window, as a reset does.
func (x *index) clear() {
	x.levels, x.prios = map[uint8]*heap[Span]{}, nil
	x.delayed.items = nil
	x.lanes, x.held, x.freed = map[string]*lane{}, map[string]int64{}, nil
}

// moved notes that records went from one state to another; old is nil if they are new.
func (x *index) moved(old, now *run) {
	n := now.len()
	if old != nil && old.state == Acquired {
		if x.held[old.owner] -= n; x.held[old.owner] == 0 {
			delete(x.held, old.owner)
		}
	}
	if now.state == Acquired {
		x.held[now.owner] += n
	}
	if now.state == Available && now.until > 0 && (old == nil || old.state != Available) {
		x.delayed.push(delay{now.until, Span{now.first, now.last}})
	}
	name := now.lane()
	if name == "" && old != nil {
		name = old.lane()
	}
	if name != "" {
		x.movedLane(name, old, now)
		return
	}
	if now.state == Available && now.trait != nil && now.until == 0 {
		x.offer(now.priority(), Span{now.first, now.last})
	}
}

// movedLane keeps the lane of the records.
func (x *index) movedLane(name string, old, now *run) {
	l := x.lanes[name]
	if l == nil {
		l = &lane{}
		x.lanes[name] = l
	}
	if old != nil && old.state == Acquired {
		l.acquired -= int(now.len())
	}
	switch {
	case now.state == Acquired:
		l.enter(now.first, now.last)
		l.acquired += int(now.len())
	case now.state == Available && (now.until == 0 || now.count > 0):
		l.enter(now.first, now.last)
		if now.until == 0 {
			x.offer(now.priority(), Span{now.first, now.last})
		}
	default:
		l.leave(now.first, now.last)
	}
	switch {
	case len(l.pending) == 0:
		delete(x.lanes, name)
	case l.acquired == 0 && old != nil:
		x.freed = append(x.freed, name)
	}
}

// ripen offers what has become due, and the first records of lanes that are free again.
func (x *index) ripen(runs *runList, now int64) {
	for len(x.delayed.items) > 0 && x.delayed.items[0].due <= now {
		d := x.delayed.pop()
		runs.each(d.First, d.Last, func(r *run) bool {
			if r.state != Available || r.until == 0 || r.until > now {
				return true
			}
			s := Span{max(r.first, d.First), min(r.last, d.Last)}
			if name := r.lane(); name != "" {
				l := x.lanes[name]
				if l == nil {
					l = &lane{}
					x.lanes[name] = l
				}
				l.enter(s.First, s.Last)
			}
			x.offer(r.priority(), s)
			return true
		})
	}
	for _, name := range x.freed {
		if l := x.lanes[name]; l != nil && l.acquired == 0 {
			r := runs.at(l.pending[0])
			x.offer(r.priority(), Span{r.first, r.last})
		}
	}
	x.freed = nil
}

// enter adds offsets that are not there.
func (l *lane) enter(first, last int64) {
	for at := first; at <= last; at++ {
		if i, ok := slices.BinarySearch(l.pending, at); !ok {
			l.pending = slices.Insert(l.pending, i, at)
		}
	}
}

// leave removes offsets that are there.
func (l *lane) leave(first, last int64) {
	i, _ := slices.BinarySearch(l.pending, first)
	j, _ := slices.BinarySearch(l.pending, last+1)
	if i == 0 {
		l.pending = l.pending[j:]
		return
	}
	l.pending = slices.Delete(l.pending, i, j)
}

// offer enters records that may be acquired at a priority.
func (x *index) offer(priority uint8, s Span) {
	h := x.levels[priority]
	if h == nil {
		h = &heap[Span]{less: func(a, b Span) bool { return a.First < b.First }}
		x.levels[priority] = h
		x.prios = slices.SortedFunc(maps.Keys(x.levels), func(a, b uint8) int { return int(b) - int(a) })
	}
	h.push(s)
}

// postponed notes an entry of the ordered view that is on its way.
func (x *index) postponed(k LaterKey, e laterEntry, seq uint64) {
	delete(x.gone, k)
	x.known[k] = seq
	x.later.push(laterItem{k, e, seq})
	x.nextDue = min(x.nextDue, k.Due)
}

// forgotten notes that an entry is on its way out.
func (x *index) forgotten(k LaterKey, seq uint64) {
	delete(x.known, k)
	x.gone[k] = seq
}

// saved notes that the view shows what commands up to seq did.
func (x *index) saved(seq uint64) {
	x.later.drop(func(i laterItem) bool { return i.seq <= seq || x.known[i.LaterKey] != i.seq })
	old := func(_ LaterKey, s uint64) bool { return s <= seq }
	maps.DeleteFunc(x.known, old)
	maps.DeleteFunc(x.gone, old)
}

// heap is a binary heap.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
}

func (h *heap[T]) push(v T) {
	h.items = append(h.items, v)
	h.up(len(h.items) - 1)
}

func (h *heap[T]) pop() T {
	n := len(h.items) - 1
	top := h.items[0]
	h.items[0] = h.items[n]
	var zero T
	h.items[n] = zero
	h.items = h.items[:n]
	h.down(0)
	return top
}

// drop removes what bad says.
func (h *heap[T]) drop(bad func(T) bool) {
	h.items = slices.DeleteFunc(h.items, bad)
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h.less(h.items[i], h.items[p]) {
			return
		}
		h.items[i], h.items[p] = h.items[p], h.items[i]
		i = p
	}
}

func (h *heap[T]) down(i int) {
	for {
		l := 2*i + 1
		if l >= len(h.items) {
			return
		}
		if r := l + 1; r < len(h.items) && h.less(h.items[r], h.items[l]) {
			l = r
		}
		if !h.less(h.items[l], h.items[i]) {
			return
		}
		h.items[i], h.items[l] = h.items[l], h.items[i]
		i = l
	}
}
