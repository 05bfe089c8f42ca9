package result

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3, 1}},
		{[]float64{3, 1}, Spread{2, 1, 3, 2}},
		{[]float64{3, 1, 2}, Spread{2, 1, 3, 3}},
		{[]float64{math.NaN(), 5, math.Inf(1)}, Spread{5, 5, 5, 1}},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, Spread{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, 2}},
	} {
		if got := Of(c.in...); got != c.want {
			t.Errorf("%v: got %v, want %v", c.in, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOf(rapid.Float64()).Draw(t, "v")
		before := slices.Clone(v)
		s := Of(v...)
		if s.N > 0 && (s.Min > s.Median || s.Median > s.Max) {
			t.Fatalf("%v: %v", v, s)
		}
		if !slices.EqualFunc(v, before, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
			t.Fatal("the argument was changed")
		}
	})
}

func TestApart(t *testing.T) {
	a, b, c, one := Of(1, 2, 3), Of(3, 4), Of(4, 5), Of(9)
	if a.Apart(b) || b.Apart(a) || !a.Apart(c) || !c.Apart(a) || a.Apart(one) || one.Apart(a) {
		t.Error("spreads are apart only if no round of one is among the other's, and one round shows no spread")
	}
}

func curve(p50, p99 float64) *Latency {
	l := &Latency{Count: 1000, Mean: p50, Max: 2 * p99, Curve: make([]float64, len(Percentiles))}
	for i, p := range Percentiles {
		switch {
		case p < 99:
			l.Curve[i] = p50
		case p == 99:
			l.Curve[i] = p99
		default:
			l.Curve[i] = 2 * p99
		}
	}
	return l
}

func TestCellOverRounds(t *testing.T) {
	c := Cell{Rounds: []Round{
		{Figures: map[Figure]float64{ThroughputPerSecond: 100}, EndToEnd: curve(10, 50), Audit: &Audit{Acked: 5, Lost: 1}},
		{Figures: map[Figure]float64{ThroughputPerSecond: 300, CPUPerMillion: 7}, EndToEnd: curve(20, 90), Producer: &Latency{}},
		{Error: "went away", Audit: &Audit{Acked: 6, Duplicates: 2}},
		{Figures: map[Figure]float64{ThroughputPerSecond: 200}, EndToEnd: curve(30, 70), Usage: &Usage{CPUSeconds: 3, Messages: 1e6, DeviceFlushes: -1}},
	}}
	if got, want := c.Spread(ThroughputPerSecond), (Spread{200, 100, 300, 3}); got != want {
		t.Errorf("throughput %v, want %v", got, want)
	}
	if got, want := c.Spread(CPUPerMillion), (Spread{5, 3, 7, 2}); got != want {
		t.Errorf("CPU %v, want %v: a figure of its own comes before the one derived from usage", got, want)
	}
	if got := c.Spread(FlushesPerMessage); got.N != 0 {
		t.Errorf("unknown flushes show as %v", got)
	}
	if got, want := c.LatencyAt(EndToEnd, 99), (Spread{70, 50, 90, 3}); got != want {
		t.Errorf("p99 %v, want %v", got, want)
	}
	if got := c.Curve(EndToEnd); len(got) != len(Percentiles) || got[len(got)-1] != (Spread{140, 100, 180, 3}) {
		t.Errorf("curve %v", got)
	}
	if c.Curve(Producer) != nil {
		t.Error("a latency of nothing has a curve")
	}
	if got, want := *c.Audit(), (Audit{Acked: 11, Lost: 1, Duplicates: 2}); got != want || got.Clean() {
		t.Errorf("audit %+v, want %+v", got, want)
	}
	if got := c.Failures(); len(got) != 1 || got[3] != "went away" {
		t.Errorf("failures %v", got)
	}
	if (&Cell{}).Audit() != nil {
		t.Error("no audit is not a clean one")
	}
}

func TestUsageFigures(t *testing.T) {
	u := Usage{CPUSeconds: 4, RSSBytes: 3 << 20, DiskWritten: 2200, NetReceived: 1100, NetSent: 1000, Syncs: 20, DeviceFlushes: 5, PayloadBytes: 1000, Messages: 10, OthersCores: .25, ClientCPUSeconds: 1}
	got := u.Figures()
	want := map[Figure]float64{CPUPerMillion: 4e5, RSSMiB: 3, DiskPerPayload: 2.2, NetPerPayload: 2.1, SyncsPerMessage: 2, FlushesPerMessage: .5, ClientCPUPerMillion: 1e5, OthersCores: .25}
	for _, f := range OfUsage {
		if got[f] != want[f] {
			t.Errorf("%s is %v, want %v", f, got[f], want[f])
		}
	}
	unseen := Usage{Syncs: -1, DeviceFlushes: -1, PayloadBytes: 1000, Messages: 10}
	for _, f := range []Figure{CPUPerMillion, RSSMiB, DiskPerPayload, SyncsPerMessage, FlushesPerMessage} {
		if x, ok := unseen.Figures()[f]; ok {
			t.Errorf("%s is %v though nothing of the process was seen", f, x)
		}
	}
}

func TestOutcomeIsTheWorstRound(t *testing.T) {
	c := Cell{Rounds: []Round{
		{Benefit: &Benefit{Score: ScoreKept, Seconds: 1, Said: "fine", Detail: "all"}},
		{Benefit: &Benefit{Score: ScorePartly, Seconds: 4, Detail: "most"}},
		{Benefit: &Benefit{Score: ScorePartly, Seconds: 6, Said: "slow", Detail: "some"}},
	}}
	o := c.Outcome()
	if o.Score != ScorePartly || o.Seconds != (Spread{5, 4, 6, 2}) || o.Said != "slow" || o.Detail != "most" || o.Rounds != 2 || o.Of != 3 {
		t.Errorf("got %+v", o)
	}
	failed := Cell{Rounds: append([]Round{{Error: "no answer"}}, c.Rounds...)}
	if o := failed.Outcome(); o.Score != ScoreLost || o.Seconds.N != 0 || o.Detail != "failed: no answer" || o.Rounds != 1 || o.Of != 4 {
		t.Errorf("a round failed: got %+v", o)
	}
	if o := (&Cell{Unsupported: "no queues"}).Outcome(); o.Score != ScoreUnsupported || o.Detail != "no queues" {
		t.Errorf("got %+v", o)
	}
	if (&Cell{Rounds: []Round{{}}}).Outcome() != nil {
		t.Error("an outcome out of nothing")
	}
	s := Scenario{Cells: []Cell{{}, c}}
	if !s.Benefits() || (&Scenario{Cells: []Cell{{}}}).Benefits() {
		t.Error("a scenario scores benefits if any round has one")
	}
}

// TestSound tells figures of what happened from those of what did not.
func TestSound(t *testing.T) {
	for want, rounds := range map[bool][]Round{
		true:  {{}, {Audit: &Audit{Sent: 1000, Acked: 990, Failed: 10, Duplicates: 5}}},
		false: {{Audit: &Audit{Sent: 1000, Acked: 1000}}, {Audit: &Audit{Sent: 1000, Acked: 1000, Lost: 1}}},
	} {
		if c := (Cell{Rounds: rounds}); c.Sound() != want {
			t.Errorf("%+v: sound is %v", rounds, !want)
		}
	}
	if c := (Cell{Rounds: []Round{{Audit: &Audit{Sent: 1000, Failed: 11}}}}); c.Sound() {
		t.Error("a target that refuses is sound")
	}
}

func TestBenefits(t *testing.T) {
	scored := Scenario{Cells: []Cell{{Rounds: []Round{{}, {Benefit: &Benefit{}}}}}}
	failed := Scenario{Kind: "benefits", Cells: []Cell{{Rounds: []Round{{Error: "no"}}}}}
	load := Scenario{Kind: "load", Cells: []Cell{{Rounds: []Round{{}}}}}
	if !scored.Benefits() || !failed.Benefits() || load.Benefits() {
		t.Error("scenarios of benefits are those of that kind, and those with a score")
	}
}
