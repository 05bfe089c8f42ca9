package result

import (
	"reflect"
	"strings"
	"testing"
)

func TestMergeAppendsRounds(t *testing.T) {
	a, b := sample(), sample()
	b.Started, b.Ended = a.Started.Add(-1), a.Ended.Add(1)
	b.Commands = append(b.Commands, "another")
	b.Targets = append(b.Targets, Target{Name: "b"})
	b.Scenarios[0].Cells = append(b.Scenarios[0].Cells, Cell{Target: "a", Params: map[string]string{"size": "200"}}, Cell{Target: "b"})
	b.Targets[0].Durability = Durability{Grade: GradePartly, Acked: 10, Covered: 4, Syncs: 5, Files: []string{"wal", "meta"}}
	m, err := Merge(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Targets) != 2 || len(m.Scenarios) != 1 || len(m.Scenarios[0].Cells) != 3 || len(m.Scenarios[0].Cells[0].Rounds) != 2 {
		t.Errorf("got %+v", m)
	}
	if !m.Started.Equal(b.Started) || !m.Ended.Equal(b.Ended) || len(m.Commands) != 2 {
		t.Errorf("got %v to %v, commands %q", m.Started, m.Ended, m.Commands)
	}
	want := Durability{Grade: GradePartly, Acked: 20, Covered: 14, Syncs: 15, Files: []string{"wal", "meta"}}
	if got := m.Targets[0].Durability; !reflect.DeepEqual(got, want) {
		t.Errorf("durability %+v, want %+v", got, want)
	}
	if len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "weaker") {
		t.Errorf("notes %q", m.Notes)
	}
	if !reflect.DeepEqual(a, sample()) {
		t.Error("merging changed what was merged")
	}
}

func TestMergeKeepsApartWhatDiffers(t *testing.T) {
	a, b, c := sample(), sample(), sample()
	b.Targets[0].Version = "2"
	b.Scenarios[0].Spec = "size: 200"
	c.Targets[0].Config = "flushes every message"
	m, err := Merge(a, b, c, b, a)
	if err != nil {
		t.Fatal(err)
	}
	var targets, scenarios []string
	for _, x := range m.Targets {
		targets = append(targets, x.Name)
	}
	for _, x := range m.Scenarios {
		scenarios = append(scenarios, x.Name)
	}
	if got := strings.Join(targets, ","); got != "a,a (2),a (flushes every message)" {
		t.Errorf("targets %s", got)
	}
	if got := strings.Join(scenarios, ","); got != "throughput,throughput-2" {
		t.Errorf("scenarios %s", got)
	}
	if c := m.Scenarios[0].Cells; len(c) != 2 || len(c[0].Rounds) != 2 || c[1].Target != "a (flushes every message)" {
		t.Errorf("cells %+v", c)
	}
	if c := m.Scenarios[1].Cells; len(c) != 1 || len(c[0].Rounds) != 2 || c[0].Target != "a (2)" {
		t.Errorf("cells %+v", c)
	}
}

func TestMergeRefuses(t *testing.T) {
	a, b := sample(), sample()
	b.Machine.Cores = 64
	if _, err := Merge(a, b); err == nil || !strings.Contains(err.Error(), "different machines") {
		t.Errorf("got %v", err)
	}
	if _, err := Merge(); err == nil {
		t.Error("merged nothing")
	}
}

func TestMergeForgetsUnsupportedWhenItWorked(t *testing.T) {
	a, b := sample(), sample()
	a.Scenarios[0].Cells[0] = Cell{Target: "a", Params: map[string]string{"size": "100"}, Unsupported: "not yet"}
	m, err := Merge(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Scenarios[0].Cells; len(c) != 1 || c[0].Unsupported != "" || len(c[0].Rounds) != 1 {
		t.Errorf("cells %+v", c)
	}
}
