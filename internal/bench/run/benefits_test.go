package run

import (
	"strings"
	"testing"

	"godwit/internal/bench/result"
)

const everyBenefit = `{kind: benefits, message: {size: [100], keys: 2}, clients: {durable: true}, rate: [2000], duration: 300ms, rounds: 1}`

// scores are the benefits' scores by title.
func scores(t *testing.T, m *memory) map[string]*result.Benefit {
	t.Helper()
	all := make(map[string]*result.Benefit)
	for _, c := range measured(t, m, everyBenefit) {
		if len(c.Rounds) != 1 || c.Rounds[0].Benefit == nil {
			t.Fatalf("%s: %+v", c.Params["benefit"], c)
		}
		all[c.Params["benefit"]] = c.Rounds[0].Benefit
	}
	return all
}

// TestBenefitsKept has all of them kept by a target without faults.
func TestBenefitsKept(t *testing.T) {
	t.Parallel()
	all := scores(t, &memory{})
	if len(all) != 6 {
		t.Fatalf("%d benefits", len(all))
	}
	for title, b := range all {
		if b.Score != result.ScoreKept || b.Seconds < 0 || b.Timed == "" || b.Detail == "" {
			t.Errorf("%s: %+v", title, b)
		}
	}
	if b := all["reader told that its data was removed"]; b.Said != "offset out of range" {
		t.Errorf("said %q", b.Said)
	}
}

// TestBenefitsNotKept has a target lose what it should have kept, and say nothing of it.
func TestBenefitsNotKept(t *testing.T) {
	t.Parallel()
	all := scores(t, &memory{noDurable: true, silent: true, refuseEach: true})
	for title, want := range map[string]string{
		"receiver down for a while":             result.ScoreLost,
		"receiver's address changed":            result.ScoreLost,
		"n receivers each get all":              result.ScoreKept,
		"reader told that its data was removed": result.ScoreLost,
	} {
		if b := all[title]; b.Score != want {
			t.Errorf("%s: %+v, want %s", title, b, want)
		}
	}
}

// TestBenefitsRefused has a target take nothing: nothing is lost, and nothing is kept either.
func TestBenefitsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range measured(t, &memory{refuseAll: true}, everyBenefit) {
		r := c.Rounds[0]
		if b := r.Benefit; b != nil && (b.Score == result.ScoreKept || b.Seconds < 0) || b == nil && r.Error == "" {
			t.Errorf("%s: %+v", c.Params["benefit"], r)
		}
	}
}

// TestBenefitNotSeen has a target remove nothing: what a reader is told of removed messages is not known then.
func TestBenefitNotSeen(t *testing.T) {
	t.Parallel()
	for _, c := range measured(t, &memory{keepsAll: true}, everyBenefit) {
		if title := c.Params["benefit"]; title == "reader told that its data was removed" {
			if r := c.Rounds[0]; r.Benefit != nil || !strings.Contains(r.Error, "delivered them all") {
				t.Errorf("%s: %+v", title, r)
			}
			return
		}
	}
	t.Error("it was not tried")
}
