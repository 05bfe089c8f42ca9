package vfs

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"

	"godwit/internal/invariants"
)

// CrashClone is the file system as it may be after a power loss at this moment, by the fault model of
// Crashing. Of what was not synced each part survives with a probability of percent: 0 leaves what was
// synced exactly, 100 leaves everything. The same content, changes and random source give the same clone.
//
// The clone has no locks and no open files, and everything in it is durable. The original goes on
// unharmed, so clones may be taken at every sync point of one run.
func (c *Crashing) CrashClone(rng *rand.Rand, percent int) *Crashing {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := &cloner{dice: dice{rng, percent}, entries: map[*inode]map[string]*inode{}, made: map[*inode]*inode{}}
	lost := map[slot]bool{}
	for _, ch := range c.pending {
		// A change that builds on a lost one is lost.
		gone := slices.ContainsFunc(ch.edits, func(e edit) bool { return lost[e.slot] })
		if gone || !cl.dice.survives() {
			for _, e := range ch.edits {
				lost[e.slot] = true
			}
			continue
		}
		for _, e := range ch.edits {
			e.persist(cl.directory(e.slot.dir))
		}
	}
	out := &Crashing{locks: map[string]bool{}, capacity: c.capacity, ticks: c.ticks}
	out.root = cl.clone(c.root)
	for _, n := range cl.made {
		out.used += n.content.blocks()
	}
	return out
}

type cloner struct {
	dice    dice
	entries map[*inode]map[string]*inode // directories that a surviving change touched
	made    map[*inode]*inode
}

// directory is what will be left of a directory, to be changed.
func (cl *cloner) directory(n *inode) map[string]*inode {
	m := cl.entries[n]
	if m == nil {
		m = maps.Clone(n.durable)
		cl.entries[n] = m
	}
	return m
}

// clone copies what is left of n and all below it, in the order of names.
func (cl *cloner) clone(n *inode) *inode {
	if out := cl.made[n]; out != nil {
		out.links++
		return out
	}
	out := &inode{links: 1, changed: n.changed}
	cl.made[n] = out
	if !n.isDir() {
		out.content = n.content.crash(&cl.dice)
		return out
	}
	left := cl.entries[n]
	if left == nil {
		left = n.durable
	}
	out.entries = make(map[string]*inode, len(left))
	for _, name := range slices.Sorted(maps.Keys(left)) {
		out.entries[name] = cl.clone(left[name])
	}
	out.durable = maps.Clone(out.entries)
	return out
}

// crashFile is a handle.
type crashFile struct {
	fs     *Crashing
	n      *inode
	name   string
	pos    int64 // of Read and Write
	write  bool
	closed bool
}

var _ File = (*crashFile)(nil)

// usable is checked by every operation, under the lock.
func (f *crashFile) usable(op string, write bool) error {
	switch {
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	case f.n.isDir():
		return pathError(op, f.name, syscall.EISDIR)
	case write && !f.write:
		return pathError(op, f.name, syscall.EBADF)
	}
	return nil
}

// Close implements File.
func (f *crashFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.n.opens--
	f.fs.reclaim(f.n)
	return nil
}

// Read implements File.
func (f *crashFile) Read(p []byte) (int, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if err := f.usable("read", false); err != nil {
		return 0, err
	}
	n := f.n.content.readAt(p, f.pos)
	f.pos += int64(n)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// ReadAt implements File.
func (f *crashFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if err := f.usable("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, syscall.EINVAL)
	}
	n := f.n.content.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements File. In a checked build it spoils p, as the contract of File allows.
func (f *crashFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.put(p, f.pos)
	f.pos += int64(n)
	if invariants.Expensive {
		spoil(p)
	}
	return n, err
}

// spoil finds callers that use what they have handed to Write.
func spoil(p []byte) {
	for i := range p {
		p[i] ^= 0xff
	}
}

// WriteAt implements File.
func (f *crashFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.put(p, off)
}

// writev takes all buffers as one write.
func (f *crashFile) writev(off int64, bufs [][]byte) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	for _, b := range bufs {
		if _, err := f.put(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// put writes as much of p as fits on the disk.
func (f *crashFile) put(p []byte, off int64) (n int, err error) {
	if err := f.usable("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("write", f.name, syscall.EINVAL)
	}
	if room := f.fs.room(&f.n.content); off+int64(len(p)) > room {
		p = p[:max(0, min(room-off, int64(len(p))))]
		err = pathError("write", f.name, syscall.ENOSPC)
	}
	if len(p) > 0 {
		before := f.n.content.blocks()
		f.n.content.writeAt(p, off)
		f.fs.used += f.n.content.blocks() - before
		f.touch()
	}
	return len(p), err
}

func (f *crashFile) touch() {
	f.fs.ticks++
	f.n.changed = f.fs.ticks
}

// room is the size up to which a file may grow.
func (c *Crashing) room(of *content) int64 {
	if c.capacity == 0 {
		return 1 << 62
	}
	return (of.blocks() + max(0, c.capacity/blockSize-c.used)) * blockSize
}

// Truncate sets the file's size.
func (f *crashFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, syscall.EINVAL)
	}
	before := f.n.content.blocks()
	f.n.content.truncate(size)
	f.fs.used += f.n.content.blocks() - before
	f.touch()
	return nil
}

// Preallocate implements File: it takes space on the disk and leaves the size.
func (f *crashFile) Preallocate(off, length int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("preallocate", true); err != nil {
		return err
	}
	if off < 0 || length <= 0 { // as fallocate(2)
		return pathError("preallocate", f.name, syscall.EINVAL)
	}
	if off+length > f.fs.room(&f.n.content) {
		return pathError("preallocate", f.name, syscall.ENOSPC)
	}
	before := f.n.content.blocks()
	f.n.content.reserved = max(f.n.content.reserved, blocksOf(off+length))
	f.fs.used += f.n.content.blocks() - before
	return nil
}

// Stat implements File.
func (f *crashFile) Stat() (FileInfo, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return nil, pathError("stat", f.name, fs.ErrClosed)
	}
	return f.n.info(f.name), nil
}

// Sync implements File.
func (f *crashFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch {
	case f.closed:
		return pathError("sync", f.name, fs.ErrClosed)
	case f.n.isDir():
		f.fs.syncDir(f.n)
	default:
		f.n.content.sync()
	}
	return nil
}

// SyncData implements File. The size is durable too, since it is needed to read the data.
func (f *crashFile) SyncData() error { return f.Sync() }

// SyncTo implements File and makes nothing durable, which its contract allows.
func (f *crashFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }

// loseUnsynced is what a failed sync does: rule 4 of Crashing.
func (f *crashFile) loseUnsynced() {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if !f.n.isDir() {
		f.n.content.lose()
	}
}

// Prefetch implements File.
func (f *crashFile) Prefetch(int64, int64) error { return nil }

// Fd implements File: the kernel does not know it.
func (f *crashFile) Fd() uintptr { return InvalidFd }
