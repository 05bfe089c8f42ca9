package probe

import (
	"strings"
	"testing"
	"time"

	"godwit/internal/bench/result"
)

// epoch is when the scripts of these tests begin; everything in them is in milliseconds since.
var epoch = time.Now()

func at(ms float64) time.Time { return epoch.Add(time.Duration(ms * float64(time.Millisecond))) }

// sendEvery makes n intervals of a length, one each period, from a beginning on.
func sendEvery(n int, begin, period, length float64) (acks []Interval) {
	for i := range n {
		from := begin + float64(i)*period
		acks = append(acks, Interval{Sent: at(from), Acked: at(from + length)})
	}
	return acks
}

func syncEvery(n int, begin, period, length float64, path string) (syncs []Sync) {
	for i := range n {
		from := begin + float64(i)*period
		syncs = append(syncs, Sync{Begin: at(from), End: at(from + length), Call: "fsync", Path: path})
	}
	return syncs
}

func TestGrade(t *testing.T) {
	// Quiet for a second, then 100 messages, one each 20 ms, acknowledged after 10 ms.
	quiet := Interval{Sent: at(0), Acked: at(1000)}
	acks := sendEvery(100, 1000, 20, 10)
	// A checkpoint each 250 ms, also in the quiet time: begun at 1003, 1253 ... it covers the messages of 1000, 1500, ....
	checkpoints := syncEvery(12, 3, 250, 1, "checkpoint")
	for _, c := range []struct {
		name    string
		acks    []Interval
		syncs   []Sync
		grade   string
		covered int
		why     string
	}{
		{"each", acks, syncEvery(100, 1002, 20, 5, "log"), result.GradeSynced, 100, ""},
		{"each, with checkpoints", acks, append(syncEvery(100, 1002, 20, 5, "log"), checkpoints...), result.GradeSynced, 100, ""},
		{"all but one", acks, syncEvery(99, 1002, 20, 5, "log"), result.GradePartly, 99, ""},
		{"every tenth", acks, syncEvery(10, 1002, 200, 5, "log"), result.GradePartly, 10, ""},
		{"begun before it was sent", acks, syncEvery(100, 999, 20, 5, "log"), result.GradeUnsynced, 0, ""},
		{"ended after the acknowledgement", acks, syncEvery(100, 1002, 20, 9, "log"), result.GradeUnsynced, 0, ""},
		{"checkpoints only", acks, checkpoints, result.GradeUnsynced, 4, ""},
		{"by a clock that ticks 20 times a second", acks, syncEvery(60, 3, 50, 1, "log"), result.GradeUnsynced, 20, ""},
		{"all the time", acks, syncEvery(3000, 0, 1, 0.5, "log"), result.GradeUnknown, 100, "all the time"},
		{"nothing", acks, nil, result.GradeUnsynced, 0, ""},
		{"no messages", nil, checkpoints, result.GradeUnknown, 0, "no message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Grade(c.acks, quiet, c.syncs)
			if d.Grade != c.grade || d.Covered != c.covered || d.Acked != len(c.acks) || !strings.Contains(d.Why, c.why) || (c.why == "") != (d.Why == "") {
				t.Errorf("graded %+v, want %s, %d covered, because %q", d, c.grade, c.covered, c.why)
			}
		})
	}
}

// TestSyncsOfTheQuietTimeAreNotCounted: they were not made for messages.
func TestSyncsOfTheQuietTimeAreNotCounted(t *testing.T) {
	d := Grade(sendEvery(2, 1000, 20, 10), Interval{Sent: at(0), Acked: at(1000)}, append(syncEvery(4, 10, 250, 1, "checkpoint"), syncEvery(2, 1002, 20, 5, "log")...))
	if d.Syncs != 2 || len(d.Files) != 1 || d.Files[0] != "log" {
		t.Errorf("%+v, want 2 syncs of log", d)
	}
}

func TestChance(t *testing.T) {
	quiet := Interval{Sent: at(0), Acked: at(1010)}
	acks := sendEvery(3, 2000, 20, 10)
	for _, c := range []struct {
		name  string
		syncs []Sync
		want  float64
	}{
		{"none", nil, 0},
		// It has to begin within the 9 ms before a sync of 1 ms, so that both fit into 10 ms.
		{"four", syncEvery(4, 100, 200, 1, ""), 0.036},
		{"the same twice", append(syncEvery(4, 100, 200, 1, ""), syncEvery(4, 100, 200, 1, "")...), 0.036},
		{"longer than a message takes", syncEvery(4, 100, 200, 11, ""), 0},
		{"before and after", append(syncEvery(1, -50, 1, 1, ""), syncEvery(1, 1500, 1, 1, "")...), 0},
		{"always", syncEvery(1010, 0, 1, 0.5, ""), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p := chance(acks, quiet, c.syncs); p < c.want-0.002 || p > c.want+0.002 {
				t.Errorf("%v, want %v", p, c.want)
			}
		})
	}
	if p := chance(acks, Interval{}, syncEvery(4, 100, 200, 1, "")); p != 0 {
		t.Errorf("without a quiet time: %v", p)
	}
}
