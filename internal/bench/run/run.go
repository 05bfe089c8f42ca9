// Package run measures: every scenario, round by round, against all targets in turn, so that a machine that gets
// slower or noisier does so for all of them.
package run

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/probe"
	"godwit/internal/bench/result"
	"godwit/internal/bench/scenario"
	"godwit/internal/bench/target"
)

// Options are what a run is made of.
type Options struct {
	Scenarios []*scenario.Scenario
	Targets   []*target.Target
	Version   string   // of this program
	Commands  []string // that repeat the run, for the report
	NoProbe   bool     // leaves out the durability probe
	// Idle is how long nothing may arrive before the rest is given up as lost; 0 means 10 s.
	Idle     time.Duration
	Progress Progress
	// Open makes a target's driver; nil means the real client of its protocol.
	Open func(ctx context.Context, t *target.Target, o driver.Options) (driver.Driver, error)
	// Measured is called after each scenario with what there is so far; its error ends the run. May be nil.
	Measured func(*result.Run) error
}

// Progress is told how far a run is. Its methods are called from one goroutine at a time.
type Progress interface {
	// Total says how many measurements there will be.
	Total(n int)
	// Begin starts measurement n, from 1; live describes at any time how it stands, from any goroutine.
	Begin(n int, label string, live func() string)
	// End ends it with its outcome in a line.
	End(outcome string)
	// Note is something a person should read.
	Note(text string)
}

// runner carries a run through its scenarios.
type runner struct {
	Options
	run     *result.Run
	started time.Time
	trials  int                // numbers layouts
	maxima  map[string]float64 // messages a second that a target sustained, by target and point
	plain   map[string]float64 // the same of a round, without atomic batches
	n       int                // measurements begun
}

// Run measures everything. When ctx ends, what was measured until then is returned together with its error.
func Run(ctx context.Context, o Options) (*result.Run, error) {
	if o.Open == nil {
		o.Open = openDriver
	}
	if o.Idle == 0 {
		o.Idle = 10 * time.Second
	}
	r := &runner{Options: o, started: time.Now(), maxima: make(map[string]float64), plain: make(map[string]float64)}
	r.run = &result.Run{
		Format: result.Format, Started: r.started.UTC().Truncate(time.Second), Godwit: o.Version, Commands: o.Commands,
		Machine: probe.MachineInfo(dataDir(o.Targets)),
	}
	defer func() { r.run.Ended = time.Now().UTC().Truncate(time.Second) }()
	total := 0
	for _, s := range o.Scenarios {
		total += s.Rounds * len(r.steps(s)) * len(o.Targets)
	}
	o.Progress.Total(total)
	for _, t := range o.Targets {
		described, err := r.describe(ctx, t)
		if err != nil {
			return r.run, err
		}
		r.run.Targets = append(r.run.Targets, described)
	}
	for _, s := range o.Scenarios {
		if err := r.scenario(ctx, s); err != nil {
			return r.run, err
		}
		if o.Measured != nil {
			if err := o.Measured(r.run); err != nil {
				return r.run, err
			}
		}
	}
	return r.run, nil
}

func dataDir(targets []*target.Target) string {
	for _, t := range targets {
		if t.Data != "" {
			return t.Data
		}
	}
	return "."
}

// describe asks a target what it is and how durable its acknowledgements are.
func (r *runner) describe(ctx context.Context, t *target.Target) (result.Target, error) {
	out := result.Target{Name: t.Name, URL: t.Shown(), Protocol: t.Protocol, Version: t.Version, Config: t.Config, PID: t.PID}
	x := r.trial(t, &scenario.Scenario{Name: "describe"}, step{})
	defer x.close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := x.connect(ctx); err != nil {
		return out, fmt.Errorf("target %s at %s does not answer: %w", t.Name, t.Shown(), err)
	}
	said, err := x.driver.Describe(ctx)
	if err != nil {
		return out, fmt.Errorf("target %s at %s does not answer: %w", t.Name, t.Shown(), err)
	}
	if out.Version == "" {
		out.Version = said
	}
	out.Durability = result.Durability{Grade: result.GradeUnknown, Why: "left out on request"}
	if !r.NoProbe {
		r.Progress.Note("probing what " + t.Name + " has synced when it acknowledges")
		out.Durability = x.durability(ctx)
	}
	return out, nil
}

// step is one measurement of a scenario, repeated for every target and round.
type step struct {
	point   scenario.Point
	params  map[string]string
	x       float64
	measure func(ctx context.Context, x *trial) error
}

// steps are the measurements that a scenario asks for.
func (r *runner) steps(s *scenario.Scenario) (all []step) {
	if s.Kind == scenario.KindBenefits {
		return benefits(s)
	}
	procedures := map[string]func(context.Context, *trial) error{
		scenario.KindLoad: measureLoad, scenario.KindCatchUp: measureCatchUp, scenario.KindBacklog: measureBacklog,
		scenario.KindRestart: measureRestart, scenario.KindRequests: measureRequests,
		scenario.KindCommits: measureCommits, scenario.KindTransform: measureTransform,
	}
	for _, p := range s.Points() {
		all = append(all, step{point: p, params: s.Params(p), x: s.X(p), measure: procedures[s.Kind]})
	}
	return all
}

// scenario runs all rounds of one scenario.
func (r *runner) scenario(ctx context.Context, s *scenario.Scenario) error {
	steps := r.steps(s)
	r.run.Scenarios = append(r.run.Scenarios, result.Scenario{
		Name: s.Name, Title: s.Title, About: strings.TrimSpace(s.About), Kind: s.Kind, Spec: s.YAML(), Axis: s.Axis,
	})
	out := &r.run.Scenarios[len(r.run.Scenarios)-1]
	for _, t := range r.Targets {
		for _, st := range steps {
			out.Cells = append(out.Cells, result.Cell{Target: t.Name, Params: st.params, X: st.x})
		}
	}
	for round := range s.Rounds {
		for i, st := range steps {
			for k := range r.Targets {
				// Nobody is always first, nor always after the same one.
				if k = (k + round/2) % len(r.Targets); round%2 == 1 {
					k = len(r.Targets) - 1 - k
				}
				cell := &out.Cells[k*len(steps)+i]
				if err := r.measure(ctx, s, st, r.Targets[k], cell, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure does one step against one target and keeps its outcome. The error is that of an ended context only.
func (r *runner) measure(ctx context.Context, s *scenario.Scenario, st step, t *target.Target, cell *result.Cell, round int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.n++
	x := r.trial(t, s, st)
	x.seed = seed(s, st, round)
	r.Progress.Begin(r.n, label(s, st, t, round), x.live)
	if cell.Unsupported != "" {
		r.Progress.End("unsupported: " + cell.Unsupported)
		return nil
	}
	if t.Local() {
		x.do("waiting until the page cache is written")
		probe.WriteBack()
	}
	err := st.measure(ctx, x)
	x.close()
	x.conclude()
	if ctx.Err() != nil {
		return ctx.Err() // an interrupted measurement is none
	}
	switch {
	case errors.Is(err, driver.ErrUnsupported):
		_, why, _ := strings.Cut(err.Error(), driver.ErrUnsupported.Error()+": ")
		cell.Unsupported = why
		r.Progress.End(err.Error())
		return nil
	case err != nil:
		x.out.Error = err.Error()
	default:
		r.share(x, round)
	}
	cell.Rounds = append(cell.Rounds, x.out)
	r.Progress.End(outcome(&x.out))
	return nil
}

// share compares a maximum with atomic batches to that without, of the same target in the same round.
func (r *runner) share(x *trial, round int) {
	p := x.step.point
	atomic := p.Atomic > 0
	p.Atomic = 0
	found := x.out.Figures[result.ThroughputPerSecond]
	key := fmt.Sprintf("%s\n%s\n%v\n%d", x.target.Name, x.s.Name, p, round)
	switch plain := r.plain[key]; {
	case !p.Rate.Max() || found == 0:
	case !atomic:
		r.plain[key] = found
	case plain > 0:
		x.out.Figures[result.AtomicShare] = found / plain
	}
}

// seed draws the arrivals of a step in a round: the same for every target.
func seed(s *scenario.Scenario, st step, round int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.Name, st.params, round)
	return h.Sum64()
}

// label names a measurement for people.
func label(s *scenario.Scenario, st step, t *target.Target, round int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s round %d/%d %s", s.Name, round+1, s.Rounds, t.Name)
	for _, k := range []string{"benefit", "size", "producers", "consumers", "subscriptions", "destinations", "rate", "atomic"} {
		if v := st.params[k]; v != "" {
			fmt.Fprintf(&b, " %s=%s", k, v)
		}
	}
	return b.String()
}

// outcome is a round in a line.
func outcome(o *result.Round) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if o.Error != "" {
		add("FAILED: %s", o.Error)
	}
	if b := o.Benefit; b != nil {
		add("%s, %.3f s (%s): %s", b.Score, b.Seconds, b.Timed, b.Detail)
	}
	for _, f := range []struct {
		f      result.Figure
		format string
	}{
		{result.CommitsPerSecond, "%.0f commits/s"},
		{result.CommitP50, "commit p50 %.2f ms"},
		{result.CommitP99, "p99 %.2f ms"},
		{result.ThroughputPerSecond, "%.0f msg/s"},
		{result.AtomicShare, "%.2f of that without batches"},
		{result.ThroughputMiB, "%.1f MiB/s"},
		{result.CatchUpMiB, "catch-up %.1f MiB/s"},
		{result.TailSlowdown, "tail's p99 %.1f times"},
		{result.WriteMiB, "write %.1f MiB/s"},
		{result.ReadMiB, "read %.1f MiB/s"},
		{result.RestartSeconds, "restart %.2f s"},
		{result.FirstMessageSeconds, "first message %.2f s"},
		{result.DrainSeconds, "drain %.1f s"},
	} {
		if v, ok := o.Figures[f.f]; ok {
			add(f.format, v)
		}
	}
	if o.Producer != nil {
		add("ack p50 %.2f p99 %.2f ms", o.Producer.At(50)/1e3, o.Producer.At(99)/1e3)
	}
	if o.EndToEnd != nil {
		add("end-to-end p50 %.2f p99 %.2f ms", o.EndToEnd.At(50)/1e3, o.EndToEnd.At(99)/1e3)
	}
	if a := o.Audit; a != nil && a.Lost+a.Duplicates+a.Disordered+a.Failed+a.Foreign > 0 {
		add("LOST %d, repeated %d, out of order %d, failed %d", a.Lost, a.Duplicates, a.Disordered, a.Failed)
	}
	return strings.Join(parts, ", ")
}
