package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"godwit/internal/base"
	"godwit/internal/recordbatch"
	"godwit/internal/storage/segment"
	"godwit/internal/storage/state"
	"godwit/internal/storage/wal"
	"godwit/internal/vfs"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // in the file, bytes; -1 if the finding is not about a place in it
	What   string `json:"what"`
}

// Checked sums up what a check read.
type Checked struct {
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	Frames  int   `json:"frames"`
	Batches int64 `json:"batches"`
	Records int64 `json:"records"`
	Logs    int   `json:"logs"`
	Tail    int64 `json:"tail"` // bytes behind the end of the log: of a group that was never acknowledged
}

// checker reads a data directory and changes nothing.
type checker struct {
	ctx    context.Context
	fs     vfs.FS
	dir    string
	report func(Finding)
	sum    Checked
	bad    bool
}

// Check reads every file of a stopped node's directory, and reports each thing that is damaged or missing. It changes
// nothing. The error is for a check that cannot be made: a running node, no data directory.
func Check(ctx context.Context, fs vfs.FS, dir string, report func(Finding)) (Checked, error) {
	c := &checker{ctx: ctx, fs: fs, dir: dir, report: report}
	id, err := ReadIdentity(fs, dir)
	if err != nil {
		return c.sum, fmt.Errorf("%s is no data directory of a broker: %w", dir, err)
	}
	lock, err := vfs.LockDir(fs, fs.PathJoin(dir, lockFile))
	if err != nil {
		return c.sum, err
	}
	defer lock.Close()
	files, err := c.open()
	if err != nil {
		return c.sum, err
	}
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return c.sum, err
		}
		var next *segment.File
		if i+1 < len(files) {
			next = files[i+1]
		}
		c.file(f, next)
		f.Release()
	}
	if c.bad {
		return c.sum, nil // what the files say together needs whole files
	}
	return c.sum, c.logic(id)
}

func (c *checker) found(file string, offset int64, format string, args ...any) {
	c.bad = true
	c.report(Finding{file, offset, fmt.Sprintf(format, args...)})
}

// open opens all data files, in the order of their numbers.
func (c *checker) open() (files []*segment.File, err error) {
	logs := c.fs.PathJoin(c.dir, logDir)
	names, err := c.fs.List(logs)
	if err != nil {
		return nil, err
	}
	// Names carry the number with leading zeros, and merged files sort before the log's.
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") && !strings.HasSuffix(name, ".seg") {
			continue
		}
		path := c.fs.PathJoin(logs, name)
		f, err := segment.Open(c.fs, path)
		if err != nil {
			c.found(path, 0, "%v", err)
			continue
		}
		if want := segment.Name(f.Kind, f.Number); want != name {
			c.found(path, 0, "the header says that this is %s", want)
		}
		c.sum.Files++
		files = append(files, f)
	}
	return files, nil
}

// file checks one data file by itself.
func (c *checker) file(f, next *segment.File) {
	if f.Kind == segment.KindWAL {
		end := f.DataEnd()
		if end == 0 && next != nil && next.PrevFile == f.Number {
			end = next.PrevEnd
		}
		c.frames(f, end)
	} else if !f.Sealed() {
		c.found(f.Path, 512, "the seal record is missing or damaged")
	}
	if f.Sealed() {
		c.footer(f)
	}
}

// frames reads a WAL file frame by frame and the batches in them.
func (c *checker) frames(f *segment.File, end uint32) {
	sc, err := wal.NewScanner(f, end)
	if err != nil {
		c.found(f.Path, -1, "%v", err)
		return
	}
	synced := base.Position(0)
	for sc.Next() {
		c.sum.Frames++
		c.sum.Bytes += int64(sc.Frame.Size)
		synced = max(synced, sc.Frame.Synced)
		at, payload := int64(sc.Payload()), sc.Frame.Payload
		for _, e := range sc.Frame.Extents {
			c.batches(f.Path, at, payload[:e.Len], e.Base, e.Last, false)
			at, payload = at+int64(e.Len), payload[e.Len:]
		}
	}
	switch {
	case sc.Err() != nil:
		c.found(f.Path, int64(sc.At()), "%v", sc.Err())
	case end != 0 && sc.At() != end:
		c.found(f.Path, int64(sc.At()), "damaged frame; the file's frames go on to %d", end)
	case end == 0:
		later, rest, err := sc.Beyond()
		if err != nil {
			c.found(f.Path, int64(sc.At()), "%v", err)
		} else if known := max(synced, later); base.At(f.Number, sc.At()) < known {
			c.found(f.Path, int64(sc.At()), "damaged frame; the log was on disk up to %v", known)
		}
		c.sum.Tail = rest
	}
}

// batches checks the batches of one extent. Compaction leaves holes between them, but not in a log file.
func (c *checker) batches(path string, at int64, b []byte, first, last int64, holes bool) {
	next := first
	for len(b) > 0 {
		info, err := recordbatch.ParseHeader(b)
		switch {
		case err != nil:
			c.found(path, at, "%v", err)
			return
		case info.Size > len(b):
			c.found(path, at, "batch of %d bytes in an extent with %d left", info.Size, len(b))
			return
		case !recordbatch.VerifyCRC(b[:info.Size]):
			c.found(path, at, "checksum of the batch at offset %d does not hold", info.BaseOffset)
		case info.BaseOffset < next || (!holes && info.BaseOffset != next) || info.LastOffset() > last:
			c.found(path, at, "batch with offsets %d to %d, expected from %d to %d at most", info.BaseOffset, info.LastOffset(), next, last)
		}
		next = info.LastOffset() + 1
		c.sum.Batches++
		c.sum.Records += int64(info.Records)
		b, at = b[info.Size:], at+int64(info.Size)
	}
	if !holes && next != last+1 {
		c.found(path, at, "the extent ends at offset %d, expected %d", next-1, last)
	}
}

// footer checks a footer, and in a merged file the batches that it points to.
func (c *checker) footer(f *segment.File) {
	logs, err := f.Footer()
	if err != nil {
		c.found(f.Path, -1, "%v", err)
		return
	}
	var buf []byte
	for _, l := range logs {
		extents, _, err := f.ReadExtents(nil, l.First, l.Count, nil)
		if err != nil {
			c.found(f.Path, -1, "%v", err)
			continue
		}
		for _, e := range extents {
			if e.Pos < segment.DataStart || e.Pos+e.Len > f.DataEnd() {
				c.found(f.Path, int64(e.Pos), "the footer has an extent of log %d outside the data", l.Log)
				continue
			}
			if f.Kind != segment.KindMerged {
				continue
			}
			buf = append(buf[:0], make([]byte, e.Len)...)
			if err := f.ReadAt(buf, int64(e.Pos)); err != nil {
				c.found(f.Path, int64(e.Pos), "%v", err)
				continue
			}
			c.sum.Bytes += int64(e.Len)
			c.batches(f.Path, int64(e.Pos), buf, e.Base, e.Last, true)
		}
	}
}

// logic replays the log over a copy of the saved state, in memory, and compares what results with the data files.
func (c *checker) logic(id *Identity) error {
	mem := vfs.NewCrashing()
	if err := copyDir(c.fs, c.fs.PathJoin(c.dir, stateDir), mem, "/state"); err != nil {
		return err
	}
	e := &Engine{opts: Options{FS: c.fs, Dir: c.dir, Log: slog.New(slog.DiscardHandler)}, store: segment.NewStore(c.fs, c.fs.PathJoin(c.dir, logDir))}
	defer e.store.Close()
	stateAt := c.fs.PathJoin(c.dir, stateDir)
	st, err := state.Open(mem, "/state", state.Options{})
	if err != nil {
		c.found(stateAt, -1, "%v", err)
		return nil
	}
	e.state = st
	defer st.Close()
	machines, err := e.restore(id.Shards)
	if err != nil {
		c.found(stateAt, -1, "%v", err)
		return nil
	}
	if _, err := e.store.OpenAll(); err != nil {
		c.found(e.store.Dir, -1, "%v", err)
		return nil
	}
	_, err = wal.Inspect(e.store, st.ReplayFrom(), func(at wal.Placement, fr *segment.Frame) error { return e.replayed(machines, at, fr) })
	if err == nil {
		err = e.reconcile(machines)
	}
	if err != nil {
		c.found(e.store.Dir, -1, "%v", err)
	}
	c.sum.Logs = len(e.store.Logs())
	return nil
}

func copyDir(from vfs.FS, dir string, to vfs.FS, as string) error {
	names, err := from.List(dir)
	if err != nil {
		return err
	}
	if err := to.MkdirAll(as, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		src, err := from.Open(from.PathJoin(dir, name))
		if err != nil {
			return err
		}
		b, err := io.ReadAll(src)
		src.Close()
		if err != nil {
			return err
		}
		dst, err := to.Create(to.PathJoin(as, name), vfs.CategoryState)
		if err != nil {
			return err
		}
		if _, err := dst.Write(b); err != nil {
			return err
		}
		if err := dst.Close(); err != nil {
			return err
		}
	}
	return nil
}
