package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"godwit/internal/bench/result"
)

// section lays out one scenario.
func (b *builder) section(s *result.Scenario) section {
	name, points := b.points(s)
	out := section{
		ID: b.id(s.Name), Name: line(s.Name), Title: line(s.Title), About: line(s.About), Facts: facts(s, name, points), Spec: text(s.Spec),
	}
	if out.Title == "" {
		out.Title = out.Name
	}
	out.Loud, out.Quiet = b.findings(s, name, points)
	out.Bars = b.bars(s, name, points)
	out.Plots = b.plots(s, out.ID, name, points)
	if t := b.figureTable(s, name, points); t != nil {
		out.Tables = append(out.Tables, *t)
	}
	for _, stage := range []result.Stage{result.EndToEnd, result.Producer} {
		if t := b.latencyTable(stage, name, points); t != nil {
			out.Tables = append(out.Tables, *t)
		}
	}
	return out
}

// facts are how the scenario was measured, in a line.
func facts(s *result.Scenario, name string, points []point) string {
	least, most := -1, 0
	for i := range s.Cells {
		if s.Cells[i].Unsupported != "" && len(s.Cells[i].Rounds) == 0 {
			continue
		}
		n := len(s.Cells[i].Rounds)
		most = max(most, n)
		if least < 0 || n < least {
			least = n
		}
	}
	parts := []string{plural(most, "round")}
	if least >= 0 && least != most {
		parts[0] = fmt.Sprintf("%d to %s", least, parts[0])
	}
	if len(points) > 1 {
		parts = append(parts, fmt.Sprintf("%d points by %s", len(points), name))
	}
	return strings.Join(parts, ", ")
}

// asked says that the cell's throughput was asked for, not found.
func asked(c *result.Cell) bool { return c.Spread(result.IntendedPerSecond).N > 0 }

// open says that the cell's latencies are those of an open loop: beside a catch-up read there is one as well, though it is
// not about throughput.
func open(c *result.Cell) bool {
	return asked(c) || c.Spread(result.ThroughputPerSecond).N == 0 && (c.Curve(result.EndToEnd) != nil || c.Curve(result.Producer) != nil)
}

// at names a cell for a sentence.
func (b *builder) at(t int, name string, p *point) string {
	s := b.targets[t].String()
	if p.Label != "" {
		s += fmt.Sprintf(" (%s %s)", name, p.Label)
	}
	return s
}

// findings are what must not be missed about a scenario, and what is good to know.
func (b *builder) findings(s *result.Scenario, name string, points []point) (loud, quiet []string) {
	var sum result.Audit
	audited, noted := false, map[string]bool{}
	for i := range points {
		p := &points[i]
		for t, c := range p.Cells {
			if c == nil {
				continue
			}
			if a := c.Audit(); a != nil {
				audited = true
				sum.Add(a)
				if said := auditLoud(a); said != "" {
					loud = append(loud, b.at(t, name, p)+": "+said+".")
				}
			}
			failures := c.Failures()
			for _, n := range slices.Sorted(maps.Keys(failures)) {
				loud = append(loud, fmt.Sprintf("%s: round %d failed: %s", b.at(t, name, p), n, line(failures[n])))
			}
			if said := late(c); said != "" {
				loud = append(loud, b.at(t, name, p)+": "+said)
			}
			for _, r := range c.Rounds {
				for _, n := range r.Notes {
					n = b.targets[t].String() + ": " + line(n)
					if !noted[n] {
						noted[n] = true
						quiet = append(quiet, n)
					}
				}
			}
		}
	}
	if audited && sum.Clean() {
		quiet = append([]string{fmt.Sprintf("Every acknowledged message arrived once and in order, at every target: %s deliveries.", whole(sum.Delivered))}, quiet...)
	}
	const most = 40
	if len(quiet) > most {
		quiet = append(quiet[:most], fmt.Sprintf("%d more notes are in the JSON file.", len(quiet)-most))
	}
	return loud, quiet
}

// auditLoud says what is wrong, "" if nothing is.
func auditLoud(a *result.Audit) string {
	var parts []string
	add := func(n int64, what string) {
		if n > 0 {
			parts = append(parts, what+" "+whole(n))
		}
	}
	add(a.Lost, "LOST")
	add(a.Duplicates, "DUPLICATES")
	add(a.Disordered, "OUT OF ORDER")
	add(a.Failed, "FAILED to send")
	add(a.Foreign, "FOREIGN or damaged")
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s messages sent, %s deliveries due", strings.Join(parts, ", "), whole(a.Sent), whole(a.Expected))
}

// kept is the part of the intended rate that counts as kept up with.
const kept = 0.98

// late says that a target did not keep up with its schedule.
func late(c *result.Cell) string {
	want, got := c.Spread(result.IntendedPerSecond), c.Spread(result.ThroughputPerSecond)
	if want.N == 0 || got.N == 0 || got.Median >= want.Median*kept {
		return ""
	}
	return fmt.Sprintf("did not keep up with its schedule: %s of %s messages a second. Latencies contain the waiting.",
		number(got.Median, true), number(want.Median, true))
}

// figureTable has the scenario's figures, those of usage left out.
func (b *builder) figureTable(s *result.Scenario, name string, points []point) *table {
	figures := shownFigures(s)
	if len(figures) == 0 && !slices.ContainsFunc(s.Cells, func(c result.Cell) bool { return c.Unsupported != "" }) {
		return nil
	}
	head := headline(s)
	t := &table{Caption: "Figures", Head: keyColumns(name, points)}
	for _, f := range figures {
		a := f.About()
		t.Head = append(t.Head, column{Title: a.Title, Unit: a.Unit, Minor: minor(f), Says: a.Says})
		if f == head && len(b.targets) > 1 {
			t.Head = append(t.Head, column{Title: "ratio", Says: "To the first target's median."})
		}
	}
	b.rows(t, points, func(p *point, target int) []cell {
		var cells []cell
		for _, f := range figures {
			v := p.Cells[target].Spread(f)
			cells = append(cells, measured(v, true))
			if f == head && len(b.targets) > 1 {
				cells = append(cells, b.ratio(p, target, f.About().Better, func(c *result.Cell) result.Spread { return c.Spread(f) }))
			}
		}
		return cells
	})
	b.foot(t)
	return t
}

// foot adds what the signs in the table mean.
func (b *builder) foot(t *table) {
	used := false
	for _, r := range t.Rows {
		for _, c := range r.Cells {
			used = used || strings.HasSuffix(c.Text, "x") && c.Mark != plain || strings.ContainsAny(c.Text, "~≠")
		}
	}
	if used {
		t.Foot = append(t.Foot, ratioLegend)
	}
}

// shownFigures are the figures that some cell has and that tell something.
func shownFigures(s *result.Scenario) (figures []result.Figure) {
	for _, f := range result.Order {
		if slices.Contains(result.OfUsage, f) {
			continue
		}
		some, big, differs := false, false, false
		for i := range s.Cells {
			v := s.Cells[i].Spread(f)
			if v.N == 0 {
				continue
			}
			some = true
			big = big || v.Max >= 1
			through := s.Cells[i].Spread(result.ThroughputPerSecond)
			differs = differs || v.Median > through.Median*1.01 || v.Median < through.Median*0.99
		}
		switch f {
		case result.CreateSeconds, result.BacklogAtEnd, result.DrainSeconds: // every round has them
			some = some && (big || f == result.CreateSeconds && s.Axis == "destinations")
		case result.ProducedPerSecond, result.ConsumedPerSecond:
			some = some && differs
		}
		if some {
			figures = append(figures, f)
		}
	}
	return figures
}

// minor figures are left out where there is little room.
func minor(f result.Figure) bool {
	switch f {
	case result.ProducedPerSecond, result.ConsumedPerSecond, result.DrainSeconds, result.CatchUpPerSecond, result.BacklogMiB:
		return true
	}
	return false
}

// headlines are the figures that a scenario is about, the first that it has.
var headlines = []result.Figure{
	result.CommitsPerSecond, result.CatchUpMiB, result.ReadMiB, result.FirstMessageSeconds, result.RestartSeconds, result.ThroughputPerSecond, result.ThroughputMiB, result.ConsumedPerSecond, result.ProducedPerSecond,
}

// headline is the figure that a scenario is about, "" if that is a latency: in an open loop, every target that keeps up has
// the throughput that was asked for.
func headline(s *result.Scenario) result.Figure {
	for _, f := range headlines {
		has, found := false, true
		for i := range s.Cells {
			has = has || s.Cells[i].Spread(f).N > 0
			found = found && !asked(&s.Cells[i])
		}
		rate := f == result.ThroughputPerSecond || f == result.ThroughputMiB || f == result.ConsumedPerSecond || f == result.ProducedPerSecond
		if has && (found || !rate) {
			return f
		}
	}
	return ""
}

// keyColumns are the point, if there are several, and the target.
func keyColumns(name string, points []point) (head []column) {
	if len(points) > 1 {
		head = append(head, column{Title: name, Left: true})
	}
	return append(head, column{Title: "target", Left: true})
}

// rows adds a row for every point and target, with the cells that f makes behind the keys.
func (b *builder) rows(t *table, points []point, f func(p *point, target int) []cell) {
	for i := range points {
		p := &points[i]
		first := true
		for target, c := range p.Cells {
			if c == nil {
				continue
			}
			r := row{Target: target, Group: first}
			if len(points) > 1 {
				label := cell{Text: p.Label}
				if !first {
					label.Mark = dim
				}
				r.Cells = append(r.Cells, label)
			}
			r.Cells = append(r.Cells, b.named(target))
			switch {
			case len(c.Rounds) == 0 && c.Unsupported != "":
				r.Span = "unsupported: " + line(c.Unsupported)
			case len(c.Rounds) == 0:
				r.Span = "not measured"
			default:
				cells := f(p, target)
				if len(c.Failures()) > 0 && !slices.ContainsFunc(cells, func(c cell) bool { return c.Text != "-" }) {
					r.Span, r.Failed = "failed, see above", true
					break
				}
				r.Cells = append(r.Cells, cells...)
			}
			t.Rows = append(t.Rows, r)
			first = false
		}
	}
}

// ratio compares a target with the first one at the same point.
func (b *builder) ratio(p *point, target int, way result.Direction, of func(*result.Cell) result.Spread) cell {
	if p.Cells[0] == nil {
		return cell{Text: "-", Mark: dim}
	}
	base, v := of(p.Cells[0]), of(p.Cells[target])
	if base.N == 0 || v.N == 0 || base.Median <= 0 {
		return cell{Text: "-", Mark: dim}
	}
	if target == 0 {
		return cell{Text: "1x", Mark: dim}
	}
	if !p.Cells[0].Sound() || !p.Cells[target].Sound() {
		return cell{Text: "✗", Mark: dim}
	}
	x := v.Median / base.Median
	c := cell{Text: times(x), Mark: dim}
	switch {
	case base.N < 2 || v.N < 2:
		c.Text = "?" + c.Text
	case !v.Apart(base):
		c.Text = "~" + c.Text
	case way == result.MoreIsBetter && x > 1, way == result.LessIsBetter && x < 1:
		c.Mark = better
	case way != result.Neutral:
		c.Mark = worse
	}
	if b.targets[target].Grade != b.targets[0].Grade {
		c.Text = "≠" + c.Text
	}
	return c
}

// shownPercentiles are those of latency tables; the figures below name curves by them.
var shownPercentiles = []float64{50, 99, 99.9, 99.99, 100}

// latencyTable has percentiles in milliseconds; nil if nothing has the stage.
func (b *builder) latencyTable(stage result.Stage, name string, points []point) *table {
	openLoop, closed, thin := false, false, false
	for i := range points {
		for _, c := range points[i].Cells {
			if c == nil || c.Curve(stage) == nil {
				continue
			}
			openLoop = openLoop || open(c)
			closed = closed || !open(c)
		}
	}
	if !openLoop && !closed {
		return nil
	}
	t := &table{Caption: "Latency to the acknowledgement", Head: keyColumns(name, points)}
	if stage == result.EndToEnd {
		t.Caption = "Latency end to end"
	}
	compare := len(b.targets) > 1 && openLoop
	for _, q := range shownPercentiles {
		t.Head = append(t.Head, column{Title: percentile(q), Unit: "ms", Bare: q > 99})
		if q == 99 && compare {
			t.Head = append(t.Head, column{Title: "ratio", Says: "Of p99, to the first target's median."})
		}
	}
	b.rows(t, points, func(p *point, target int) []cell {
		var cells []cell
		for _, q := range shownPercentiles {
			at := func(c *result.Cell) result.Spread { return latencyAt(c, stage, q) }
			v := at(p.Cells[target])
			thin = thin || v.N == 0 && p.Cells[target].LatencyAt(stage, q).N > 0
			cells = append(cells, measured(v.Scale(1e-3), false))
			if q == 99 && compare {
				cells = append(cells, b.ratio(p, target, result.LessIsBetter, at))
			}
		}
		return cells
	})
	if closed {
		t.Foot = append(t.Foot, "In a closed loop a message waits its turn in the window of unacknowledged ones: the latency says how full that was, and is no latency of the target at a load that the world would give it.")
	}
	if slices.ContainsFunc(points, uneven) {
		t.Foot = append(t.Foot, "Rates are parts of each target's own maximum, so targets were not sent the same: see intended.")
	}
	if thin {
		t.Foot = append(t.Foot, "Percentiles that are rarer than one message of a round are left out.")
	}
	b.foot(t)
	return t
}

// uneven says that the rates asked of targets at a point differ: by more than random arrivals do where a target lacks a round.
func uneven(p point) bool {
	var all []float64
	for _, c := range p.Cells {
		if c != nil && asked(c) {
			all = append(all, c.Spread(result.IntendedPerSecond).Median)
		}
	}
	return len(all) > 1 && slices.Max(all) > slices.Min(all)*1.05
}

// latencyAt is a percentile in microseconds; none if it is rarer than one message of a round.
func latencyAt(c *result.Cell, stage result.Stage, q float64) result.Spread {
	if q < 100 && float64(fewest(c, stage))*(100-q) < 100 {
		return result.Spread{}
	}
	return c.LatencyAt(stage, q)
}

// fewest is the number of messages of the round that has the fewest, of those that have any.
func fewest(c *result.Cell, stage result.Stage) (n int64) {
	for i := range c.Rounds {
		if l := c.Rounds[i].Latency(stage); l != nil && (n == 0 || l.Count < n) {
			n = l.Count
		}
	}
	return n
}

func percentile(q float64) string {
	if q == 100 {
		return "max"
	}
	return "p" + digits4(q)
}
