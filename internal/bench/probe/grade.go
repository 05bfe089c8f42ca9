package probe

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"godwit/internal/bench/result"
)

// ErrUnsupported is what everything answers on a system where processes cannot be watched as they are on Linux.
var ErrUnsupported = errors.New("not observable on this system")

// ErrEnded marks that the watched process is no longer there; another one may have its number.
var ErrEnded = errors.New("the process has ended")

// Interval is one acknowledged message: when its sending began, and when its acknowledgement was seen. Both times
// must be of this process's monotonic clock, as time.Now gives them.
type Interval struct {
	Sent, Acked time.Time
}

// Sync is one system call that returned success and, by doing so, promised that data is on stable storage.
type Sync struct {
	Begin time.Time // before the call began to act
	End   time.Time // after it was done, before its caller knew
	Call  string    // "fsync", "fdatasync", "msync", ...; "pwrite64" and its like for a descriptor or a call that writes through
	Path  string    // what was synced; "" where the call names no file
}

// covers says that the sync is a reason for the acknowledgement to be true.
func (s *Sync) covers(a Interval) bool {
	return s.Begin.After(a.Sent) && s.End.Before(a.Acked)
}

// hardlyAny is the share of covered acknowledgements, in percent, up to which a target counts as one that does not sync: a
// periodic sync falls between some message and its acknowledgement by chance.
const hardlyAny = 5

// filesShown bounds result.Durability.Files.
const filesShown = 5

// Grade compares acknowledgements of messages that were sent one at a time with the syncs of the target's process. An
// acknowledgement is covered by a sync that began after its message was sent and ended before it was seen.
func Grade(acks []Interval, syncs []Sync) result.Durability {
	d := result.Durability{Acked: len(acks), Syncs: len(syncs), Files: files(syncs)}
	for _, a := range acks {
		if slices.ContainsFunc(syncs, func(s Sync) bool { return s.covers(a) }) {
			d.Covered++
		}
	}
	switch {
	case d.Acked == 0:
		d.Grade, d.Why = result.GradeUnknown, "no message was acknowledged"
	case d.Covered == d.Acked:
		d.Grade = result.GradeSynced
	case d.Covered*100 > d.Acked*hardlyAny:
		d.Grade = result.GradePartly
	default:
		d.Grade = result.GradeUnsynced
	}
	return d
}

// files lists what was synced, most often first.
func files(syncs []Sync) []string {
	count := map[string]int{}
	for _, s := range syncs {
		name := s.Path
		if name == "" {
			name = s.Call + "()"
		}
		count[name]++
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	return names[:min(len(names), filesShown)]
}

// Grade stops tracing, if that has not been done, and grades. It differs from the function in what it knows of the
// trace: a target whose syncs may have gone unseen is not called unsynced.
func (s *Syncs) Grade(acks []Interval) result.Durability {
	d := Grade(acks, s.Stop())
	if blind := s.Blind(); blind != "" && d.Grade != result.GradeSynced {
		d.Grade, d.Why = result.GradeUnknown, blind
	}
	return d
}
