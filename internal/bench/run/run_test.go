package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/result"
	"godwit/internal/bench/scenario"
	"godwit/internal/bench/target"
)

// quiet keeps what a run says.
type quiet struct {
	total, begun, ended int
	ends, notes         []string
}

func (q *quiet) Total(n int)                            { q.total = n }
func (q *quiet) Begin(_ int, _ string, _ func() string) { q.begun++ }
func (q *quiet) End(outcome string)                     { q.ended++; q.ends = append(q.ends, outcome) }
func (q *quiet) Note(text string)                       { q.notes = append(q.notes, text) }

// parse makes a scenario of YAML.
func parse(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// targets parses target URLs.
func targets(t *testing.T, urls ...string) []*target.Target {
	t.Helper()
	all, err := target.ParseAll(urls)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// measured runs a scenario against a memory and returns its cells.
func measured(t *testing.T, m *memory, text string) []result.Cell {
	t.Helper()
	r, err := Run(context.Background(), Options{
		Scenarios: []*scenario.Scenario{parse(t, text)}, Targets: targets(t, "kafka://127.0.0.1:1"), Open: m.open, Progress: &quiet{}, Idle: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Scenarios[0].Cells
}

// only is the one round of the one cell.
func only(t *testing.T, cells []result.Cell) result.Round {
	t.Helper()
	if len(cells) != 1 || len(cells[0].Rounds) != 1 {
		t.Fatalf("cells: %+v", cells)
	}
	if e := cells[0].Rounds[0].Error; e != "" {
		t.Fatalf("the round failed: %s", e)
	}
	return cells[0].Rounds[0]
}

// fixed is a scenario of exactly so many messages: a backlog that is written and read.
const fixed = `{kind: backlog, message: {size: [100], keys: 7}, clients: {producers: [2], consumers: [1], durable: true}, backlog: {size: 4000000}, rounds: 1}`

// TestFaultsCounted has a target drop, repeat or reorder one message in 10,000 of 40,000.
func TestFaultsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		m    *memory
		want result.Audit
	}{
		"none":    {&memory{}, result.Audit{Delivered: 40_000}},
		"drops":   {&memory{dropEvery: 10_000}, result.Audit{Delivered: 39_996, Lost: 4}},
		"repeats": {&memory{repeatEvery: 10_000}, result.Audit{Delivered: 40_000, Duplicates: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := only(t, measured(t, c.m, fixed))
			c.want.Sent, c.want.Acked, c.want.Expected = 40_000, 40_000, 40_000
			if *o.Audit != c.want {
				t.Fatalf("audit %+v, want %+v", *o.Audit, c.want)
			}
			line := outcome(&o)
			if shown := strings.Contains(line, "LOST"); shown != (name != "none") {
				t.Fatalf("what the audit found is shown: %v: %s", shown, line)
			}
		})
	}
}

// TestDisorderCounted has one producer with one key, so that every swap is disorder.
func TestDisorderCounted(t *testing.T) {
	o := only(t, measured(t, &memory{swapEvery: 10_000}, strings.NewReplacer("keys: 7", "keys: 1", "producers: [2]", "producers: [1]").Replace(fixed)))
	if o.Audit.Disordered != 3 || o.Audit.Lost > 1 { // the last one to be swapped may have no next
		t.Fatalf("audit %+v", *o.Audit)
	}
}

// TestInterleaved has every target measured in every round, and not always in the same order.
func TestInterleaved(t *testing.T) {
	var order []string
	m := &memory{}
	open := func(ctx context.Context, x *target.Target, o driver.Options) (driver.Driver, error) {
		order = append(order, x.Name)
		return m.open(ctx, x, o)
	}
	q := &quiet{}
	s := parse(t, `{kind: load, message: {size: [100]}, rate: [2000], duration: 20ms, rounds: 2}`)
	r, err := Run(context.Background(), Options{Scenarios: []*scenario.Scenario{s}, Targets: targets(t, "kafka://h:1?name=a", "kafka://h:1?name=b"), Open: open, Progress: q, NoProbe: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "ab"+"ab"+"ba" {
		t.Fatalf("order %s", got)
	}
	if q.total != 4 || q.begun != 4 || q.ended != 4 {
		t.Fatalf("progress: %+v", q)
	}
	for _, c := range r.Scenarios[0].Cells {
		if len(c.Rounds) != 2 || c.Rounds[0].EndToEnd == nil || c.Rounds[0].Figures[result.ThroughputPerSecond] == 0 {
			t.Fatalf("cell %+v", c)
		}
	}
}

// TestUnsupported says why there is no figure, and goes on.
func TestUnsupported(t *testing.T) {
	cells := measured(t, &memory{noDurable: true}, strings.Replace(fixed, "rounds: 1", "rounds: 2", 1))
	if len(cells) != 1 || len(cells[0].Rounds) != 0 || !strings.Contains(cells[0].Unsupported, "keeps nothing") {
		t.Fatalf("cells %+v", cells)
	}
}

// TestFailedRound keeps the error of a round, and what the client said before it.
func TestFailedRound(t *testing.T) {
	m := &memory{}
	n := 0
	open := func(ctx context.Context, x *target.Target, o driver.Options) (driver.Driver, error) {
		if n++; n == 2 {
			o.Logf("the door is locked")
			return nil, errors.New("out of luck")
		}
		return m.open(ctx, x, o)
	}
	s := parse(t, `{kind: load, message: {size: [100]}, rate: [2000], duration: 20ms, rounds: 2}`)
	r, err := Run(context.Background(), Options{Scenarios: []*scenario.Scenario{s}, Targets: targets(t, "kafka://h:1"), Open: open, Progress: &quiet{}, NoProbe: true})
	if err != nil {
		t.Fatal(err)
	}
	rounds := r.Scenarios[0].Cells[0].Rounds
	if len(rounds) != 2 || rounds[0].Error != "out of luck" || strings.Join(rounds[0].Notes, "") != "the door is locked" || rounds[1].Error != "" {
		t.Fatalf("rounds %+v", rounds)
	}
}

// TestInterrupted keeps what was measured, and does not count what was not finished.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m := &memory{}
	n := 0
	open := func(c context.Context, x *target.Target, o driver.Options) (driver.Driver, error) {
		if n++; n == 3 {
			cancel()
		}
		return m.open(c, x, o)
	}
	s := parse(t, `{kind: load, message: {size: [100]}, rate: [2000], duration: 20ms, rounds: 3}`)
	r, err := Run(ctx, Options{Scenarios: []*scenario.Scenario{s}, Targets: targets(t, "kafka://h:1"), Open: open, Progress: &quiet{}, NoProbe: true})
	if !errors.Is(err, context.Canceled) || len(r.Scenarios[0].Cells[0].Rounds) != 1 || r.Ended.IsZero() {
		t.Fatalf("%v, %+v", err, r.Scenarios)
	}
}

// TestShare searches for the maximum once, and asks for a part of it.
func TestShare(t *testing.T) {
	cells := measured(t, &memory{}, `{kind: load, message: {size: [100]}, rate: [25%, 50%], duration: 100ms, rounds: 1, axis: rate}`)
	if len(cells) != 2 || cells[0].X != 25 || cells[1].X != 50 {
		t.Fatalf("cells %+v", cells)
	}
	low, high := cells[0].Rounds[0].Figures[result.IntendedPerSecond], cells[1].Rounds[0].Figures[result.IntendedPerSecond]
	if low <= 0 || high < 1.8*low || high > 2.2*low { // arrivals are random
		t.Fatalf("rates %v and %v are not of one maximum", low, high)
	}
}

// TestProcedures runs every kind against a target without faults.
func TestProcedures(t *testing.T) {
	for name, text := range map[string]string{
		"catch-up": `{kind: catchup, message: {size: [100]}, rate: [2000], backlog: {size: 100000}, duration: 200ms, rounds: 1}`,
		"requests": `{kind: requests, message: {size: [100], keys: 1}, clients: {producers: [3], consumers: [2]}, rate: [2000], duration: 100ms, rounds: 1}`,
		"fan-out":  `{kind: load, message: {size: [100]}, clients: {subscriptions: [5]}, rate: [2000], duration: 100ms, rounds: 1}`,
		"max":      `{kind: load, message: {size: [100]}, clients: {producers: [3], consumers: [3]}, warmup: 10ms, duration: 100ms, rounds: 1}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := only(t, measured(t, &memory{}, text))
			if o.EndToEnd == nil || o.EndToEnd.Count == 0 || o.Audit.Lost+o.Audit.Duplicates+o.Audit.Failed > 0 || o.Audit.Acked == 0 {
				t.Fatalf("round %+v, audit %+v", o, o.Audit)
			}
			if name == "catch-up" && (o.Figures[result.CatchUpMiB] <= 0 || o.Figures[result.TailSlowdown] <= 0) {
				t.Fatalf("figures %v", o.Figures)
			}
		})
	}
}
