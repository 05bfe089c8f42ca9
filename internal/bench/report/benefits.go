package report

import (
	"cmp"
	"fmt"
	"strings"

	"godwit/internal/bench/result"
)

// benefit is one benefit with the outcomes of all targets, nil where there is none.
type benefit struct {
	Title    string
	Timed    string
	Outcomes []*result.Outcome
	Failed   []string // errors of targets whose every round failed
}

// benefitCells lists all benefits that were tried.
func (b *builder) benefitCells() (all []benefit) {
	for i := range b.run.Scenarios {
		if s := &b.run.Scenarios[i]; s.Benefits() {
			all = append(all, b.benefitsOf(s)...)
		}
	}
	return all
}

func (b *builder) benefitsOf(s *result.Scenario) (all []benefit) {
	_, points := b.points(s)
	for i := range points {
		p := &points[i]
		e := benefit{Title: cmp.Or(p.Label, line(s.Title), line(s.Name)), Outcomes: make([]*result.Outcome, len(b.targets)), Failed: make([]string, len(b.targets))}
		for t, c := range p.Cells {
			if c == nil {
				continue
			}
			e.Outcomes[t] = c.Outcome()
			if o := e.Outcomes[t]; o != nil && e.Timed == "" {
				e.Timed = line(o.Timed)
			}
			for _, r := range c.Rounds {
				e.Failed[t] = cmp.Or(e.Failed[t], line(r.Error))
			}
		}
		all = append(all, e)
	}
	return all
}

// benefits is the table of one scenario of benefits.
func (b *builder) benefits(s *result.Scenario) table {
	t := table{Caption: cmp.Or(line(s.Title), line(s.Name)), Head: []column{
		{Title: "benefit", Left: true, Wide: true}, {Title: "target", Left: true}, {Title: "score", Left: true}, {Title: "time", Unit: "s"}, {Title: "what happened", Left: true, Wide: true},
	}}
	for _, e := range b.benefitsOf(s) {
		title := e.Title
		if e.Timed != "" {
			title += " (time: " + e.Timed + ")"
		}
		first := true
		for i, o := range e.Outcomes {
			if o == nil && e.Failed[i] == "" {
				continue
			}
			label := cell{Text: title}
			if !first {
				label.Mark = dim
			}
			r := row{Target: i, Group: first, Cells: []cell{label, b.named(i)}}
			first = false
			if o == nil {
				r.Cells = append(r.Cells, cell{Text: "failed", Mark: loud}, cell{Text: "-", Mark: dim}, cell{Text: e.Failed[i]})
			} else {
				r.Cells = append(r.Cells, b.scored(o, e.Failed[i])...)
			}
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

// scored are the cells of an outcome: score, time, what happened.
func (b *builder) scored(o *result.Outcome, failed string) []cell {
	said := []string{line(o.Detail)}
	if o.Rounds < o.Of {
		said[0] += fmt.Sprintf(" (%s of %d; others were better)", plural(o.Rounds, "round"), o.Of)
	}
	if o.Said != "" {
		said = append(said, fmt.Sprintf("It said: “%s”", line(o.Said)))
	}
	if failed != "" {
		said = append(said, "A round failed: "+failed)
	}
	score := cell{Text: o.Score}
	switch o.Score {
	case result.ScoreKept:
		score.Mark = better
	case result.ScorePartly:
		score.Mark = worse
	case result.ScoreLost:
		score.Mark = loud
	case result.ScoreUnsupported:
		score.Mark = dim
	}
	took := measured(o.Seconds, false)
	if o.Score == result.ScoreUnsupported {
		took = cell{Text: "-", Mark: dim}
	}
	return []cell{score, took, {Text: strings.TrimSpace(strings.Join(said, ". "))}}
}

// matrix has a row per benefit and a column per target; nil without benefits.
func (b *builder) matrix() *table {
	all := b.benefitCells()
	if len(all) == 0 {
		return nil
	}
	t := &table{Caption: "Benefits kept", Head: []column{{Title: "benefit", Left: true, Wide: true}}}
	for i := range b.targets {
		t.Head = append(t.Head, column{Title: b.targets[i].String()})
	}
	for _, e := range all {
		r := row{Target: -1, Cells: []cell{{Text: e.Title}}}
		for i, o := range e.Outcomes {
			c := cell{Text: "-", Mark: dim}
			switch {
			case o == nil && e.Failed[i] != "":
				c = cell{Text: "failed", Mark: loud}
			case o == nil || o.Score == result.ScoreUnsupported:
			case o.Score == result.ScoreKept:
				c = cell{Text: "✓ " + digits(o.Seconds.Median) + " s", Mark: better}
			case o.Score == result.ScorePartly:
				c = cell{Text: "◒ " + digits(o.Seconds.Median) + " s", Mark: worse}
			default:
				c = cell{Text: "✗", Mark: loud}
			}
			r.Cells = append(r.Cells, c)
		}
		t.Rows = append(t.Rows, r)
	}
	t.Foot = []string{"✓ kept, ◒ partly, ✗ not kept, - unsupported; with the median of the time that it is scored with."}
	return t
}
