package result

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Spread is a figure over the rounds of a cell. With N of 0 there is no value.
type Spread struct {
	Median float64 // of an even number of rounds: the mean of the middle two
	Min    float64
	Max    float64
	N      int // rounds that have the figure
}

// Of is the spread of values; those that are no finite numbers do not count.
func Of(values ...float64) Spread {
	v := slices.DeleteFunc(slices.Clone(values), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	if len(v) == 0 {
		return Spread{}
	}
	slices.Sort(v)
	n := len(v)
	return Spread{Median: v[(n-1)/2]/2 + v[n/2]/2, Min: v[0], Max: v[n-1], N: n}
}

// Apart says that every round of one spread is on the same side of every round of the other, with more than one round
// of each: only then is a difference called one.
func (s Spread) Apart(o Spread) bool {
	return s.N > 1 && o.N > 1 && (s.Min > o.Max || s.Max < o.Min)
}

// Scale multiplies by k, which is not negative.
func (s Spread) Scale(k float64) Spread {
	return Spread{Median: s.Median * k, Min: s.Min * k, Max: s.Max * k, N: s.N}
}

// Spread is a figure over the rounds that have it. Figures of usage come from Round.Usage where Round.Figures lacks them.
func (c *Cell) Spread(f Figure) Spread {
	usage := slices.Contains(OfUsage, f)
	var v []float64
	for i := range c.Rounds {
		r := &c.Rounds[i]
		if x, ok := r.Figures[f]; ok {
			v = append(v, x)
		} else if usage && r.Usage != nil {
			if x, ok := r.Usage.Figures()[f]; ok {
				v = append(v, x)
			}
		}
	}
	return Of(v...)
}

// Stage is the part of a message's way that a latency covers.
type Stage int

// The stages, both from the intended send time.
const (
	EndToEnd Stage = iota // to the consumer's handler
	Producer              // to the acknowledgement
)

// Latency is the latency of a stage, or nil.
func (r *Round) Latency(s Stage) *Latency {
	l := r.EndToEnd
	if s == Producer {
		l = r.Producer
	}
	if l == nil || l.Count == 0 {
		return nil
	}
	return l
}

// LatencyAt is a percentile of Percentiles over the rounds that have the stage, in microseconds: the spread of the
// rounds' percentiles, not the percentile of all rounds' messages together, which one bad round would rule.
func (c *Cell) LatencyAt(s Stage, p float64) Spread {
	var v []float64
	for i := range c.Rounds {
		if l := c.Rounds[i].Latency(s); l != nil {
			v = append(v, l.At(p))
		}
	}
	return Of(v...)
}

// Curve is LatencyAt for each of Percentiles, or nil.
func (c *Cell) Curve(s Stage) []Spread {
	curve := make([]Spread, len(Percentiles))
	for i, p := range Percentiles {
		curve[i] = c.LatencyAt(s, p)
	}
	if curve[0].N == 0 {
		return nil
	}
	return curve
}

// Audit is the sum over all rounds, failed ones included: what one round lost is lost. Nil if no round was audited.
func (c *Cell) Audit() *Audit {
	var sum *Audit
	for i := range c.Rounds {
		a := c.Rounds[i].Audit
		if a == nil {
			continue
		}
		if sum == nil {
			sum = new(Audit)
		}
		sum.Add(a)
	}
	return sum
}

// Add adds the counts of o.
func (a *Audit) Add(o *Audit) {
	a.Sent += o.Sent
	a.Acked += o.Acked
	a.Failed += o.Failed
	a.Expected += o.Expected
	a.Delivered += o.Delivered
	a.Lost += o.Lost
	a.Duplicates += o.Duplicates
	a.Disordered += o.Disordered
	a.Foreign += o.Foreign
}

// Clean says that everything sent was acknowledged and arrived once and in order, and nothing else did.
func (a *Audit) Clean() bool {
	return a.Failed == 0 && a.Lost == 0 && a.Duplicates == 0 && a.Disordered == 0 && a.Foreign == 0
}

// Failures are the errors of rounds, by the round's number from 1.
func (c *Cell) Failures() map[int]string {
	m := map[int]string{}
	for i := range c.Rounds {
		if e := c.Rounds[i].Error; e != "" {
			m[i+1] = e
		}
	}
	return m
}

// refusable is the part of a cell's messages that may fail without its figures being about something else.
const refusable = 0.01

// Sound says that the target did what the figures are about: it lost nothing, and refused next to nothing. Figures of others are shown
// and not compared, for what is left out costs nothing.
func (c *Cell) Sound() bool {
	for i := range c.Rounds {
		if a := c.Rounds[i].Audit; a != nil && (a.Lost > 0 || float64(a.Failed) > refusable*float64(a.Sent)) {
			return false
		}
	}
	return true
}

// Outcome is a benefit over all rounds: the worst score, since a promise that is sometimes broken is not kept.
type Outcome struct {
	Score   string
	Seconds Spread // of the rounds with that score
	Timed   string // what Seconds is, in words
	Said    string // of the first round with that score that has it
	Detail  string // of the first round with that score
	Rounds  int    // with that score
	Of      int    // rounds
}

// Scores are the scores of a benefit, best first.
var Scores = []string{ScoreKept, ScorePartly, ScoreLost, ScoreUnsupported}

// Outcome sums the rounds' benefits up; nil if there is none. Beside rounds that have one, a round that failed has not kept it.
func (c *Cell) Outcome() *Outcome {
	if c.Unsupported != "" {
		return &Outcome{Score: ScoreUnsupported, Detail: c.Unsupported}
	}
	var all []*Benefit
	scored := false
	for i := range c.Rounds {
		switch r := &c.Rounds[i]; {
		case r.Benefit != nil:
			all, scored = append(all, r.Benefit), true
		case r.Error != "":
			all = append(all, &Benefit{Score: ScoreLost, Seconds: -1, Detail: "failed: " + r.Error})
		}
	}
	if !scored {
		return nil
	}
	worst := slices.MaxFunc(all, func(a, b *Benefit) int {
		return slices.Index(Scores, a.Score) - slices.Index(Scores, b.Score)
	})
	o := &Outcome{Score: worst.Score, Of: len(all)}
	var seconds []float64
	for _, b := range all {
		if b.Score != o.Score {
			continue
		}
		if o.Rounds == 0 {
			o.Detail, o.Timed = b.Detail, b.Timed
		}
		if o.Said == "" {
			o.Said = b.Said
		}
		o.Rounds++
		if b.Seconds >= 0 {
			seconds = append(seconds, b.Seconds)
		}
	}
	o.Seconds = Of(seconds...)
	return o
}

// Benefits says that the scenario scores benefits, also where every round failed.
func (s *Scenario) Benefits() bool {
	return s.Kind == "benefits" || slices.ContainsFunc(s.Cells, func(c Cell) bool {
		return slices.ContainsFunc(c.Rounds, func(r Round) bool { return r.Benefit != nil })
	})
}

// Figures derives the figures of OfUsage, as far as they are known: those of the target's process only if its CPU
// or memory was seen.
func (u *Usage) Figures() map[Figure]float64 {
	m := map[Figure]float64{OthersCores: u.OthersCores}
	seen := u.CPUSeconds > 0 || u.RSSBytes > 0
	if seen {
		m[RSSMiB] = float64(u.RSSBytes) / (1 << 20)
	}
	if n := float64(u.Messages); n > 0 {
		if seen {
			m[CPUPerMillion] = u.CPUSeconds / n * 1e6
		}
		if seen && u.Syncs >= 0 {
			m[SyncsPerMessage] = float64(u.Syncs) / n
		}
		if u.DeviceFlushes >= 0 {
			m[FlushesPerMessage] = float64(u.DeviceFlushes) / n
		}
		m[ClientCPUPerMillion] = u.ClientCPUSeconds / n * 1e6
	}
	if n := float64(u.PayloadBytes); n > 0 {
		if seen {
			m[DiskPerPayload] = float64(u.DiskWritten) / n
		}
		m[NetPerPayload] = float64(u.NetReceived+u.NetSent) / n
	}
	return m
}

// Point names the cell's place among its scenario's parameters: "consumers=4 producers=4". Cells of different targets at the
// same point are compared.
func (c *Cell) Point() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(c.Params)) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", k, c.Params[k])
	}
	return b.String()
}
