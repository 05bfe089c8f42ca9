package result

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample() *Run {
	return &Run{
		Format: Format, Started: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), Ended: time.Date(2026, 12, 1, 11, 0, 0, 0, time.UTC), Godwit: "godwit 1",
		Commands: []string{"godwit bench run throughput"}, Machine: Machine{CPU: "some", Cores: 2, MemoryMB: 1024, System: "Linux", Disk: "ext4"},
		Targets: []Target{{Name: "a", Version: "1", Durability: Durability{Grade: GradeSynced, Acked: 10, Covered: 10, Syncs: 10, Files: []string{"wal"}}}},
		Scenarios: []Scenario{{Name: "throughput", Spec: "size: 100", Cells: []Cell{{
			Target: "a", Params: map[string]string{"size": "100"}, Rounds: []Round{{Figures: map[Figure]float64{ThroughputPerSecond: 10}, EndToEnd: curve(1, 2)}},
		}}}},
	}
}

func saved(t *testing.T, r *Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Save(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSaveAndLoad(t *testing.T) {
	want := sample()
	got, err := Load(strings.NewReader(saved(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestOddFiguresDoNotCostTheRun(t *testing.T) {
	r := sample()
	round := &r.Scenarios[0].Cells[0].Rounds[0]
	round.Figures[TailSlowdown] = math.Inf(1)
	round.Producer = curve(math.NaN(), 1)
	got, err := Load(strings.NewReader(saved(t, r)))
	if err != nil {
		t.Fatal(err)
	}
	g := got.Scenarios[0].Cells[0].Rounds[0]
	if len(g.Figures) != 1 || g.Producer != nil || g.EndToEnd == nil || len(g.Notes) != 2 {
		t.Errorf("got %+v", g)
	}
	if len(round.Figures) != 2 || round.Producer == nil || round.Notes != nil {
		t.Error("saving changed the run")
	}
}

func TestLoadRefuses(t *testing.T) {
	good := saved(t, sample())
	for name, c := range map[string]struct{ text, say string }{
		"newer":           {strings.Replace(good, `"format": 1`, `"format": 2`, 1), "use a newer godwit"},
		"newer, reshaped": {`{"format": 7, "targets": "elsewhere"}`, "use a newer godwit"},
		"no format":       {`{}`, "no format number"},
		"no JSON":         {"# Benchmark", "invalid character"},
		"two":             {good + good, "after top-level value"},
		"cut off":         {good[:len(good)/2], "unexpected end"},
		"short curve":     {strings.Replace(good, `"curve": [`, `"curve": [], "x": [`, 1), "latency curve of 0"},
		"below zero":      {strings.Replace(good, `"count": 1000`, `"count": -1`, 1), "below zero"},
		"unknown target":  {strings.Replace(good, `"target": "a"`, `"target": "b"`, 1), `no target "b"`},
		"nameless target": {strings.Replace(good, `"name": "a"`, `"name": ""`, 1), "empty or taken"},
		"unknown grade":   {strings.Replace(good, `"grade": "synced"`, `"grade": "safe"`, 1), `"safe"`},
		"unknown score":   {strings.Replace(good, `"figures":`, `"benefit": {"score": "good"}, "figures":`, 1), `"good"`},
		"too many":        {`{"format": 1, "targets": [` + strings.Repeat(`{},`, maxTargets) + `{}]}`, "at most"},
		"too deep":        {`{"format": 1, "x": ` + strings.Repeat("[", 1<<20), "depth"},
	} {
		_, err := Load(strings.NewReader(c.text))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: got %v, want an ErrFormat with %q", name, err, c.say)
		}
	}
}

// spaces is an endless file.
type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestLoadBoundsItsInput(t *testing.T) {
	if _, err := Load(spaces{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
	broken := errors.New("disk gone")
	if _, err := Load(io.MultiReader(strings.NewReader("{"), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestSaveRefusesWhatLoadWould(t *testing.T) {
	r := sample()
	r.Scenarios[0].Cells[0].Target = "nobody"
	if err := Save(io.Discard, r); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("got %v", err)
	}
}

// FuzzLoad loads anything: what is taken can be summed up, merged with itself, saved and loaded again.
func FuzzLoad(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Load(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("an error of no class: %v", err)
			}
			return
		}
		for i := range r.Scenarios {
			for j := range r.Scenarios[i].Cells {
				c := &r.Scenarios[i].Cells[j]
				c.Spread(CPUPerMillion)
				c.Curve(EndToEnd)
				c.Curve(Producer)
				c.Outcome()
				c.Audit()
				_ = c.Point()
			}
		}
		if _, err := Merge(r, r); err != nil {
			t.Fatalf("does not merge with itself: %v", err)
		}
		var out bytes.Buffer
		if err := Save(&out, r); err != nil {
			t.Fatalf("loaded, and cannot be saved: %v", err)
		}
		again, err := Load(&out)
		if err != nil {
			t.Fatalf("saved, and cannot be loaded: %v", err)
		}
		if a, b := fmt.Sprintf("%+v", again.Machine), fmt.Sprintf("%+v", r.Machine); a != b || len(again.Scenarios) != len(r.Scenarios) {
			t.Fatalf("changed on the way: %s, was %s", a, b)
		}
	})
}
