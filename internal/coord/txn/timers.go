package txn

import (
	"cmp"
	"container/heap"
	"math"
)

// timers are the deadlines of transactional IDs. A deadline that moves to later is only noted: its entry in the queue is
// put right when the old time has come.
type timers struct {
	ends map[Key]*timer
	heap entryHeap
}

// timer is the deadline of one transactional ID, math.MaxInt64 for none.
type timer struct {
	end    int64 // Unix ms
	queued int64 // time of its entry in the queue, not above end; math.MaxInt64: it has none
}

// set gives an ID its deadline.
func (s *timers) set(k Key, end int64) {
	e := s.ends[k]
	if e == nil {
		e = &timer{queued: math.MaxInt64}
		s.ends[k] = e
	}
	if e.end = end; end < e.queued {
		e.queued = end
		heap.Push(&s.heap, entry{end, k})
	}
}

// drop forgets an ID; what is left of it in the queue goes with time.
func (s *timers) drop(k Key) { delete(s.ends, k) }

// due finds an ID whose deadline has come, which must get another or be dropped then; false if there is none.
func (s *timers) due(now int64) (Key, bool) {
	for len(s.heap) > 0 && s.heap[0].at <= now {
		top := heap.Pop(&s.heap).(entry)
		e := s.ends[top.Key]
		if e == nil || e.queued != top.at {
			continue
		}
		e.queued = math.MaxInt64
		if e.end <= now {
			return top.Key, true
		}
		s.set(top.Key, e.end)
	}
	return Key{}, false
}

// next is when due has something to do, at the earliest; math.MaxInt64 for never.
func (s *timers) next() int64 {
	if len(s.heap) == 0 {
		return math.MaxInt64
	}
	return s.heap[0].at
}

// entry is one place in the queue.
type entry struct {
	at int64
	Key
}

// entryHeap is ordered by time, then by name.
type entryHeap []entry

func (h entryHeap) Len() int      { return len(h) }
func (h entryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h entryHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), compareKeys(h[i].Key, h[j].Key)) < 0
}

// Push and Pop are for package heap.
func (h *entryHeap) Push(x any) { *h = append(*h, x.(entry)) }
func (h *entryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
