package result

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Grades are the grades of durability, strongest first; a grade that is not known is the last.
var Grades = []string{GradeSynced, GradePartly, GradeUnsynced, GradeNone, GradeUnknown}

// Merge makes one run of several on one machine, in the order given. Targets are the same if name, configuration and
// version are; a namesake that differs gets what differs added to its name. Rounds of scenarios with the same specification are put
// together, cell by cell; a namesake with another specification stands beside. Fails if machines differ.
func Merge(runs ...*Run) (*Run, error) {
	if len(runs) == 0 {
		return nil, errors.New("no runs to merge")
	}
	m := &Run{Format: Format, Machine: runs[0].Machine}
	for _, r := range runs {
		if r.Machine != m.Machine {
			return nil, fmt.Errorf("runs of different machines do not make one: %+v and %+v", m.Machine, r.Machine)
		}
		if m.Started.IsZero() || r.Started.Before(m.Started) {
			m.Started = r.Started
		}
		if r.Ended.After(m.Ended) {
			m.Ended = r.Ended
		}
		switch {
		case m.Godwit == "":
			m.Godwit = r.Godwit
		case m.Godwit != r.Godwit:
			m.note(fmt.Sprintf("Measured by different versions: %s, then %s.", m.Godwit, r.Godwit))
		}
		for _, c := range r.Commands {
			if !slices.Contains(m.Commands, c) {
				m.Commands = append(m.Commands, c)
			}
		}
		for _, n := range r.Notes {
			m.note(n)
		}
		m.mergeScenarios(r, m.mergeTargets(r.Targets))
	}
	return m, m.check()
}

func (r *Run) note(n string) {
	if !slices.Contains(r.Notes, n) {
		r.Notes = append(r.Notes, n)
	}
}

// mergeTargets adds what is new and returns the new names by the old ones.
func (r *Run) mergeTargets(targets []Target) map[string]string {
	names := map[string]string{}
	before := len(r.Targets) // targets of one run are different ones, even if nothing but the name tells
	for _, t := range targets {
		old := t.Name
		for n := 1; ; n++ {
			i := slices.IndexFunc(r.Targets, func(o Target) bool { return o.Name == t.Name })
			if i < 0 {
				r.Targets = append(r.Targets, t)
				break
			}
			o := &r.Targets[i]
			if i < before && o.Config == t.Config && o.Version == t.Version && o.Protocol == t.Protocol {
				r.mergeDurability(o, &t.Durability)
				break
			}
			switch {
			case n > 1:
				t.Name = fmt.Sprintf("%s (%d)", old, n)
			case o.Version != t.Version && t.Version != "":
				t.Name = fmt.Sprintf("%s (%s)", old, t.Version)
			default:
				t.Name = fmt.Sprintf("%s (%s)", old, cmp.Or(t.Config, t.Protocol, "other"))
			}
		}
		names[old] = t.Name
	}
	return names
}

// mergeDurability adds probes up; the weaker grade holds, one that is known before one that is not.
func (r *Run) mergeDurability(t *Target, d *Durability) {
	old := t.Durability
	if d.Grade == "" || d.Grade == GradeUnknown && old.Grade != "" {
		return
	}
	if old.Grade == "" || old.Grade == GradeUnknown {
		t.Durability = *d
		return
	}
	if old.Grade != d.Grade {
		r.note(fmt.Sprintf("%s was graded %q in one run and %q in another; the weaker grade is shown.", t.Name, old.Grade, d.Grade))
	}
	if slices.Index(Grades, d.Grade) > slices.Index(Grades, old.Grade) {
		t.Durability.Grade, t.Durability.Why = d.Grade, d.Why
	}
	t.Durability.Acked += d.Acked
	t.Durability.Covered += d.Covered
	t.Durability.Syncs += d.Syncs
	files := slices.Clone(old.Files)
	for _, f := range d.Files {
		if len(files) < 5 && !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	t.Durability.Files = files
}

// mergeScenarios adds the scenarios of o, whose targets have new names.
func (r *Run) mergeScenarios(o *Run, names map[string]string) {
	for _, s := range o.Scenarios {
		name := s.Name
		for n := 2; ; n++ {
			i := slices.IndexFunc(r.Scenarios, func(x Scenario) bool { return x.Name == s.Name })
			if i < 0 {
				cells := s.Cells
				s.Cells = nil
				r.Scenarios = append(r.Scenarios, s)
				r.Scenarios[len(r.Scenarios)-1].merge(cells, names)
				break
			}
			if r.Scenarios[i].Spec == s.Spec {
				r.Scenarios[i].merge(s.Cells, names)
				break
			}
			s.Name = fmt.Sprintf("%s-%d", name, n)
		}
	}
}

// merge appends the rounds of cells at the same point, and the cells at new ones.
func (s *Scenario) merge(cells []Cell, names map[string]string) {
	for _, c := range cells {
		if n, ok := names[c.Target]; ok {
			c.Target = n
		}
		i := slices.IndexFunc(s.Cells, func(o Cell) bool { return o.Target == c.Target && o.Point() == c.Point() })
		if i < 0 {
			c.Rounds = slices.Clone(c.Rounds)
			s.Cells = append(s.Cells, c)
			continue
		}
		o := &s.Cells[i]
		o.Rounds = append(o.Rounds, c.Rounds...)
		if len(o.Rounds) == 0 {
			o.Unsupported = cmp.Or(o.Unsupported, c.Unsupported)
		} else {
			o.Unsupported = ""
		}
	}
}
