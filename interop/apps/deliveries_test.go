package main

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestDeliveries(t *testing.T) {
	// Offset 0 is accepted in its second delivery, offset 1 is rejected. Times are in milliseconds here.
	const good = `
		a: p 1
		a: p 2
		a: p 3
		a: d 4 7 0 1 v0
		a: d 4 7 1 1 v1
		a: y 5 7 0 2
		a: y 5 7 1 3
		a: k 6 7 0 2
		a: k 6 7 1 3
		b: p 1
		b: p 2
		b: p 3
		b: d 7 7 0 2 v0
		b: y 8 7 0 1
		b: k 9 7 0 1`
	rejected := []letter{{true, 1, "v1"}}
	for _, c := range []struct {
		name, old, new string
		first, second  []letter
		fault          string
	}{
		{name: "in order", second: rejected},
		{name: "another value", old: "2 v0", new: "2 v9", second: rejected, fault: "rule 1: partition 7, offset 0 is v9"},
		{name: "a count twice", old: "0 2 v0", new: "0 1 v0", second: rejected, fault: "rule 1: delivery 1 to b"},
		{name: "above the limit", old: "0 2 v0", new: "0 4 v0", second: rejected, fault: "rule 1: delivery 4 to b"},
		{name: "after it was accepted", old: "7 0 2\n", new: "7 0 1\n", second: rejected, fault: "rule 2: delivery 2 to b"},
		{name: "accepted twice", old: "7 0 2\n", new: "7 0 1\n", second: rejected, fault: "rule 2: ended twice"},
		{name: "held", old: "a: y 5 7 0 2\n\t\ta: y 5 7 1 3\n\t\ta: k 6 7 0 2", new: "a: y 5 7 1 3", second: rejected, fault: "rule 3: delivery 2 to b"},
		{name: "held by one whose poll failed", old: "a: y 5 7 0 2\n\t\ta: y 5 7 1 3\n\t\ta: k 6 7 0 2", new: "a: n 6 7 0 1 gone\na: y 5 7 1 3", second: rejected},
		{name: "its lock ran out", old: "b: d 7 7 0", new: "b: d 5000 7 0", second: rejected},
		{name: "a count that nobody saw", old: "0 2 v0", new: "0 3 v0", second: rejected, fault: "rule 4: delivery 3 to b"},
		{name: "rejected without a letter", fault: "rule 5: gone without a dead letter"},
		{name: "vanished", old: "a: y 5 7 1 3", new: "a: y 5 7 1 4", fault: "rule 5: gone without a dead letter"},
		{name: "two letters", second: append(rejected, rejected...), fault: "rule 5: 2 dead letters"},
		{name: "a letter of another value", second: []letter{{true, 1, "v2"}}, fault: "rule 5: its dead letter has value v2"},
		{name: "accepted and a letter", first: []letter{{false, 3, "v0"}}, second: rejected, fault: "rule 5: accepted, but"},
		{name: "too often, too early", old: "b: y 8 7 0 1\n\t\tb: k 9 7 0 1", new: "b: n 9 7 0 1 gone", first: []letter{{false, 2, "v0"}}, second: rejected,
			fault: "rule 5: its dead letter says delivered too often: 2"},
		{name: "not rejected", old: "b: y 8 7 0 1\n\t\tb: k 9 7 0 1", new: "b: n 9 7 0 1 gone", first: []letter{{true, 2, "v0"}}, second: rejected,
			fault: "rule 5: its dead letter says rejected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := good
			if c.old != "" {
				text = strings.ReplaceAll(good, c.old, c.new)
			}
			if text == good && c.old != "" {
				t.Fatal("the case changes nothing")
			}
			h := newDeliveries(3, time.Second)
			play(inMicros(text), h.line)
			_, err := h.check(map[int32][]string{7: {"v0", "v1"}}, map[spot][]letter{{7, 0}: c.first, {7, 1}: c.second})
			wantFault(t, err, c.fault)
		})
	}
}

// inMicros turns the times of lines from milliseconds to microseconds.
func inMicros(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if f := strings.Fields(l); len(f) > 2 {
			f[2] += "000"
			lines[i] = strings.Join(f, " ")
		}
	}
	return strings.Join(lines, "\n")
}

func TestDeliveriesBehindStart(t *testing.T) {
	h := newDeliveries(3, time.Second)
	h.observed(7, 1)
	h.observed(7, 0)
	wantFault(t, h.soFar(), "rule 6: the start in partition 7 fell from 1 to 0")

	h = newDeliveries(3, time.Second)
	h.observed(7, 1)
	later := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	play(strings.ReplaceAll("a: p T\na: p T\na: p T\na: d T 7 0 1 v0\na: y T 7 0 1", "T", later), h.line)
	_, err := h.check(map[int32][]string{7: {"v0"}}, nil)
	wantFault(t, err, "rule 6: delivery 1 to a")
}
