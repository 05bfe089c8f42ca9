package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"godwit/internal/bench/result"
)

// resources is what the targets' processes took; nil if nothing was seen.
func (b *builder) resources() *table {
	t := &table{Caption: "Resources", Head: []column{{Title: "scenario", Left: true}, {Title: "target", Left: true}}}
	for _, f := range result.OfUsage {
		a := f.About()
		t.Head = append(t.Head, column{Title: a.Title, Unit: a.Unit, Says: a.Says, Bare: true})
	}
	left := false
	for i := range b.run.Scenarios {
		s := &b.run.Scenarios[i]
		if s.Benefits() {
			continue
		}
		_, points := b.points(s)
		for j := range points {
			if len(points) > 3 && j > 0 && j < len(points)-1 {
				left = true
				continue
			}
			b.usageRows(t, strings.TrimSpace(line(s.Name)+" "+points[j].Label), &points[j])
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	if left {
		t.Foot = append(t.Foot, "Of scenarios with more than three points, the first and the last; the JSON file has all.")
	}
	return t
}

// usageRows adds a point's targets whose usage was seen.
func (b *builder) usageRows(t *table, label string, p *point) {
	first := true
	for target, c := range p.Cells {
		if c == nil {
			continue
		}
		r := row{Target: target, Group: first, Cells: []cell{{Text: label}, b.named(target)}}
		if !first {
			r.Cells[0].Mark = dim
		}
		seen := false
		for _, f := range result.OfUsage {
			v := c.Spread(f)
			seen = seen || v.N > 0
			m := measured(v, true)
			if f == result.OthersCores && v.Max >= noisy {
				m.Mark = worse
			}
			r.Cells = append(r.Cells, m)
		}
		if seen {
			t.Rows = append(t.Rows, r)
			first = false
		}
	}
}

// noisy is how many cores others may take in a round before a report speaks of it.
const noisy = 0.2

// probe is the table of what was seen of acknowledgements.
func (b *builder) probe() *table {
	t := &table{Caption: "Durability probe", Head: []column{
		{Title: "target", Left: true}, {Title: "seen", Left: true}, {Title: "probed", Says: "Messages sent one at a time."},
		{Title: "covered", Says: "Of them: a sync began after the message was sent and ended before its acknowledgement."},
		{Title: "syncs", Says: "All syncs seen, also late ones."}, {Title: "what was synced, or why nothing is known", Left: true, Wide: true},
	}}
	for i := range b.run.Targets {
		d := &b.run.Targets[i].Durability
		var files []string
		for _, f := range d.Files {
			files = append(files, line(f))
		}
		g := cell{Text: b.targets[i].Grade}
		switch g.Text {
		case result.GradeSynced:
			g.Mark = better
		case result.GradePartly, result.GradeUnsynced:
			g.Mark = worse
		}
		r := row{Target: i, Cells: []cell{b.named(i), g, {Text: "-", Mark: dim}, {Text: "-", Mark: dim}, {Text: "-", Mark: dim}, {Text: cmp.Or(line(d.Why), strings.Join(files, ", "))}}}
		if d.Acked > 0 {
			r.Cells[2], r.Cells[3], r.Cells[4] = cell{Text: whole(int64(d.Acked))}, cell{Text: whole(int64(d.Covered))}, cell{Text: whole(int64(d.Syncs))}
		}
		t.Rows = append(t.Rows, r)
	}
	t.Foot = []string{gradeLegend}
	return t
}

// machine is where everything ran.
func (b *builder) machine() *table {
	m := &b.run.Machine
	t := &table{Caption: "Machine", Head: []column{{Title: "what", Left: true}, {Title: "which", Left: true, Wide: true}}}
	add := func(what, which string) {
		if which = line(which); which != "" {
			t.Rows = append(t.Rows, row{Target: -1, Cells: []cell{{Text: what}, {Text: which}}})
		}
	}
	add("processor", m.CPU)
	if m.Cores > 0 {
		add("cores", fmt.Sprintf("%d, shared by clients and targets on this machine", m.Cores))
	}
	if m.MemoryMB > 0 {
		add("memory", digits(float64(m.MemoryMB)/1024)+" GiB")
	}
	add("system", m.System)
	add("disk", m.Disk)
	add("measured by", b.run.Godwit)
	add("from", b.run.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	add("to", b.run.Ended.UTC().Format("2006-01-02 15:04:05 UTC"))
	return t
}

// configs are the targets' versions and configurations.
func (b *builder) configs() *table {
	t := &table{Caption: "Targets", Head: []column{
		{Title: "target", Left: true}, {Title: "version", Left: true, Wide: true}, {Title: "configuration", Left: true, Wide: true}, {Title: "address", Left: true, Wide: true},
	}}
	for i := range b.run.Targets {
		x := &b.run.Targets[i]
		t.Rows = append(t.Rows, row{Target: i, Cells: []cell{
			b.named(i), {Text: cmp.Or(line(x.Version), "-")}, {Text: cmp.Or(line(x.Config), "-")}, {Text: cmp.Or(line(x.URL), "-")},
		}})
	}
	return t
}

// figures says what every figure that the run has is.
func (b *builder) figures() *table {
	t := &table{Caption: "Figures", Head: []column{{Title: "figure", Left: true}, {Title: "unit", Left: true}, {Title: "what it is", Left: true, Wide: true}}}
	for _, f := range result.Order {
		if slices.ContainsFunc(b.run.Scenarios, func(s result.Scenario) bool {
			return slices.ContainsFunc(s.Cells, func(c result.Cell) bool { return c.Spread(f).N > 0 })
		}) {
			a := f.About()
			t.Rows = append(t.Rows, row{Target: -1, Cells: []cell{{Text: a.Title}, {Text: a.Unit}, {Text: a.Says}}})
		}
	}
	return t
}
