package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"godwit/internal/bench/result"
)

// verdicts are the sentences of the summary. Each says what the data says and no more: a target is called faster only if all its
// rounds were.
func (b *builder) verdicts(o *overview) (all []verdict) {
	add := func(loud bool, text string) {
		if text != "" {
			all = append(all, verdict{text, loud})
		}
	}
	add(false, b.saysDurability())
	everyone := make([]int, len(b.targets))
	for i := range everyone {
		everyone[i] = i
	}
	groups := b.byGrade()
	if len(groups) > 1 && len(b.targets) > 1 {
		for _, g := range groups {
			if len(g) > 1 {
				add(false, b.saysBest(g, "Among targets graded “"+b.targets[g[0]].Grade+"” ("+list(b.names(g))+")"))
			}
		}
		add(false, b.saysBest(everyone, "Among all, whatever they do before they acknowledge"))
	} else {
		add(false, b.saysBest(everyone, "Among all"))
	}
	add(false, b.saysBenefits(o))
	lost, text := b.saysLosses()
	add(lost, text)
	add(true, b.saysFailures())
	add(true, b.saysLate())
	add(false, b.saysUnsupported())
	add(false, b.saysRounds())
	add(false, b.saysNoise())
	return all
}

func (b *builder) names(targets []int) (names []string) {
	for _, t := range targets {
		names = append(names, b.targets[t].Name)
	}
	return names
}

// byGrade groups targets, strongest grade first.
func (b *builder) byGrade() (groups [][]int) {
	for _, g := range result.Grades {
		var group []int
		for i := range b.targets {
			if b.targets[i].Grade == g {
				group = append(group, i)
			}
		}
		if len(group) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

var gradeSays = map[string]string{
	result.GradeSynced:   "had data synced to the device before it was acknowledged",
	result.GradePartly:   "had it synced for some acknowledgements only",
	result.GradeUnsynced: "acknowledged without a sync",
	result.GradeNone:     "did not acknowledge, by protocol",
	result.GradeUnknown:  "could not be observed",
}

func (b *builder) saysDurability() string {
	var parts []string
	for _, g := range b.byGrade() {
		parts = append(parts, list(b.names(g))+" "+gradeSays[b.targets[g[0]].Grade])
	}
	if len(parts) == 0 {
		return ""
	}
	return "Durability, probed from outside: " + strings.Join(parts, "; ") + "."
}

// contest counts who was best at the points where at least two of a group have a value.
type contest struct {
	points int
	best   map[int]int // by target: points with the best median
	clear  map[int]int // of them: every round of it was better than every round of all others
	single int         // points where somebody has one round only
}

// contest holds points of all scenarios against each other. Way is the direction of what of returns.
func (b *builder) contest(group []int, way result.Direction, of func(*result.Scenario, *result.Cell) result.Spread) contest {
	c := contest{best: map[int]int{}, clear: map[int]int{}}
	for i := range b.run.Scenarios {
		s := &b.run.Scenarios[i]
		if s.Benefits() {
			continue
		}
		_, points := b.points(s)
		for j := range points {
			if way == result.LessIsBetter && uneven(points[j]) {
				continue // a latency at a lower rate is no better
			}
			values := map[int]result.Spread{}
			for _, t := range group {
				if cell := points[j].Cells[t]; cell != nil && cell.Sound() {
					if v := of(s, cell); v.N > 0 {
						values[t] = v
					}
				}
			}
			if len(values) > 1 {
				c.hold(values, way)
			}
		}
	}
	return c
}

func (c *contest) hold(values map[int]result.Spread, way result.Direction) {
	c.points++
	order := slices.Sorted(maps.Keys(values))
	best := order[0]
	for _, t := range order[1:] {
		if m := values[t].Median; way == result.MoreIsBetter && m > values[best].Median || way == result.LessIsBetter && m < values[best].Median {
			best = t
		}
	}
	c.best[best]++
	apart, single := true, false
	for t, v := range values {
		single = single || v.N < 2
		if t != best && !v.Apart(values[best]) {
			apart = false
		}
	}
	if single {
		c.single++
	}
	if apart {
		c.clear[best]++
	}
}

// saysBest says who was best how often, in throughput and in latency.
func (b *builder) saysBest(group []int, who string) string {
	if len(group) < 2 {
		return ""
	}
	throughput := b.contest(group, result.MoreIsBetter, func(s *result.Scenario, c *result.Cell) result.Spread {
		if f := headline(s); f.About().Better == result.MoreIsBetter {
			return c.Spread(f)
		}
		return result.Spread{}
	})
	latency := b.contest(group, result.LessIsBetter, func(_ *result.Scenario, c *result.Cell) result.Spread {
		if !open(c) {
			return result.Spread{}
		}
		return latencyAt(c, result.EndToEnd, 99)
	})
	var parts []string
	if s := b.saysContest(&throughput); s != "" {
		parts = append(parts, "highest throughput "+s)
	}
	if s := b.saysContest(&latency); s != "" {
		parts = append(parts, "lowest end-to-end p99 "+s)
	}
	if len(parts) == 0 {
		return ""
	}
	return who + ": " + strings.Join(parts, "; ") + "."
}

func (b *builder) saysContest(c *contest) string {
	if c.points == 0 {
		return ""
	}
	order := slices.SortedFunc(maps.Keys(c.best), func(x, y int) int {
		if c.best[x] != c.best[y] {
			return c.best[y] - c.best[x]
		}
		return x - y
	})
	var parts []string
	for _, t := range order {
		s := fmt.Sprintf("%s at %d", &b.targets[t], c.best[t])
		switch n := c.clear[t]; {
		case n == c.best[t]:
			s += " (beyond the spread of rounds)"
		case n > 0:
			s += fmt.Sprintf(" (at %d beyond the spread of rounds)", n)
		default:
			s += " (not beyond the spread of rounds)"
		}
		parts = append(parts, s)
	}
	return list(parts) + " of " + plural(c.points, "point")
}

func (b *builder) saysBenefits(o *overview) string {
	tried := 0
	var order []int
	for i := range o.Standings {
		tried = max(tried, o.Standings[i].Tried)
		order = append(order, i)
	}
	if tried == 0 {
		return ""
	}
	slices.SortStableFunc(order, func(x, y int) int { return o.Standings[y].Kept - o.Standings[x].Kept })
	var parts []string
	for _, i := range order {
		s := &o.Standings[i]
		p := fmt.Sprintf("%s %d", &b.targets[i], s.Kept)
		if s.Partly > 0 {
			p += fmt.Sprintf(" and %d partly", s.Partly)
		}
		parts = append(parts, p)
	}
	return fmt.Sprintf("Benefits kept in full, of %d tried: %s.", tried, strings.Join(parts, ", "))
}

// saysLosses sums up audits, benefits left out: there, receivers are killed on purpose.
func (b *builder) saysLosses() (bool, string) {
	sums := make([]result.Audit, len(b.targets))
	audited := 0
	for i := range b.run.Scenarios {
		s := &b.run.Scenarios[i]
		if s.Benefits() {
			continue
		}
		for j := range s.Cells {
			t := b.target(s.Cells[j].Target)
			if a := s.Cells[j].Audit(); a != nil && t >= 0 {
				audited++
				sums[t].Add(a)
			}
		}
	}
	if audited == 0 {
		return false, ""
	}
	var parts []string
	deliveries := int64(0)
	for t := range sums {
		deliveries += sums[t].Delivered
		if said := auditLoud(&sums[t]); said != "" {
			parts = append(parts, b.targets[t].String()+": "+said)
		}
	}
	if len(parts) == 0 {
		return false, fmt.Sprintf("Every acknowledged message arrived once and in order, at every target: %s deliveries.", whole(deliveries))
	}
	return true, "Not everything arrived once and in order. " + strings.Join(parts, ". ") + ". All others were without fault."
}

func (b *builder) saysFailures() string {
	counts := make([]int, len(b.targets))
	for i := range b.run.Scenarios {
		for j := range b.run.Scenarios[i].Cells {
			c := &b.run.Scenarios[i].Cells[j]
			if t := b.target(c.Target); t >= 0 {
				counts[t] += len(c.Failures())
			}
		}
	}
	var parts []string
	for t, n := range counts {
		if n > 0 {
			parts = append(parts, plural(n, "round")+" of "+b.targets[t].String())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Failed: " + list(parts) + "; the scenarios say why."
}

// saysLate names the targets that did not keep up with an open loop's schedule.
func (b *builder) saysLate() string {
	var parts []string
	for t := range b.targets {
		n := 0
		for i := range b.run.Scenarios {
			for j := range b.run.Scenarios[i].Cells {
				if c := &b.run.Scenarios[i].Cells[j]; b.target(c.Target) == t && late(c) != "" {
					n++
				}
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s at %s", &b.targets[t], plural(n, "point")))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Did not keep up with the schedule: " + list(parts) + "."
}

func (b *builder) saysUnsupported() string {
	counts := make([]int, len(b.targets))
	for i := range b.run.Scenarios {
		for j := range b.run.Scenarios[i].Cells {
			c := &b.run.Scenarios[i].Cells[j]
			if t := b.target(c.Target); t >= 0 && c.Unsupported != "" {
				counts[t]++
			}
		}
	}
	var parts []string
	for t, n := range counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s (%d)", &b.targets[t], n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Points without a figure because the target or its protocol has no such thing: " + list(parts) + "."
}

// saysRounds names the scenarios whose figures have no spread.
func (b *builder) saysRounds() string {
	var names []string
	for i := range b.run.Scenarios {
		s := &b.run.Scenarios[i]
		most := 0
		for j := range s.Cells {
			most = max(most, len(s.Cells[j].Rounds))
		}
		if most == 1 {
			names = append(names, line(s.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Measured in one round only, so without a spread: " + list(names) + ". No difference is claimed there."
}

func (b *builder) saysNoise() string {
	worst, where := 0.0, ""
	for i := range b.run.Scenarios {
		s := &b.run.Scenarios[i]
		for j := range s.Cells {
			if v := s.Cells[j].Spread(result.OthersCores); v.N > 0 && v.Max > worst {
				worst, where = v.Max, line(s.Name)
			}
		}
	}
	if worst < noisy {
		return ""
	}
	return fmt.Sprintf("The machine was not quiet: others took up to %s cores during a round (%s).", digits(worst), where)
}
