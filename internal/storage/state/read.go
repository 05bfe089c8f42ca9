package state

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"godwit/internal/base"
)

// The keys of the node: see doc.go.
const (
	nodeShard = ^base.ShardID(0)

	nodeApplied = 'a'
	nodeFormat  = 'f'
	nodeReplay  = 'r'
	nodeValue   = 'v'
)

func shardKey(dst []byte, shard base.ShardID) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(shard))
}

func nodeKey(kind byte, rest ...byte) []byte {
	return append(append(shardKey(nil, nodeShard), kind), rest...)
}

func appliedKey(shard base.ShardID) []byte { return nodeKey(nodeApplied, shardKey(nil, shard)...) }

// use calls fn with the instance, which stays open meanwhile.
func (s *Store) use(fn func(i *instance) error) error {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.inst == nil {
		return failure("reading", errClosed)
	}
	return failure("reading", fn(s.inst))
}

// Load calls fn for every key of a shard, in order, as of one moment. Key and value are only valid during the call. An
// error of fn ends it and is returned. fn must not call the store.
func (s *Store) Load(shard base.ShardID, fn func(key, value []byte) error) error {
	var failed error
	err := s.scan(shard, Range{}, func(key, value []byte) bool {
		failed = fn(key, value)
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// Range is a part of a shard's keys.
type Range struct {
	From, To []byte // From <= key < To, bytewise; an empty To is the end
	Down     bool   // from the highest key to the lowest
}

// Scan calls fn for the keys of a shard in a range, in order, until it returns false: what was written is seen at once,
// whether it is flushed or not. Key and value are only valid during the call. fn must not call the store.
func (s *Store) Scan(shard base.ShardID, r Range, fn func(key, value []byte) bool) error {
	return s.scan(shard, r, fn)
}

func (s *Store) scan(shard base.ShardID, r Range, fn func(key, value []byte) bool) error {
	return s.use(func(i *instance) error {
		o := pebble.IterOptions{LowerBound: append(shardKey(nil, shard), r.From...), UpperBound: shardKey(nil, shard+1)}
		if len(r.To) > 0 {
			o.UpperBound = append(shardKey(nil, shard), r.To...)
		}
		it, err := i.db.NewIter(&o)
		if err != nil {
			return err
		}
		first, next := it.First, it.Next
		if r.Down {
			first, next = it.Last, it.Prev
		}
		for ok := first(); ok; ok = next() {
			v, err := it.ValueAndErr()
			if err != nil {
				it.Close()
				return err
			}
			if !fn(it.Key()[4:], v) {
				break
			}
		}
		return it.Close() // with the error that ended the iteration, if any
	})
}

// Lookup reads a copy of one value of a shard.
func (s *Store) Lookup(shard base.ShardID, key []byte) (value []byte, ok bool, err error) {
	err = s.use(func(i *instance) (err error) {
		value, ok, err = i.get(append(shardKey(nil, shard), key...))
		return err
	})
	return value, ok, err
}

// Get reads a copy of a value of the node.
func (s *Store) Get(name string) (value []byte, ok bool, err error) {
	err = s.use(func(i *instance) (err error) {
		value, ok, err = i.get(nodeKey(nodeValue, []byte(name)...))
		return err
	})
	return value, ok, err
}

// Applied is the index and term of the last entry that the stored keys of a shard include; zeros for a new shard.
// After Open that is what is on disk.
func (s *Store) Applied(shard base.ShardID) (index, term uint64, err error) {
	err = s.use(func(i *instance) error {
		v, ok, err := i.get(appliedKey(shard))
		if err != nil || !ok {
			return err
		}
		if len(v) != 16 {
			return base.Errorf(base.CodeCorruption, "applied index of shard %d has %d bytes, not 16", shard, len(v))
		}
		index, term = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
		return nil
	})
	return index, term, err
}

// Metrics are gauges and counters of a store; the counters start at its opening, or when it was last opened
// anew after a failure.
type Metrics struct {
	DiskBytes     int64 // tables, including those that compaction has not removed yet
	MemTableBytes int64 // allocated
	CacheBytes    int64 // allocated
	CacheHits     int64 // counter
	CacheMisses   int64 // counter
	Tables        int64
	TopTables     int64 // level 0: many mean that compaction lags
	Flushes       int64 // counter
	Compactions   int64 // counter

	FailedFlushes     int64 // counter
	FailedCompactions int64 // counter
	Corruptions       int64 // counter: damaged blocks met
	Reopened          int64 // counter since Open: failures after which the store was opened anew
}

// Metrics reads the gauges and counters; zeros if the store is closed.
func (s *Store) Metrics() (m Metrics) {
	_ = s.use(func(i *instance) error {
		p := i.db.Metrics()
		total := p.Total()
		m = Metrics{
			DiskBytes: int64(p.DiskSpaceUsage()), MemTableBytes: int64(p.MemTable.Size),
			CacheBytes: p.BlockCache.Size, CacheHits: p.BlockCache.Hits, CacheMisses: p.BlockCache.Misses,
			Tables: total.TablesCount, TopTables: p.Levels[0].TablesCount,
			Flushes: p.Flush.Count, Compactions: p.Compact.Count,
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		m.FailedFlushes, m.FailedCompactions, m.Corruptions = i.stats.flushes, i.stats.compactions, i.stats.corruptions
		return nil
	})
	m.Reopened = s.reopened.Load()
	return m
}

// DiskBytes is the space that the store takes on disk.
func (s *Store) DiskBytes() uint64 { return uint64(s.Metrics().DiskBytes) }
