package share

import (
	"cmp"
	"container/heap"
	"math"
	"strings"
)

// memberKey names a member of a group.
type memberKey struct {
	Key
	member string
}

// sessions are the deadlines of members. A heartbeat only notes the new deadline: its entry in the queue is put right when the
// old time has come.
type sessions struct {
	members map[memberKey]*session
	heap    entryHeap
}

// session is the deadline of one member.
type session struct {
	end    int64 // Unix ms
	queued int64 // time of its entry in the queue, not above end; entries of other times are void
}

// touch begins or extends a member's session.
func (s *sessions) touch(m memberKey, end int64) {
	e := s.members[m]
	if e == nil {
		e = &session{queued: end + 1}
		s.members[m] = e
	}
	if e.end = end; end < e.queued {
		e.queued = end
		heap.Push(&s.heap, entry{end, m})
	}
}

// drop forgets a member; what is left of it in the queue goes with time.
func (s *sessions) drop(m memberKey) { delete(s.members, m) }

// due takes a member whose session has ended; false if there is none.
func (s *sessions) due(now int64) (memberKey, bool) {
	for len(s.heap) > 0 && s.heap[0].at <= now {
		top := heap.Pop(&s.heap).(entry)
		e := s.members[top.memberKey]
		switch {
		case e == nil || e.queued != top.at:
		case e.end <= now:
			delete(s.members, top.memberKey)
			return top.memberKey, true
		default:
			e.queued = e.end
			heap.Push(&s.heap, entry{e.end, top.memberKey})
		}
	}
	return memberKey{}, false
}

// next is when due has something to do, at the earliest; math.MaxInt64 for never.
func (s *sessions) next() int64 {
	if len(s.heap) == 0 {
		return math.MaxInt64
	}
	return s.heap[0].at
}

// entry is one place in the queue.
type entry struct {
	at int64
	memberKey
}

// entryHeap is ordered by time, then by name.
type entryHeap []entry

func (h entryHeap) Len() int      { return len(h) }
func (h entryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h entryHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	return cmp.Or(cmp.Compare(a.at, b.at), a.Key.Compare(b.Key), strings.Compare(a.member, b.member)) < 0
}

// Push and Pop are for package heap.
func (h *entryHeap) Push(x any) { *h = append(*h, x.(entry)) }
func (h *entryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
