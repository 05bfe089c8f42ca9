package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// history is what the members of one consumer group said, in the order in which their lines arrived. Members print
//
//	a P...       partitions P were assigned; what was assigned before is not any more
//	r P O V      the record at offset O of partition P, with value V, was processed
//	c P O        the commit of offset O was acknowledged
//	x TEXT       a commit was refused
//
// A tenure is the time from one assignment of a member to the next. The rules that check holds it against:
//
//  1. A tenure reads its partitions without a gap, and every record as it was written.
//  2. A member commits only what it processed.
//  3. Acknowledged commits of different tenures cover no record twice: who takes a partition over starts where the last
//     acknowledged commit of it is. This is all that at-least-once promises of duplicates, and needs no clock.
//  4. So does one whose commits are never acknowledged, unless it was paused (such a one may have lost the partition long
//     ago, and work off what it holds in memory).
//  5. Every record is processed.
//  6. An acknowledged commit stays: the group's offsets, asked for from outside, are never below one.
type history struct {
	mu      sync.Mutex
	tenures []*tenure
	now     map[string]*tenure       // the current tenure of each member
	acked   map[int32]int64          // the highest offset whose commit was seen acknowledged, by partition
	seen    map[int32]map[int64]*use // every record that was processed
	refused int                      // commits
	faults  []string                 // violations found while lines arrive
}

// use is a record as members saw it.
type use struct {
	value string
	times int
}

type tenure struct {
	member string
	kind   string
	paused bool // the member was stopped during this tenure
	stale  bool // or during the one before: it may have got this assignment long before its line arrived
	claims map[int32]*claim
}

// claim is one partition in one tenure. first is -1 until a record was processed.
type claim struct {
	first, next int64
	acked       int64 // -1 until a commit was acknowledged
	before      int64 // what others had been acknowledged when the tenure began
}

func newHistory() *history {
	return &history{now: map[string]*tenure{}, acked: map[int32]int64{}, seen: map[int32]map[int64]*use{}}
}

// pause notes that a member is being stopped.
func (h *history) pause(member string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.now[member]; t != nil {
		t.paused = true
		return
	}
	h.now[member] = &tenure{member: member, paused: true}
}

// line takes one line of a member.
func (h *history) line(member, kind, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := strings.Fields(text)
	var err error
	switch {
	case len(f) == 0:
	case f[0] == "a":
		err = h.assigned(member, kind, f[1:])
	case f[0] == "x":
		h.refused++
	case f[0] == "r" && len(f) == 4, f[0] == "c" && len(f) == 3:
		var p, o int64
		if p, err = strconv.ParseInt(f[1], 10, 32); err == nil {
			o, err = strconv.ParseInt(f[2], 10, 64)
		}
		if err != nil {
			break
		}
		if f[0] == "c" {
			err = h.committed(member, int32(p), o)
			break
		}
		err = h.processed(member, int32(p), o, f[3])
	default:
		err = fmt.Errorf("a line that nobody understands")
	}
	if err != nil {
		h.faults = append(h.faults, fmt.Sprintf("%s: %s: %v", member, text, err))
	}
}

func (h *history) assigned(member, kind string, partitions []string) error {
	t := &tenure{member: member, kind: kind, claims: map[int32]*claim{}}
	if last := h.now[member]; last != nil {
		t.stale = last.paused
	}
	for _, s := range partitions {
		p, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return err
		}
		t.claims[int32(p)] = &claim{first: -1, acked: -1, before: h.acked[int32(p)]}
	}
	h.now[member] = t
	h.tenures = append(h.tenures, t)
	return nil
}

func (h *history) claim(member string, p int32) (*tenure, *claim, error) {
	t := h.now[member]
	if t == nil || t.claims[p] == nil {
		return nil, nil, fmt.Errorf("rule 1: partition %d is not assigned to it", p)
	}
	return t, t.claims[p], nil
}

func (h *history) processed(member string, p int32, o int64, value string) error {
	t, c, err := h.claim(member, p)
	if err != nil {
		return err
	}
	if h.seen[p] == nil {
		h.seen[p] = map[int64]*use{}
	}
	u := h.seen[p][o]
	if u == nil {
		u = &use{value: value}
		h.seen[p][o] = u
	}
	u.times++
	if u.value != value {
		return fmt.Errorf("rule 1: the value was %s when this offset was processed before", u.value)
	}
	if c.first < 0 {
		c.first, c.next = o, o+1
		if o < c.before && !t.paused && !t.stale {
			return fmt.Errorf("rule 4: processed again, the commit of %d was acknowledged before this member got the partition", c.before)
		}
		return nil
	}
	if o != c.next {
		return fmt.Errorf("rule 1: offset %d expected", c.next)
	}
	c.next++
	return nil
}

func (h *history) committed(member string, p int32, o int64) error {
	_, c, err := h.claim(member, p)
	if err != nil {
		return err
	}
	if c.first < 0 || o > c.next || o <= c.first {
		return fmt.Errorf("rule 2: committed, but processed from %d to before %d", c.first, c.next)
	}
	c.acked = max(c.acked, o)
	h.acked[p] = max(h.acked[p], o)
	return nil
}

// commits are the highest acknowledged commits by partition, as they are now.
func (h *history) commits() map[int32]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.acked)
}

// observed holds what the broker said, when asked for the group's offsets, against what was acknowledged before it was asked.
func (h *history) observed(before, got map[int32]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, o := range before {
		if got[p] < o {
			h.faults = append(h.faults, fmt.Sprintf("rule 6: partition %d: the group's offset is %d, %d was acknowledged", p, got[p], o))
		}
	}
}

// summary is what a history was worth.
type summary struct {
	tenures, records, again, refused int
	kinds                            map[string]int // acknowledged records by kind of client
}

// check holds the history against the rules; written are the values of all records, by partition and offset.
func (h *history) check(written map[int32][]string) (summary, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := summary{tenures: len(h.tenures), refused: h.refused, kinds: map[string]int{}}
	faults := slices.Clone(h.faults)
	for _, p := range slices.Sorted(maps.Keys(written)) {
		var missing, wrong []int64
		for o, value := range written[p] {
			switch u := h.seen[p][int64(o)]; {
			case u == nil:
				missing = append(missing, int64(o))
			case u.value != value:
				wrong = append(wrong, int64(o))
				fallthrough
			default:
				s.records++
				s.again += u.times - 1
			}
		}
		if len(missing) > 0 {
			faults = append(faults, fmt.Sprintf("rule 5: partition %d: %d records of %d were never processed, the first at offset %d",
				p, len(missing), len(written[p]), missing[0]))
		}
		if len(wrong) > 0 || len(h.seen[p]) > len(written[p]) {
			faults = append(faults, fmt.Sprintf("rule 1: partition %d: %d records with another value than was written, %v; %d offsets of %d",
				p, len(wrong), wrong[:min(len(wrong), 5)], len(h.seen[p]), len(written[p])))
		}
		faults = append(faults, h.overlaps(p, s.kinds)...)
	}
	if len(faults) > 0 {
		return s, fmt.Errorf("%d violations:\n       %s", len(faults), strings.Join(faults[:min(len(faults), 8)], "\n       "))
	}
	return s, nil
}

// overlaps is rule 3 for one partition. It adds to kinds what was acknowledged.
func (h *history) overlaps(p int32, kinds map[string]int) (faults []string) {
	type span struct {
		t        *tenure
		from, to int64
	}
	var spans []span
	for _, t := range h.tenures {
		if c := t.claims[p]; c != nil && c.acked >= 0 {
			spans = append(spans, span{t, c.first, c.acked})
			kinds[t.kind] += int(c.acked - c.first)
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return int(a.from - b.from) })
	for i := 1; i < len(spans); i++ {
		if a, b := spans[i-1], spans[i]; b.from < a.to {
			faults = append(faults, fmt.Sprintf("rule 3: partition %d: %s was acknowledged %d to before %d, and %s %d to before %d",
				p, a.t.member, a.from, a.to, b.t.member, b.from, b.to))
		}
	}
	return faults
}
