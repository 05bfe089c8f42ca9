package report

import (
	"fmt"
	"math"
	"slices"

	"godwit/internal/bench/result"
)

// overview holds the two axes: how fast, and how many of the benefits are kept.
type overview struct {
	Standings []standing
	Table     *table
	Axes      *plot // nil if one of the axes has nothing
}

// standing is where a target stands. Ratios are oriented: above 1 is better than the first target.
type standing struct {
	Throughput spanned
	Latency    spanned
	Both       float64 // geometric mean of the two; 0 if one is missing
	Kept       int
	Partly     int
	Tried      int     // benefits that anybody was scored with
	Seconds    float64 // median of the times of benefits kept; NaN if none
}

// spanned is a geometric mean over scenarios, and its range.
type spanned struct {
	Mean, Low, High float64 // 0 if nothing was compared
	Points, Of      int     // points compared, and points where the first target has a value
}

// rates are the figures that count as throughput.
var rates = []result.Figure{result.ThroughputPerSecond, result.CatchUpMiB, result.ReadMiB, result.WriteMiB}

// overview compares all targets with the first.
func (b *builder) overview() overview {
	o := overview{Standings: make([]standing, len(b.targets))}
	for t := range b.targets {
		s := &o.Standings[t]
		s.Throughput = b.index(t, func(c *result.Cell) []result.Spread {
			var all []result.Spread
			for _, f := range rates {
				v := c.Spread(f)
				if f == result.ThroughputPerSecond && asked(c) {
					v = result.Spread{}
				}
				all = append(all, v)
			}
			return all
		}, 1)
		s.Latency = b.index(t, func(c *result.Cell) []result.Spread {
			if !open(c) {
				return []result.Spread{{}}
			}
			return []result.Spread{latencyAt(c, result.EndToEnd, 99)}
		}, -1)
		if s.Throughput.Mean > 0 && s.Latency.Mean > 0 {
			s.Both = math.Sqrt(s.Throughput.Mean * s.Latency.Mean)
		}
		b.keeps(t, s)
	}
	o.Table = b.standings(o.Standings)
	o.Axes = b.axes(o.Standings)
	return o
}

// index is the geometric mean of a target's ratios to the first target: over the points of each scenario, so that one with many
// points counts as much as one with few, and then over scenarios. Exponent -1 turns what is better when smaller.
func (b *builder) index(target int, of func(*result.Cell) []result.Spread, exponent float64) spanned {
	var out spanned
	var sums []float64
	for i := range b.run.Scenarios {
		s := &b.run.Scenarios[i]
		if s.Benefits() {
			continue
		}
		_, points := b.points(s)
		sum, n := 0.0, 0
		for j := range points {
			base, c := points[j].Cells[0], points[j].Cells[target]
			if base == nil || !base.Sound() || exponent < 0 && uneven(points[j]) {
				continue
			}
			for k, v := range of(base) {
				if v.N == 0 || v.Median <= 0 {
					continue
				}
				out.Of++
				if c == nil || !c.Sound() {
					continue
				}
				if w := of(c)[k]; w.N > 0 && w.Median > 0 {
					sum += exponent * math.Log(w.Median/v.Median)
					n++
				}
			}
		}
		if n > 0 {
			sums = append(sums, sum/float64(n))
			out.Points += n
		}
	}
	if len(sums) > 0 {
		total := 0.0
		for _, x := range sums {
			total += x
		}
		out.Mean = math.Exp(total / float64(len(sums)))
		out.Low, out.High = math.Exp(slices.Min(sums)), math.Exp(slices.Max(sums))
	}
	return out
}

// keeps counts the benefits that a target keeps.
func (b *builder) keeps(target int, s *standing) {
	var seconds []float64
	for _, e := range b.benefitCells() {
		s.Tried++
		o := e.Outcomes[target]
		switch {
		case o == nil:
		case o.Score == result.ScoreKept:
			s.Kept++
			seconds = append(seconds, o.Seconds.Median)
		case o.Score == result.ScorePartly:
			s.Partly++
		}
	}
	s.Seconds = math.NaN()
	if v := result.Of(seconds...); v.N > 0 {
		s.Seconds = v.Median
	}
}

// share is the part of benefits kept, those partly kept for a half.
func (s *standing) share() float64 {
	return (float64(s.Kept) + float64(s.Partly)/2) / float64(s.Tried)
}

// standings is the table of the overview.
func (b *builder) standings(all []standing) *table {
	first := b.nameOfFirst()
	t := &table{Caption: "Overview", Head: []column{
		{Title: "target", Left: true},
		{Title: "durability", Left: true, Says: "What was seen from outside of its acknowledgements."},
		{Title: "throughput", Unit: "x " + first, Says: "Geometric mean over scenarios of the ratio of medians, closed loop and backlog reads and writes; the range is over scenarios."},
		{Title: "latency", Unit: "x " + first, Says: "The same of end-to-end p99 in open loops where all were sent the same rate, turned so that above 1 is faster."},
		{Title: "both", Unit: "x " + first, Says: "Geometric mean of the two."},
		{Title: "points", Says: "Points compared, of those that the first target has."},
		{Title: "benefits kept", Says: "Those kept in full, and partly; of all that were tried."},
		{Title: "time", Unit: "s", Says: "Median of the times that the benefits kept were scored with."},
	}}
	for i := range all {
		s := &all[i]
		r := row{Target: i, Group: i == 0, Cells: []cell{b.named(i), {Text: b.targets[i].Grade}, index(s.Throughput), index(s.Latency), {Text: "-", Mark: dim}, {Text: "-", Mark: dim}, {Text: "-", Mark: dim}, {Text: "-", Mark: dim}}}
		if s.Both > 0 {
			r.Cells[4] = cell{Text: times(s.Both)}
		}
		if n, of := s.Throughput.Points+s.Latency.Points, s.Throughput.Of+s.Latency.Of; of > 0 {
			r.Cells[5] = cell{Text: fmt.Sprintf("%d of %d", n, of)}
			if n < of {
				r.Cells[5].Mark = worse
			}
		}
		if s.Tried > 0 {
			said := fmt.Sprintf("%d of %d", s.Kept, s.Tried)
			if s.Partly > 0 {
				said = fmt.Sprintf("%d + %d partly of %d", s.Kept, s.Partly, s.Tried)
			}
			r.Cells[6] = cell{Text: said}
		}
		if !math.IsNaN(s.Seconds) {
			r.Cells[7] = cell{Text: digits(s.Seconds)}
		}
		t.Rows = append(t.Rows, r)
	}
	t.Foot = []string{gradeLegend}
	if len(all) > 1 {
		t.Foot = append(t.Foot, "Ratios are of different work where durability differs. A mean hides much: see the scenarios. Targets that lack points are not compared there, so their means are of less.")
	}
	return t
}

func (b *builder) nameOfFirst() string {
	if len(b.targets) == 0 {
		return ""
	}
	return b.targets[0].Name
}

func index(s spanned) cell {
	if s.Mean == 0 {
		return cell{Text: "-", Mark: dim}
	}
	c := cell{Text: times(s.Mean)}
	if s.Low != s.High {
		c.Low, c.High = times(s.Low), times(s.High)
	}
	return c
}
