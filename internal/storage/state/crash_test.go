package state

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"godwit/internal/base"
	"godwit/internal/vfs"
)

var (
	crashRuns = flag.Int("crash.runs", 60, "runs of the crash tests")
	crashSeed = flag.Uint64("crash.seed", 0, "seed of the first run; 0 = one that never changes")
)

const shards = 4

// history is what was asked of a store, in order, across crashes.
type history struct {
	rng    *rand.Rand
	writes []written
	// flushes[i] is the number of writes in front of the i-th Flush; its position is i+1.
	flushes []int
	acked   int // flushes that returned nil
	next    [shards]uint64
}

type written struct {
	shard   base.ShardID
	index   uint64
	changes kv
}

// state is what the shard holds after the first n writes, and its index.
func (h *history) state(shard base.ShardID, n int) (index uint64, keys kv) {
	keys = kv{}
	for _, w := range h.writes[:n] {
		if w.shard != shard {
			continue
		}
		index = w.index
		for k, v := range w.changes {
			if v == "" {
				delete(keys, k)
			} else {
				keys[k] = v
			}
		}
	}
	return index, keys
}

// verify finds out how many of the writes a store holds, and checks its guarantees: all of the flushed ones; a prefix
// of the order; a replay position that is not ahead of it.
func (h *history) verify(s *Store) (n int, err error) {
	var indexes [shards]uint64
	for i := range indexes {
		if indexes[i], _, err = s.Applied(base.ShardID(i)); err != nil {
			return 0, err
		}
	}
	last := map[int][shards]uint64{0: {}}
	var at [shards]uint64
	for i, w := range h.writes {
		at[w.shard] = w.index
		last[i+1] = at
	}
	for n = len(h.writes); n >= 0 && last[n] != indexes; n-- {
	}
	if n < 0 {
		return 0, fmt.Errorf("applied indexes %v: no prefix of the writes", indexes)
	}
	if h.acked > 0 && n < h.flushes[h.acked-1] {
		return 0, fmt.Errorf("%d writes are there; %d were flushed", n, h.flushes[h.acked-1])
	}
	for shard := range base.ShardID(shards) {
		got := kv{}
		if err := s.Load(shard, func(k, v []byte) error { got[string(k)] = string(v); return nil }); err != nil {
			return 0, err
		}
		if _, want := h.state(shard, n); !maps.Equal(got, want) {
			return 0, fmt.Errorf("shard %d is applied to %d and holds other keys than then", shard, indexes[shard])
		}
	}
	replay := int(s.ReplayFrom())
	if replay < h.acked || replay > len(h.flushes) {
		return 0, fmt.Errorf("replay from %d; %d flushes were acknowledged, %d tried", replay, h.acked, len(h.flushes))
	}
	if replay > 0 && n < h.flushes[replay-1] {
		return 0, fmt.Errorf("replay from the %d. flush, after %d writes; only %d are there", replay, h.flushes[replay-1], n)
	}
	return n, nil
}

// forget drops the writes that a crash has taken, as the replay of a log would bring them anew.
func (h *history) forget(n int, s *Store) {
	h.writes = h.writes[:n]
	h.acked = int(s.ReplayFrom())
	h.flushes = h.flushes[:h.acked]
	for i := range h.next {
		index, _ := h.state(base.ShardID(i), n)
		h.next[i] = index
	}
}

// step does something to the store.
func (h *history) step(s *Store) error {
	if h.rng.IntN(12) == 0 {
		h.flushes = append(h.flushes, len(h.writes))
		if err := s.Flush(base.Position(len(h.flushes))); err != nil {
			return err
		}
		h.acked = len(h.flushes)
		return nil
	}
	w := written{shard: base.ShardID(h.rng.IntN(shards)), changes: kv{}}
	h.next[w.shard] += 1 + h.rng.Uint64N(5)
	w.index = h.next[w.shard]
	for range h.rng.IntN(6) {
		key := fmt.Sprint(h.rng.IntN(20))
		switch h.rng.IntN(4) {
		case 0:
			w.changes[key] = ""
		case 1:
			w.changes[key] = strings.Repeat("large ", h.rng.IntN(3000))
		default:
			w.changes[key] = fmt.Sprintf("%d@%d", w.shard, w.index)
		}
	}
	h.writes = append(h.writes, w)
	return put(s, w.shard, w.index, w.changes)
}

// crashRun opens a store, works with it and cuts the power, a few times over. It returns how often a shard's
// state was on disk before it was flushed.
func crashRun(seed uint64, spoil func(*vfs.Faults)) (early int, err error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	h := &history{rng: rng}
	disk := vfs.NewCrashing()
	for range 4 {
		fsys := vfs.NewFaults(disk, seed)
		spoil(fsys)
		var clone atomic.Pointer[vfs.Crashing] // made by whichever goroutine changes the disk
		cut := int64(1 + rng.IntN(150))
		percent, cloneSeed := rng.IntN(101), rng.Uint64()
		fsys.Hook(func(e vfs.Event) {
			if e.N == cut {
				fsys.PowerOff()
				clone.Store(disk.CrashClone(rand.New(rand.NewPCG(cloneSeed, 1)), percent))
			}
		})
		s, err := Open(fsys, dir, Options{MemTableBytes: 32 << 10})
		if err == nil {
			n, err := h.verify(s)
			if err != nil && !errors.Is(err, vfs.ErrPowerOff) {
				return 0, errors.Join(err, s.Close())
			}
			if err == nil {
				early += countEarly(h, n)
				h.forget(n, s)
				for steps := 0; err == nil && steps < 200; steps++ {
					err = h.step(s)
				}
			}
			if closing := s.Close(); err == nil {
				err = closing
			}
			if err != nil && !errors.Is(err, vfs.ErrPowerOff) {
				return 0, err
			}
		} else if !errors.Is(err, vfs.ErrPowerOff) {
			return 0, fmt.Errorf("opening: %w", err)
		}
		fsys.Hook(nil)
		next := clone.Load()
		if next == nil { // the run ended before
			next = disk.CrashClone(rand.New(rand.NewPCG(cloneSeed, 1)), percent)
		}
		disk = next
	}
	s, err := Open(disk, dir, Options{})
	if err != nil {
		return 0, fmt.Errorf("opening in the end: %w", err)
	}
	_, err = h.verify(s)
	return early, errors.Join(err, s.Close())
}

func countEarly(h *history, n int) int {
	if h.acked > 0 && n > h.flushes[h.acked-1] || h.acked == 0 && n > 0 {
		return 1
	}
	return 0
}

func firstSeed() uint64 {
	if *crashSeed != 0 {
		return *crashSeed
	}
	return 1
}

// TestCrash loses power at random points. After each, every shard is as of its own applied index.
func TestCrash(t *testing.T) {
	early := 0
	for seed := firstSeed(); seed < firstSeed()+uint64(*crashRuns); seed++ {
		n, err := crashRun(seed, func(*vfs.Faults) {})
		if err != nil {
			t.Fatalf("-crash.runs=1 -crash.seed=%d: %v", seed, err)
		}
		early += n
	}
	if *crashRuns >= 50 && early == 0 {
		t.Fatal("no run had state on disk before its Flush: the case that replay must expect was not tested")
	}
}

// TestCrashCatchesMissingSync checks the checker: without a kind of sync, runs must fail.
func TestCrashCatchesMissingSync(t *testing.T) {
	for _, r := range []vfs.Rule{
		{Ops: vfs.OpSync, Path: "*.sst", Drop: true},
		{Ops: vfs.OpSync, Path: "MANIFEST-*", Drop: true},
		{Ops: vfs.OpSyncDir, Path: dir, Drop: true},
		{Ops: vfs.OpSyncDir, Path: "/data", Drop: true},
	} {
		caught := 0
		for seed := firstSeed(); seed < firstSeed()+40 && caught == 0; seed++ {
			if _, err := crashRun(seed, func(fsys *vfs.Faults) { fsys.Inject(r) }); err != nil {
				caught++
			}
		}
		if caught == 0 {
			t.Errorf("no run notices that %s is not synced", r.Path)
		}
	}
}
