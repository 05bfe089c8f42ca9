package streams

import (
	"cmp"
	"container/heap"
	"math"
	"strings"
)

// The kinds of deadlines.
const (
	sessionEnd = iota // of a member
	revokeEnd         // by which a member has given up tasks
	delayEnd          // before the first assignment of a group
)

// deadlineKey names a deadline of a member, or of a group, whose member is "".
type deadlineKey struct {
	Key
	member string
	kind   int
}

// deadlines end what waits. A heartbeat only notes the new end: its entry in the queue is put right when the
// old time has come.
type deadlines struct {
	set  map[deadlineKey]*deadline
	heap entryHeap
}

type deadline struct {
	end    int64 // Unix ms
	queued int64 // time of its entry in the queue, not above end; entries of other times are void
}

// touch sets or moves a deadline.
func (d *deadlines) touch(k deadlineKey, end int64) {
	e := d.set[k]
	if e == nil {
		e = &deadline{queued: end + 1}
		d.set[k] = e
	}
	if e.end = end; end < e.queued {
		e.queued = end
		heap.Push(&d.heap, entry{end, k})
	}
}

func (d *deadlines) runs(k deadlineKey) bool { return d.set[k] != nil }

// ended reports whether a deadline has come, which nobody has taken yet.
func (d *deadlines) ended(k deadlineKey, now int64) bool {
	return d.set[k] != nil && d.set[k].end <= now
}

// drop forgets a deadline; what is left of it in the queue goes with time.
func (d *deadlines) drop(k deadlineKey) { delete(d.set, k) }

// due takes a deadline that has come; false if there is none.
func (d *deadlines) due(now int64) (deadlineKey, bool) {
	for len(d.heap) > 0 && d.heap[0].at <= now {
		top := heap.Pop(&d.heap).(entry)
		e := d.set[top.deadlineKey]
		switch {
		case e == nil || e.queued != top.at:
		case e.end <= now:
			delete(d.set, top.deadlineKey)
			return top.deadlineKey, true
		default:
			e.queued = e.end
			heap.Push(&d.heap, entry{e.end, top.deadlineKey})
		}
	}
	return deadlineKey{}, false
}

// next is when due has something to do, at the earliest; math.MaxInt64 for never.
func (d *deadlines) next() int64 {
	if len(d.heap) == 0 {
		return math.MaxInt64
	}
	return d.heap[0].at
}

// entry is one place in the queue.
type entry struct {
	at int64
	deadlineKey
}

// entryHeap is ordered by time, then by name.
type entryHeap []entry

func (h entryHeap) Len() int      { return len(h) }
func (h entryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h entryHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	return cmp.Or(cmp.Compare(a.at, b.at), a.Key.Compare(b.Key), strings.Compare(a.member, b.member), cmp.Compare(a.kind, b.kind)) < 0
}

// Push and Pop are for package heap.
func (h *entryHeap) Push(x any) { *h = append(*h, x.(entry)) }
func (h *entryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
