package report

import (
	"fmt"
	"slices"
	"strings"

	"godwit/internal/bench/result"
)

// document is what all forms of a report show.
type document struct {
	Title     string
	Lead      string // one line below the title
	Targets   []subject
	Verdicts  []verdict
	Overview  overview
	Sections  []section // of scenarios, those about benefits left out
	Resources *table
	Probe     *table
	Benefits  []table
	Matrix    *table // benefits by targets
	Machine   *table
	Configs   *table
	Commands  []string
	Notes     []string
	Figures   *table // what each figure is
}

// subject is a target as reports name it.
type subject struct {
	Index  int
	Name   string
	Grade  string
	Symbol string // of the grade
	About  string // version and configuration
}

// verdict is a sentence of the summary. Loud ones must not be missed.
type verdict struct {
	Text string
	Loud bool
}

// section is one scenario.
type section struct {
	ID     string // for links: letters, digits and '-'
	Name   string
	Title  string
	About  string
	Facts  string // kind, rounds, points
	Loud   []string
	Quiet  []string
	Bars   []barChart
	Plots  []plotGroup
	Tables []table
	Spec   string
}

// A mark says how a cell stands out.
type mark int

const (
	plain mark = iota
	dim
	better
	worse
	loud
)

// class is the mark's name in style sheets.
func (m mark) class() string { return [...]string{"", "dim", "better", "worse", "loud"}[m] }

// table has a row per target and point, or whatever its columns say.
type table struct {
	Caption string
	Head    []column
	Rows    []row
	Foot    []string
}

// column is the head of a column.
type column struct {
	Title string
	Unit  string
	Left  bool // text; numbers are at the right
	Minor bool // the terminal, being narrow, leaves it out
	Bare  bool // the terminal leaves out the ranges
	Wide  bool // text that may be broken into lines
	Says  string
}

// row is a row of a table.
type row struct {
	Target int  // index of the target whose row it is; -1 if of none
	Group  bool // begins a group
	Cells  []cell
	Span   string // in place of the cells after the keys: why there are none
	Failed bool   // Span is loud
}

// cell is a value.
type cell struct {
	Text      string
	Low, High string // the range over rounds; empty if there is none
	Mark      mark
	Target    int // 1 + index of the target whose name it is
}

// newDocument lays out a run.
func newDocument(r *result.Run) *document {
	b := &builder{run: r, targets: subjects(r)}
	d := &document{Targets: b.targets, Title: "Message brokers side by side"}
	if len(r.Targets) == 1 {
		d.Title = "Benchmark of " + b.targets[0].Name
	}
	d.Lead = b.lead()
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		if s.Benefits() {
			d.Benefits = append(d.Benefits, b.benefits(s))
			continue
		}
		d.Sections = append(d.Sections, b.section(s))
	}
	d.Matrix = b.matrix()
	d.Overview = b.overview()
	d.Verdicts = b.verdicts(&d.Overview)
	d.Resources = b.resources()
	d.Probe = b.probe()
	d.Machine = b.machine()
	d.Configs = b.configs()
	d.Figures = b.figures()
	for _, c := range r.Commands {
		d.Commands = append(d.Commands, text(c))
	}
	for _, n := range r.Notes {
		d.Notes = append(d.Notes, line(n))
	}
	return d
}

// builder makes the parts of a document.
type builder struct {
	run     *result.Run
	targets []subject
	ids     map[string]bool // of sections, taken
}

// symbols of grades; they stand behind names wherever figures are compared.
var symbols = map[string]string{
	result.GradeSynced: "●", result.GradePartly: "◐", result.GradeUnsynced: "○", result.GradeNone: "∅", result.GradeUnknown: "?",
}

const gradeLegend = "Seen of acknowledgements: ● data was synced to the device before, ◐ for some, ○ hardly ever, ∅ the protocol has none, ? not known."

const ratioLegend = "Ratios are to the first target's median: ~ the ranges of rounds overlap, so no difference is claimed; ? one round only; ≠ the durability seen differs, so more or less was done for a message."

func subjects(r *result.Run) (all []subject) {
	for i := range r.Targets {
		t := &r.Targets[i]
		grade := t.Durability.Grade
		if symbols[grade] == "" {
			grade = result.GradeUnknown
		}
		all = append(all, subject{
			Index: i, Name: line(t.Name), Grade: grade, Symbol: symbols[grade],
			About: strings.Join(slices.DeleteFunc([]string{line(t.Version), line(t.Config)}, func(s string) bool { return s == "" }), ", "),
		})
	}
	return all
}

func (s *subject) String() string { return s.Name + " " + s.Symbol }

// lead says when and where.
func (b *builder) lead() string {
	r, m := b.run, &b.run.Machine
	parts := []string{r.Started.UTC().Format("2 January 2006, 15:04 UTC")}
	if d := r.Ended.Sub(r.Started); d > 0 {
		parts[0] += fmt.Sprintf(" (%d min)", max(1, int(d.Minutes()+.5)))
	}
	if m.CPU != "" || m.Cores > 0 {
		parts = append(parts, line(fmt.Sprintf("%s, %s, %s GiB", m.CPU, plural(m.Cores, "core"), digits(float64(m.MemoryMB)/1024))))
	}
	return strings.Join(parts, " · ")
}

// target finds a target by its name.
func (b *builder) target(name string) int {
	return slices.IndexFunc(b.run.Targets, func(t result.Target) bool { return t.Name == name })
}

// named is the cell of a target's name.
func (b *builder) named(i int) cell { return cell{Text: b.targets[i].String(), Target: i + 1} }

// id makes a name fit for links, and unique.
func (b *builder) id(name string) string {
	if b.ids == nil {
		b.ids = map[string]bool{}
	}
	id := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
	if id == "" {
		id = "scenario"
	}
	for try, n := id, 2; ; n++ {
		if !b.ids[try] {
			b.ids[try] = true
			return try
		}
		try = fmt.Sprintf("%s-%d", id, n)
	}
}

// point is one combination of a scenario's parameters, with the cells of all targets there.
type point struct {
	Label string
	X     float64
	Cells []*result.Cell // by target; nil where there is none
}

// points lists a scenario's points in the order of their cells, and what they are called together.
func (b *builder) points(s *result.Scenario) (name string, all []point) {
	keys := varying(s)
	byPoint := map[string]int{}
	for i := range s.Cells {
		c := &s.Cells[i]
		t := b.target(c.Target)
		if t < 0 {
			continue
		}
		at, ok := byPoint[c.Point()]
		if !ok {
			at = len(all)
			byPoint[c.Point()] = at
			var values []string
			for _, k := range keys {
				values = append(values, spaced(line(c.Params[k])))
			}
			all = append(all, point{Label: strings.Join(values, " × "), X: c.X, Cells: make([]*result.Cell, len(b.targets))})
		}
		all[at].Cells[t] = c
	}
	for i, k := range keys {
		keys[i] = line(k)
	}
	return strings.Join(keys, " × "), all
}

// spaced puts a space between the number and the unit of a size.
func spaced(s string) string {
	for _, u := range []string{"KiB", "MiB", "GiB"} {
		if n, ok := strings.CutSuffix(s, u); ok && n != "" && !strings.HasSuffix(n, " ") {
			return n + " " + u
		}
	}
	return s
}

// varying lists the parameters that differ between cells, that of the axis first.
func varying(s *result.Scenario) (keys []string) {
	values := map[string]map[string]bool{}
	for i := range s.Cells {
		for k, v := range s.Cells[i].Params {
			if values[k] == nil {
				values[k] = map[string]bool{}
			}
			values[k][v] = true
		}
	}
	for k, v := range values {
		missing := slices.ContainsFunc(s.Cells, func(c result.Cell) bool { _, ok := c.Params[k]; return !ok })
		if len(v) > 1 || missing {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, c string) int {
		switch {
		case a == s.Axis:
			return -1
		case c == s.Axis:
			return 1
		}
		return -strings.Compare(a, c) // producers before consumers
	})
	return keys
}
