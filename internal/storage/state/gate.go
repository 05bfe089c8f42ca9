package state

import (
	"io"
	"io/fs"
	"strings"
	"sync"

	"godwit/internal/vfs"
)

// gate stands between Pebble and the file system. Pebble has habits that do not suit a program that wants to
// outlive a failing disk, and the gate makes up for them:
//
//   - A failed flush is tried again at once and for ever. A paused gate lets no table be begun; who wants to waits.
//   - When the manifest, or the name of the current one, cannot be written, Pebble expects the process to end, and panics or
//     goes on with broken structures if it does not. The gate reports such an error as fatal and never returns to
//     that goroutine, which at that point holds the right to change the manifest and no lock: so nothing can be changed any
//     more, on disk or in memory, and reading goes on.
//   - A new manifest, the marker that names it and the removal of the old marker become durable by one sync of the directory,
//     though a file system may do them in any order. The gate syncs the directory in between, too.
//
// While Pebble is being opened errors are returned as they are; Open gives up at the first.
type gate struct {
	vfs.FS
	fatal func(err error) // told of the error that Pebble cannot go on after

	mu      sync.Mutex // a leaf: nothing is called while it is held
	changed sync.Cond  // L is &mu
	started bool       // Pebble is open
	paused  bool       // no table is begun until it is lifted
	closing bool       // no table is begun: errClosed
	err     error      // not nil: it was fatal, and nothing is changed any more
}

func newGate(fsys vfs.FS, fatal func(err error)) *gate {
	g := &gate{FS: fsys, fatal: fatal}
	g.changed.L = &g.mu
	return g
}

func (g *gate) set(field *bool, value bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*field = value
	g.changed.Broadcast()
}

func (g *gate) start()  { g.set(&g.started, true) }
func (g *gate) pause()  { g.set(&g.paused, true) }
func (g *gate) resume() { g.set(&g.paused, false) }
func (g *gate) close()  { g.set(&g.closing, true) }

// check is the error of a change that is not vital.
func (g *gate) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// pass is check for a new file. It waits while no table must be begun: for ever after a fatal error.
func (g *gate) pass(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if strings.HasSuffix(name, tableSuffix) {
		for g.err != nil || g.paused && !g.closing {
			g.changed.Wait()
		}
		if g.closing {
			return errClosed
		}
	}
	return g.err
}

// vital does something that Pebble must not see fail.
func (g *gate) vital(do func() error) error {
	err := g.check()
	if err == nil {
		err = do()
	}
	if err == nil {
		return nil
	}
	g.mu.Lock()
	if !g.started {
		g.mu.Unlock()
		return err
	}
	if g.err == nil {
		g.err = err
	}
	g.changed.Broadcast()
	g.mu.Unlock()
	g.fatal(err)
	select {}
}

const (
	tableSuffix    = ".sst"
	manifestPrefix = "MANIFEST-"
	markerPrefix   = "marker."
)

func (g *gate) isVital(name string) bool {
	base := g.PathBase(name)
	return strings.HasPrefix(base, manifestPrefix) || strings.HasPrefix(base, markerPrefix)
}

// Create implements vfs.FS.
func (g *gate) Create(name string, c vfs.Category) (f vfs.File, err error) {
	if g.isVital(name) {
		err = g.vital(func() error {
			if err := g.settle(name); err != nil {
				return err
			}
			f, err = g.FS.Create(name, c)
			return err
		})
	} else if err = g.pass(name); err == nil {
		f, err = g.FS.Create(name, c)
	}
	if err != nil {
		return nil, err
	}
	return g.wrap(f, g.isVital(name)), nil
}

// settle makes durable what was done before a marker is changed.
func (g *gate) settle(name string) error {
	if !strings.HasPrefix(g.PathBase(name), markerPrefix) {
		return nil
	}
	return vfs.SyncDir(g.FS, g.PathDir(name))
}

func (g *gate) wrap(f vfs.File, vital bool) vfs.File {
	if vital {
		return &vitalFile{f, g}
	}
	return &gatedFile{f, g}
}

// OpenReadWrite implements vfs.FS.
func (g *gate) OpenReadWrite(name string, c vfs.Category, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := g.pass(name); err != nil {
		return nil, err
	}
	f, err := g.FS.OpenReadWrite(name, c, opts...)
	if err != nil {
		return nil, err
	}
	return g.wrap(f, g.isVital(name)), nil
}

// OpenDir implements vfs.FS. A directory is vital.
func (g *gate) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return g.wrap(f, true), nil
}

// ReuseForWrite implements vfs.FS.
func (g *gate) ReuseForWrite(oldname, newname string, c vfs.Category) (vfs.File, error) {
	if err := g.pass(newname); err != nil {
		return nil, err
	}
	f, err := g.FS.ReuseForWrite(oldname, newname, c)
	if err != nil {
		return nil, err
	}
	return g.wrap(f, g.isVital(newname)), nil
}

// Link implements vfs.FS.
func (g *gate) Link(oldname, newname string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.Link(oldname, newname)
}

// Remove implements vfs.FS.
func (g *gate) Remove(name string) error {
	var err error
	if g.isVital(name) {
		err = g.vital(func() error { return g.settle(name) })
	} else {
		err = g.check()
	}
	if err != nil {
		return err
	}
	return g.FS.Remove(name)
}

// RemoveAll implements vfs.FS.
func (g *gate) RemoveAll(name string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.RemoveAll(name)
}

// Rename implements vfs.FS.
func (g *gate) Rename(oldname, newname string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.Rename(oldname, newname)
}

// MkdirAll implements vfs.FS.
func (g *gate) MkdirAll(name string, perm fs.FileMode) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.MkdirAll(name, perm)
}

// Lock implements vfs.FS: the store holds the lock.
func (g *gate) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap implements vfs.FS.
func (g *gate) Unwrap() vfs.FS { return g.FS }

// gatedFile is a file that Pebble may fail to write.
type gatedFile struct {
	vfs.File
	g *gate
}

// Write implements vfs.File.
func (f *gatedFile) Write(p []byte) (int, error) {
	if err := f.g.check(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// WriteAt implements vfs.File.
func (f *gatedFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.g.check(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

// Preallocate implements vfs.File.
func (f *gatedFile) Preallocate(off, length int64) error {
	if err := f.g.check(); err != nil {
		return err
	}
	return f.File.Preallocate(off, length)
}

// Sync implements vfs.File.
func (f *gatedFile) Sync() error {
	if err := f.g.check(); err != nil {
		return err
	}
	return f.File.Sync()
}

// SyncData implements vfs.File.
func (f *gatedFile) SyncData() error {
	if err := f.g.check(); err != nil {
		return err
	}
	return f.File.SyncData()
}

// SyncTo implements vfs.File.
func (f *gatedFile) SyncTo(length int64) (fullSync bool, err error) {
	if err := f.g.check(); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}

// vitalFile is a manifest, a marker, or a directory.
type vitalFile struct {
	vfs.File
	g *gate
}

// Write implements vfs.File.
func (f *vitalFile) Write(p []byte) (n int, err error) {
	err = f.g.vital(func() error { n, err = f.File.Write(p); return err })
	return n, err
}

// WriteAt implements vfs.File.
func (f *vitalFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.g.vital(func() error { n, err = f.File.WriteAt(p, off); return err })
	return n, err
}

// Preallocate implements vfs.File. It is an optimization only: without it the write fails, or does not.
func (f *vitalFile) Preallocate(int64, int64) error { return nil }

// Sync implements vfs.File.
func (f *vitalFile) Sync() error { return f.g.vital(f.File.Sync) }

// SyncData implements vfs.File.
func (f *vitalFile) SyncData() error { return f.g.vital(f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *vitalFile) SyncTo(length int64) (fullSync bool, err error) {
	err = f.g.vital(func() error { fullSync, err = f.File.SyncTo(length); return err })
	return fullSync, err
}
