package queue

import "math/bits"

// mixed is the state of a run in which records that wait and records that are done take turns: one bit each. It is
// how little is kept of many delayed records among others.
const mixed State = states

// mixedMax bounds the offsets of such a run: what it takes is less than two runs.
const mixedMax = 1024

// mix tells the records of a mixed run apart. It is never written in place and shared by the parts of a run that was
// split.
type mix struct {
	base  int64    // offset of the first bit
	waits []uint64 // set: Waiting; otherwise Done
}

func (m *mix) at(offset int64) bool { return m.word(offset)&1 != 0 }

// word is the 64 bits from an offset on; what lies beyond the last is 0.
func (m *mix) word(offset int64) uint64 {
	i, s := uint64(offset-m.base)/64, uint64(offset-m.base)%64
	w := m.waits[i] >> s
	if s > 0 && i+1 < uint64(len(m.waits)) {
		w |= m.waits[i+1] << (64 - s)
	}
	return w
}

// until finds the end of the records from first on that are like it, at most last.
func (m *mix) until(first, last int64) int64 {
	like := m.word(first)&1 != 0
	for at := first; at <= last; at += 64 {
		w := m.word(at)
		if like {
			w = ^w
		}
		if w != 0 {
			return min(last, at+int64(bits.TrailingZeros64(w))-1)
		}
	}
	return last
}

// count is how many of the records from first to last wait.
func (m *mix) count(first, last int64) (n int64) {
	for at := first; at <= last; at += 64 {
		n += int64(bits.OnesCount64(m.word(at) & below(last-at+1)))
	}
	return n
}

// below is a mask of the n lowest bits.
func below(n int64) uint64 {
	if n >= 64 {
		return ^uint64(0)
	}
	return 1<<n - 1
}

// enter sets the bits of a run that has not been entered.
func (m *mix) enter(r *run) {
	if r.state == Done {
		return
	}
	for at := r.first; at <= r.last; at += 64 {
		w := below(r.last - at + 1)
		if r.state == mixed {
			w &= r.mix.word(at)
		}
		i, s := uint64(at-m.base)/64, uint64(at-m.base)%64
		m.waits[i] |= w << s
		if s > 0 && i+1 < uint64(len(m.waits)) {
			m.waits[i+1] |= w >> (64 - s)
		}
	}
}

// stateAt is the state of one record of the run.
func (r *run) stateAt(offset int64) State {
	switch {
	case r.state != mixed:
		return r.state
	case r.mix.at(offset):
		return Waiting
	}
	return Done
}

// pieces calls fn for the run's parts of one state, in order.
func (r *run) pieces(fn func(p run)) {
	if r.state != mixed {
		fn(*r)
		return
	}
	for at := r.first; at <= r.last; {
		p := run{first: at, last: r.mix.until(at, r.last), state: r.stateAt(at)}
		fn(p)
		at = p.last + 1
	}
}

// waiting counts the records of the run that wait.
func (r *run) waiting() int64 {
	switch r.state {
	case Waiting:
		return r.len()
	case mixed:
		return r.mix.count(r.first, r.last)
	}
	return 0
}

// cut is the part of the run in [first, last].
func (r run) cut(first, last int64) run {
	r.first, r.last = first, last
	if r.state == mixed && r.mix.until(first, last) == last {
		r = run{first: first, last: last, state: r.stateAt(first)}
	}
	return r
}

func quiet(s State) bool { return s == Waiting || s == Done || s == mixed }

// fuse joins two neighbours that are alike, or that are few records of which some wait and the others are done.
func fuse(a, b *run) bool {
	if alike(a, b) {
		a.last = b.last
		return true
	}
	if !quiet(a.state) || !quiet(b.state) || b.last-a.first >= mixedMax {
		return false
	}
	m := &mix{base: a.first, waits: make([]uint64, (b.last-a.first)/64+1)}
	m.enter(a)
	m.enter(b)
	*a = run{first: a.first, last: b.last, state: mixed, mix: m}
	return true
}

// appendTo writes the bits of the offsets from first to last, eight to a byte, lowest first.
func (m *mix) appendTo(dst []byte, first, last int64) []byte {
	for at := first; at <= last; at += 8 {
		b := byte(0)
		for i := int64(0); i < 8 && at+i <= last; i++ {
			if m.at(at + i) {
				b |= 1 << i
			}
		}
		dst = append(dst, b)
	}
	return dst
}

// mix reads the bits of n offsets, not all of which are the same.
func (r *reader) mix(first, n int64) *mix {
	if n < 2 || n > mixedMax || int64(len(r.B)) < (n+7)/8 {
		r.Fail()
		return nil
	}
	m := &mix{base: first, waits: make([]uint64, (n-1)/64+1)}
	set := 0
	for i := range (n + 7) / 8 {
		b := r.Byte()
		m.waits[i/8] |= uint64(b) << (i % 8 * 8)
		set += bits.OnesCount8(b)
	}
	beyond := m.waits[len(m.waits)-1] >> ((n-1)%64 + 1)
	if n%64 == 0 {
		beyond = 0
	}
	if set == 0 || set == int(n) || beyond != 0 {
		r.Fail()
	}
	return m
}
