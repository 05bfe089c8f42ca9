package report

import (
	"cmp"

	"godwit/internal/bench/result"
)

// barChart compares targets at one point, by the scenario's headline figure.
type barChart struct {
	Title string
	Unit  string
	Note  string
	Bars  []bar
}

// bar is one target's; positions are percentages of the longest.
type bar struct {
	Target         int
	Value, Low     float64
	High           float64
	Text           cell
	Spread         bool
	Ratio          cell
	Missing        string
	MissingIsFault bool
}

// mostBars is how many points of a scenario get bars: with more, its curves say it better.
const mostBars = 3

// bars makes a chart for each point; of a scenario about latency, of end-to-end p99.
func (b *builder) bars(s *result.Scenario, name string, points []point) (all []barChart) {
	if len(points) > mostBars {
		return nil
	}
	f := headline(s)
	of := func(c *result.Cell) result.Spread { return c.Spread(f) }
	about := f.About()
	if f == "" {
		about = result.About{Title: "end-to-end p99", Unit: "ms", Better: result.LessIsBetter}
		of = func(c *result.Cell) result.Spread { return latencyAt(c, result.EndToEnd, 99).Scale(1e-3) }
	}
	for i := range points {
		p := &points[i]
		chart := barChart{Title: about.Title, Unit: about.Unit, Note: "longer is better"}
		if about.Better == result.LessIsBetter {
			chart.Note = "shorter is better"
		}
		if p.Label != "" {
			chart.Title += ", " + name + " " + p.Label
		}
		longest := 0.0
		for _, c := range p.Cells {
			if c != nil {
				longest = max(longest, of(c).Max)
			}
		}
		if longest <= 0 {
			continue
		}
		for t, c := range p.Cells {
			if c == nil {
				continue
			}
			v := of(c)
			one := bar{Target: t, Text: measured(v, true), Ratio: b.ratio(p, t, about.Better, of)}
			if v.N == 0 {
				failed := len(c.Failures()) > 0
				one.Missing, one.MissingIsFault = "not measured", failed
				if failed {
					one.Missing = "failed"
				}
				one.Missing = cmp.Or(line(c.Unsupported), one.Missing)
			} else {
				k := 100 / longest
				one.Value, one.Low, one.High, one.Spread = v.Median*k, v.Min*k, v.Max*k, v.N > 1
			}
			chart.Bars = append(chart.Bars, one)
		}
		all = append(all, chart)
	}
	return all
}
