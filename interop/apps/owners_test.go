package main

import (
	"strings"
	"testing"
)

// play feeds lines, "member: line", to a function that takes lines of members.
func play(text string, line func(member, kind, text string)) {
	for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
		member, said, _ := strings.Cut(strings.TrimSpace(l), ": ")
		line(member, "kind", said)
	}
}

// wantFault fails if err does not have the words, or, if there are none, is not nil.
func wantFault(t *testing.T, err error, words string) {
	t.Helper()
	switch {
	case words == "" && err != nil:
		t.Errorf("%v", err)
	case words != "" && (err == nil || !strings.Contains(err.Error(), words)):
		t.Errorf("no fault with %q, but %v", words, err)
	}
}

func TestOwners(t *testing.T) {
	const good = `
		a: + 1000 7
		a: r 7 0 v0
		a: c 7 1
		a: - 2000 7
		b: + 2001 7
		b: r 7 1 v1
		b: c 7 2`
	for _, c := range []struct{ name, text, fault string }{
		{"in order", good, ""},
		{"a gap", "a: + 1 7\na: r 7 0 v0\na: r 7 2 v2", "rule 1: offset 1 expected"},
		{"not its own", "a: r 7 0 v0", "rule 1: partition 7 is not assigned"},
		{"another value", strings.Replace(good, "v1", "v9", 1), "rule 1: partition 7: 1 records"},
		{"commits what it did not process", "a: + 1 7\na: r 7 0 v0\na: c 7 2", "rule 2"},
		{"commits after it gave up", "a: + 1 7\na: r 7 0 v0\na: - 2 7\na: c 7 1", "rule 2"},
		{"twice", good + "\nc: + 1 7\nc: r 7 0 v0\nc: c 7 1", "rule 3"},
		{"processed again", strings.Replace(good, "b: r 7 1 v1", "b: r 7 0 v0\nb: r 7 1 v1", 1), "rule 4"},
		{"never processed", "a: + 1000 7\na: r 7 0 v0\na: c 7 1", "rule 5: partition 7: 1 records"},
		{"two at a time", strings.Replace(good, "2000", "2002", 1), "rule 7"},
		{"two in the end", strings.Replace(good, "a: - 2000 7\n", "", 1), "rule 7"},
		{"lost", strings.Replace(good, "a: - 2000 7\n", "b: x timed out\n", 1) + "\na: l 9000 7", ""},
		{"nonsense", good + "\na: hello", "nobody understands"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newOwners()
			play(c.text, h.line)
			_, err := h.check(map[int32][]string{7: {"v0", "v1"}})
			wantFault(t, err, c.fault)
		})
	}
	h := newOwners()
	play(good, h.line)
	h.observed(h.commits(), map[int32]int64{7: 1})
	_, err := h.check(map[int32][]string{7: {"v0", "v1"}})
	wantFault(t, err, "rule 6")
}
