package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Crashing is a file system in memory that can lose power. It behaves like Linux towards the running
// program; CrashClone answers what the disk holds afterwards.
//
// The fault model. Of what was not synced, any part may have reached the disk:
//
//  1. Written bytes reach the disk in any subset and order of 4 KiB blocks, and a block may be torn at
//     any 512-byte sector. A file that grew may have any of the new sectors, its old or its new size,
//     or a size in between; what is missing reads as zeros. A truncation happened or did not.
//  2. File.Sync and File.SyncData make the file's bytes and size durable, and not its name. SyncTo makes nothing durable.
//  3. Creation, removal, rename, link and mkdir are each atomic, and durable after a sync of
//     the directory. Before, any subset of them may have reached the disk; only changes of the same name keep their order.
//     A file is reachable after a crash only if every directory above it is.
//  4. After a sync that failed (see Faults), the bytes written before are in memory only: a later sync
//     returns nil and does not write them.
//  5. What was synced is on the disk, unchanged. Bit rot is not part of the model.
//
// All times are counted, not read: the modification time rises by a second with each change. All
// methods are safe for concurrent use. A sync costs what was written since the last, whatever the
// file's size; a clone shares all unchanged blocks.
type Crashing struct {
	mu       sync.RWMutex
	root     *inode
	pending  []*change // changes of names that are not durable, in order
	locks    map[string]bool
	used     int64 // blocks of all files that have a name or are open
	capacity int64 // bytes; 0 = unlimited
	ticks    int64 // changes so far: the clock
}

var _ FS = (*Crashing)(nil)

// inode is a file or a directory, whatever names it has.
type inode struct {
	entries map[string]*inode // of a directory; nil for a file
	durable map[string]*inode // what a crash leaves of entries, but for pending changes
	content content           // of a file
	links   int               // names
	opens   int               // handles
	changed int64             // tick of the last change
}

func (n *inode) isDir() bool { return n.entries != nil }

func newDir() *inode {
	return &inode{entries: map[string]*inode{}, durable: map[string]*inode{}}
}

// change is one atomic change of names.
type change struct {
	edits []edit
}

// edit sets or, with a nil target, removes one name.
type edit struct {
	slot slot
	to   *inode
}

type slot struct {
	dir  *inode
	name string
}

// NewCrashing makes an empty file system.
func NewCrashing() *Crashing {
	return &Crashing{root: newDir(), locks: map[string]bool{}}
}

// SetCapacity bounds the disk: a write, or a reservation, that needs more fails with syscall.ENOSPC, after
// having written what fits. Files count in blocks of 4 KiB up to the last that was written or preallocated; one that
// was removed counts until it is closed. 0 removes the bound.
func (c *Crashing) SetCapacity(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.capacity = bytes
}

// Used is the number of bytes that count against the capacity.
func (c *Crashing) Used() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.used * blockSize
}

// GetDiskUsage implements FS. Without a capacity the disk has 1 TiB.
func (c *Crashing) GetDiskUsage(string) (DiskUsage, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	total := c.capacity
	if total == 0 {
		total = 1 << 40
	}
	used := c.used * blockSize
	return DiskUsage{TotalBytes: uint64(total), UsedBytes: uint64(used), AvailBytes: uint64(max(0, total-used))}, nil
}

// clean makes the one spelling of a path: from the root, without a slash at the end.
func clean(name string) string { return path.Clean("/" + name) }

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// find resolves a path; nil if there is nothing.
func (c *Crashing) find(name string) *inode {
	n := c.root
	for part := range strings.SplitSeq(clean(name)[1:], "/") {
		if part == "" {
			return n
		}
		if n = n.entries[part]; n == nil {
			return nil
		}
	}
	return n
}

// slot resolves the directory of a path, which must exist.
func (c *Crashing) slot(name string) (slot, error) {
	dir, base := path.Split(clean(name))
	n := c.find(dir)
	switch {
	case base == "":
		return slot{}, syscall.EINVAL
	case n == nil:
		return slot{}, syscall.ENOENT
	case !n.isDir():
		return slot{}, syscall.ENOTDIR
	}
	return slot{n, base}, nil
}

// apply carries out a change in memory and notes that it is not durable.
func (c *Crashing) apply(edits ...edit) {
	c.ticks++
	for _, e := range edits {
		if old := e.slot.dir.entries[e.slot.name]; old != nil {
			old.links--
			c.reclaim(old)
		}
		if e.to == nil {
			delete(e.slot.dir.entries, e.slot.name)
		} else {
			e.to.links++
			e.slot.dir.entries[e.slot.name] = e.to
		}
		e.slot.dir.changed = c.ticks
	}
	c.pending = append(c.pending, &change{edits})
}

// reclaim gives back the space of a file without names and handles.
func (c *Crashing) reclaim(n *inode) {
	if n.links == 0 && n.opens == 0 {
		c.used -= n.content.blocks()
		n.content.reserved, n.content.live, n.content.size = 0, nil, 0
	}
}

// syncDir makes all changes that touch dir durable, with those that they build on.
func (c *Crashing) syncDir(dir *inode) {
	needed := map[slot]bool{}
	takes := make([]bool, len(c.pending))
	for i, ch := range slices.Backward(c.pending) {
		takes[i] = slices.ContainsFunc(ch.edits, func(e edit) bool { return e.slot.dir == dir || needed[e.slot] })
		if takes[i] {
			for _, e := range ch.edits {
				needed[e.slot] = true
			}
		}
	}
	kept := c.pending[:0]
	for i, ch := range c.pending {
		if !takes[i] {
			kept = append(kept, ch)
			continue
		}
		for _, e := range ch.edits {
			e.persist(e.slot.dir.durable)
		}
	}
	clear(c.pending[len(kept):])
	c.pending = kept
}

func (e edit) persist(durable map[string]*inode) {
	if e.to == nil {
		delete(durable, e.slot.name)
	} else {
		durable[e.slot.name] = e.to
	}
}

// Create implements FS.
func (c *Crashing) Create(name string, _ Category) (File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.create("create", name)
}

func (c *Crashing) create(op, name string) (File, error) {
	at, err := c.slot(name)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	if old := at.dir.entries[at.name]; old != nil {
		if old.isDir() {
			return nil, pathError(op, name, syscall.EISDIR)
		}
		c.apply(edit{at, nil})
	}
	n := &inode{}
	c.apply(edit{at, n})
	n.changed = c.ticks
	return c.handle(n, name, true), nil
}

func (c *Crashing) handle(n *inode, name string, write bool) *crashFile {
	n.opens++
	return &crashFile{fs: c, n: n, name: path.Base(clean(name)), write: write}
}

// Open implements FS.
func (c *Crashing) Open(name string, opts ...OpenOption) (File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.find(name)
	if n == nil {
		return nil, pathError("open", name, syscall.ENOENT)
	}
	return c.handle(n, name, false), nil
}

// OpenReadWrite implements FS.
func (c *Crashing) OpenReadWrite(name string, _ Category, opts ...OpenOption) (File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.find(name)
	switch {
	case n == nil:
		return c.create("open", name)
	case n.isDir():
		return nil, pathError("open", name, syscall.EISDIR)
	}
	return c.handle(n, name, true), nil
}

// OpenDir implements FS.
func (c *Crashing) OpenDir(name string) (File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.find(name)
	switch {
	case n == nil:
		return nil, pathError("open", name, syscall.ENOENT)
	case !n.isDir():
		return nil, pathError("open", name, syscall.ENOTDIR)
	}
	return c.handle(n, name, false), nil
}

// Link implements FS.
func (c *Crashing) Link(oldname, newname string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.find(oldname)
	if n == nil {
		return pathError("link", oldname, syscall.ENOENT)
	}
	if n.isDir() {
		return pathError("link", oldname, syscall.EPERM)
	}
	at, err := c.slot(newname)
	if err != nil {
		return pathError("link", newname, err)
	}
	if at.dir.entries[at.name] != nil {
		return pathError("link", newname, syscall.EEXIST)
	}
	c.apply(edit{at, n})
	return nil
}

// Remove implements FS.
func (c *Crashing) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.find(name)
	switch {
	case n == nil:
		return pathError("remove", name, syscall.ENOENT)
	case len(n.entries) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	at, err := c.slot(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	c.apply(edit{at, nil})
	return nil
}

// RemoveAll implements FS. Each name below is removed by a change of its own.
func (c *Crashing) RemoveAll(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, err := c.slot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathError("removeall", name, err)
	}
	c.removeAll(at)
	return nil
}

func (c *Crashing) removeAll(at slot) {
	n := at.dir.entries[at.name]
	if n == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		c.removeAll(slot{n, name})
	}
	c.apply(edit{at, nil})
}

// Rename implements FS.
func (c *Crashing) Rename(oldname, newname string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rename(oldname, newname)
}

func (c *Crashing) rename(oldname, newname string) error {
	n := c.find(oldname)
	if n == nil {
		return pathError("rename", oldname, syscall.ENOENT)
	}
	from, err := c.slot(oldname)
	if err != nil {
		return pathError("rename", oldname, err)
	}
	to, err := c.slot(newname)
	if err != nil {
		return pathError("rename", newname, err)
	}
	switch old := to.dir.entries[to.name]; {
	case old == nil:
	case old == n:
		return nil
	case old.isDir() && !n.isDir():
		return pathError("rename", newname, syscall.EISDIR)
	case !old.isDir() && n.isDir():
		return pathError("rename", newname, syscall.ENOTDIR)
	case len(old.entries) > 0:
		return pathError("rename", newname, syscall.ENOTEMPTY)
	}
	if n.isDir() && strings.HasPrefix(clean(newname)+"/", clean(oldname)+"/") {
		return pathError("rename", newname, syscall.EINVAL)
	}
	c.apply(edit{to, n}, edit{from, nil})
	return nil
}

// ReuseForWrite implements FS.
func (c *Crashing) ReuseForWrite(oldname, newname string, _ Category) (File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.rename(oldname, newname); err != nil {
		return nil, err
	}
	return c.handle(c.find(newname), newname, true), nil
}

// MkdirAll implements FS.
func (c *Crashing) MkdirAll(name string, _ fs.FileMode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.root
	for part := range strings.SplitSeq(clean(name)[1:], "/") {
		if part == "" {
			break
		}
		next := n.entries[part]
		if next == nil {
			next = newDir()
			c.apply(edit{slot{n, part}, next})
			next.changed = c.ticks
		}
		if !next.isDir() {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		n = next
	}
	return nil
}

// Lock implements FS. The lock is the process's: it does not survive a crash.
func (c *Crashing) Lock(name string) (io.Closer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := clean(name)
	if c.locks[key] {
		return nil, syscall.EAGAIN
	}
	if c.find(name) == nil {
		f, err := c.create("lock", name)
		if err != nil {
			return nil, err
		}
		f.(*crashFile).n.opens--
	}
	c.locks[key] = true
	return &crashLock{c, key}, nil
}

type crashLock struct {
	fs  *Crashing
	key string
}

// Close releases the lock.
func (l *crashLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if !l.fs.locks[l.key] {
		return fs.ErrClosed
	}
	delete(l.fs.locks, l.key)
	return nil
}

// List implements FS; the names are sorted.
func (c *Crashing) List(name string) ([]string, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := c.find(name)
	switch {
	case n == nil:
		return nil, pathError("open", name, syscall.ENOENT)
	case !n.isDir():
		return nil, pathError("readdir", name, syscall.ENOTDIR)
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

// Stat implements FS.
func (c *Crashing) Stat(name string) (FileInfo, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := c.find(name)
	if n == nil {
		return nil, pathError("stat", name, syscall.ENOENT)
	}
	return n.info(path.Base(clean(name))), nil
}

// PathBase implements FS.
func (c *Crashing) PathBase(p string) string { return path.Base(p) }

// PathJoin implements FS.
func (c *Crashing) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir implements FS.
func (c *Crashing) PathDir(p string) string { return path.Dir(p) }

// Unwrap implements FS: there is nothing below.
func (c *Crashing) Unwrap() FS { return nil }

func (n *inode) info(name string) FileInfo {
	mode := fs.FileMode(0o644)
	if n.isDir() {
		mode = fs.ModeDir | 0o755
	}
	return &crashInfo{name: name, size: n.content.size, mode: mode, changed: time.Unix(n.changed, 0)}
}

type crashInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	changed time.Time
}

func (i *crashInfo) Name() string       { return i.name }
func (i *crashInfo) Size() int64        { return i.size }
func (i *crashInfo) Mode() fs.FileMode  { return i.mode }
func (i *crashInfo) ModTime() time.Time { return i.changed }
func (i *crashInfo) IsDir() bool        { return i.mode.IsDir() }
func (i *crashInfo) Sys() any           { return nil }

// DeviceID implements FileInfo: all files are on one device.
func (i *crashInfo) DeviceID() (id DeviceID) { return id }
