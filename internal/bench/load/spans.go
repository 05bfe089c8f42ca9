package load

import "slices"

// span is the numbers from lo to before hi.
type span struct{ lo, hi uint64 }

// spans is a set of numbers.
//
// Invariant: sorted; no span is empty, and no two overlap or touch.
type spans []span

// find is the index of the first span that ends after x. Recent numbers are looked for most.
func (s spans) find(x uint64) int {
	n := len(s)
	if n == 0 || s[n-1].hi <= x {
		return n
	}
	if s[n-1].lo <= x {
		return n - 1
	}
	i, _ := slices.BinarySearchFunc(s, x, func(e span, x uint64) int {
		if e.hi <= x {
			return -1
		}
		return 1
	})
	return i
}

// add puts x in; false if it was there.
func (s *spans) add(x uint64) bool {
	v := *s
	i := v.find(x)
	if i < len(v) && v[i].lo <= x {
		return false
	}
	before := i > 0 && v[i-1].hi == x
	after := i < len(v) && v[i].lo == x+1
	switch {
	case before && after:
		v[i-1].hi = v[i].hi
		*s = slices.Delete(v, i, i+1)
	case before:
		v[i-1].hi++
	case after:
		v[i].lo--
	default:
		*s = slices.Insert(v, i, span{x, x + 1})
	}
	return true
}

// remove takes x out; false if it was not there.
func (s *spans) remove(x uint64) bool {
	v := *s
	i := v.find(x)
	if i == len(v) || v[i].lo > x {
		return false
	}
	switch e := v[i]; {
	case e.lo == x && e.hi == x+1:
		*s = slices.Delete(v, i, i+1)
	case e.lo == x:
		v[i].lo++
	case e.hi == x+1:
		v[i].hi--
	default:
		v[i].hi = x
		*s = slices.Insert(v, i+1, span{x + 1, e.hi})
	}
	return true
}

// within counts the numbers of the set from lo to before hi.
func (s spans) within(lo, hi uint64) (n int64) {
	for i := s.find(lo); i < len(s) && s[i].lo < hi; i++ {
		n += int64(min(hi, s[i].hi) - max(lo, s[i].lo))
	}
	return n
}

// tracker knows which sequence numbers have arrived.
type tracker struct {
	top  uint64 // one more than the highest that arrived
	gaps spans  // below top, have not arrived
}

// arrive notes a number and says whether it is new.
func (t *tracker) arrive(seq uint64) bool {
	switch {
	case seq == t.top:
		t.top++
		return true
	case seq > t.top:
		t.gaps = append(t.gaps, span{t.top, seq})
		t.top = seq + 1
		return true
	}
	return t.gaps.remove(seq)
}

// within counts the numbers from lo to before hi that arrived.
func (t *tracker) within(lo, hi uint64) int64 {
	hi = min(hi, t.top)
	if lo >= hi {
		return 0
	}
	return int64(hi-lo) - t.gaps.within(lo, hi)
}
