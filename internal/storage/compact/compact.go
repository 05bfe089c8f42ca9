package compact

import (
	"context"
	"slices"

	"godwit/internal/base"
	"godwit/internal/storage/segment"
)

// Options of a compactor.
type Options struct {
	FileSize   int64 // at which an output file is finished, bytes
	MaxKeys    int   // keys remembered in one pass over a log: about 40 bytes each
	MaxRecords int   // bytes that the records of one batch may take when decompressed

	// Pause is called between batches with the bytes just read and written; it may sleep, to leave the disk to
	// others. It may be nil.
	Pause func(ctx context.Context, bytes int64) error
}

// Compactor has one caller at a time.
type Compactor struct {
	store *segment.Store
	opts  Options
	buf   []byte
}

// New makes a compactor over a store.
func New(store *segment.Store, o Options) *Compactor { return &Compactor{store: store, opts: o} }

// output is the merged file being written.
type output struct {
	c    *Compactor
	term uint64
	now  int64
	m    *segment.Merged
}

// begin starts a piece, in the next file if the present one is full.
func (o *output) begin(log base.LogID, base, last int64, clean bool) error {
	if o.m != nil && o.m.Size() >= o.c.opts.FileSize {
		if err := o.finish(); err != nil {
			return err
		}
	}
	if o.m == nil {
		var err error
		if o.m, err = o.c.store.NewMerged(o.term, o.now); err != nil {
			return err
		}
	}
	o.m.Begin(log, base, last, clean)
	return nil
}

func (o *output) finish() error {
	if o.m == nil {
		return nil
	}
	m := o.m
	o.m = nil
	return m.Finish()
}

func (o *output) abandon() {
	if o.m != nil {
		o.m.Abandon()
		o.m = nil
	}
}

// read returns the bytes of a batch, valid until the next call.
func (c *Compactor) read(ctx context.Context, ref *segment.BatchRef) ([]byte, error) {
	if int64(cap(c.buf)) < ref.Size {
		c.buf = make([]byte, ref.Size)
	}
	b := c.buf[:ref.Size]
	if err := ref.File.ReadAt(b, ref.Pos); err != nil {
		return nil, err
	}
	if c.opts.Pause != nil {
		return b, c.opts.Pause(ctx, ref.Size)
	}
	return b, ctx.Err()
}

// Relocate moves everything alive in the files into merged files, as it is, so that the files can be removed. Adjacent
// pieces of a log become one.
//
// A file that was removed since it was chosen is left out.
func (c *Compactor) Relocate(ctx context.Context, term uint64, now int64, files []*segment.File) error {
	var held []*segment.File
	for _, f := range files {
		if f.Acquire() {
			defer f.Release()
			held = append(held, f)
		}
	}
	files = held
	logs, err := logsOf(files)
	if err != nil {
		return err
	}
	out := &output{c: c, term: term, now: now}
	defer out.abandon()
	for _, log := range logs {
		for _, run := range runs(c.store.Pieces(log), files) {
			if err := c.copyRun(ctx, out, log, run); err != nil {
				return err
			}
		}
	}
	return out.finish()
}

// logsOf lists the logs that the footers of the files name.
func logsOf(files []*segment.File) ([]base.LogID, error) {
	var logs []base.LogID
	for _, f := range files {
		footer, err := f.Footer()
		if err != nil {
			return nil, err
		}
		for i := range footer {
			logs = append(logs, footer[i].Log)
		}
	}
	slices.Sort(logs)
	return slices.Compact(logs), nil
}

// maxPiece bounds the bytes of one piece of a merged file, whose positions have 32 bits.
const maxPiece = 1 << 30

// runs finds the adjacent pieces that lie in the files and are equally clean.
func runs(pieces []segment.PieceRef, files []*segment.File) (out [][]segment.PieceRef) {
	var run []segment.PieceRef
	var bytes int64
	flush := func() {
		if run != nil {
			out = append(out, run)
		}
		run, bytes = nil, 0
	}
	for _, p := range pieces {
		if !slices.Contains(files, p.File) {
			flush()
			continue
		}
		if run != nil && (run[0].Clean != p.Clean || bytes+p.Bytes > maxPiece) {
			flush()
		}
		run = append(run, p)
		bytes += p.Bytes
	}
	flush()
	return out
}

func (c *Compactor) copyRun(ctx context.Context, out *output, log base.LogID, run []segment.PieceRef) error {
	first, last := run[0].Base, run[len(run)-1].Last
	if err := out.begin(log, first, last, run[0].Clean); err != nil {
		return err
	}
	var failure error
	err := c.store.Batches(log, first, last+1, nil, func(ref segment.BatchRef) bool {
		var b []byte
		if b, failure = c.read(ctx, &ref); failure == nil {
			failure = out.m.Batch(b, ref.Base, ref.Last, ref.MaxTimestamp)
		}
		return failure == nil
	})
	if failure != nil {
		return failure
	}
	return err
}

// Candidates chooses sealed files that are worth moving: those more than half dead, and, when there are many, those
// whose data is so finely divided that reading it back costs more than rewriting it once.
func Candidates(files []*segment.File, below uint32) []*segment.File {
	var dead, fine []*segment.File
	for _, f := range files {
		size := int64(f.DataEnd()) - segment.DataStart
		if !f.Sealed() || (f.Kind == segment.KindWAL && f.Number >= below) || f.Pieces() == 0 || size <= 0 {
			continue
		}
		switch {
		case f.Live() < size/2:
			dead = append(dead, f)
		case f.Kind == segment.KindWAL && f.Live()/int64(max(f.Extents(), 1)) < fineExtent:
			fine = append(fine, f)
		}
	}
	if len(fine) >= fineFiles {
		dead = append(dead, fine[:fineFiles]...)
	}
	return dead
}

const (
	fineExtent = 4 << 10 // bytes of an average extent below which a file counts as finely divided
	fineFiles  = 8       // so many finely divided files are merged at once
)
