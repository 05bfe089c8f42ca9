package streams

import "slices"

// holders say which processes have which tasks of a group, assigned or still to be given up.
type holders struct {
	active  map[TaskID]string
	standby map[TaskID][]string
}

// holders looks at all members but one, which is being replaced.
func (g *group) holders(replaced string) holders {
	h := holders{map[TaskID]string{}, map[TaskID][]string{}}
	for id, m := range g.members {
		if id == replaced {
			continue
		}
		for _, t := range []Tasks{m.Assigned, m.Revoking} {
			for _, a := range t.Active {
				h.active[a.TaskID] = m.Process
			}
			for _, id := range t.Standby {
				h.standby[id] = append(h.standby[id], m.Process)
			}
		}
	}
	return h
}

// reconcile takes a member a step towards its target of an assignment epoch. owned is what the member says that it has; nil if it
// does not say, which is taken for all that it ever had.
func (m *Member) reconcile(epoch int32, owned *Owned, group func() holders) {
	if m.reconciled(epoch) {
		return
	}
	reached := m.Epoch
	if m.Status == Unrevoked {
		if m.Revoking.heldBy(owned) {
			return
		}
		reached++
	}
	s := step{m: m, epoch: epoch, owned: owned, holders: group()}
	s.sort()
	s.convert()
	blocked := s.revoking.heldBy(owned)
	s.promote(blocked)
	s.finish(reached, blocked)
}

// step is the comparison of what a member has with its target.
type step struct {
	m     *Member
	epoch int32
	owned *Owned
	holders

	kept     Tasks // it has them and is to
	revoking Tasks // it has them and is not to
	pending  Tasks // it is to have them and can
	waiting  bool  // for others to give up tasks
}

// sort compares.
func (s *step) sort() {
	had, target := s.m.Assigned, s.m.Target
	for _, t := range had.Active {
		if _, ok := find(target.Active, t.TaskID); ok {
			s.kept.Active = append(s.kept.Active, t)
		} else {
			s.revoking.Active = append(s.revoking.Active, t)
		}
	}
	for _, t := range target.Active {
		if _, ok := find(had.Active, t.TaskID); ok {
			continue
		}
		if s.activeTaken(t.TaskID) {
			s.waiting = true
		} else {
			s.pending.Active = append(s.pending.Active, Task{t.TaskID, s.epoch})
		}
	}
	for _, id := range had.Standby {
		if has(target.Standby, id) {
			s.kept.Standby = append(s.kept.Standby, id)
		} else {
			s.revoking.Standby = append(s.revoking.Standby, id)
		}
	}
	for _, id := range target.Standby {
		switch {
		case has(had.Standby, id):
		case s.standbyTaken(id):
			s.waiting = true
		default:
			s.pending.Standby = append(s.pending.Standby, id)
		}
	}
}

// activeTaken reports whether a task cannot be run yet: somebody does, or another member of this process has its state open.
func (s *step) activeTaken(id TaskID) bool {
	_, runs := s.active[id]
	return runs || s.onProcess(id) && !has(s.m.Assigned.Standby, id)
}

// standbyTaken reports whether the state of a task is open on this process already, elsewhere than with this member as its
// active task.
func (s *step) standbyTaken(id TaskID) bool {
	_, own := find(s.m.Assigned.Active, id)
	process, runs := s.active[id]
	return runs && process == s.m.Process && !own || s.onProcess(id)
}

func (s *step) onProcess(id TaskID) bool { return slices.Contains(s.standby[id], s.m.Process) }

// convert lets a member keep as standby what it ran, without a gap.
func (s *step) convert() {
	s.pending.Standby = slices.DeleteFunc(s.pending.Standby, func(id TaskID) bool {
		_, ran := find(s.m.Assigned.Active, id)
		if ran {
			s.kept.Standby = append(s.kept.Standby, id)
		}
		return ran
	})
	// What it is to run it keeps as standby until it does.
	s.revoking.Standby = slices.DeleteFunc(s.revoking.Standby, s.promoted)
}

// promoted reports whether a task is one that the member is to run.
func (s *step) promoted(id TaskID) bool {
	_, ok := find(s.m.Target.Active, id)
	return ok
}

// promote keeps standbys that are to become active tasks later than with this step.
func (s *step) promote(blocked bool) {
	for _, id := range s.m.Assigned.Standby {
		if _, now := find(s.pending.Active, id); s.promoted(id) && (blocked || !now) {
			s.kept.Standby = append(s.kept.Standby, id)
		}
	}
	slices.SortFunc(s.kept.Standby, compareTasks)
	s.kept.Standby = slices.Compact(s.kept.Standby)
}

// finish enters the outcome: what has to be given up comes first.
func (s *step) finish(reached int32, blocked bool) {
	m := s.m
	m.Previous = m.Epoch
	if blocked {
		m.Status, m.Epoch, m.Assigned, m.Revoking = Unrevoked, reached, s.kept, s.revoking
		return
	}
	m.Status, m.Epoch, m.Revoking = Stable, s.epoch, Tasks{}
	if s.waiting {
		m.Status = Unreleased
	}
	m.Assigned = Tasks{slices.Concat(s.kept.Active, s.pending.Active), slices.Concat(s.kept.Standby, s.pending.Standby)}
	slices.SortFunc(m.Assigned.Active, func(a, b Task) int { return compareTasks(a.TaskID, b.TaskID) })
	slices.SortFunc(m.Assigned.Standby, compareTasks)
}

// heldBy reports whether a member still has some of the tasks, by its own word.
func (t Tasks) heldBy(owned *Owned) bool {
	if t.empty() {
		return false
	}
	if owned == nil {
		return true
	}
	return slices.ContainsFunc(owned.Active, func(id TaskID) bool { _, ok := find(t.Active, id); return ok }) ||
		slices.ContainsFunc(owned.Standby, func(id TaskID) bool { return has(t.Standby, id) })
}

// holds reports whether tasks that a member says it has are among those that it was assigned.
func (t Tasks) holds(owned *Owned) bool {
	return owned != nil && len(owned.Warmup) == 0 &&
		!slices.ContainsFunc(owned.Active, func(id TaskID) bool { _, ok := find(t.Active, id); return !ok }) &&
		!slices.ContainsFunc(owned.Standby, func(id TaskID) bool { return !has(t.Standby, id) })
}
