package probe

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"godwit/internal/bench/result"
)

// Methods of tracing.
const (
	MethodEvents = "tracepoints"
	MethodPtrace = "ptrace"
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

// hardlyAny is the share of covered acknowledgements up to which a target counts as one that does not sync, beyond those that are
// covered by chance.
const hardlyAny = 0.05

// alwaysSyncing is the chance from which covered acknowledgements say nothing.
const alwaysSyncing = 0.9

// filesShown bounds result.Durability.Files.
const filesShown = 5

// Grade compares acknowledgements of messages that were sent one at a time with the syncs of the target's process. An
// acknowledgement is covered by a sync that began after its message was sent and ended before it was seen.
//
// Targets also sync for reasons of their own, a checkpoint every half second for example, and some of that falls between a message
// and its acknowledgement. How likely that is, is taken from quiet, a time when nothing was sent and all syncs were seen; the zero
// Interval stands for a target that never does. What the target does by itself only while it has messages counts as done for them.
func Grade(acks []Interval, quiet Interval, syncs []Sync) result.Durability {
	meant := slices.DeleteFunc(slices.Clone(syncs), func(s Sync) bool { return s.covers(quiet) })
	d := result.Durability{Acked: len(acks), Syncs: len(meant), Files: files(meant)}
	for _, a := range acks {
		if slices.ContainsFunc(syncs, func(s Sync) bool { return s.covers(a) }) {
			d.Covered++
		}
	}
	p := chance(acks, quiet, syncs)
	n := float64(d.Acked)
	// Three standard deviations of how many of n are covered by chance.
	byChance := n*p + 3*math.Sqrt(n*p*(1-p))
	switch {
	case d.Acked == 0:
		d.Grade, d.Why = result.GradeUnknown, "no message was acknowledged"
	case d.Covered == d.Acked && p >= alwaysSyncing:
		d.Grade, d.Why = result.GradeUnknown, "it syncs all the time, also when nothing is sent"
	case d.Covered == d.Acked:
		d.Grade = result.GradeSynced
	case float64(d.Covered) > n*hardlyAny+byChance:
		d.Grade = result.GradePartly
	default:
		d.Grade = result.GradeUnsynced
	}
	return d
}

// chance is the probability, 0 to 1, that an interval as long as the median of acks, put anywhere into the quiet time,
// is covered.
func chance(acks []Interval, quiet Interval, syncs []Sync) float64 {
	if len(acks) == 0 || !quiet.Acked.After(quiet.Sent) {
		return 0
	}
	lengths := make([]time.Duration, len(acks))
	for i, a := range acks {
		lengths[i] = a.Acked.Sub(a.Sent)
	}
	slices.Sort(lengths)
	length := lengths[len(lengths)/2]
	// Where it would have to begin, as durations since the quiet time did.
	last := max(quiet.Acked.Sub(quiet.Sent)-length, 1)
	type span struct{ from, to time.Duration }
	var spans []span
	for _, s := range syncs {
		from := max(s.End.Sub(quiet.Sent)-length, 0)
		to := min(s.Begin.Sub(quiet.Sent), last)
		if from < to {
			spans = append(spans, span{from, to})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var covered, end time.Duration
	for _, s := range spans {
		covered += max(s.to-max(s.from, end), 0)
		end = max(end, s.to)
	}
	return float64(covered) / float64(last)
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
func (s *Syncs) Grade(acks []Interval, quiet Interval) result.Durability {
	d := Grade(acks, quiet, s.Stop())
	if blind := s.Blind(); blind != "" && d.Grade != result.GradeSynced {
		d.Grade, d.Why = result.GradeUnknown, blind
	}
	return d
}
