package state

import (
	"io/fs"
	"strings"
	"sync"

	"godwit/internal/vfs"
)

// gate stands between Pebble and the file system. It makes up for two habits of Pebble: to try a failed flush or
// compaction again at once and for ever, and to expect that the process ends when its manifest cannot be
// written.
//
//   - paused: no table is begun; whoever wants to waits. What is being written goes on.
//   - shut: nothing is changed any more; every attempt gets the error. Reading goes on.
type gate struct {
	vfs.FS
	mu     sync.Mutex // a leaf: nothing is called while it is held
	opened sync.Cond  // L is &mu
	paused bool
	last   bool  // never paused again
	err    error // not nil: shut
}

func newGate(fsys vfs.FS) *gate {
	g := &gate{FS: fsys}
	g.opened.L = &g.mu
	return g
}

func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused = !g.last
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused = false
	g.opened.Broadcast()
}

// release resumes for good: there will be no further resume.
func (g *gate) release() {
	g.mu.Lock()
	g.last = true
	g.mu.Unlock()
	g.resume()
}

// shut keeps the first error.
func (g *gate) shut(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
	g.opened.Broadcast()
}

func (g *gate) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

const tableSuffix = ".sst"

// pass waits while the gate is paused, if a table is to be begun.
func (g *gate) pass(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.paused && g.err == nil && strings.HasSuffix(name, tableSuffix) {
		g.opened.Wait()
	}
	return g.err
}

func (g *gate) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &gatedFile{f, g}, nil
}

// Create implements vfs.FS.
func (g *gate) Create(name string, c vfs.Category) (vfs.File, error) {
	if err := g.pass(name); err != nil {
		return nil, err
	}
	return g.wrap(g.FS.Create(name, c))
}

// OpenReadWrite implements vfs.FS.
func (g *gate) OpenReadWrite(name string, c vfs.Category, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.wrap(g.FS.OpenReadWrite(name, c, opts...))
}

// OpenDir implements vfs.FS.
func (g *gate) OpenDir(name string) (vfs.File, error) { return g.wrap(g.FS.OpenDir(name)) }

// ReuseForWrite implements vfs.FS.
func (g *gate) ReuseForWrite(oldname, newname string, c vfs.Category) (vfs.File, error) {
	if err := g.pass(newname); err != nil {
		return nil, err
	}
	return g.wrap(g.FS.ReuseForWrite(oldname, newname, c))
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
	if err := g.check(); err != nil {
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

// Unwrap implements vfs.FS.
func (g *gate) Unwrap() vfs.FS { return g.FS }

// gatedFile is a file that the gate let through.
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
