package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"godwit/internal/bench/result"
)

// plotGroup is a row of plots with a common y axis.
type plotGroup struct {
	Title  string
	Folded bool // behind a fold: too many to show at once
	Plots  []plot
}

// plot is what the page's script draws. Positions without a value are null.
type plot struct {
	ID     string     `json:"id"`
	Kind   string     `json:"kind"` // curve, scale or axes
	Title  string     `json:"title"`
	XLabel string     `json:"xLabel"`
	YLabel string     `json:"yLabel"`
	XLog   bool       `json:"xLog"`
	YLog   bool       `json:"yLog"`
	YMin   float64    `json:"yMin"`
	YMax   float64    `json:"yMax"`
	Ticks  []tick     `json:"ticks"` // of x
	X      []float64  `json:"x"`
	Series []series   `json:"series"`
	Wide   bool       `json:"-"`
	Marks  []axesMark `json:"marks,omitempty"`
}

type tick struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

type series struct {
	Target int        `json:"target"`
	Y      []*float64 `json:"y"`
	Low    []*float64 `json:"low,omitempty"`
	High   []*float64 `json:"high,omitempty"`
}

// axesMark is what stands at a target's point of the two axes.
type axesMark struct {
	Symbol string `json:"symbol"`
	Label  string `json:"label"`
}

// atMax is where the maximum stands on the axis of percentiles, one step beyond the rarest.
const atMax = 100_000

// curveTicks are the labels of the axis of percentiles: 1/(1-p), so that each step is ten times as rare.
var curveTicks = []tick{{1, "0"}, {2, "50"}, {10, "90"}, {100, "99"}, {1000, "99.9"}, {10_000, "99.99"}, {atMax, "max"}}

// plots are a scenario's curves: by its axis where it has one, and by percentile.
func (b *builder) plots(s *result.Scenario, id, name string, points []point) (groups []plotGroup) {
	if g := b.scaling(s, id, name, points); len(g.Plots) > 0 {
		groups = append(groups, g)
	}
	for _, stage := range []result.Stage{result.EndToEnd, result.Producer} {
		g := plotGroup{Title: "Latency to the acknowledgement, by percentile", Folded: len(points) > 4}
		if stage == result.EndToEnd {
			g.Title = "Latency end to end, by percentile"
		}
		for i := range points {
			p := b.curve(stage, &points[i])
			if p == nil {
				continue
			}
			p.ID = fmt.Sprintf("%s-%d-%d", id, stage, i)
			if points[i].Label != "" {
				p.Title = name + " " + points[i].Label
			}
			g.Plots = append(g.Plots, *p)
		}
		g.Title += loop(s)
		level(g.Plots)
		if len(g.Plots) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// level gives plots one y axis.
func level(plots []plot) {
	if len(plots) == 0 {
		return
	}
	low, high := math.Inf(1), 0.0
	for i := range plots {
		low, high = min(low, plots[i].YMin), max(high, plots[i].YMax)
	}
	for i := range plots {
		plots[i].YMin, plots[i].YMax = low, high
	}
}

// bounds are the smallest and the largest value that is drawn.
func (p *plot) bounds() {
	low, high := math.Inf(1), 0.0
	for _, s := range p.Series {
		for _, values := range [][]*float64{s.Y, s.Low, s.High} {
			for _, v := range values {
				if v != nil {
					low, high = min(low, *v), max(high, *v)
				}
			}
		}
	}
	p.YMin, p.YMax = min(low, high), high
}

// leastMillis keeps zero off logarithmic axes: what the histogram cannot tell from nothing.
const leastMillis = 0.001

// loop marks the latencies of a closed loop, which say how full the window was.
func loop(s *result.Scenario) string {
	if slices.ContainsFunc(s.Cells, func(c result.Cell) bool { return open(&c) }) {
		return ""
	}
	return ", closed loop"
}

// drawable has a latency in milliseconds stand on a logarithmic axis.
func drawable(v result.Spread) result.Spread {
	if v.N == 0 {
		return v
	}
	return result.Of(max(v.Median, leastMillis), max(v.Min, leastMillis), max(v.Max, leastMillis))
}

// curve is the latency of all targets at a point; nil if there is none.
func (b *builder) curve(stage result.Stage, at *point) *plot {
	p := &plot{Kind: "curve", XLabel: "percentile", YLabel: "ms", XLog: true, YLog: true, Ticks: curveTicks}
	for _, q := range result.Percentiles {
		x := float64(atMax)
		if q < 100 {
			x = 100 / (100 - q)
		}
		p.X = append(p.X, x)
	}
	for t, c := range at.Cells {
		if c == nil {
			continue
		}
		if c.Curve(stage) == nil {
			continue
		}
		s := series{Target: t}
		for _, q := range result.Percentiles {
			s.add(drawable(latencyAt(c, stage, q).Scale(1e-3)))
		}
		p.Series = append(p.Series, s)
	}
	if len(p.Series) == 0 {
		return nil
	}
	p.bounds()
	return p
}

// add appends a value and its range.
func (s *series) add(v result.Spread) {
	if v.N == 0 {
		s.Y, s.Low, s.High = append(s.Y, nil), append(s.Low, nil), append(s.High, nil)
		return
	}
	s.Y, s.Low, s.High = append(s.Y, &v.Median), append(s.Low, &v.Min), append(s.High, &v.Max)
}

// scaling plots the scenario's figures over its axis, if at least three points have different places on it.
func (b *builder) scaling(s *result.Scenario, id, name string, points []point) (g plotGroup) {
	var xs []tick
	for _, p := range points {
		if !slices.ContainsFunc(xs, func(t tick) bool { return t.At == p.X }) {
			xs = append(xs, tick{p.X, p.Label})
		}
	}
	slices.SortFunc(xs, func(a, c tick) int { return cmp.Compare(a.At, c.At) })
	if s.Axis == "" || len(xs) < 3 || len(xs) != len(points) {
		return g
	}
	g.Title = "By " + name
	draw := func(title, unit string, yLog bool, of func(*result.Cell) result.Spread) {
		p := plot{Kind: "scale", ID: fmt.Sprintf("%s-by-%d", id, len(g.Plots)), Title: title, XLabel: name, YLabel: unit, YLog: yLog, Ticks: xs}
		p.XLog = xs[0].At > 0 && xs[len(xs)-1].At >= 8*xs[0].At
		for _, x := range xs {
			p.X = append(p.X, x.At)
		}
		for t := range b.targets {
			one, some := series{Target: t}, false
			for _, x := range xs {
				i := slices.IndexFunc(points, func(q point) bool { return q.X == x.At })
				v := result.Spread{}
				if c := points[i].Cells[t]; c != nil {
					v = of(c)
				}
				if yLog {
					v = drawable(v)
				}
				some = some || v.N > 0
				one.add(v)
			}
			if some {
				p.Series = append(p.Series, one)
			}
		}
		if p.bounds(); len(p.Series) > 0 {
			g.Plots = append(g.Plots, p)
		}
	}
	if f := headline(s); f != "" {
		a := f.About()
		draw(a.Title, a.Unit, false, func(c *result.Cell) result.Spread { return c.Spread(f) })
	}
	for _, q := range []float64{50, 99} {
		draw("end-to-end "+percentile(q)+loop(s), "ms", true, func(c *result.Cell) result.Spread { return latencyAt(c, result.EndToEnd, q).Scale(1e-3) })
	}
	if s.Axis == "destinations" {
		draw("create", "s", true, func(c *result.Cell) result.Spread { return c.Spread(result.CreateSeconds) })
	}
	return g
}

// axes is the plot of performance and benefits; nil if fewer than two targets have both.
func (b *builder) axes(all []standing) *plot {
	p := &plot{
		ID: "axes", Kind: "axes", XLabel: "performance, times " + b.nameOfFirst(), YLabel: "benefits kept", XLog: true, YMin: 0, YMax: 1,
	}
	var placed []int
	speed := func(s *standing) float64 {
		if s.Both > 0 {
			return s.Both
		}
		return cmp.Or(s.Throughput.Mean, s.Latency.Mean)
	}
	for i := range all {
		if all[i].Tried > 0 && speed(&all[i]) > 0 {
			placed = append(placed, i)
		}
	}
	if len(placed) < 2 {
		return nil
	}
	slices.SortStableFunc(placed, func(x, y int) int { return cmp.Compare(speed(&all[x]), speed(&all[y])) })
	for at, t := range placed {
		s := series{Target: t, Y: make([]*float64, len(placed))}
		share := all[t].share()
		s.Y[at] = &share
		p.X = append(p.X, speed(&all[t]))
		p.Series = append(p.Series, s)
		label := b.targets[t].Name
		if all[t].Both == 0 {
			label += " *"
			p.XLabel = "performance, times " + b.nameOfFirst() + "; *: throughput or latency alone"
		}
		p.Marks = append(p.Marks, axesMark{b.targets[t].Symbol, label})
	}
	return p
}
