package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestShipped reads every scenario, and finds all that the benchmark promises.
func TestShipped(t *testing.T) {
	all, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]*Scenario)
	for _, s := range all {
		found[s.Name] = s
		if s.Title == s.Name || s.About == "" {
			t.Errorf("%s says nothing about itself", s.Name)
		}
		// What a run stores is what it would be run with again.
		again, err := Parse(s.Name, []byte(s.YAML()))
		if err != nil || again.YAML() != s.YAML() {
			t.Errorf("%s is not the same when it is read again: %v", s.Name, err)
		}
	}
	for name, points := range map[string]int{
		"throughput": 3, "latency": 3, "scaling": 5, "scaling-grid": 9, "scaling-latency": 5, "fan-out": 3, "catch-up": 1, "destinations": 4,
		"backlog": 1, "restart": 1, "work-queue": 3, "request-reply": 1, "benefits": 1,
		"commits": 2, "transactions": 2, "transactions-latency": 2, "exactly-once": 2, "exactly-once-latency": 1,
	} {
		if s := found[name]; s == nil || len(s.Points()) != points {
			t.Errorf("%s has not %d points, or is not shipped", name, points)
		}
	}
}

// TestPoints combines all lists, and pairs what goes up together.
func TestPoints(t *testing.T) {
	s, err := Parse("x", []byte(`{message: {size: [100, 1KiB]}, clients: {producers: [1, 4], consumers: [2, 8], together: true}, rate: [max, 50%, 1000], axis: producers}`))
	if err != nil {
		t.Fatal(err)
	}
	points := s.Points()
	if len(points) != 12 {
		t.Fatalf("%d points", len(points))
	}
	last := points[11]
	if last.Size != 1024 || last.Producers != 4 || last.Consumers != 8 || last.Rate.PerSecond != 1000 || s.X(last) != 4 {
		t.Fatalf("last point %+v", last)
	}
	if p := s.Params(last); p["size"] != "1KiB" || p["rate"] != "1000" || p["destinations"] != "" {
		t.Fatalf("params %v", p)
	}
	if r := points[1].Rate; r.Max() || r.OfMax != 0.5 || r.String() != "50%" {
		t.Fatalf("rate %+v", r)
	}
}

// TestAtomicPoints has every rate with and without batches, and says so only where both are measured.
func TestAtomicPoints(t *testing.T) {
	s, err := Parse("x", []byte(`{clients: {atomic: [0s, 100ms]}, rate: [max, 1000]}`))
	if err != nil {
		t.Fatal(err)
	}
	points := s.Points()
	if len(points) != 4 || points[0].Atomic != 0 || points[1].Atomic != 100*time.Millisecond || !points[1].Rate.Max() || points[3].Rate.PerSecond != 1000 {
		t.Fatalf("points %+v", points)
	}
	if a, b := s.Params(points[0])["atomic"], s.Params(points[1])["atomic"]; a != "none" || b != "100ms" {
		t.Fatalf("%q and %q", a, b)
	}
	if s, err = Parse("x", []byte(`{clients: {atomic: [100ms]}}`)); err != nil || s.Params(s.Points()[0])["atomic"] != "" {
		t.Fatalf("%v, %v", s, err)
	}
}

// TestRefused names the field, and what it may be.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                            "is empty",
		`{unknown: 1}`:                "unknown",
		`{kind: magic}`:               `kind "magic"`,
		`{message: {size: [39]}}`:     "message.size 39 is not between",
		`{message: {size: [2MiB]}}`:   "message.size 2MiB",
		`{message: {size: [x]}}`:      `"x" is not a size`,
		`{clients: {producers: [0]}}`: "clients.producers: 0",
		`{clients: {producers: [1, 2], together: true}}`: "as many producers as consumers",
		`{clients: {ack: sometimes}}`:                    "clients.ack",
		`{rate: [150%]}`:                                 "a percentage of the maximum",
		`{rate: [-5]}`:                                   "neither max",
		`{rate: [nan]}`:                                  "neither max",
		`{rate: [nan%]}`:                                 "a percentage",
		`{backlog: {size: nan}}`:                         "is not a size",
		`{duration: soon}`:                               "is not a time",
		`{arrivals: never}`:                              "arrivals",
		`{axis: sideways}`:                               "axis",
		`{rounds: 10000}`:                                "rounds: 10000",
		`{clients: {commit: 5}}`:                         "clients.commit: 5",
		`{kind: commits, clients: {commit: -1}, backlog: {size: 1MiB}}`: "clients.commit: -1",
		`{kind: commits}`:                                     "backlog.size or backlog.of_memory",
		`{kind: transform}`:                                   "backlog.size",
		`{clients: {atomic: [1m]}}`:                           "clients.atomic: 1m0s is more than 30s",
		`{clients: {atomic: [1s], ack: each}}`:                "clients.ack is batch, not each",
		`{kind: requests, clients: {atomic: [1s]}}`:           "kind requests has no atomic batches",
		`{kind: backlog}`:                                     "backlog.size or backlog.of_memory",
		`{kind: catchup, backlog: {size: 1MiB}, rate: [max]}`: "a rate in messages a second",
		`{clients: {producers: [` + strings.Repeat("1,", 200) + `1], consumers: [1,1,1,1,1,1,1]}}`: "combinations",
		"{message: {keys: 1000000}, clients: {producers: [100]}}":                                  "sequences to be checked",
		strings.Repeat("#", maxFile+1):                                                             "bytes are more than",
	} {
		if _, err := Parse("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// TestLoad takes a name or a file.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte("duration: 90s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil || s.Name != "mine" || time.Duration(s.Duration) != 90*time.Second || s.Rounds != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err = Load("latency"); err != nil || s.Axis != "rate" {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err = Load("nothing"); err == nil || !strings.Contains(err.Error(), "godwit bench list") {
		t.Fatalf("%v", err)
	}
}

// FuzzParse reads anything without a panic, and what it accepts it can write and read again.
func FuzzParse(f *testing.F) {
	all, err := Shipped()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range all {
		f.Add([]byte(s.YAML()))
	}
	f.Add([]byte("{rate: [1e3, 5%], message: {size: [0.5KiB]}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("x", text)
		if err != nil {
			return
		}
		again, err := Parse("x", []byte(s.YAML()))
		if err != nil || len(again.Points()) != len(s.Points()) {
			t.Fatalf("%q became %q: %v", text, s.YAML(), err)
		}
	})
}
