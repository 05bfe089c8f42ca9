package recordbatch

import "math"

// scan is what Validate has to know of records that are as they should be.
type scan struct {
	oldest, newest int64 // timestamp deltas met
	longest        int   // bytes of the largest record, without its length
	nullKey        bool
}

// minRecord is the size of a record without anything in it: six fields of one byte each.
const minRecord = 6

// run walks over n records as clients make them: undamaged, their offset deltas counting from 0, nothing behind
// them. It is Reader.Next without what yields no verdict, in half the time. It returns false where something is
// not so, or merely unusual: then a Reader has to look, which can say what it is.
func (s *scan) run(b []byte, n int) bool {
	*s = scan{oldest: math.MaxInt64, newest: math.MinInt64}
	for k := range n {
		size, i := varint(b, 0)
		if i > len(b) || size < minRecord || size > len(b)-i {
			return false
		}
		rec := b[i : i+size]
		b = b[i+size:]
		s.longest = max(s.longest, size)

		stamp, i := varlong(rec, 1)
		s.oldest, s.newest = min(s.oldest, stamp), max(s.newest, stamp)
		delta, i := varint(rec, i)
		key, i := varint(rec, i)
		if key < 0 {
			s.nullKey = true
			key++ // -1: nothing follows
		}
		if delta != k || uint(key) > uint(size) {
			return false
		}
		value, i := varint(rec, i+key)
		if value < 0 {
			value++
		}
		if uint(value) > uint(size) {
			return false
		}
		headers, i := varint(rec, i+value)
		switch {
		case i == size && headers == 0:
		case i >= size || headers <= 0 || !headersFit(rec[i:], headers):
			return false
		}
	}
	return len(b) == 0
}

// stamps returns the first and the last timestamp in time of records with the base timestamp given; false if they lie beyond
// 64 bits.
func (s *scan) stamps(base int64) (oldest, newest int64, ok bool) {
	oldest, newest = base+s.oldest, base+s.newest
	return oldest, newest, (oldest < base) == (s.oldest < 0) && (newest < base) == (s.newest < 0)
}
