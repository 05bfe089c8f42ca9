package streams

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"godwit/internal/invariants"
)

// seat is one member as the assignor sees it.
type seat struct {
	id      string
	process string
	old     Tasks               // as assigned now
	offsets map[TaskID]int64    // of changelogs that the member has on disk
	active  map[TaskID]struct{} // assigned
	standby map[TaskID]struct{} // assigned
	on      *process
}

func (s *seat) load() int { return len(s.active) + len(s.standby) }

// process is an instance of the application; its members share its disk.
type process struct {
	id    string
	seats []*seat
	tasks map[TaskID]struct{}
}

func (p *process) load() float64 { return float64(len(p.tasks)) / float64(len(p.seats)) }

func (p *process) has(t TaskID) bool {
	_, ok := p.tasks[t]
	return ok
}

// quota is how many tasks members may be given so that all get about the same: the tasks that are left over the members with
// room, rounded up.
type quota struct{ tasks, members, each int }

func newQuota(tasks, members int) quota {
	q := quota{tasks: tasks, members: members}
	q.spread()
	return q
}

func (q *quota) spread() {
	if q.each = 0; q.members > 0 {
		q.each = (q.tasks + q.members - 1) / q.members
	}
}

// took notes that a member has come to a number of tasks. One that is full takes no further part.
func (q *quota) took(n int) {
	if n == q.each {
		q.members--
		q.tasks -= n
		q.spread()
	}
}

// table is one assignment under way.
type table struct {
	seats     []*seat
	processes []*process // by ID
	standbys  int
	actives   quota
	all       quota
	ran       map[TaskID]*seat   // who has the task active
	kept      map[TaskID][]*seat // who has its state on disk: standbys first, then by how much of it
}

// assign is Kafka's assignor "sticky" for streams groups: active tasks stay where they are, or go where their state is, as far as
// that keeps members even; what is left goes to the process with the least load, and there to the member with the least. Standby
// tasks likewise, each on another process. It ignores racks and tags, as Kafka's does. The seats are in order of their IDs.
//
// Where Kafka goes by the order of its hash tables, the smaller ID comes first here.
func assign(seats []*seat, subs []part, standbys int) {
	if len(seats) == 0 {
		return
	}
	t := newTable(seats, subs, standbys)
	t.assignActive(taskList(subs, func(*part) bool { return true }))
	if standbys > 0 {
		t.assignStandby(taskList(subs, func(p *part) bool { return p.stateful }))
	}
}

func newTable(seats []*seat, subs []part, standbys int) *table {
	t := &table{seats: seats, standbys: standbys, ran: map[TaskID]*seat{}, kept: map[TaskID][]*seat{}}
	active, all := 0, 0
	for i := range subs {
		active += subs[i].tasks
		if all += subs[i].tasks; subs[i].stateful {
			all += subs[i].tasks * standbys
		}
	}
	t.actives, t.all = newQuota(active, len(seats)), newQuota(all, len(seats))
	byID := map[string]*process{}
	for _, s := range seats {
		p := byID[s.process]
		if p == nil {
			p = &process{id: s.process, tasks: map[TaskID]struct{}{}}
			byID[s.process] = p
			t.processes = append(t.processes, p)
		}
		p.seats = append(p.seats, s)
		s.on, s.active, s.standby = p, map[TaskID]struct{}{}, map[TaskID]struct{}{}
		for _, a := range s.old.Active {
			t.ran[a.TaskID] = s
		}
		for _, id := range s.old.Standby {
			t.kept[id] = append(t.kept[id], s)
		}
		for id := range s.offsets {
			if !has(s.old.Standby, id) {
				t.kept[id] = append(t.kept[id], s)
			}
		}
	}
	slices.SortFunc(t.processes, func(a, b *process) int { return strings.Compare(a.id, b.id) })
	for id, of := range t.kept {
		slices.SortFunc(of, func(a, b *seat) int {
			first, second := has(a.old.Standby, id), has(b.old.Standby, id)
			if first != second {
				if first {
					return -1
				}
				return 1
			}
			return cmp.Or(cmp.Compare(b.offsets[id], a.offsets[id]), strings.Compare(a.id, b.id))
		})
	}
	return t
}

func taskList(subs []part, include func(*part) bool) (out []TaskID) {
	for i := range subs {
		if include(&subs[i]) {
			for n := range subs[i].tasks {
				out = append(out, TaskID{subs[i].id, int32(n)})
			}
		}
	}
	return out
}

// byPartition orders tasks so that those of one partition are together.
func byPartition(a, b TaskID) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), strings.Compare(a.Subtopology, b.Subtopology))
}

// give adds a task to a member.
func (t *table) give(s *seat, id TaskID, active bool) {
	s.on.tasks[id] = struct{}{}
	if active {
		s.active[id] = struct{}{}
	} else {
		s.standby[id] = struct{}{}
	}
	if active {
		t.actives.took(s.load())
	}
	t.all.took(s.load())
}

func (t *table) assignActive(tasks []TaskID) {
	slices.SortFunc(tasks, byPartition)
	for _, previous := range []func(TaskID) *seat{
		func(id TaskID) *seat { return t.ran[id] },
		func(id TaskID) *seat { return least(t.kept[id], nil) },
	} {
		tasks = slices.DeleteFunc(tasks, func(id TaskID) bool {
			s := previous(id)
			if s == nil || s.load() >= t.actives.each {
				return false
			}
			t.give(s, id, true)
			return true
		})
	}
	slices.SortFunc(tasks, compareTasks)
	for _, id := range tasks {
		p := t.idlest(func(*process) bool { return true })
		t.give(p.idlest(), id, true)
	}
}

// least finds the member on the process with the least load that does not have the task; nil if there is none. A later one must
// have less load by itself, too. exclude is nil for an active task.
func least(seats []*seat, exclude *TaskID) (best *seat) {
	load, own := math.MaxFloat64, math.MaxInt
	for _, s := range seats {
		if exclude != nil && s.on.has(*exclude) {
			continue
		}
		if best == nil || s.on.load() < load && s.load() < own {
			best, load, own = s, s.on.load(), s.load()
		}
	}
	return best
}

// idlest finds the process with the least load among those that will do; nil if none does.
func (t *table) idlest(will func(*process) bool) (best *process) {
	for _, p := range t.processes {
		if will(p) && (best == nil || p.load() < best.load()) {
			best = p
		}
	}
	return best
}

// idlest finds the member with the least load.
func (p *process) idlest() *seat {
	return slices.MinFunc(p.seats, func(a, b *seat) int { return cmp.Compare(a.load(), b.load()) })
}

func (t *table) assignStandby(tasks []TaskID) {
	slices.SortFunc(tasks, func(a, b TaskID) int { return byPartition(b, a) })
	left := map[TaskID]int{}
	var rest []TaskID
	for _, id := range tasks {
		for i := range t.standbys {
			s := t.formerly(id)
			if s == nil {
				left[id], rest = t.standbys-i, append(rest, id)
				break
			}
			t.give(s, id, false)
		}
	}
	slices.SortFunc(rest, func(a, b TaskID) int { return compareTasks(b, a) })
	for _, id := range rest {
		for range left[id] {
			p := t.idlest(func(p *process) bool { return !p.has(id) })
			if p == nil {
				break // fewer processes than copies wanted
			}
			t.give(p.idlest(), id, false)
		}
	}
}

// formerly finds a member with room that has the task's state already; nil if there is none.
func (t *table) formerly(id TaskID) *seat {
	if s := t.ran[id]; s != nil && !s.on.has(id) && s.load() < t.all.each {
		return s
	}
	if s := least(t.kept[id], &id); s != nil && s.load() < t.all.each {
		return s
	}
	return nil
}

// tasks is what the seat was assigned.
func (s *seat) tasks() (out Tasks) {
	for id := range s.active {
		out.Active = append(out.Active, Task{TaskID: id})
	}
	for id := range s.standby {
		out.Standby = append(out.Standby, id)
	}
	slices.SortFunc(out.Active, func(a, b Task) int { return compareTasks(a.TaskID, b.TaskID) })
	slices.SortFunc(out.Standby, compareTasks)
	invariants.Check(len(s.on.tasks) > 0 || out.empty(), "streams assignor: %s has tasks that its process has not", s.id)
	return out
}
