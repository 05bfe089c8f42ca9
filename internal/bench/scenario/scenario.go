// Package scenario is what a benchmark does, as YAML: the shipped scenarios, and anybody's own.
package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Kinds are the procedures that a scenario can ask for.
const (
	KindLoad     = "load"     // send and receive at a rate, for every combination of the parameters
	KindCatchUp  = "catchup"  // a reader from the start beside a live tail
	KindBacklog  = "backlog"  // write a backlog with nobody reading, then read it
	KindRestart  = "restart"  // restart the target while it holds a backlog
	KindRequests = "requests" // requests and replies
	KindBenefits = "benefits" // what message systems are used for, each scored with a time

	KindCommits   = "commits"   // read a backlog and make the place durable every few messages
	KindTransform = "transform" // receive, change, send, and keep the place, again and again
)

// Acks of consumers.
const (
	AckBatch = "batch" // as the protocol's clients usually do
	AckEach  = "each"  // every message by itself, after it was handled
	AckNone  = "none"  // at most once; producers are not acknowledged either
)

// Scenario is a procedure and its parameters. Lists are combined with each other, each point measured in every
// round.
type Scenario struct {
	Name     string   `yaml:"-"`
	Title    string   `yaml:"title"`
	About    string   `yaml:"about"`
	Kind     string   `yaml:"kind"`
	Message  Message  `yaml:"message"`
	Clients  Clients  `yaml:"clients"`
	Rate     []Rate   `yaml:"rate"`     // of all producers together
	Arrivals string   `yaml:"arrivals"` // poisson (default) or uniform
	Window   Bytes    `yaml:"window"`   // of unacknowledged payload over all producers
	Backlog  Backlog  `yaml:"backlog"`
	Warmup   Duration `yaml:"warmup"`
	Duration Duration `yaml:"duration"`
	Rounds   int      `yaml:"rounds"`
	Axis     string   `yaml:"axis"` // the parameter along the x axis: size, producers, consumers, subscriptions, destinations, rate
}

// Message is what is sent.
type Message struct {
	Size []Bytes `yaml:"size"` // of the payload, header of the benchmark included; 40 B to 1 MiB
	Keys int     `yaml:"keys"` // of each producer; messages of a key stay in order
}

// Clients are who sends and receives.
type Clients struct {
	Producers     []int  `yaml:"producers"`
	Consumers     []int  `yaml:"consumers"`     // of each subscription, sharing its messages
	Together      bool   `yaml:"together"`      // producers and consumers go up in step instead of every combination
	Subscriptions []int  `yaml:"subscriptions"` // each gets all messages
	Destinations  []int  `yaml:"destinations"`
	Partitions    int    `yaml:"partitions"` // of each destination, where there are partitions
	Durable       bool   `yaml:"durable"`    // subscriptions keep their place
	Ack           string `yaml:"ack"`
	// Atomic is how long a sender, or a consumer that passes messages on, puts them into one batch that appears as a whole or not at
	// all; 0s does without batches.
	Atomic []Duration `yaml:"atomic"`
	Commit int        `yaml:"commit"` // of kind commits: a consumer makes its place durable after so many messages, and waits for it
}

// Backlog is how much waits for its reader.
type Backlog struct {
	Size     Bytes   `yaml:"size"`
	OfMemory float64 `yaml:"of_memory"` // instead of size: this many times the machine's memory
}

// Rate is messages a second: an absolute number, a part of the maximum that the target was found to sustain, or
// the maximum itself, for which the loop is closed: a producer sends when the window lets it.
type Rate struct {
	PerSecond float64
	OfMax     float64 // 0.25 is 25 %; 1 closes the loop
}

// Max says whether the loop is closed.
func (r Rate) Max() bool { return r.OfMax == 1 }

// String is the YAML form.
func (r Rate) String() string {
	switch {
	case r.Max():
		return "max"
	case r.OfMax > 0:
		return strconv.FormatFloat(r.OfMax*100, 'g', -1, 64) + "%"
	}
	return strconv.FormatFloat(r.PerSecond, 'g', -1, 64)
}

// UnmarshalYAML reads max, a percentage, or messages a second.
func (r *Rate) UnmarshalYAML(n *yaml.Node) error {
	s := n.Value
	if s == "max" {
		*r = Rate{OfMax: 1}
		return nil
	}
	if p, ok := strings.CutSuffix(s, "%"); ok {
		v, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || !(v > 0 && v < 100) { // not a number is neither
			return fmt.Errorf("line %d: rate %q: a percentage of the maximum is above 0 and below 100", n.Line, s)
		}
		*r = Rate{OfMax: v / 100}
		return nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0 && v <= 1e8) {
		return fmt.Errorf("line %d: rate %q is neither max, nor a percentage of it such as 50%%, nor messages a second", n.Line, s)
	}
	*r = Rate{PerSecond: v}
	return nil
}

// MarshalYAML writes what UnmarshalYAML reads.
func (r Rate) MarshalYAML() (any, error) { return r.String(), nil }

// Bytes is a size: "100", "1KiB", "64MiB", "2GiB".
type Bytes int64

// units of sizes, largest first.
var units = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseBytes reads a size.
func ParseBytes(s string) (Bytes, error) {
	number, unit := strings.TrimSpace(s), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0 && v*float64(unit) <= 1<<50) {
		return 0, fmt.Errorf("%q is not a size such as 100, 1KiB or 2GiB", s)
	}
	return Bytes(v * float64(unit)), nil
}

// String is the shortest form that is exact.
func (b Bytes) String() string {
	for _, u := range units[:3] {
		if int64(b) >= u.size && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// UnmarshalYAML reads a size.
func (b *Bytes) UnmarshalYAML(n *yaml.Node) (err error) {
	if *b, err = ParseBytes(n.Value); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

// MarshalYAML writes a size.
func (b Bytes) MarshalYAML() (any, error) { return b.String(), nil }

// Duration is a time such as 10s.
type Duration time.Duration

// UnmarshalYAML reads a time.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 || v > 24*time.Hour {
		return fmt.Errorf("line %d: %q is not a time such as 10s", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// MarshalYAML writes a time.
func (d Duration) MarshalYAML() (any, error) { return time.Duration(d).String(), nil }

// maxFile is the size of a scenario file at most, in bytes.
const maxFile = 64 << 10

// Parse reads a scenario, fills in what it leaves out and checks it. Name is shown in errors and results.
func Parse(name string, text []byte) (*Scenario, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("scenario %s: %d bytes are more than the %d of any scenario", name, len(text), maxFile)
	}
	s := &Scenario{Name: name}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("scenario %s is empty", name)
		}
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	s.complete()
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	return s, nil
}

// complete fills in what was left out.
func (s *Scenario) complete() {
	one := func(l *[]int) {
		if len(*l) == 0 {
			*l = []int{1}
		}
	}
	one(&s.Clients.Producers)
	one(&s.Clients.Consumers)
	one(&s.Clients.Subscriptions)
	one(&s.Clients.Destinations)
	if len(s.Clients.Atomic) == 0 {
		s.Clients.Atomic = []Duration{0}
	}
	if s.Kind == KindCommits {
		orDefault(&s.Clients.Commit, 10)
	}
	if len(s.Message.Size) == 0 {
		s.Message.Size = []Bytes{1 << 10}
	}
	if len(s.Rate) == 0 {
		s.Rate = []Rate{{OfMax: 1}}
	}
	orDefault(&s.Message.Keys, 16)
	orDefault(&s.Clients.Partitions, 12)
	orDefault(&s.Clients.Ack, AckBatch)
	orDefault(&s.Kind, KindLoad)
	orDefault(&s.Arrivals, "poisson")
	orDefault(&s.Window, 16<<20)
	orDefault(&s.Duration, Duration(10*time.Second))
	orDefault(&s.Rounds, 3)
	orDefault(&s.Title, s.Name)
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// YAML is the scenario in full, with defaults and overrides.
func (s *Scenario) YAML() string {
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		return "# " + err.Error() + "\n"
	}
	return b.String()
}
