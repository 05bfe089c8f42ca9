package state

import (
	"encoding/binary"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"godwit/internal/base"
	"godwit/internal/vfs"
)

// Options of a store; zero values stand for the defaults.
type Options struct {
	CacheBytes    int64 // block cache, 8 MiB by default
	MemTableBytes int64 // one memtable, 4 MiB by default
	Logger        *slog.Logger
}

// Store is the state store of a node. It is safe for concurrent use.
type Store struct {
	db *pebble.DB

	mu         sync.Mutex
	replayFrom base.Position
}

const nodeShard = ^base.ShardID(0)

const (
	kindApplied = 'a'
	kindReplay  = 'r'
	kindValue   = 'v'
)

func prefix(dst []byte, shard base.ShardID) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(shard))
}

func nodeKey(kind byte, rest []byte) []byte {
	return append(append(prefix(nil, nodeShard), kind), rest...)
}

func appliedKey(shard base.ShardID) []byte { return nodeKey(kindApplied, prefix(nil, shard)) }

// Open opens or makes the store in dir, whose parent must exist.
func Open(fs vfs.FS, dir string, o Options) (*Store, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 8 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 4 << 20
	}
	cache := pebble.NewCache(o.CacheBytes)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{FS: fs, DisableWAL: true, Cache: cache, MemTableSize: uint64(o.MemTableBytes),
		FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	if err != nil {
		return nil, err
	}
	s := &Store{db: db}
	if err := s.recover(); err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

type quiet struct{}

func (quiet) Infof(string, ...any)      {}
func (quiet) Errorf(string, ...any)     {}
func (quiet) Fatalf(f string, a ...any) { panic("pebble") }

func (s *Store) recover() error {
	b, ok, err := s.get(nodeKey(kindReplay, nil))
	if err != nil {
		return err
	}
	if ok {
		s.replayFrom = base.Position(binary.BigEndian.Uint64(b))
	}
	return nil
}

func (s *Store) get(key []byte) ([]byte, bool, error) {
	v, c, err := s.db.Get(key)
	if err == pebble.ErrNotFound {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	return append([]byte{}, v...), true, nil
}

func (s *Store) scan(lower, upper []byte, fn func(key, value []byte) error) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := fn(it.Key(), it.Value()); err != nil {
			it.Close()
			return err
		}
	}
	if err := it.Error(); err != nil {
		it.Close()
		return err
	}
	return it.Close()
}

// Load calls fn for every key of a shard, in order. Key and value are only valid during the call.
func (s *Store) Load(shard base.ShardID, fn func(key, value []byte) error) error {
	return s.scan(prefix(nil, shard), prefix(nil, shard+1), func(k, v []byte) error { return fn(k[4:], v) })
}

// Applied is the index and term that the stored state of a shard goes up to; 0, 0 if there is none.
func (s *Store) Applied(shard base.ShardID) (index, term uint64, err error) {
	v, ok, err := s.get(appliedKey(shard))
	if err != nil || !ok {
		return 0, 0, err
	}
	return binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:]), nil
}

// ReplayFrom is the position that the last Flush made durable; 0 if there was none.
func (s *Store) ReplayFrom() base.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replayFrom
}

// Write changes keys of a shard and its applied index, all or nothing.
func (s *Store) Write(shard base.ShardID, index, term uint64, fill func(put func(key, value []byte), del func(key []byte))) error {
	b := s.db.NewBatch()
	defer b.Close()
	var key []byte
	var failure error
	keep := func(err error) {
		if failure == nil {
			failure = err
		}
	}
	fill(func(k, v []byte) {
		key = append(prefix(key[:0], shard), k...)
		keep(b.Set(key, v, nil))
	}, func(k []byte) {
		key = append(prefix(key[:0], shard), k...)
		keep(b.Delete(key, nil))
	})
	keep(b.Set(appliedKey(shard), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, index), term), nil))
	if failure != nil {
		return failure
	}
	return b.Commit(pebble.NoSync)
}

// Flush makes everything written so far durable, together with the position from which the log
// has to be replayed. It returns when all is on disk.
func (s *Store) Flush(replayFrom base.Position) error {
	if err := s.db.Set(nodeKey(kindReplay, nil), binary.BigEndian.AppendUint64(nil, uint64(replayFrom)), pebble.NoSync); err != nil {
		return err
	}
	if err := s.db.Flush(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replayFrom = replayFrom
	return nil
}

// Close flushes and closes the store.
func (s *Store) Close() error {
	if err := s.db.Flush(); err != nil {
		return err
	}
	return s.db.Close()
}

// DiskBytes is the space that the store takes.
func (s *Store) DiskBytes() uint64 { return s.db.Metrics().DiskSpaceUsage() }
