package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"godwit/internal/bench/result"
)

var update = flag.Bool("update", false, "write the golden files")

// written is what a form of a report writes.
func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func markdownOf(t *testing.T, r *result.Run) string {
	return written(t, func(w io.Writer) error { return Markdown(w, r) })
}

func terminalOf(t *testing.T, r *result.Run, color bool) string {
	return written(t, func(w io.Writer) error { return Terminal(w, r, color) })
}

func htmlOf(t *testing.T, r *result.Run) string {
	return written(t, func(w io.Writer) error { return HTML(w, r) })
}

// golden compares with a file of testdata, and writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s line %d; if that is meant: go test ./internal/bench/report -update\n got %s\nwant %s", name, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s has %d lines, was %d", name, len(g), len(w))
}

func TestGolden(t *testing.T) {
	golden(t, "report.md", markdownOf(t, sample()))
	golden(t, "report.txt", terminalOf(t, sample(), false))
}

// TestSampleIsWhole holds that the golden files show every figure, grade and score.
func TestSampleIsWhole(t *testing.T) {
	r := sample()
	figures, scores, grades := map[result.Figure]bool{}, map[string]bool{}, map[string]bool{}
	for i := range r.Targets {
		grades[r.Targets[i].Durability.Grade] = true
	}
	for i := range r.Scenarios {
		for j := range r.Scenarios[i].Cells {
			c := &r.Scenarios[i].Cells[j]
			for _, f := range result.Order {
				figures[f] = figures[f] || c.Spread(f).N > 0
			}
			if o := c.Outcome(); o != nil {
				scores[o.Score] = true
			}
		}
	}
	md := markdownOf(t, r)
	for _, f := range result.Order {
		if !figures[f] || !strings.Contains(md, escape(f.About().Says)) {
			t.Errorf("the sample has no %s, or the report does not say what it is", f)
		}
	}
	for _, s := range result.Scores {
		if !scores[s] {
			t.Errorf("the sample has no benefit that is %s", s)
		}
	}
	for _, g := range result.Grades {
		if !grades[g] {
			t.Errorf("the sample has no target that is %s", g)
		}
	}
}

// TestTerminalFits holds that no line is longer than the terminal, and that colours change nothing else.
func TestTerminalFits(t *testing.T) {
	plain := terminalOf(t, sample(), false)
	for i, l := range strings.Split(plain, "\n") {
		if n := utf8.RuneCountInString(l); n > width {
			t.Errorf("line %d has %d columns: %s", i+1, n, l)
		}
	}
	colored := terminalOf(t, sample(), true)
	if colored == plain || regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colored, "") != plain {
		t.Error("colours are not what differs")
	}
}

// TestNothingIsClaimedWithoutSpread holds the rule of the package: the mark of a difference needs rounds apart.
func TestNothingIsClaimedWithoutSpread(t *testing.T) {
	r := &result.Run{Targets: []result.Target{{Name: "a"}, {Name: "b"}}}
	cell := func(name string, values ...float64) result.Cell {
		c := result.Cell{Target: name}
		for _, v := range values {
			c.Rounds = append(c.Rounds, result.Round{Figures: map[result.Figure]float64{result.ThroughputPerSecond: v}})
		}
		return c
	}
	for _, c := range []struct {
		a, b  []float64
		text  string
		mark  mark
		clear string
	}{
		{[]float64{100, 110}, []float64{200, 210}, "1.95x", better, "(beyond the spread of rounds)"},
		{[]float64{100, 110}, []float64{50, 60}, "0.52x", worse, "(beyond the spread of rounds)"},
		{[]float64{100, 110}, []float64{105, 300}, "~1.93x", dim, "(not beyond the spread of rounds)"},
		{[]float64{100}, []float64{200, 210}, "?2.05x", dim, "(not beyond the spread of rounds)"},
	} {
		r.Scenarios = []result.Scenario{{Name: "s", Cells: []result.Cell{cell("a", c.a...), cell("b", c.b...)}}}
		d := newDocument(r)
		got := d.Sections[0].Tables[0].Rows[1].Cells[2]
		if got.Text != c.text || got.Mark != c.mark {
			t.Errorf("%v beside %v: %q, mark %d", c.a, c.b, got.Text, got.Mark)
		}
		if said := fmt.Sprint(d.Verdicts); !strings.Contains(said, c.clear) {
			t.Errorf("%v beside %v: %s", c.a, c.b, said)
		}
	}
}

// TestLoops holds that latencies say whether they are of a closed loop.
func TestLoops(t *testing.T) {
	d := newDocument(sample())
	for i := range d.Sections {
		s := &d.Sections[i]
		closed := s.Name == "throughput" || s.Name == "scaling" || s.Name == "transactions"
		for _, g := range s.Plots {
			if strings.HasPrefix(g.Title, "Latency") && strings.HasSuffix(g.Title, "closed loop") != closed {
				t.Errorf("%s: %s", s.Name, g.Title)
			}
		}
		for _, b := range s.Tables {
			if strings.HasPrefix(b.Caption, "Latency") && strings.Contains(fmt.Sprint(b.Foot), "closed loop") != closed {
				t.Errorf("%s: %s: %v", s.Name, b.Caption, b.Foot)
			}
		}
	}
}

// TestOddRuns holds that reports can be made of runs with next to nothing in them.
func TestOddRuns(t *testing.T) {
	one := []result.Target{{Name: "a"}}
	for name, r := range map[string]*result.Run{
		"empty":      {},
		"no figures": {Targets: one, Scenarios: []result.Scenario{{Cells: []result.Cell{{Target: "a"}}}}},
		"all failed": {Targets: one, Scenarios: []result.Scenario{{Name: "s", Kind: "benefits", Cells: []result.Cell{{Target: "a", Rounds: []result.Round{{Error: "e"}}}}}}},
		"zero latency": {Targets: one, Scenarios: []result.Scenario{{Name: "s", Axis: "rate", Cells: []result.Cell{
			{Target: "a", X: -1, Params: map[string]string{"rate": "0"}, Rounds: []result.Round{{EndToEnd: distribution(0, 10)}}},
			{Target: "a", X: 1, Params: map[string]string{"rate": "1"}, Rounds: []result.Round{{EndToEnd: distribution(0, 10)}}},
			{Target: "a", X: 2, Params: map[string]string{"rate": "2"}, Rounds: []result.Round{{EndToEnd: distribution(1, 1e9)}}},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, form := range []string{markdownOf(t, r), terminalOf(t, r, true)} {
				if form == "" || strings.Contains(form, "NaN") || strings.Contains(form, "Inf") {
					t.Error(form)
				}
			}
			plotsOf(t, htmlOf(t, r))
		})
	}
}

var (
	script = regexp.MustCompile(`(?s)<script[^>]*>(.*?)</script>`)
	style  = regexp.MustCompile(`(?s)<style>.*?</style>`)
	loads  = regexp.MustCompile(`(?i)\s(src|href|srcset|action|data|poster|background)\s*=\s*["']?([^"'\s>]*)`)
)

// TestPageIsSelfContained holds that nothing in the page makes a browser load anything.
func TestPageIsSelfContained(t *testing.T) {
	page := htmlOf(t, sample())
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:;`) {
		t.Error("the page's own policy does not forbid the network")
	}
	for _, s := range style.FindAllString(page, -1) {
		if regexp.MustCompile(`(?i)@import|url\s*\(`).MatchString(s) {
			t.Error("a style sheet loads something")
		}
	}
	for _, s := range script.FindAllStringSubmatch(page, -1) {
		if m := regexp.MustCompile(`\b(fetch|XMLHttpRequest|WebSocket|EventSource|importScripts|sendBeacon)\b|\bimport\s*\(`).FindString(s[1]); m != "" {
			t.Errorf("a script uses %s", m)
		}
	}
	markup := style.ReplaceAllString(script.ReplaceAllString(page, ""), "")
	links := loads.FindAllStringSubmatch(markup, -1)
	if len(links) < 5 {
		t.Fatalf("only %d links: the test does not see them", len(links))
	}
	for _, m := range links {
		if !strings.HasPrefix(m[2], "#") {
			t.Errorf("the page refers to %s", m[0])
		} else if !strings.Contains(markup, ` id="`+m[2][1:]+`"`) {
			t.Errorf("%s leads nowhere", m[0])
		}
	}
	if regexp.MustCompile(`(?i)<(link|iframe|object|embed|img|base|form|video|audio)\b`).MatchString(markup) {
		t.Error("the page has an element that loads something")
	}
}

// plotsOf reads what the page's script draws.
func plotsOf(t *testing.T, page string) (p plotData) {
	t.Helper()
	_, data, ok := strings.Cut(page, "const report = ")
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&p); !ok || err != nil {
		t.Fatalf("the page has no plots: %v", err)
	}
	return p
}

// TestPageHasTheRun holds that the whole result file can be had from the page, and that every plot has its place.
func TestPageHasTheRun(t *testing.T) {
	page := htmlOf(t, sample())
	scripts := script.FindAllStringSubmatch(page, -1)
	if len(scripts) != 3 {
		t.Fatalf("%d scripts", len(scripts))
	}
	got, err := result.Load(strings.NewReader(scripts[0][1]))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := result.Save(&file, sample()); err != nil {
		t.Fatal(err)
	}
	want, err := result.Load(&file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("the page's data is not the run")
	}
	plots := plotsOf(t, page)
	kinds := map[string]int{}
	for _, p := range plots.Plots {
		kinds[p.Kind]++
		if n := strings.Count(page, `data-plot="`+p.ID+`"`); n != 1 {
			t.Errorf("plot %s has %d places", p.ID, n)
		}
		for _, s := range p.Series {
			if len(s.Y) != len(p.X) {
				t.Errorf("plot %s: %d values at %d places", p.ID, len(s.Y), len(p.X))
			}
		}
	}
	if kinds["axes"] != 1 || kinds["scale"] < 10 || kinds["curve"] < 20 {
		t.Errorf("plots %v", kinds)
	}
	curve := plots.Plots[len(plots.Plots)-1]
	if last := curve.Ticks[len(curve.Ticks)-2]; last.Label != "99.99" {
		t.Errorf("curves end at %s", last.Label)
	}
}

// hostile is what a target may say of itself to whoever reads a report.
const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)> | `x` **b** [a](https://example.org) \x1b[31m\u202e @all\n# h"

// hostileRun has it wherever a target, a client library or a result file has text.
func hostileRun() *result.Run {
	r := sample()
	r.Godwit, r.Notes, r.Commands = hostile, []string{hostile}, []string{hostile, "```\n" + hostile}
	r.Machine.CPU, r.Machine.System, r.Machine.Disk = hostile, hostile, hostile
	for i := range r.Targets {
		t := &r.Targets[i]
		old := t.Name
		t.Name += hostile
		t.Version, t.Config, t.URL, t.Protocol, t.Durability.Why, t.Durability.Files = hostile, hostile, hostile, hostile, hostile, []string{hostile}
		for j := range r.Scenarios {
			for k := range r.Scenarios[j].Cells {
				if c := &r.Scenarios[j].Cells[k]; c.Target == old {
					c.Target = t.Name
				}
			}
		}
	}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		s.Name, s.Title, s.About, s.Spec = s.Name+hostile, hostile, hostile, "```\n"+hostile
		for j := range s.Cells {
			c := &s.Cells[j]
			params := map[string]string{hostile: hostile}
			for k, v := range c.Params {
				params[k] = v + hostile
			}
			c.Params = params
			if c.Unsupported != "" {
				c.Unsupported = hostile
			}
			for k := range c.Rounds {
				r := &c.Rounds[k]
				r.Notes = append(r.Notes, hostile)
				if r.Error != "" {
					r.Error = hostile
				}
				if r.Figures != nil {
					r.Figures[result.Figure(hostile)] = 1
				}
				if b := r.Benefit; b != nil {
					b.Said, b.Detail, b.Timed = hostile, hostile, hostile
				}
			}
		}
	}
	return r
}

// TestHostileText holds that what others say stays text, in every form.
func TestHostileText(t *testing.T) {
	r := hostileRun()
	page := htmlOf(t, r)
	if n := len(script.FindAllString(page, -1)); n != 3 || strings.Count(strings.ToLower(page), "<script") != 3 {
		t.Errorf("%d scripts where the page has 3", n)
	}
	if strings.Contains(page, "<img") || strings.Count(page, html.EscapeString("<img src=x")) < 50 {
		t.Error("text became markup, or is not there")
	}
	if got, err := result.Load(strings.NewReader(script.FindStringSubmatch(page)[1])); err != nil || got.Targets[1].Version != hostile {
		t.Errorf("the page's data is not the run: %v", err)
	}
	md := markdownOf(t, r)
	fence := ""
	for i, l := range strings.Split(md, "\n") {
		if open := regexp.MustCompile("^```+").FindString(l); fence == "" && open != "" {
			fence = open
			continue
		} else if fence != "" {
			if l == fence {
				fence = ""
			}
			continue
		}
		l = strings.TrimPrefix(strings.TrimPrefix(l, "<details><summary>Scenario</summary>"), "</details>")
		bare := regexp.MustCompile(`\\.`).ReplaceAllString(strings.NewReplacer("<sub>", "", "</sub>", "").Replace(l), "")
		bare = regexp.MustCompile("`[^`]*`").ReplaceAllString(bare, "")
		if strings.Contains(bare, "<") || strings.Contains(bare, "](http") || strings.Contains(bare, "://") {
			t.Errorf("line %d: text became markup: %s", i+1, l)
		}
	}
	if fence != "" {
		t.Error("a fence is open at the end")
	}
	for form, s := range map[string]string{"terminal": terminalOf(t, r, false), "Markdown": md} {
		for _, c := range s {
			if c != '\n' && unicode.IsControl(c) || c == '\u202e' {
				t.Fatalf("%s: control character %q", form, c)
			}
		}
	}
}

// TestRowsFitTheirHeads holds that tables are rectangles, also in Markdown, where a bar in a text would make a cell.
func TestRowsFitTheirHeads(t *testing.T) {
	for name, r := range map[string]*result.Run{"sample": sample(), "hostile": hostileRun()} {
		columns := 0
		for i, l := range strings.Split(markdownOf(t, r), "\n") {
			if !strings.HasPrefix(l, "|") {
				columns = 0
				continue
			}
			n := strings.Count(strings.ReplaceAll(l, `\|`, ""), "|")
			if columns == 0 {
				columns = n
			}
			if n != columns {
				t.Errorf("%s, line %d: %d bars where the head has %d: %s", name, i+1, n, columns, l)
			}
		}
	}
}
