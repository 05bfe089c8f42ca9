package compact

import (
	"context"
	"crypto/md5"
	"sort"

	"godwit/internal/base"
	"godwit/internal/compress"
	"godwit/internal/recordbatch"
	"godwit/internal/storage/segment"
)

// Job asks for one log to be compacted by key.
type Job struct {
	Log             base.LogID
	Start           int64   // log start offset: what is below needs no care
	Bound           int64   // first offset that must not be touched: too young
	DeleteRetention int64   // ms that tombstones stay after they are first compacted
	Watch           []int64 // ascending offsets: what is removed at or above each is counted for it
	// Aborted lists the aborted transactions of the log, by the offsets of their markers. All that is below Bound must be decided.
	Aborted []Aborted
}

// Outcome is what a job takes away.
type Outcome struct {
	Removed  []Removed // without records of aborted transactions, which nobody was to see
	Vanished []int64   // markers of the aborted transactions of which no batch was left before the job, ascending
}

// Removed counts what a job took away at or above one watched offset.
type Removed struct {
	Watched     int64
	First, Last int64 // offsets of the first and last record removed
	Count       int64
}

// State is how much of a log is compacted.
type State struct {
	CleanBytes, DirtyBytes int64 // of sealed files below the bound
	DirtyFrom              int64 // first offset that was never compacted
	DirtyTo                int64 // behind the last one that could be now
	Oldest                 int64 // max timestamp of the first dirty piece, Unix ms
}

// Inspect measures a log for the decision whether to compact it. Only pieces wholly below bound whose newest record is older
// than youngest count as dirty.
func (c *Compactor) Inspect(log base.LogID, bound, youngest int64) State {
	var s State
	for _, p := range c.store.Pieces(log) {
		if p.Last >= bound {
			break
		}
		if p.Clean && s.DirtyBytes == 0 {
			s.CleanBytes += p.Bytes
			s.DirtyFrom, s.DirtyTo = p.Last+1, p.Last+1
			continue
		}
		if p.MaxTimestamp > youngest {
			break
		}
		if s.DirtyBytes == 0 {
			s.DirtyFrom, s.Oldest = p.Base, p.MaxTimestamp
		}
		s.DirtyBytes += p.Bytes
		s.DirtyTo = p.Last + 1
	}
	return s
}

// Clean compacts logs into merged files that they share. commit is called with what each job takes away, if that is anything, before any of it
// takes effect; its error ends the run with nothing changed for the jobs of that file.
func (c *Compactor) Clean(ctx context.Context, term uint64, now int64, jobs []Job, commit func(job int, o *Outcome) error) error {
	out := &output{c: c, term: term, now: now}
	defer out.abandon()
	for i := range jobs {
		o, err := c.cleanLog(ctx, out, &jobs[i], now)
		if err != nil {
			return err
		}
		if len(o.Removed) > 0 || len(o.Vanished) > 0 {
			if err := commit(i, o); err != nil {
				return err
			}
		}
	}
	return out.finish()
}

type keyHash [md5.Size]byte

// latest maps each key to the last offset at which it was seen.
type latest map[keyHash]int64

// cleanLog rewrites one log from its start to where the keys of its dirty part fit into memory.
func (c *Compactor) cleanLog(ctx context.Context, out *output, j *Job, now int64) (*Outcome, error) {
	st := c.Inspect(j.Log, j.Bound, 1<<62)
	aborted := newTxns(j.Aborted)
	keys, end, err := c.collect(ctx, j.Log, max(st.DirtyFrom, j.Start), st.DirtyTo, aborted)
	if err != nil {
		return nil, err
	}
	f := &filter{c: c, out: out, keys: keys, txns: aborted, now: now, horizon: now + j.DeleteRetention, tally: newTally(j.Watch), start: j.Start}
	defer f.rd.Close()
	var run []segment.PieceRef
	var bytes int64
	for _, p := range c.store.Pieces(j.Log) {
		if p.Last >= end {
			break
		}
		if run != nil && bytes+p.Bytes > maxPiece {
			if err := f.rewrite(ctx, j.Log, run); err != nil {
				return nil, err
			}
			run, bytes = nil, 0
		}
		run, bytes = append(run, p), bytes+p.Bytes
	}
	if run != nil {
		if err := f.rewrite(ctx, j.Log, run); err != nil {
			return nil, err
		}
	}
	return &Outcome{Removed: f.tally.removed(), Vanished: f.txns.vanished(end)}, nil
}

// collect walks over the dirty part and notes the last offset of each key. It stops at the end of a piece when the map is
// full; end is behind the last piece it saw whole.
func (c *Compactor) collect(ctx context.Context, log base.LogID, from, to int64, aborted *txns) (latest, int64, error) {
	keys := latest{}
	var rd recordbatch.Reader
	defer rd.Close()
	end := from
	for _, p := range c.store.Pieces(log) {
		if p.Last < from {
			end = max(end, p.Last+1)
			continue
		}
		if p.Last >= to || len(keys) >= c.opts.MaxKeys {
			break
		}
		var failure error
		err := c.store.Batches(log, max(p.Base, from), p.Last+1, nil, func(ref segment.BatchRef) bool {
			failure = c.noteKeys(ctx, &rd, &ref, keys, aborted)
			return failure == nil
		})
		if failure != nil {
			err = failure
		}
		if err != nil {
			return nil, 0, err
		}
		end = p.Last + 1
	}
	return keys, end, nil
}

func (c *Compactor) noteKeys(ctx context.Context, rd *recordbatch.Reader, ref *segment.BatchRef, keys latest, aborted *txns) error {
	b, err := c.read(ctx, ref)
	if err != nil {
		return err
	}
	if err := rd.Reset(b, c.opts.MaxRecords); err != nil {
		return err
	}
	if rd.Info.IsControl() || aborted.find(&rd.Info) >= 0 {
		return nil
	}
	for rd.Next() {
		if k := rd.Record.Key; k != nil {
			keys[md5.Sum(k)] = rd.Record.Offset
		}
	}
	return rd.Err()
}

// filter decides record by record what stays.
type filter struct {
	c       *Compactor
	out     *output
	keys    latest
	txns    *txns
	now     int64
	horizon int64
	start   int64
	tally   *tally
	rd      recordbatch.Reader
	b       recordbatch.Builder
	enc     []byte
}

func (f *filter) rewrite(ctx context.Context, log base.LogID, run []segment.PieceRef) error {
	first, last := run[0].Base, run[len(run)-1].Last
	if err := f.out.begin(log, first, last, true); err != nil {
		return err
	}
	var failure error
	err := f.c.store.Batches(log, first, last+1, nil, func(ref segment.BatchRef) bool {
		failure = f.batch(ctx, &ref, ref.Last == last)
		return failure == nil
	})
	if failure != nil {
		return failure
	}
	return err
}

// batch writes what stays of one batch: as it is, if all of it stays and no tombstone needs a horizon. The last
// batch of a run stays without its records, if need be, so that a reader there gets on to the end of the log.
func (f *filter) batch(ctx context.Context, ref *segment.BatchRef, tail bool) error {
	if ref.Last < f.start {
		return nil
	}
	raw, err := f.c.read(ctx, ref)
	if err != nil {
		return err
	}
	if err := f.rd.Reset(raw, f.c.opts.MaxRecords); err != nil {
		return err
	}
	info := f.rd.Info
	if info.IsControl() {
		return f.marker(raw, ref, tail)
	}
	if f.txns.pass(&info) {
		if !tail {
			return nil
		}
		f.b.Begin(info, info.Codec(), compress.DefaultLevel)
		return f.write(ref)
	}
	old, had := info.DeleteHorizon()
	kept, tombstones := 0, false
	for f.rd.Next() {
		if f.stays(&f.rd.Record, old, had) {
			kept++
			tombstones = tombstones || f.rd.Record.Value == nil
		} else if f.rd.Record.Offset >= f.start {
			f.tally.add(f.rd.Record.Offset)
		}
	}
	switch {
	case f.rd.Err() != nil:
		return f.rd.Err()
	case kept == 0 && !tail:
		return nil
	case kept == int(info.Records) && (had || !tombstones):
		return f.out.m.Batch(raw, ref.Base, ref.Last, ref.MaxTimestamp)
	}
	return f.rebuild(raw, ref, tombstones && !had, old, had)
}

func (f *filter) stays(r *recordbatch.Record, horizon int64, had bool) bool {
	if r.Key == nil {
		return false
	}
	if last, ok := f.keys[md5.Sum(r.Key)]; ok && r.Offset < last {
		return false
	}
	return r.Value != nil || !had || f.now < horizon
}

func (f *filter) rebuild(raw []byte, ref *segment.BatchRef, setHorizon bool, old int64, had bool) error {
	if err := f.rd.Reset(raw, f.c.opts.MaxRecords); err != nil {
		return err
	}
	f.b.Begin(f.rd.Info, f.rd.Info.Codec(), compress.DefaultLevel)
	if setHorizon {
		f.b.SetDeleteHorizon(f.horizon)
	}
	for f.rd.Next() {
		if f.stays(&f.rd.Record, old, had) {
			f.b.Add(&f.rd.Record)
		}
	}
	return f.write(ref)
}

// write writes the batch that was built.
func (f *filter) write(ref *segment.BatchRef) error {
	if f.rd.Err() != nil {
		return f.rd.Err()
	}
	enc, err := f.b.AppendTo(f.enc[:0])
	if err != nil {
		return err
	}
	f.enc = enc
	info, err := recordbatch.ParseHeader(enc)
	if err != nil {
		return err
	}
	return f.out.m.Batch(enc, ref.Base, ref.Last, info.MaxTimestamp)
}

// tally counts removed offsets for each watched one. An offset counts for every watched one at or below it; to keep that
// cheap it is entered at the nearest and summed up at the end.
type tally struct {
	watch  []int64
	counts []Removed
}

func newTally(watch []int64) *tally {
	return &tally{watch: watch, counts: make([]Removed, len(watch))}
}

func (t *tally) add(offset int64) {
	i := sort.Search(len(t.watch), func(i int) bool { return t.watch[i] > offset }) - 1
	if i < 0 {
		return
	}
	r := &t.counts[i]
	if r.Count == 0 {
		r.First = offset
	}
	r.First, r.Last = min(r.First, offset), max(r.Last, offset)
	r.Count++
}

func (t *tally) removed() (out []Removed) {
	var sum Removed
	for i := len(t.watch) - 1; i >= 0; i-- {
		if r := t.counts[i]; r.Count > 0 {
			if sum.Count == 0 {
				sum = r
			} else {
				sum.First, sum.Last = min(sum.First, r.First), max(sum.Last, r.Last)
				sum.Count += r.Count
			}
		}
		if sum.Count > 0 {
			sum.Watched = t.watch[i]
			out = append(out, sum)
		}
	}
	return out
}
