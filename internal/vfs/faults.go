package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"sync/atomic"
)

// Op is a set of kinds of operations on a file system.
type Op uint16

// The kinds of operations.
const (
	OpRead Op = 1 << iota
	OpWrite
	OpSync    // of a file: Sync, SyncData
	OpSyncDir // of a directory
	OpCreate
	OpOpen // for reading, for writing, of a directory
	OpRename
	OpRemove
	OpLink
	OpMkdir
	OpTruncate
	OpPreallocate
	OpList
	OpStat
	OpLock

	// OpChange is all that changes what is or will be on disk.
	OpChange = OpWrite | OpSync | OpSyncDir | OpCreate | OpRename | OpRemove | OpLink | OpMkdir | OpTruncate | OpPreallocate
	// OpAll is every operation.
	OpAll = 1<<15 - 1
)

// Rule says which operations go wrong and how. Of the operations that match, the first After pass, then Count are hit;
// each only with the given probability, if there is one.
type Rule struct {
	Ops         Op      // any of these
	Path        string  // pattern of path.Match: for the whole path if it has a slash, else for the last element; "" = all
	After       int     // matching operations that pass first
	Count       int     // operations hit at most; 0 = all
	Probability float64 // of a hit, in (0, 1]; 0 = 1

	// Err is returned by the operation, which is not carried out; syscall.EIO and syscall.ENOSPC are usual.
	Err error
	// Partial lets a write that fails put a random part of its bytes into the file first.
	Partial bool
	// Drop makes a sync return nil without doing anything: a broken disk, or a program without the call.
	// Err must be nil then.
	Drop bool
}

func (r *Rule) matches(op Op, name string) bool {
	if r.Ops&op == 0 {
		return false
	}
	if r.Path == "" {
		return true
	}
	if !strings.Contains(r.Path, "/") {
		name = path.Base(name)
	}
	ok, err := path.Match(r.Path, name)
	return ok && err == nil
}

// Injection is a rule at work.
type Injection struct {
	rule Rule
	f    *Faults
	seen int
	hits atomic.Int64
}

// Hits is how many operations the rule has hit.
func (i *Injection) Hits() int64 { return i.hits.Load() }

// Stop ends the rule.
func (i *Injection) Stop() {
	i.f.mu.Lock()
	defer i.f.mu.Unlock()
	for k, other := range i.f.rules {
		if other == i {
			i.f.rules = append(i.f.rules[:k:k], i.f.rules[k+1:]...)
			return
		}
	}
}

// Counts are the operations since a Faults was made, those that failed included.
type Counts struct {
	Reads, ReadBytes     int64
	Writes, WrittenBytes int64 // a Writev is one write
	Syncs                int64 // of files
	DirSyncs             int64
	Creates              int64
	Opens                int64
	Renames              int64
	Removes              int64
}

// Event is an operation that is about to happen.
type Event struct {
	Op   Op // one of OpChange
	Path string
	N    int64 // counts the events from 1
}

// ErrPowerOff is returned by every operation after PowerOff.
var ErrPowerOff = errors.New("the power is off")

// Faults wraps a file system and makes it hostile.
//
// The fault model:
//
//  1. An operation fails by rule, with the rule's error, and has no effect; but a failed write may have
//     written a part (Rule.Partial), and after a failed sync the bytes not synced so far never reach the disk of a Crashing by
//     a later sync, since Linux drops them.
//  2. A sync is lost by rule (Rule.Drop): it returns nil, and the bytes stay unsynced.
//  3. SyncTo does nothing, as its contract allows.
//  4. After PowerOff every operation fails. What the disk then holds is for Crashing.CrashClone to say.
//
// Latency, reordering of operations and wrong data are not part of the model. Rules are tried in the order in which they
// were made; the first that hits decides. Probabilities are drawn from one seeded source, so a program that
// does the same operations in the same order sees the same faults.
type Faults struct {
	base FS
	off  atomic.Bool
	n    atomic.Int64 // events

	reads, readBytes, writes, writtenBytes, syncs, dirSyncs atomic.Int64
	creates, opens, renames, removes                        atomic.Int64

	mu    sync.Mutex // below everything: nothing is called while it is held
	rng   *rand.Rand
	rules []*Injection
	hook  func(Event)
}

var _ FS = (*Faults)(nil)

// NewFaults wraps a file system; the seed is for the probabilities of rules.
func NewFaults(base FS, seed uint64) *Faults {
	return &Faults{base: base, rng: rand.New(rand.NewPCG(seed, 0))}
}

// Inject adds a rule.
func (f *Faults) Inject(r Rule) *Injection {
	if (r.Err == nil) != r.Drop || r.Drop && r.Ops&^(OpSync|OpSyncDir) != 0 {
		panic("a rule has an error, or drops syncs and nothing else")
	}
	if _, err := path.Match(r.Path, ""); err != nil {
		panic("pattern " + r.Path + ": " + err.Error())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := &Injection{rule: r, f: f}
	f.rules = append(f.rules[:len(f.rules):len(f.rules)], i)
	return i
}

// Clear ends all rules.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Hook has fn called before every operation of OpChange, from the goroutine that does it. fn may take a
// CrashClone, inject rules and cut the power; the operation then sees that. nil ends it.
func (f *Faults) Hook(fn func(Event)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = fn
}

// PowerOff makes this and all later operations fail, so that what still runs on the file system comes to an end. A sync
// that is under way in another goroutine fails too: whether a CrashClone has what it wrote is not known.
func (f *Faults) PowerOff() { f.off.Store(true) }

// Counts is the number of operations so far.
func (f *Faults) Counts() Counts {
	return Counts{
		Reads: f.reads.Load(), ReadBytes: f.readBytes.Load(), Writes: f.writes.Load(), WrittenBytes: f.writtenBytes.Load(),
		Syncs: f.syncs.Load(), DirSyncs: f.dirSyncs.Load(), Creates: f.creates.Load(), Opens: f.opens.Load(),
		Renames: f.renames.Load(), Removes: f.removes.Load(),
	}
}

// SetCapacity bounds the disk of the Crashing at the bottom: see there. On another file system it panics;
// use a rule with syscall.ENOSPC.
func (f *Faults) SetCapacity(bytes int64) {
	for base := f.base; base != nil; base = base.Unwrap() {
		if c, ok := base.(*Crashing); ok {
			c.SetCapacity(bytes)
			return
		}
	}
	panic("only a Crashing file system has a capacity")
}

// verdict is what happens to an operation.
type verdict struct {
	err  error
	drop bool
	part float64 // share of a failed write that is done all the same
}

// before is called by every operation.
func (f *Faults) before(op Op, name string) (v verdict) {
	if op&OpChange != 0 {
		f.mu.Lock()
		hook := f.hook
		f.mu.Unlock()
		if n := f.n.Add(1); hook != nil {
			hook(Event{op, name, n})
		}
	}
	if f.off.Load() {
		return verdict{err: ErrPowerOff}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.rules {
		r := &i.rule
		if !r.matches(op, name) {
			continue
		}
		if i.seen++; i.seen <= r.After || r.Count > 0 && i.hits.Load() >= int64(r.Count) {
			continue
		}
		if r.Probability > 0 && f.rng.Float64() >= r.Probability {
			continue
		}
		i.hits.Add(1)
		v.drop = r.Drop
		if r.Err != nil {
			v.err = &fs.PathError{Op: "injected", Path: name, Err: r.Err}
		}
		if r.Partial {
			v.part = f.rng.Float64()
		}
		return v
	}
	return v
}

// check is before for operations that only fail or not.
func (f *Faults) check(op Op, name string) error { return f.before(op, name).err }

func (f *Faults) wrap(file File, err error, name string, dir bool) (File, error) {
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: file, f: f, path: name, dir: dir}, nil
}

// Create implements FS.
func (f *Faults) Create(name string, c Category) (File, error) {
	f.creates.Add(1)
	if err := f.check(OpCreate, name); err != nil {
		return nil, err
	}
	file, err := f.base.Create(name, c)
	return f.wrap(file, err, name, false)
}

// Open implements FS.
func (f *Faults) Open(name string, opts ...OpenOption) (File, error) {
	f.opens.Add(1)
	if err := f.check(OpOpen, name); err != nil {
		return nil, err
	}
	file, err := f.base.Open(name, opts...)
	return f.wrap(file, err, name, false)
}

// OpenReadWrite implements FS. If it would have to make the file it counts as OpCreate too.
func (f *Faults) OpenReadWrite(name string, c Category, opts ...OpenOption) (File, error) {
	f.opens.Add(1)
	if err := f.check(OpOpen, name); err != nil {
		return nil, err
	}
	if _, err := f.base.Stat(name); errors.Is(err, fs.ErrNotExist) {
		f.creates.Add(1)
		if err := f.check(OpCreate, name); err != nil {
			return nil, err
		}
	}
	file, err := f.base.OpenReadWrite(name, c, opts...)
	return f.wrap(file, err, name, false)
}

// OpenDir implements FS.
func (f *Faults) OpenDir(name string) (File, error) {
	f.opens.Add(1)
	if err := f.check(OpOpen, name); err != nil {
		return nil, err
	}
	file, err := f.base.OpenDir(name)
	return f.wrap(file, err, name, true)
}

// Link implements FS.
func (f *Faults) Link(oldname, newname string) error {
	if err := f.check(OpLink, newname); err != nil {
		return err
	}
	return f.base.Link(oldname, newname)
}

// Remove implements FS.
func (f *Faults) Remove(name string) error {
	f.removes.Add(1)
	if err := f.check(OpRemove, name); err != nil {
		return err
	}
	return f.base.Remove(name)
}

// RemoveAll implements FS; it counts as one removal.
func (f *Faults) RemoveAll(name string) error {
	f.removes.Add(1)
	if err := f.check(OpRemove, name); err != nil {
		return err
	}
	return f.base.RemoveAll(name)
}

// Rename implements FS. Rules see the new name.
func (f *Faults) Rename(oldname, newname string) error {
	f.renames.Add(1)
	if err := f.check(OpRename, newname); err != nil {
		return err
	}
	return f.base.Rename(oldname, newname)
}

// ReuseForWrite implements FS.
func (f *Faults) ReuseForWrite(oldname, newname string, c Category) (File, error) {
	f.renames.Add(1)
	if err := f.check(OpRename, newname); err != nil {
		return nil, err
	}
	file, err := f.base.ReuseForWrite(oldname, newname, c)
	return f.wrap(file, err, newname, false)
}

// MkdirAll implements FS.
func (f *Faults) MkdirAll(name string, perm fs.FileMode) error {
	if err := f.check(OpMkdir, name); err != nil {
		return err
	}
	return f.base.MkdirAll(name, perm)
}

// Lock implements FS.
func (f *Faults) Lock(name string) (io.Closer, error) {
	if err := f.check(OpLock, name); err != nil {
		return nil, err
	}
	return f.base.Lock(name)
}

// List implements FS.
func (f *Faults) List(name string) ([]string, error) {
	if err := f.check(OpList, name); err != nil {
		return nil, err
	}
	return f.base.List(name)
}

// Stat implements FS.
func (f *Faults) Stat(name string) (FileInfo, error) {
	if err := f.check(OpStat, name); err != nil {
		return nil, err
	}
	return f.base.Stat(name)
}

// GetDiskUsage implements FS.
func (f *Faults) GetDiskUsage(name string) (DiskUsage, error) { return f.base.GetDiskUsage(name) }

// PathBase implements FS.
func (f *Faults) PathBase(p string) string { return f.base.PathBase(p) }

// PathJoin implements FS.
func (f *Faults) PathJoin(elem ...string) string { return f.base.PathJoin(elem...) }

// PathDir implements FS.
func (f *Faults) PathDir(p string) string { return f.base.PathDir(p) }

// Unwrap implements FS.
func (f *Faults) Unwrap() FS { return f.base }
