package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"godwit/interop/canon"
)

// deliveries is what the members of one share group said. Each line but x has the time in microseconds since 1970, by the one clock of the
// machine, so that it does not matter in which order lines of different members arrive. Members print
//
//	p TIME            a poll begins
//	d TIME P O N V    the record at offset O of partition P, with value V, was delivered for the N-th time
//	y TIME P O A      it is about to be answered with A: 1 accepted, 2 released, 3 rejected, 4 renewed
//	k TIME P O A      the broker took the answer
//	n TIME P O A TEXT the broker refused the answer, or nobody knows
//	x TEXT            a poll failed
//
// The rules that check holds it against. The count of deliveries tells the order in which members had a record; no clock is needed for it.
//
//  1. Every record is as it was written, no count is delivered twice, and none is above the limit.
//  2. After an answer that ends a record (accepted, rejected) was taken, no higher count is delivered, and no other such answer taken.
//  3. A member has what it was delivered until it released it, its lock ran out, or its session ended: nobody gets it before.
//  4. A count that no member saw was on its way to one that was killed, left or stopped, or when the broker was killed.
//  5. Nothing vanishes: each record was accepted, or has one letter in the dead-letter topic, which says why: a member rejected it, or
//     it was delivered as often as may be.
//  6. The start of the group in a partition, asked for from outside, never falls, and nothing before it is acquired any more.
type deliveries struct {
	limit int           // of the count
	lock  time.Duration // of a record
	loose bool          // counts may come twice: the broker forgets some of them when it is killed, or does not count

	mu      sync.Mutex
	records map[spot]*lot
	polls   map[string][3]int64       // when the last polls of a member began, the latest first
	holding map[string]map[spot]*hold // what each member was delivered last, of each record
	upsets  map[string][]int64        // by member, when its session may have ended
	any     []int64                   // all of those
	starts  map[int32][]start         // by partition, as they were seen
	counts  map[string]int            // of answers that were taken, by kind of member and answer
	unsure  int
	faults  []string
}

// spot is the place of a record.
type spot struct {
	partition int32
	offset    int64
}

// lot is what became of a record.
type lot struct {
	value string
	holds []*hold
}

// hold is one delivery. Times are in microseconds since 1970.
type hold struct {
	member, kind string
	count        int
	since, at    int64         // it was acquired between these
	asked        map[int]int64 // when each answer was first sent
	taken        map[int]int64 // when the broker's word on it came
}

type start struct{ at, offset int64 }

func newDeliveries(limit int, lock time.Duration) *deliveries {
	return &deliveries{limit: limit, lock: lock, records: map[spot]*lot{}, polls: map[string][3]int64{}, holding: map[string]map[spot]*hold{},
		upsets: map[string][]int64{}, starts: map[int32][]start{}, counts: map[string]int{}}
}

// disturbed notes what is about to be done to a member, or to the broker.
func (h *deliveries) disturbed(member string, _ disturbance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.upset(member, time.Now().UnixMicro())
}

func (h *deliveries) upset(member string, at int64) {
	h.upsets[member] = append(h.upsets[member], at)
	h.any = append(h.any, at)
}

// line takes one line of a member.
func (h *deliveries) line(member, kind, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := strings.Fields(text)
	if len(f) == 0 {
		return
	}
	if f[0] == "x" {
		h.upset(member, time.Now().UnixMicro())
		return
	}
	n, err := numbers(f[1:min(len(f), 5)])
	switch {
	case err != nil || len(n) == 0:
		err = fmt.Errorf("a line that nobody understands")
	case f[0] == "p":
		last := h.polls[member]
		h.polls[member] = [3]int64{n[0], last[0], last[1]}
	case f[0] == "d" && len(f) == 6:
		h.delivered(member, kind, &hold{at: n[0], count: int(n[3])}, spot{int32(n[1]), n[2]}, f[5])
	case len(n) == 4:
		err = h.answer(member, f[0], n[0], spot{int32(n[1]), n[2]}, int(n[3]))
	default:
		err = fmt.Errorf("a line that nobody understands")
	}
	if err != nil {
		h.faults = append(h.faults, fmt.Sprintf("%s: %s: %v", member, text, err))
	}
}

func (h *deliveries) delivered(member, kind string, d *hold, at spot, value string) {
	// A client may fetch for the next poll in the background, so that the record may have been acquired in the poll before.
	d.member, d.kind, d.since = member, kind, h.polls[member][2]
	d.asked, d.taken = map[int]int64{}, map[int]int64{}
	l := h.records[at]
	if l == nil {
		l = &lot{value: value}
		h.records[at] = l
	}
	if l.value != value {
		h.faults = append(h.faults, fmt.Sprintf("rule 1: partition %d, offset %d is %s, it was %s before", at.partition, at.offset, value, l.value))
	}
	l.holds = append(l.holds, d)
	if h.holding[member] == nil {
		h.holding[member] = map[spot]*hold{}
	}
	h.holding[member][at] = d
}

func (h *deliveries) answer(member, what string, time int64, at spot, answer int) error {
	d := h.holding[member][at]
	if d == nil {
		return fmt.Errorf("it was not delivered to this member")
	}
	switch what {
	case "y":
		if _, ok := d.asked[answer]; !ok {
			d.asked[answer] = time
		}
	case "k":
		d.taken[answer] = time
		h.counts[d.kind+" "+answers[answer]]++
	case "n":
		h.unsure++
		h.upset(member, time)
	default:
		return fmt.Errorf("a line that nobody understands")
	}
	return nil
}

var answers = map[int]string{canon.Accept: "accepted", canon.Release: "released", canon.Reject: "rejected", canon.Renew: "renewed"}

// observed notes the start of the group in a partition, as the broker said it after the time before.
func (h *deliveries) observed(partition int32, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.starts[partition]
	if n := len(seen); n > 0 && seen[n-1].offset > offset {
		h.faults = append(h.faults, fmt.Sprintf("rule 6: the start in partition %d fell from %d to %d", partition, seen[n-1].offset, offset))
	}
	h.starts[partition] = append(seen, start{time.Now().UnixMicro(), offset})
}

func (h *deliveries) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

// soFar are the violations that were found while lines arrived.
func (h *deliveries) soFar() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return violations(h.faults)
}

// letter is a record of the dead-letter topic.
type letter struct {
	rejected bool // or else delivered too often
	count    int
	value    string
}

// audit is what a history was worth.
type audit struct{ records, again, rejected, limit, unseen int }

// check holds the history against the rules, as often as it is asked to; written are the values of all records, by partition and offset.
func (h *deliveries) check(written map[int32][]string, letters map[spot][]letter) (audit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var a audit
	faults := slices.Clone(h.faults)
	slices.Sort(h.any)
	for _, times := range h.upsets {
		slices.Sort(times)
	}
	for _, p := range slices.Sorted(maps.Keys(written)) {
		for o, value := range written[p] {
			at := spot{p, int64(o)}
			l := h.records[at]
			if l == nil {
				l = &lot{value: value}
			}
			a.records++
			a.again += max(0, len(l.holds)-1)
			slices.SortStableFunc(l.holds, func(x, y *hold) int { return x.count - y.count })
			h.doubt(l)
			for _, text := range slices.Concat(h.order(l, value, &a), h.alone(l), h.fate(l, letters[at], &a), h.gone(l, at)) {
				faults = append(faults, fmt.Sprintf("partition %d, offset %d: %s", p, o, text))
			}
		}
	}
	for at := range letters {
		if at.offset >= int64(len(written[at.partition])) {
			faults = append(faults, fmt.Sprintf("rule 5: a letter for %v, which was never written", at))
		}
	}
	return a, violations(faults)
}

// doubt leaves out answers that came when the member may have lost the record already. They are taken all the same, without effect, once
// the group begins behind the record.
func (h *deliveries) doubt(l *lot) {
	for _, d := range l.holds {
		lost := func(t int64) bool {
			return within(h.upsets[d.member], d.since, t) || within(h.upsets[sharedBroker], d.since, t)
		}
		end := d.since + h.lock.Microseconds()
		if t, ok := d.taken[canon.Renew]; ok && t < end && !lost(t) {
			end = d.asked[canon.Renew] + h.lock.Microseconds()
		}
		maps.DeleteFunc(d.taken, func(_ int, t int64) bool { return t >= end || lost(t) })
	}
}

// order is rules 1, 2 and 4 for one record.
func (h *deliveries) order(l *lot, value string, a *audit) (faults []string) {
	if l.value != value {
		faults = append(faults, fmt.Sprintf("rule 1: delivered as %s, written as %s", l.value, value))
	}
	before, last, ended := int64(0), 0, ""
	for _, d := range l.holds {
		if d.count > h.limit || d.count < 1 || (d.count == last && !h.loose) {
			faults = append(faults, fmt.Sprintf("rule 1: delivery %d to %s, the one before was %d, the limit is %d", d.count, d.member, last, h.limit))
		}
		if d.count > last+1 {
			a.unseen += d.count - last - 1
			if !within(h.any, before, d.at) && !h.loose {
				faults = append(faults, fmt.Sprintf("rule 4: delivery %d to %s at %s follows %d, and nothing happened between", d.count, d.member, clockTime(d.at), last))
			}
		}
		if ended != "" {
			faults = append(faults, fmt.Sprintf("rule 2: delivery %d to %s at %s, but %s", d.count, d.member, clockTime(d.at), ended))
		}
		for _, end := range []int{canon.Accept, canon.Reject} {
			if t, ok := d.taken[end]; ok {
				if ended != "" {
					faults = append(faults, fmt.Sprintf("rule 2: ended twice, the second time by %s at %s; before, %s", d.member, clockTime(t), ended))
				}
				ended = fmt.Sprintf("%s had it %s at %s, delivery %d", d.member, answers[end], clockTime(t), d.count)
			}
		}
		before, last = d.at, d.count
	}
	return faults
}

// within reports whether one of the sorted times is in [from, to].
func within(times []int64, from, to int64) bool {
	i, _ := slices.BinarySearch(times, from)
	return i < len(times) && times[i] <= to
}

// alone is rule 3 for one record.
func (h *deliveries) alone(l *lot) (faults []string) {
	for i, next := range l.holds {
		if i == 0 {
			continue
		}
		d := l.holds[i-1]
		held := d.since
		if t, ok := d.taken[canon.Renew]; ok && t < next.at {
			held = max(held, d.asked[canon.Renew])
		}
		released, ok := d.asked[canon.Release]
		switch {
		case ok && released <= next.at,
			next.at >= held+h.lock.Microseconds(),
			slices.ContainsFunc(h.upsets[d.member], func(t int64) bool { return t >= d.since && t <= next.at+tellLate }),
			slices.ContainsFunc(h.upsets[sharedBroker], func(t int64) bool { return t >= d.since && t <= next.at }):
			continue
		}
		faults = append(faults, fmt.Sprintf("rule 3: delivery %d to %s at %s, but %s had it since %s, at its delivery %d",
			next.count, next.member, clockTime(next.at), d.member, clockTime(held), d.count))
	}
	return faults
}

// tellLate is how long after its cause a member may tell of it that a request failed, in microseconds.
const tellLate = 8_000_000

// fate is rule 5 for one record.
func (h *deliveries) fate(l *lot, letters []letter, a *audit) (faults []string) {
	asked := func(answer int) bool {
		return slices.ContainsFunc(l.holds, func(d *hold) bool { _, ok := d.asked[answer]; return ok })
	}
	taken := func(answer int) bool {
		return slices.ContainsFunc(l.holds, func(d *hold) bool { _, ok := d.taken[answer]; return ok })
	}
	fault := func(format string, args ...any) { faults = append(faults, "rule 5: "+fmt.Sprintf(format, args...)) }
	if len(letters) > 1 {
		fault("%d dead letters: %v", len(letters), letters)
	}
	if len(letters) == 0 {
		if !asked(canon.Accept) {
			fault("gone without a dead letter, and nobody accepted it: %s", lived(l))
		} else if taken(canon.Reject) {
			fault("rejected, but it has no dead letter")
		}
		return faults
	}
	x := letters[0]
	switch {
	case x.value != l.value:
		fault("its dead letter has value %s, it had %s", x.value, l.value)
	case taken(canon.Accept):
		fault("accepted, but it has a dead letter: %v", x)
	case x.rejected && !asked(canon.Reject):
		fault("its dead letter says rejected, which nobody did")
	case !x.rejected && (x.count != h.limit || taken(canon.Reject)):
		fault("its dead letter says delivered too often: %d times; a member rejected it: %v", x.count, taken(canon.Reject))
	}
	if x.rejected {
		a.rejected++
	} else {
		a.limit++
	}
	return faults
}

// gone is rule 6 for one record.
func (h *deliveries) gone(l *lot, at spot) (faults []string) {
	seen := h.starts[at.partition]
	i, _ := slices.BinarySearchFunc(seen, at.offset+1, func(s start, offset int64) int { return int(s.offset - offset) })
	if i == len(seen) {
		return nil
	}
	for _, d := range l.holds {
		if d.since > seen[i].at {
			faults = append(faults, fmt.Sprintf("rule 6: delivery %d to %s at %s, but the group had begun at %d at %s", d.count, d.member,
				clockTime(d.at), seen[i].offset, clockTime(seen[i].at)))
		}
	}
	return faults
}

// lived is the history of a record in words.
func lived(l *lot) string {
	var said []string
	for _, d := range l.holds {
		text := strconv.Itoa(d.count) + " to " + d.member + " at " + clockTime(d.at)
		for _, answer := range slices.Sorted(maps.Keys(d.asked)) {
			text += ", " + answers[answer]
			if _, ok := d.taken[answer]; !ok {
				text += "?"
			}
		}
		said = append(said, text)
	}
	return strings.Join(said, "; ")
}
