package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// owners is what the members of one consumer group said whose members keep partitions over a rebalance, in the order in
// which their lines arrived. TIME is in microseconds since 1970, by the one clock of the machine. Members print
//
//   - TIME P...  partitions P were assigned as well
//   - TIME P...  partitions P are about to be given up
//     l TIME P...  partitions P are lost
//     r P O V      the record at offset O of partition P, with value V, was processed
//     c P O        the commit of offset O was acknowledged
//     x TEXT       a commit was refused
//
// A tenure is the time in which a member has a partition. The rules that check holds it against:
//
//  1. A tenure reads its partition without a gap, and every record as it was written.
//  2. A member commits only what it processed, and only in its tenure.
//  3. Acknowledged commits of different tenures cover no record twice: who takes a partition over starts where the last
//     acknowledged commit of it is. This is all that at-least-once promises of duplicates.
//  4. So does one whose commits are never acknowledged, unless it was paused.
//  5. Every record is processed.
//  6. An acknowledged commit stays: the group's offsets, asked for from outside, are never below one.
//  7. No tenure begins while another of its partition surely lasts: until it was given up, or its member was told to leave, paused
//     or killed. One that was lost may have ended at any time.
type owners struct {
	mu        sync.Mutex
	tenures   map[int32][]*ownership          // by partition, in the order of their lines
	now       map[string]map[int32]*ownership // by member
	uncertain map[string]int64                // by member, until when its lines may be late: it was paused
	acked     map[int32]int64                 // the highest offset whose commit was seen acknowledged
	seen      map[int32]map[int64]*use        // every record that was processed
	refused   int                             // commits
	lost      int                             // tenures
	faults    []string                        // violations found while lines arrive
}

// ownership is one tenure. Times are in microseconds since 1970.
type ownership struct {
	member, kind string
	from         int64
	sure         int64 // until when it surely lasted; math.MaxInt64 if it does still
	late         bool  // its beginning may have been noted late
	first, next  int64 // what was processed; first is -1 until then
	acked        int64 // -1 until a commit was acknowledged
	before       int64 // what had been acknowledged when it began
}

// lateness is for how long what a member prints may be old news after it was paused.
const lateness = 15 * time.Second

func newOwners() *owners {
	return &owners{tenures: map[int32][]*ownership{}, now: map[string]map[int32]*ownership{}, uncertain: map[string]int64{},
		acked: map[int32]int64{}, seen: map[int32]map[int64]*use{}}
}

// disturbed notes what is about to be done to a member.
func (h *owners) disturbed(member string, what disturbance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch what {
	case paused:
		h.uncertain[member] = math.MaxInt64
	case resumed:
		h.uncertain[member] = now.Add(lateness).UnixMicro()
	}
	for _, t := range h.now[member] {
		t.sure = min(t.sure, now.UnixMicro())
		t.late = t.late || what == paused
	}
}

// line takes one line of a member.
func (h *owners) line(member, kind, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := strings.Fields(text)
	if len(f) == 0 {
		return
	}
	if f[0] == "x" {
		h.refused++
		return
	}
	words := f[1:]
	if f[0] == "r" {
		words = words[:min(2, len(words))] // the value need not be a number
	}
	n, err := numbers(words)
	switch {
	case f[0] == "+" && len(n) > 1 && err == nil:
		err = h.gained(member, kind, n[0], n[1:])
	case (f[0] == "-" || f[0] == "l") && len(n) > 1 && err == nil:
		err = h.ended(member, f[0] == "l", n[0], n[1:])
	case f[0] == "r" && len(f) == 4 && err == nil:
		err = h.processed(member, int32(n[0]), n[1], f[3])
	case f[0] == "c" && len(n) == 2 && err == nil:
		err = h.committed(member, int32(n[0]), n[1])
	default:
		err = fmt.Errorf("a line that nobody understands")
	}
	if err != nil {
		h.faults = append(h.faults, fmt.Sprintf("%s: %s: %v", member, text, err))
	}
}

func numbers(words []string) ([]int64, error) {
	out := make([]int64, len(words))
	for i, w := range words {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

func (h *owners) gained(member, kind string, at int64, partitions []int64) error {
	if h.now[member] == nil {
		h.now[member] = map[int32]*ownership{}
	}
	for _, n := range partitions {
		p := int32(n)
		if h.now[member][p] != nil {
			return fmt.Errorf("rule 1: it has %d already", p)
		}
		t := &ownership{member: member, kind: kind, from: at, sure: math.MaxInt64, late: h.uncertain[member] > at,
			first: -1, acked: -1, before: h.acked[p]}
		h.now[member][p] = t
		h.tenures[p] = append(h.tenures[p], t)
	}
	return nil
}

func (h *owners) ended(member string, lost bool, at int64, partitions []int64) error {
	for _, n := range partitions {
		t := h.now[member][int32(n)]
		if t == nil {
			return fmt.Errorf("rule 1: it has no partition %d", n)
		}
		delete(h.now[member], int32(n))
		if lost {
			h.lost++
			t.sure = t.from
		}
		t.sure = min(t.sure, at)
	}
	return nil
}

func (h *owners) processed(member string, p int32, o int64, value string) error {
	t := h.now[member][p]
	if t == nil {
		return fmt.Errorf("rule 1: partition %d is not assigned to it", p)
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
	switch {
	case u.value != value:
		return fmt.Errorf("rule 1: the value was %s when this offset was processed before", u.value)
	case t.first < 0:
		t.first, t.next = o, o+1
		if o < t.before && !t.late {
			return fmt.Errorf("rule 4: processed again, the commit of %d was acknowledged before this member got the partition", t.before)
		}
	case o != t.next:
		return fmt.Errorf("rule 1: offset %d expected", t.next)
	default:
		t.next++
	}
	return nil
}

func (h *owners) committed(member string, p int32, o int64) error {
	t := h.now[member][p]
	if t == nil || t.first < 0 || o > t.next || o <= t.first {
		return fmt.Errorf("rule 2: it has not processed that in this tenure")
	}
	t.acked = max(t.acked, o)
	h.acked[p] = max(h.acked[p], o)
	return nil
}

// commits are the highest acknowledged commits by partition, as they are now.
func (h *owners) commits() map[int32]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.acked)
}

// observed holds what the broker said, when asked for the group's offsets, against what was acknowledged before it was asked.
func (h *owners) observed(before, got map[int32]int64) {
	for p, o := range before {
		if got[p] < o {
			h.fault("rule 6: partition %d: the group's offset is %d, %d was acknowledged", p, got[p], o)
		}
	}
}

func (h *owners) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

// check holds the history against the rules; written are the values of all records, by partition and offset.
func (h *owners) check(written map[int32][]string) (summary, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := summary{refused: h.refused, kinds: map[string]int{}}
	faults := slices.Clone(h.faults)
	for _, p := range slices.Sorted(maps.Keys(written)) {
		s.tenures += len(h.tenures[p])
		missing, wrong := 0, 0
		for o, value := range written[p] {
			u := h.seen[p][int64(o)]
			if u == nil {
				missing++
				continue
			}
			if u.value != value {
				wrong++
			}
			s.records++
			s.again += u.times - 1
		}
		if missing > 0 {
			faults = append(faults, fmt.Sprintf("rule 5: partition %d: %d records of %d were never processed", p, missing, len(written[p])))
		}
		if wrong > 0 || len(h.seen[p]) > len(written[p]) {
			faults = append(faults, fmt.Sprintf("rule 1: partition %d: %d records with another value than was written; %d offsets of %d",
				p, wrong, len(h.seen[p]), len(written[p])))
		}
		faults = append(faults, h.twice(p, s.kinds)...)
		faults = append(faults, h.beside(p)...)
	}
	return s, violations(faults)
}

// violations is an error that has the first of them, or nil if there are none.
func violations(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%d violations:\n       %s", len(faults), strings.Join(faults[:min(len(faults), 8)], "\n       "))
}

// twice is rule 3 for one partition. It adds to kinds what was acknowledged.
func (h *owners) twice(p int32, kinds map[string]int) (faults []string) {
	var spans []*ownership
	for _, t := range h.tenures[p] {
		if t.acked >= 0 {
			spans = append(spans, t)
			kinds[t.kind] += int(t.acked - t.first)
		}
	}
	slices.SortStableFunc(spans, func(a, b *ownership) int { return int(a.first - b.first) })
	for i := 1; i < len(spans); i++ {
		if a, b := spans[i-1], spans[i]; b.first < a.acked {
			faults = append(faults, fmt.Sprintf("rule 3: partition %d: %s was acknowledged %d to before %d, and %s %d to before %d",
				p, a.member, a.first, a.acked, b.member, b.first, b.acked))
		}
	}
	return faults
}

// beside is rule 7 for one partition.
func (h *owners) beside(p int32) (faults []string) {
	for _, b := range h.tenures[p] {
		if b.late || b.sure <= b.from {
			continue
		}
		for _, a := range h.tenures[p] {
			if a != b && a.from <= b.from && b.from < a.sure {
				faults = append(faults, fmt.Sprintf("rule 7: partition %d: %s got it at %s, %s had it from %s until %s", p,
					b.member, clockTime(b.from), a.member, clockTime(a.from), clockTime(a.sure)))
			}
		}
	}
	return faults
}

func clockTime(micros int64) string {
	if micros == math.MaxInt64 {
		return "now"
	}
	return time.UnixMicro(micros).Format("04:05.000")
}
