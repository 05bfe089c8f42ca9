package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"godwit/internal/bench/report"
	bench "godwit/internal/bench/result"
	measure "godwit/internal/bench/run"
	"godwit/internal/bench/scenario"
	"godwit/internal/bench/target"
)

type benchCmd struct {
	Run    benchRunCmd    `cmd:"" help:"Measure brokers with one or more scenarios."`
	List   benchListCmd   `cmd:"" help:"List the scenarios in this program."`
	Show   benchShowCmd   `cmd:"" help:"Show a scenario, or the figures of a run."`
	Report benchReportCmd `cmd:"" help:"Write the report of one or more runs again."`
}

// Help is shown below the usage.
func (benchCmd) Help() string {
	return `Any broker is measured by its own protocol, through the client library that programs of that protocol use.
docs/benchmark.md says what each figure means and how it can mislead.`
}

type benchRunCmd struct {
	Scenarios []string      `arg:"" name:"scenario" help:"Name of a scenario of 'godwit bench list', or a YAML file."`
	Target    []string      `required:"" sep:"none" placeholder:"URL" help:"What to measure: kafka://HOST:PORT, amqp://, mqtt://, nats:// or jetstream://. Repeat it to compare."`
	Out       string        `placeholder:"DIR" help:"Where run.json, report.html and report.md go; bench-results/TIME if unsaid."`
	Rounds    int           `placeholder:"N" help:"Rounds of every measurement, instead of the scenario's."`
	Duration  time.Duration `placeholder:"TIME" help:"Length of every measurement, instead of the scenario's."`
	Warmup    time.Duration `placeholder:"TIME" help:"Warm-up of every measurement, instead of the scenario's."`
	Backlog   string        `placeholder:"SIZE" help:"Backlog, for example 2GiB, instead of the scenario's."`
	Idle      time.Duration `placeholder:"TIME" help:"How long nothing may arrive before the rest is given up as lost; 10s if unsaid."`
	NoProbe   bool          `help:"Do not trace the targets' system calls to grade what is durable when it is acknowledged."`
	Command   []string      `sep:"none" placeholder:"TEXT" help:"A command that the report lists among those that repeat the run: how a target was started."`
	JSON      bool          `name:"json" help:"Print the run as JSON instead of tables."`
}

// Help is shown below the usage.
func (benchRunCmd) Help() string {
	return `Each scenario is measured in rounds, all targets in turn in every round. The arrivals of messages follow a schedule
(open loop) unless the scenario asks for a maximum, and latency counts from the moment a message was due.

    godwit bench run latency --target kafka://127.0.0.1:9092
    godwit bench run throughput latency --target "$(bench/peers/godwit.sh start /tmp/g)" \
        --target "$(bench/peers/kafka.sh start /tmp/k synced)"

A target's URL may name its process and how to control it: ?name=kafka&pid=4711&script=FILE&dir=DIR, as the scripts
in bench/peers print it. Without a pid there are no figures of CPU, memory, disk and syncs. What was measured before an
interrupt is kept.`
}

// Run measures.
func (c *benchRunCmd) Run(e *env) error {
	targets, err := target.ParseAll(c.Target)
	if err != nil {
		return err
	}
	scenarios, err := c.scenarios()
	if err != nil {
		return err
	}
	if c.Out == "" {
		c.Out = filepath.Join("bench-results", time.Now().UTC().Format("2006-01-02T15-04-05"))
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	p := newBenchProgress(e.err)
	r, measured := measure.Run(e.ctx, measure.Options{
		Scenarios: scenarios, Targets: targets, Version: e.programs.Version, NoProbe: c.NoProbe, Idle: c.Idle, Progress: p,
		Commands: append(c.Command, c.line(targets)), Measured: func(r *bench.Run) error { return saveRun(c.Out, r) },
	})
	p.close()
	if measured != nil && len(r.Scenarios) == 0 {
		return measured
	}
	if measured != nil {
		r.Notes = append(r.Notes, "the run was interrupted: "+measured.Error())
	}
	if err := errors.Join(writeReport(c.Out, r), measured); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(e.out).Encode(r)
	}
	if err := report.Terminal(e.out, r, terminal(e.out)); err != nil {
		return err
	}
	fmt.Fprintf(e.err, "The report is in %s\n", filepath.Join(c.Out, "report.html"))
	return nil
}

// scenarios loads the scenarios and applies the overrides.
func (c *benchRunCmd) scenarios() (all []*scenario.Scenario, err error) {
	for _, name := range c.Scenarios {
		s, err := scenario.Load(name)
		if err != nil {
			return nil, err
		}
		if c.Rounds > 0 {
			s.Rounds = c.Rounds
		}
		if c.Duration > 0 {
			s.Duration = scenario.Duration(c.Duration)
		}
		if c.Warmup > 0 {
			s.Warmup = scenario.Duration(c.Warmup)
		}
		if c.Backlog != "" && (s.Backlog.Size > 0 || s.Backlog.OfMemory > 0) {
			size, err := scenario.ParseBytes(c.Backlog)
			if err != nil {
				return nil, fmt.Errorf("--backlog: %w", err)
			}
			s.Backlog = scenario.Backlog{Size: size}
		}
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// line is the command line that repeats the run. What only holds for this time is left out of the targets where other commands
// say how they were started.
func (c *benchRunCmd) line(targets []*target.Target) string {
	var b strings.Builder
	b.WriteString("godwit bench run")
	for _, s := range c.Scenarios {
		b.WriteString(" " + quoted(s))
	}
	for _, f := range []struct{ name, value string }{
		{"rounds", positive(c.Rounds)}, {"duration", set(c.Duration)}, {"warmup", set(c.Warmup)}, {"backlog", c.Backlog}, {"idle", set(c.Idle)},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " --%s %s", f.name, quoted(f.value))
		}
	}
	if c.NoProbe {
		b.WriteString(" --no-probe")
	}
	for _, t := range targets {
		shown := t.Shown()
		if len(c.Command) == 0 {
			shown = t.URL.Redacted()
		}
		b.WriteString(" --target '" + shown + "'")
	}
	return b.String()
}

// quoted is a word of a shell's command line.
func quoted(word string) string {
	plain := strings.IndexFunc(word, func(r rune) bool {
		return !strings.ContainsRune("-_./:%+=@,", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) < 0
	if plain && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func set(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return d.String()
}

// The files of a report.
const (
	runFile      = "run.json"
	htmlFile     = "report.html"
	markdownFile = "report.md"
)

// writeReport writes all forms of a run into a directory.
func writeReport(dir string, r *bench.Run) error {
	return errors.Join(saveRun(dir, r),
		writeFile(filepath.Join(dir, htmlFile), func(w io.Writer) error { return report.HTML(w, r) }),
		writeFile(filepath.Join(dir, markdownFile), func(w io.Writer) error { return report.Markdown(w, r) }))
}

// saveRun writes the run's data, in place of what was there.
func saveRun(dir string, r *bench.Run) error {
	file := filepath.Join(dir, runFile)
	if err := writeFile(file+".new", func(w io.Writer) error { return bench.Save(w, r) }); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// readRun reads run.json of a run.
func readRun(path string) (*bench.Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bench.Load(f)
}

type benchListCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the shipped scenarios.
func (c *benchListCmd) Run(e *env) error {
	all, err := scenario.Shipped()
	if err != nil {
		return err
	}
	if c.JSON {
		type row struct {
			Name  string `json:"name"`
			Kind  string `json:"kind"`
			Title string `json:"title"`
			About string `json:"about"`
		}
		rows := make([]row, 0, len(all))
		for _, s := range all {
			rows = append(rows, row{s.Name, s.Kind, s.Title, strings.TrimSpace(s.About)})
		}
		return json.NewEncoder(e.out).Encode(rows)
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\n", s.Name, s.Title)
	}
	return w.Flush()
}

type benchShowCmd struct {
	What string `arg:"" name:"scenario-or-run" help:"Name of a scenario, or run.json of a run."`
}

// Run shows a scenario's text or a run's tables.
func (c *benchShowCmd) Run(e *env) error {
	if text, ok := scenario.Text(c.What); ok {
		_, err := io.WriteString(e.out, text)
		return err
	}
	r, err := readRun(c.What)
	if err != nil {
		return fmt.Errorf("%s is no scenario of 'godwit bench list' and cannot be read as a run: %w", c.What, err)
	}
	return report.Terminal(e.out, r, terminal(e.out))
}

type benchReportCmd struct {
	Runs []string `arg:"" name:"run" help:"run.json of one or more runs on one machine; several become one report."`
	Out  string   `default:"." placeholder:"DIR" help:"Where run.json, report.html and report.md go (default: here)."`
}

// Run writes a report.
func (c *benchReportCmd) Run(e *env) error {
	var runs []*bench.Run
	for _, path := range c.Runs {
		r, err := readRun(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		runs = append(runs, r)
	}
	merged, err := bench.Merge(runs...)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	if err := writeReport(c.Out, merged); err != nil {
		return err
	}
	fmt.Fprintf(e.err, "The report is in %s\n", filepath.Join(c.Out, htmlFile))
	return nil
}
