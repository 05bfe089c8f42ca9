package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"godwit/internal/base"
	"godwit/internal/invariants"
	"godwit/internal/vfs"
)

// formatMajorVersion is pinned: raising it makes stores that older releases cannot open.
const formatMajorVersion = pebble.FormatValueSeparation

// layoutVersion is the version of the keys and values described in doc.go.
const layoutVersion = 1

// Options of a store. Zero values stand for the defaults.
type Options struct {
	CacheBytes    int64        // blocks kept in memory, 8 MiB by default
	MemTableBytes int64        // one memtable, 4 MiB by default; up to unflushedTables of them are in memory
	Logger        *slog.Logger // nothing is logged by default
}

// unflushedTables is how many memtables' worth of writes may wait for the disk before Write waits too.
const unflushedTables = 4

func (o *Options) fill() {
	if o.CacheBytes == 0 {
		o.CacheBytes = 8 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 4 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Store is a node's state store. All methods are safe for concurrent use; but Write, Put and Flush have one caller, who
// keeps to the package's contract.
type Store struct {
	fs   vfs.FS
	dir  string
	opts Options
	lock io.Closer

	cache *pebble.Cache // outlives an instance

	mu        sync.Mutex      // held by all that writes; taken before life
	pending   <-chan struct{} // closed when the flush is done that failed so far
	unflushed int64           // bytes written since the last flush
	closed    bool

	life sync.RWMutex // read: inst is in use; write: it is replaced
	inst *instance    // nil: it died and could not be opened anew

	replayFrom atomic.Uint64
	reopened   atomic.Int64
}

// Open opens or makes the store in dir. An error says what to do, if anything can be done: a
// second process in the same directory, a store of a later release, damage (CodeCorruption).
func Open(fsys vfs.FS, dir string, o Options) (*Store, error) {
	o.fill()
	if err := vfs.MkdirAll(fsys, dir, 0o755); err != nil {
		return nil, failure("making its directory", err)
	}
	lock, err := vfs.LockDir(fsys, fsys.PathJoin(dir, "LOCK"))
	if err != nil {
		return nil, failure("opening", err)
	}
	s := &Store{fs: fsys, dir: dir, opts: o, lock: lock, cache: pebble.NewCache(o.CacheBytes)}
	if err := s.open(); err != nil {
		s.cache.Unref()
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// open makes a new instance and reads from it what the store keeps in memory.
func (s *Store) open() error {
	inst, err := openInstance(s.fs, s.dir, s.cache, &s.opts)
	if err != nil {
		return failure("opening "+s.dir, err)
	}
	replayFrom, err := inst.readNode()
	if err == nil {
		err = inst.harden()
	}
	if err != nil {
		return errors.Join(failure("opening "+s.dir, err), inst.close())
	}
	s.replayFrom.Store(replayFrom)
	s.pending, s.unflushed = nil, 0
	s.life.Lock()
	defer s.life.Unlock()
	s.inst = inst
	return nil
}

// readNode checks the version of the layout and reads the replay position.
func (i *instance) readNode() (replayFrom uint64, err error) {
	version, err := i.getNumber(nodeKey(nodeFormat), 4)
	if err != nil {
		return 0, err
	}
	if version > layoutVersion {
		return 0, fmt.Errorf("its format is version %d and this release reads up to %d: start the release that wrote it, or a later one", version, layoutVersion)
	}
	return i.getNumber(nodeKey(nodeReplay), 8)
}

// harden makes durable what was read: after a failed sync of the manifest the page cache may hold records of it that the
// disk does not. The first flush after opening writes a new one.
func (i *instance) harden() error {
	if err := i.db.Set(nodeKey(nodeFormat), binary.BigEndian.AppendUint32(nil, layoutVersion), pebble.NoSync); err != nil {
		return err
	}
	flushed, err := i.db.AsyncFlush()
	if err != nil {
		return err
	}
	return i.wait(flushed)
}

// getNumber reads a number of size bytes; 0 if there is none.
func (i *instance) getNumber(key []byte, size int) (uint64, error) {
	v, ok, err := i.get(key)
	if err != nil || !ok {
		return 0, err
	}
	if len(v) != size {
		return 0, base.Errorf(base.CodeCorruption, "value of %x has %d bytes, not %d", key, len(v), size)
	}
	return binary.BigEndian.Uint64(append(make([]byte, 8-size, 8), v...)), nil
}

// get reads a copy of one value.
func (i *instance) get(key []byte) (value []byte, ok bool, err error) {
	v, c, err := i.db.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, failure("reading", err)
	}
	defer c.Close()
	return append([]byte{}, v...), true, nil
}

// ready is called with mu held before anything is written: it makes up for an earlier failure, or fails.
func (s *Store) ready() error {
	switch {
	case s.closed:
		return errClosed
	case s.inst == nil:
		// The caller was told when the instance died, and writes again what got lost.
		return s.revive()
	}
	if err := s.inst.death(); err != nil {
		return s.bury(err)
	}
	if s.pending == nil && s.inst.failing() == nil {
		return nil
	}
	return s.flushTables()
}

// bury replaces a dead instance and returns what it died of: its unflushed writes are lost, so the caller has to know.
func (s *Store) bury(cause error) error {
	s.life.Lock()
	_ = s.inst.close() // it is dead: there is nothing to fail
	s.inst = nil
	s.life.Unlock()
	if err := s.revive(); err != nil {
		s.opts.Logger.Error("state store: cannot be opened anew", "error", err)
	}
	return cause
}

func (s *Store) revive() error {
	if err := s.open(); err != nil {
		return err
	}
	s.reopened.Add(1)
	return nil
}

// flushTables writes all memtables to disk and waits for it. If it fails the next call waits for the same flush again, so
// that failures do not add up in memory.
func (s *Store) flushTables() error {
	i := s.inst
	select {
	case <-i.wake: // of a failure that was reported before
	default:
	}
	if s.pending == nil {
		flushed, err := i.db.AsyncFlush()
		if err != nil {
			return err
		}
		s.pending = flushed
	}
	i.resume()
	if err := i.wait(s.pending); err != nil {
		if i.death() != nil {
			return s.bury(err)
		}
		return err
	}
	s.pending, s.unflushed = nil, 0
	return nil
}

// commit applies a batch in memory, after waiting for the disk if too much is in memory.
func (s *Store) commit(b *pebble.Batch) error {
	if size := int64(b.Len()); s.unflushed > 0 && s.unflushed+size > unflushedTables*s.opts.MemTableBytes {
		if err := s.flushTables(); err != nil {
			return err
		}
	}
	s.unflushed += int64(b.Len())
	if err := b.Commit(pebble.NoSync); err != nil {
		return err
	}
	if err := s.inst.death(); err != nil {
		return s.bury(err)
	}
	return nil
}

// write makes a batch and commits it.
func (s *Store) write(fill func(b *pebble.Batch) error) error {
	if err := s.ready(); err != nil {
		return err
	}
	b := s.inst.db.NewBatch()
	err := fill(b)
	if err == nil {
		err = s.commit(b)
	}
	return errors.Join(err, b.Close())
}

// Write changes keys of a shard, together with the index and term of the last entry that the changes include. The
// arguments of put and del may be reused after the call; of two changes of one key the later holds. Nothing is changed
// if it fails. See the package's contract for what has to be on disk before.
func (s *Store) Write(shard base.ShardID, index, term uint64, fill func(put func(key, value []byte), del func(key []byte))) error {
	invariants.Check(shard != nodeShard, "shard %d is not a shard", shard)
	s.mu.Lock()
	defer s.mu.Unlock()
	return failure("writing", s.write(func(b *pebble.Batch) error {
		var key []byte
		var errs error
		fill(func(k, value []byte) {
			key = append(shardKey(key[:0], shard), k...)
			errs = errors.Join(errs, b.Set(key, value, nil))
		}, func(k []byte) {
			key = append(shardKey(key[:0], shard), k...)
			errs = errors.Join(errs, b.Delete(key, nil))
		})
		at := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, index), term)
		return errors.Join(errs, b.Set(appliedKey(shard), at, nil))
	}))
}

// Put sets a value of the node, such as its identity. Like a Write it is durable after the next Flush.
func (s *Store) Put(name string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return failure("writing", s.write(func(b *pebble.Batch) error {
		return b.Set(nodeKey(nodeValue, []byte(name)...), value, nil)
	}))
}

// Flush makes everything written so far durable, together with the position in the log from which it has
// to be replayed: all entries in front of it are part of what was written. The position never
// falls. Flush returns when all is on disk; if it fails the old position holds, or, after a crash, the new. If nothing
// changed since the last Flush it does nothing.
func (s *Store) Flush(replayFrom base.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	invariants.Check(replayFrom >= s.ReplayFrom(), "replay position falls from %v to %v", s.ReplayFrom(), replayFrom)
	err := s.ready()
	if err == nil && s.unflushed == 0 && replayFrom == s.ReplayFrom() {
		return nil
	}
	if err != nil {
		return failure("flushing", err)
	}
	err = s.write(func(b *pebble.Batch) error {
		return b.Set(nodeKey(nodeReplay), binary.BigEndian.AppendUint64(nil, uint64(replayFrom)), nil)
	})
	if err == nil {
		err = s.flushTables()
	}
	if err != nil {
		return failure("flushing", err)
	}
	s.replayFrom.Store(uint64(replayFrom))
	return nil
}

// ReplayFrom is the position of the last Flush that returned nil, or what was found at opening; 0 in a new store.
func (s *Store) ReplayFrom() base.Position { return base.Position(s.replayFrom.Load()) }

// Close flushes what was written, without moving the replay position, and closes the store. It always closes it: an
// error says that something was not flushed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return failure("closing", errClosed)
	}
	var errs error
	if s.inst != nil {
		errs = s.ready()
	}
	if errs == nil && s.inst != nil {
		errs = s.flushTables()
	}
	s.closed = true
	s.life.Lock()
	defer s.life.Unlock()
	if s.inst != nil {
		errs = errors.Join(errs, s.inst.close())
		s.inst = nil
	}
	s.cache.Unref()
	return failure("closing", errors.Join(errs, s.lock.Close()))
}
