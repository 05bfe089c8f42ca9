package group

import "godwit/internal/invariants"

// timerKind says what a timer ends.
type timerKind uint8

const (
	sessionTimer timerKind = iota // of a member
	pendingTimer                  // of an ID that was handed out and not yet used
	joinTimer                     // of a group's join phase
	syncTimer                     // of a group's sync phase

	consumerSession // of a member of the consumer protocol
	consumerRevoke  // until which it gives up partitions
	consumerJoin    // until which a member of the classic protocol among them joins again
	consumerSync    // until which it asks for its assignment
)

// timer is one deadline. It lives inside what it belongs to.
type timer struct {
	at       int64 // Unix ms
	order    uint64
	place    int // in the heap, from 1; 0: not running
	kind     timerKind
	group    *group
	member   *member   // of a session timer
	pending  string    // of a pending timer: the ID
	consumer *consumer // of a timer of the consumer protocol
}

func (t *timer) running() bool { return t.place != 0 }

// timers is a binary heap of running timers, the first due at the top; those due at the same time in
// the order in which they were set. A timer knows its place, so setting it again costs no garbage.
type timers struct {
	heap []*timer
	sets uint64
}

func (ts *timers) first() *timer {
	if len(ts.heap) == 0 {
		return nil
	}
	return ts.heap[0]
}

// set starts the timer, or moves it if it is running.
func (ts *timers) set(t *timer, at int64) {
	ts.sets++
	t.at, t.order = at, ts.sets
	if !t.running() {
		ts.heap = append(ts.heap, t)
		t.place = len(ts.heap)
	}
	ts.up(t.place - 1)
	ts.down(t.place - 1)
}

// stop takes the timer out if it is running.
func (ts *timers) stop(t *timer) {
	if !t.running() {
		return
	}
	i, last := t.place-1, len(ts.heap)-1
	ts.swap(i, last)
	ts.heap[last] = nil
	ts.heap = ts.heap[:last]
	t.place = 0
	if i < last {
		moved := ts.heap[i]
		ts.up(i)
		ts.down(moved.place - 1)
	}
}

func (ts *timers) less(i, j int) bool {
	a, b := ts.heap[i], ts.heap[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (ts *timers) swap(i, j int) {
	ts.heap[i], ts.heap[j] = ts.heap[j], ts.heap[i]
	ts.heap[i].place, ts.heap[j].place = i+1, j+1
}

func (ts *timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !ts.less(i, parent) {
			return
		}
		ts.swap(i, parent)
		i = parent
	}
}

func (ts *timers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(ts.heap) {
			return
		}
		if child+1 < len(ts.heap) && ts.less(child+1, child) {
			child++
		}
		if !ts.less(child, i) {
			return
		}
		ts.swap(i, child)
		i = child
	}
}

func (ts *timers) check() {
	for i, t := range ts.heap {
		invariants.Check(t.place == i+1, "timer at %d thinks it is at %d", i+1, t.place)
		invariants.Check(i == 0 || !ts.less(i, (i-1)/2), "timer %d is due before its parent", i)
	}
}
