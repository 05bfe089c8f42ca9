package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The bounds of parameters.
const (
	MinSize         = 40      // bytes; the benchmark's own header
	MaxSize         = 1 << 20 // bytes; what brokers take without being configured
	maxClients      = 1024
	maxDestinations = 1_000_000
	maxPoints       = 1000
)

// Check says what is wrong with a scenario, naming the field.
func (s *Scenario) Check() error {
	kinds := []string{KindLoad, KindCatchUp, KindBacklog, KindRestart, KindRequests, KindBenefits, KindCommits, KindTransform}
	if !slices.Contains(kinds, s.Kind) {
		return fmt.Errorf("kind %q is none of %v", s.Kind, kinds)
	}
	if acks := []string{AckBatch, AckEach, AckNone}; !slices.Contains(acks, s.Clients.Ack) {
		return fmt.Errorf("clients.ack %q is none of %v", s.Clients.Ack, acks)
	}
	if s.Arrivals != "poisson" && s.Arrivals != "uniform" {
		return fmt.Errorf("arrivals %q is neither poisson nor uniform", s.Arrivals)
	}
	for _, size := range s.Message.Size {
		if size < MinSize || size > MaxSize {
			return fmt.Errorf("message.size %s is not between %d bytes and %s", size, MinSize, Bytes(MaxSize))
		}
	}
	for _, b := range []struct {
		field    string
		values   []int
		from, to int
	}{
		{"clients.producers", s.Clients.Producers, 1, maxClients},
		{"clients.consumers", s.Clients.Consumers, 0, maxClients},
		{"clients.subscriptions", s.Clients.Subscriptions, 1, maxClients},
		{"clients.destinations", s.Clients.Destinations, 1, maxDestinations},
		{"clients.partitions", []int{s.Clients.Partitions}, 1, 10_000},
		{"message.keys", []int{s.Message.Keys}, 1, maxDestinations},
		{"rounds", []int{s.Rounds}, 1, 1000},
	} {
		for _, v := range b.values {
			if v < b.from || v > b.to {
				return fmt.Errorf("%s: %d is not between %d and %d", b.field, v, b.from, b.to)
			}
		}
	}
	if s.Clients.Together && len(s.Clients.Producers) != len(s.Clients.Consumers) {
		return fmt.Errorf("clients.together wants as many producers as consumers: there are %d and %d", len(s.Clients.Producers), len(s.Clients.Consumers))
	}
	if err := s.checkAtomic(); err != nil {
		return err
	}
	return s.checkKind()
}

// maxAtomic is how long a batch may be open: less than brokers wait before they give one up.
const maxAtomic = Duration(30 * time.Second)

// checkAtomic checks what is said of batches and places.
func (s *Scenario) checkAtomic() error {
	for _, d := range s.Clients.Atomic {
		if d > maxAtomic {
			return fmt.Errorf("clients.atomic: %v is more than %v", time.Duration(d), time.Duration(maxAtomic))
		}
		if d > 0 && s.Kind != KindLoad && s.Kind != KindTransform {
			return fmt.Errorf("clients.atomic: kind %s has no atomic batches, kinds %s and %s have", s.Kind, KindLoad, KindTransform)
		}
		if d > 0 && s.Clients.Ack != AckBatch {
			return fmt.Errorf("clients.atomic: what is in batches is acknowledged with them: clients.ack is %s, not %s", AckBatch, s.Clients.Ack)
		}
	}
	if c := s.Clients.Commit; (s.Kind == KindCommits) != (c > 0) || c < 0 || c > maxDestinations {
		return fmt.Errorf("clients.commit: %d is not between 1 and %d, or kind %s is not %s", c, maxDestinations, s.Kind, KindCommits)
	}
	return nil
}

// checkKind checks what only some kinds need.
func (s *Scenario) checkKind() error {
	switch s.Kind {
	case KindTransform:
		if most := slices.ContainsFunc(s.Rate, func(r Rate) bool { return r.PerSecond == 0 }); most && s.Backlog.Size == 0 || s.Backlog.OfMemory > 0 {
			return fmt.Errorf("kind %s finds its maximum by a backlog: it needs backlog.size", s.Kind)
		}
	case KindCatchUp, KindBacklog, KindRestart, KindCommits:
		if (s.Backlog.Size > 0) == (s.Backlog.OfMemory > 0) {
			return fmt.Errorf("kind %s needs either backlog.size or backlog.of_memory", s.Kind)
		}
	}
	if slices.Contains([]string{KindCatchUp, KindBenefits}, s.Kind) {
		for _, r := range s.Rate {
			if r.PerSecond == 0 {
				return fmt.Errorf("kind %s needs a rate in messages a second, not %s", s.Kind, r)
			}
		}
	}
	if axes := []string{"", "size", "producers", "consumers", "subscriptions", "destinations", "rate"}; !slices.Contains(axes, s.Axis) {
		return fmt.Errorf("axis %q is none of %v", s.Axis, axes[1:])
	}
	points := s.Points()
	if n := len(points); n > maxPoints {
		return fmt.Errorf("%d combinations are more than %d: shorten a list", n, maxPoints)
	}
	for _, p := range points {
		if n := s.Message.Keys * p.Producers * p.Consumers * p.Subscriptions; n > maxSequences {
			return fmt.Errorf("keys, producers, consumers and subscriptions make %d sequences to be checked, more than %d: lower one of them", n, maxSequences)
		}
	}
	return nil
}

// maxSequences bounds the memory of the audit: some ten bytes for each key of each producer at each consumer.
const maxSequences = 50_000_000

// Point is one combination of a scenario's parameters.
type Point struct {
	Size          int // bytes
	Producers     int
	Consumers     int
	Subscriptions int
	Destinations  int
	Atomic        time.Duration
	Rate          Rate
}

// Points are all combinations, in the order of the lists, batches last.
func (s *Scenario) Points() (all []Point) {
	for _, size := range s.Message.Size {
		for _, c := range s.clients() {
			for _, subs := range s.Clients.Subscriptions {
				for _, dests := range s.Clients.Destinations {
					p := Point{Size: int(size), Producers: c[0], Consumers: c[1], Subscriptions: subs, Destinations: dests}
					if all = s.rated(all, p); len(all) > maxPoints {
						return all
					}
				}
			}
		}
	}
	return all
}

// rated adds the point with every rate and kind of batch.
func (s *Scenario) rated(all []Point, p Point) []Point {
	for _, p.Rate = range s.Rate {
		for _, atomic := range s.Clients.Atomic {
			p.Atomic = time.Duration(atomic)
			all = append(all, p)
		}
	}
	return all
}

// clients are the pairs of producers and consumers.
func (s *Scenario) clients() (pairs [][2]int) {
	for i, p := range s.Clients.Producers {
		if s.Clients.Together {
			pairs = append(pairs, [2]int{p, s.Clients.Consumers[i]})
			continue
		}
		for _, c := range s.Clients.Consumers {
			pairs = append(pairs, [2]int{p, c})
		}
	}
	return pairs
}

// Params are the point's parameters as reports show them: those that vary in s, or all for a scenario of one point.
func (s *Scenario) Params(p Point) map[string]string {
	all := map[string]string{
		"size": Bytes(p.Size).String(), "producers": strconv.Itoa(p.Producers), "consumers": strconv.Itoa(p.Consumers),
		"subscriptions": strconv.Itoa(p.Subscriptions), "destinations": strconv.Itoa(p.Destinations), "rate": p.Rate.String(),
		"atomic": "none",
	}
	if p.Atomic > 0 {
		all["atomic"] = p.Atomic.String()
	}
	varies := map[string]bool{
		"size": len(s.Message.Size) > 1, "producers": len(s.Clients.Producers) > 1, "consumers": len(s.Clients.Consumers) > 1,
		"subscriptions": len(s.Clients.Subscriptions) > 1, "destinations": len(s.Clients.Destinations) > 1, "rate": len(s.Rate) > 1,
		"atomic": len(s.Clients.Atomic) > 1,
	}
	some := make(map[string]string)
	for k, v := range all {
		if varies[k] {
			some[k] = v
		}
	}
	return some
}

// X is the point's place on the scenario's axis; 0 without an axis.
func (s *Scenario) X(p Point) float64 {
	switch s.Axis {
	case "size":
		return float64(p.Size)
	case "producers":
		return float64(p.Producers)
	case "consumers":
		return float64(p.Consumers)
	case "subscriptions":
		return float64(p.Subscriptions)
	case "destinations":
		return float64(p.Destinations)
	case "rate":
		if p.Rate.OfMax > 0 {
			return p.Rate.OfMax * 100
		}
		return p.Rate.PerSecond
	}
	return 0
}
