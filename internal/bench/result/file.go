package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// Limits of a file. Files are passed around, so that a reader must survive any.
const (
	maxFile      = 64 << 20 // bytes
	maxTargets   = 100
	maxScenarios = 1000
	maxCells     = 100_000 // of all scenarios
	maxRounds    = 1000    // of a cell
)

// ErrFormat is the class of errors of files that are no results, or of a format this version does not know.
var ErrFormat = errors.New("not a result file of this version")

// Load reads a file that Save wrote. Fields that this version does not know are left out. Fails with ErrFormat, or with
// the reader's error.
func Load(r io.Reader) (*Run, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%w: larger than %d MiB", ErrFormat, maxFile>>20)
	}
	// The format first: what follows may have changed its shape.
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	switch {
	case head.Format < 1:
		return nil, fmt.Errorf("%w: it has no format number", ErrFormat)
	case head.Format > Format:
		return nil, fmt.Errorf("%w: it has format %d and this version reads up to %d: use a newer godwit", ErrFormat, head.Format, Format)
	}
	run := new(Run)
	if err := json.Unmarshal(b, run); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	if err := run.check(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return run, nil
}

// Save writes the run, in the form that Load reads, with the format number set. Figures that are no finite numbers, which
// JSON cannot hold, are left out and noted in their round, so that an odd figure does not cost the run.
func Save(w io.Writer, r *Run) error {
	out := *r
	out.Format = Format
	out.Scenarios = slices.Clone(r.Scenarios)
	for i := range out.Scenarios {
		s := &out.Scenarios[i]
		s.Cells = slices.Clone(s.Cells)
		for j := range s.Cells {
			s.Cells[j].Rounds = slices.Clone(s.Cells[j].Rounds)
			for k := range s.Cells[j].Rounds {
				s.Cells[j].Rounds[k].finite()
			}
		}
	}
	if err := out.check(); err != nil {
		return err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	if err := e.Encode(&out); err != nil {
		return err
	}
	if b.Len() > maxFile {
		return fmt.Errorf("result of %d MiB: files may have %d", b.Len()>>20, maxFile>>20)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// finite leaves out the figures that are no finite numbers.
func (r *Round) finite() {
	odd := func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }
	for _, f := range slices.Sorted(maps.Keys(r.Figures)) {
		if x := r.Figures[f]; odd(x) {
			kept := maps.Clone(r.Figures)
			delete(kept, f)
			r.Figures = kept
			r.Notes = append(slices.Clone(r.Notes), fmt.Sprintf("%s came out as %v and is left out", f, x))
		}
	}
	for _, l := range []**Latency{&r.Producer, &r.EndToEnd} {
		if *l != nil && (odd((*l).Mean) || odd((*l).Max) || slices.ContainsFunc((*l).Curve, odd)) {
			*l = nil
			r.Notes = append(slices.Clone(r.Notes), "a latency had percentiles that are no numbers and is left out")
		}
	}
}

// check says what makes the run unfit for reports.
func (r *Run) check() error {
	if len(r.Targets) > maxTargets || len(r.Scenarios) > maxScenarios {
		return fmt.Errorf("%d targets, %d scenarios: at most %d and %d", len(r.Targets), len(r.Scenarios), maxTargets, maxScenarios)
	}
	names := map[string]bool{}
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Name == "" || names[t.Name] {
			return fmt.Errorf("target %d: the name %q is empty or taken", i, t.Name)
		}
		names[t.Name] = true
		if g := t.Durability.Grade; g != "" && !slices.Contains(Grades, g) {
			return fmt.Errorf("target %q: no durability is called %q", t.Name, g)
		}
	}
	cells := 0
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		if cells += len(s.Cells); cells > maxCells {
			return fmt.Errorf("more than %d cells", maxCells)
		}
		for j := range s.Cells {
			c := &s.Cells[j]
			if !names[c.Target] {
				return fmt.Errorf("scenario %q: there is no target %q", s.Name, c.Target)
			}
			if err := c.check(); err != nil {
				return fmt.Errorf("scenario %q, target %q: %w", s.Name, c.Target, err)
			}
		}
	}
	return nil
}

func (c *Cell) check() error {
	if len(c.Rounds) > maxRounds {
		return fmt.Errorf("%d rounds: at most %d", len(c.Rounds), maxRounds)
	}
	for i := range c.Rounds {
		r := &c.Rounds[i]
		for _, l := range []*Latency{r.Producer, r.EndToEnd} {
			if l == nil || l.Count == 0 {
				continue
			}
			if len(l.Curve) != len(Percentiles) {
				return fmt.Errorf("round %d: a latency curve of %d percentiles in place of %d", i+1, len(l.Curve), len(Percentiles))
			}
			if l.Count < 0 || slices.Min(l.Curve) < 0 {
				return fmt.Errorf("round %d: a latency below zero", i+1)
			}
		}
		if b := r.Benefit; b != nil && !slices.Contains(Scores, b.Score) {
			return fmt.Errorf("round %d: no score is called %q", i+1, b.Score)
		}
	}
	return nil
}
