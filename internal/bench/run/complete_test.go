package run

import (
	"strings"
	"testing"

	"godwit/internal/bench/result"
)

// committed is a backlog of 400 messages for each of four subscriptions, with a commit after every tenth.
const committed = `{kind: commits, message: {size: [100]}, clients: {subscriptions: [4], commit: 10}, backlog: {size: 160000}, duration: %, rounds: 1}`

// TestCommits counts every commit and no other, as long as they take.
func TestCommits(t *testing.T) {
	o := only(t, measured(t, &memory{}, strings.Replace(committed, "%", "10s", 1)))
	if a := *o.Audit; a.Delivered != 1600 || a.Lost != 0 {
		t.Fatalf("audit %+v", a)
	}
	// 40 commits of each of four consumers, one after the other; all consumers at once.
	rate, p50, most := o.Figures[result.CommitsPerSecond], o.Figures[result.CommitP50], 4/commitTime.Seconds()
	if rate <= 0 || rate > most || p50 < commitTime.Seconds()*1e3*0.99 {
		t.Fatalf("%.0f commits a second, at most %.0f are possible; p50 %.3f ms", rate, most, p50)
	}
	if p99 := o.Figures[result.CommitP99]; p99 < p50 {
		t.Fatalf("p99 %.3f ms below p50 %.3f ms", p99, p50)
	}
	if line := outcome(&o); !strings.Contains(line, "commits/s") {
		t.Fatalf("the outcome says nothing of commits: %s", line)
	}
}

// TestCommitsOver ends with the time, and the rest of the backlog is read without commits.
func TestCommitsOver(t *testing.T) {
	o := only(t, measured(t, &memory{}, strings.Replace(committed, "%", "20ms", 1)))
	if a := *o.Audit; a.Delivered != 1600 {
		t.Fatalf("audit %+v", a)
	}
	if n := o.Figures[result.CommitsPerSecond]; n <= 0 || n > 4/commitTime.Seconds() {
		t.Fatalf("%.0f commits a second", n)
	}
}

// TestCommitsFailed has no figure where nothing was committed.
func TestCommitsFailed(t *testing.T) {
	cells := measured(t, &memory{failCommits: true}, strings.Replace(committed, "%", "10s", 1))
	o := cells[0].Rounds[0]
	if !strings.Contains(o.Error, "no consumer made its place durable") || !strings.Contains(strings.Join(o.Notes, "\n"), "no room") {
		t.Fatalf("error %q, notes %q", o.Error, o.Notes)
	}
	if _, ok := o.Figures[result.CommitsPerSecond]; ok {
		t.Fatalf("figures %v", o.Figures)
	}
}

// TestTransform audits at the second destination: a backlog, and at a rate.
func TestTransform(t *testing.T) {
	cells := measured(t, &memory{}, `{kind: transform, message: {size: [100]}, clients: {producers: [2], consumers: [2], atomic: [0s, 50ms]},
  rate: [max, 2000], backlog: {size: 400000}, duration: 100ms, rounds: 1}`)
	if len(cells) != 4 {
		t.Fatalf("%d cells", len(cells))
	}
	for i, c := range cells {
		o := c.Rounds[0]
		if o.Error != "" || o.Audit.Lost != 0 || o.Audit.Delivered != o.Audit.Acked || o.Audit.Acked == 0 || o.Figures[result.ThroughputPerSecond] <= 0 {
			t.Errorf("cell %d: %q, audit %+v, figures %v", i, o.Error, o.Audit, o.Figures)
		}
		share, has := o.Figures[result.AtomicShare]
		if want := i == 1; has != want {
			t.Errorf("cell %d has a share of that without batches: %v, want %v", i, has, want)
		} else if want {
			if plain := cells[0].Rounds[0].Figures[result.ThroughputPerSecond]; share != o.Figures[result.ThroughputPerSecond]/plain {
				t.Errorf("share %v of %v", share, plain)
			}
		}
		if backlog := i < 2; (o.EndToEnd == nil) != backlog {
			t.Errorf("cell %d has latencies: %v", i, o.EndToEnd != nil)
		}
	}
}

// TestTransformDrops is told by the audit of what was lost on the way.
func TestTransformDrops(t *testing.T) {
	o := only(t, measured(t, &memory{dropEvery: 1000}, `{kind: transform, message: {size: [100]}, rate: [max], backlog: {size: 400000}, rounds: 1}`))
	if o.Audit.Lost != 7 || o.Figures[result.ThroughputPerSecond] != 0 { // 4 at the first destination, 3 of 3,996 at the second
		t.Fatalf("audit %+v, figures %v", *o.Audit, o.Figures)
	}
}

// TestNoBatches has no figure where the protocol has no such thing.
func TestNoBatches(t *testing.T) {
	for _, text := range []string{
		strings.Replace(committed, "%", "1s", 1),
		`{kind: transform, clients: {atomic: [50ms]}, backlog: {size: 1KiB}, rounds: 1}`,
		`{kind: load, clients: {atomic: [50ms]}, duration: 50ms, rounds: 1}`,
	} {
		cells := measured(t, &memory{plain: true}, text)
		if len(cells) != 1 || cells[0].Unsupported == "" || len(cells[0].Rounds) != 0 {
			t.Errorf("%s: %+v", text, cells)
		}
	}
}
