package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"strings"
	"syscall"
	"testing"

	"godwit/internal/base"
	"godwit/internal/vfs"
)

// caller writes as the package's contract asks: after a failure, everything since the last good Flush again.
type caller struct {
	s     *Store
	all   kv
	since []kv // not flushed yet
	index uint64
	pos   base.Position
	again bool // something failed since the last good Flush
}

// add writes changes; they are remembered whether that works or not.
func (c *caller) add(changes kv) {
	c.since = append(c.since, changes)
	c.index++
	if put(c.s, 1, c.index, changes) != nil {
		c.again = true
	}
}

// flush tries until it works.
func (c *caller) flush(t testing.TB) {
	t.Helper()
	c.pos++
	for tries := 0; ; tries++ {
		err := c.attempt()
		if err == nil {
			break
		}
		if code := base.CodeOf(err); code != base.CodeStorage && code != base.CodeDiskFull {
			t.Fatalf("code %d: %v", code, err)
		}
		if tries == 10 {
			t.Fatalf("still: %v", err)
		}
	}
	c.flushed()
}

// attempt writes what may be lost, and flushes.
func (c *caller) attempt() error {
	if c.again {
		for i, changes := range c.since {
			if err := put(c.s, 1, c.index-uint64(len(c.since)-1-i), changes); err != nil {
				return err
			}
		}
	}
	c.again = true
	return c.s.Flush(c.pos)
}

func (c *caller) flushed() {
	for _, changes := range c.since {
		maps.Copy(c.all, changes)
	}
	c.since, c.again = nil, false
}

// tape is what the sweep does: small and large writes, flushes that lead to a compaction, and a memtable that flushes itself.
func tape(t testing.TB, c *caller) {
	for i := range 8 {
		for j := range 3 {
			c.add(kv{fmt.Sprint(i % 3): fmt.Sprintf("%d.%d", i, j), fmt.Sprint("k", j): strings.Repeat("v", 100*i)})
		}
		if i == 5 {
			c.add(kv{"large": strings.Repeat("L", 100<<10)})
		}
		c.flush(t)
	}
}

// sweepRun does the tape with one rule from the n-th change on and reports whether it was reached.
func sweepRun(t testing.TB, n int64, r vfs.Rule) (reached bool) {
	disk := vfs.NewCrashing()
	fsys := vfs.NewFaults(disk, uint64(n))
	s, err := Open(fsys, dir, Options{MemTableBytes: 32 << 10})
	check(t, err)
	opened := int64(0)
	fsys.Hook(func(e vfs.Event) {
		if opened == 0 {
			opened = e.N - 1
		}
		if e.N == opened+n {
			reached = true
			fsys.Inject(r)
		}
	})
	c := &caller{s: s, all: kv{}}
	tape(t, c)
	if got := load(t, c.s, 1); !maps.Equal(got, c.all) {
		t.Fatalf("change %d: %d keys, want %d", n, len(got), len(c.all))
	}
	closing := s.Close()
	fsys.Clear()
	fsys.Hook(nil)
	for name, fsys := range map[string]vfs.FS{"as it is": fsys, "after a crash": disk.CrashClone(nil, 0)} {
		s, err := Open(fsys, dir, Options{})
		if err != nil {
			t.Fatalf("change %d, opening %s: %v", n, name, err)
		}
		if got := load(t, s, 1); !maps.Equal(got, c.all) {
			t.Fatalf("change %d, %s (closed with %v): %d keys, want %d", n, name, closing, len(got), len(c.all))
		}
		wantApplied(t, s, 1, c.index, 1)
		if s.ReplayFrom() != c.pos {
			t.Fatalf("change %d, %s: replay from %v, want %v", n, name, s.ReplayFrom(), c.pos)
		}
		check(t, s.Close())
	}
	return reached
}

// TestErrorAnywhere fails changes on disk. The caller sees an error or does not; in the end all is there.
func TestErrorAnywhere(t *testing.T) {
	for name, c := range map[string]struct {
		step int64 // 1 = each change in turn
		rule vfs.Rule
	}{
		"EIO":             {1, vfs.Rule{Ops: vfs.OpChange, Count: 1, Err: syscall.EIO}},
		"EIO three times": {4, vfs.Rule{Ops: vfs.OpChange, Count: 3, Err: syscall.EIO}},
		"ENOSPC":          {3, vfs.Rule{Ops: vfs.OpChange, Count: 1, Err: syscall.ENOSPC, Partial: true}},
	} {
		t.Run(name, func(t *testing.T) {
			n := int64(1)
			for sweepRun(t, n, c.rule) {
				n += c.step
			}
			if n < 40 {
				t.Fatalf("only %d changes", n)
			}
		})
	}
}

// TestUnsyncedManifest restarts the process after a sync of the manifest failed, so that the page cache holds more than the
// disk. What the store then says to hold must survive a power loss.
func TestUnsyncedManifest(t *testing.T) {
	// The sync that fails may be that of a job in the background, in front of the flush: then the page cache has no more than the
	// disk, and the next try has to show it.
	for range 100 {
		if unsyncedManifest(t) == 2 {
			return
		}
	}
	t.Fatal("the page cache never held more than the disk")
}

// unsyncedManifest makes one such restart and returns where the store replays from after it.
func unsyncedManifest(t *testing.T) base.Position {
	t.Helper()
	disk := vfs.NewCrashing()
	fsys := vfs.NewFaults(disk, 1)
	s := open(t, fsys)
	check(t, put(s, 1, 1, kv{"a": "1"}))
	check(t, s.Flush(1))
	fsys.Hook(func(e vfs.Event) { // the process ends at the failure
		if e.Op == vfs.OpSync && strings.Contains(e.Path, "MANIFEST") {
			fsys.Hook(nil)
			fsys.Inject(vfs.Rule{Ops: vfs.OpAll, Err: syscall.EIO})
		}
	})
	if err := put(s, 1, 2, kv{"b": "2"}); err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatalf("put: %v", err)
	}
	if err := s.Flush(2); !errors.Is(err, syscall.EIO) {
		t.Fatalf("flushed: %v", err)
	}
	if err := s.Close(); err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	s = open(t, disk)
	held, from := load(t, s, 1), s.ReplayFrom()
	after := open(t, disk.CrashClone(nil, 0))
	if got := load(t, after, 1); !maps.Equal(got, held) || after.ReplayFrom() != from {
		t.Fatalf("%v from %v before the power loss, %v from %v after it", held, from, got, after.ReplayFrom())
	}
	check(t, after.Close())
	check(t, s.Close())
	return from
}

// TestErrorWhileOpening fails each change on disk that opening makes, in a new directory and in an old one. The error is
// returned, and the next attempt works.
func TestErrorWhileOpening(t *testing.T) {
	for name, old := range map[string]*vfs.Crashing{"new": vfs.NewCrashing(), "old": filled(t)} {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				disk := old.CrashClone(nil, 100)
				fsys := vfs.NewFaults(disk, 1)
				injection := fsys.Inject(vfs.Rule{Ops: vfs.OpChange, After: n, Count: 1, Err: syscall.EIO})
				s, err := Open(fsys, dir, Options{})
				if err != nil && !errors.Is(err, syscall.EIO) {
					t.Fatalf("change %d: %v", n, err)
				}
				hits := injection.Hits()
				injection.Stop()
				if err != nil {
					s, err = Open(fsys, dir, Options{})
				}
				if err != nil {
					t.Fatalf("change %d, second attempt: %v", n, err)
				}
				if got := load(t, s, 1); len(got) != map[string]int{"new": 0, "old": 200}[name] {
					t.Fatalf("change %d: %d keys", n, len(got))
				}
				check(t, put(s, 1, 1000, kv{"x": "y"}))
				check(t, s.Flush(10))
				check(t, s.Close())
				if hits == 0 {
					if n < 10 {
						t.Fatalf("only %d changes", n)
					}
					return
				}
			}
		})
	}
}

// TestDiskFull fills the disk. Checkpoints fail as long as that lasts, without taking more and more memory, and work
// when there is space again.
func TestDiskFull(t *testing.T) {
	fsys := vfs.NewFaults(vfs.NewCrashing(), 1)
	s := open(t, fsys)
	c := &caller{s: s, all: kv{}}
	c.add(kv{"a": "1"})
	c.flush(t)
	other, err := fsys.Create("/data/other", vfs.CategoryData)
	check(t, err)
	du, err := fsys.GetDiskUsage("/")
	check(t, err)
	fsys.SetCapacity(int64(du.UsedBytes) + 8<<10)
	check(t, other.Preallocate(0, 8<<10))
	// Pebble removes what it has done with when it likes, so the table has to be larger than what that frees: no compression.
	large := make([]byte, 64<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range large {
		large[i] = byte(rng.Uint32())
	}
	c.add(kv{"b": string(large)})
	var size int64
	for i := range 200 {
		c.pos = 2
		err := c.attempt()
		if err == nil || base.CodeOf(err) != base.CodeDiskFull || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("attempt %d: %v", i, err)
		}
		if now := s.Metrics().MemTableBytes; i == 5 {
			size = now
		} else if i > 5 && now > size {
			t.Fatalf("attempt %d: memtables grew from %d to %d", i, size, now)
		}
		if got := load(t, s, 1); got["a"] != "1" {
			t.Fatalf("attempt %d: reading fails: %v", i, got)
		}
	}
	check(t, other.Close())
	check(t, fsys.Remove("/data/other"))
	fsys.SetCapacity(1 << 30)
	c.flush(t) // to position 3
	if got := load(t, s, 1); !maps.Equal(got, c.all) || len(got) != 2 {
		t.Fatal("not all is there")
	}
	check(t, s.Close())
}

// TestCloseWithoutDisk closes stores that cannot write any more.
func TestCloseWithoutDisk(t *testing.T) {
	for name, r := range map[string]vfs.Rule{
		"no tables":   {Ops: vfs.OpSync, Path: "*.sst", Err: syscall.EIO},
		"no manifest": {Ops: vfs.OpWrite, Path: "MANIFEST-*", Err: syscall.EIO},
		"nothing":     {Ops: vfs.OpChange, Err: syscall.EIO},
	} {
		for _, flushBefore := range []bool{false, true} {
			fsys := vfs.NewFaults(vfs.NewCrashing(), 1)
			s := open(t, fsys)
			check(t, put(s, 1, 1, kv{"a": "1"}))
			check(t, s.Flush(1))
			fsys.Inject(r)
			check(t, put(s, 1, 2, kv{"a": "2"}))
			if flushBefore {
				if err := s.Flush(2); !errors.Is(err, syscall.EIO) {
					t.Fatalf("%s: flushed: %v", name, err)
				}
			}
			if err := s.Close(); !flushBefore && !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s: closed: %v", name, err)
			}
			fsys.Clear()
			s = open(t, fsys)
			if index, _, err := s.Applied(1); index != 1 || err != nil || s.ReplayFrom() != 1 {
				t.Fatalf("%s: applied to %d, %v, replay from %v", name, index, err, s.ReplayFrom())
			}
			check(t, s.Close())
		}
	}
}

// TestReadsGoOn checks that a store that cannot write can be read, even when Pebble cannot go on.
func TestReadsGoOn(t *testing.T) {
	for name, r := range map[string]vfs.Rule{
		"no tables":    {Ops: vfs.OpWrite, Path: "*.sst", Err: syscall.EIO},
		"no manifest":  {Ops: vfs.OpSync, Path: "MANIFEST-*", Err: syscall.EIO, Count: 1},
		"no directory": {Ops: vfs.OpSyncDir, Err: syscall.EIO, Count: 1},
	} {
		fsys := vfs.NewFaults(vfs.NewCrashing(), 1)
		s := open(t, fsys)
		check(t, put(s, 1, 1, kv{"a": "1"}))
		check(t, s.Flush(1))
		fsys.Inject(r)
		check(t, put(s, 1, 2, kv{"b": "2"}))
		if err := s.Flush(2); err == nil {
			t.Fatalf("%s: flushed", name)
		}
		if got := load(t, s, 1); got["a"] != "1" {
			t.Fatalf("%s: %v", name, got)
		}
		fsys.Clear()
		check(t, put(s, 1, 2, kv{"b": "2"}))
		check(t, s.Flush(2))
		if got := load(t, s, 1); !maps.Equal(got, kv{"a": "1", "b": "2"}) {
			t.Fatalf("%s: %v", name, got)
		}
		if m := s.Metrics(); (m.Reopened == 0) != (name == "no tables") {
			t.Fatalf("%s: %+v", name, m)
		}
		check(t, s.Close())
	}
}

// TestLostWritesAreReported lets Pebble come to an end between two Writes: the second must fail, since the first is gone.
func TestLostWritesAreReported(t *testing.T) {
	fsys := vfs.NewFaults(vfs.NewCrashing(), 1)
	s, err := Open(fsys, dir, Options{MemTableBytes: 32 << 10})
	check(t, err)
	check(t, put(s, 1, 1, kv{"a": "1"}))
	fsys.Inject(vfs.Rule{Ops: vfs.OpWrite, Path: "MANIFEST-*", Count: 1, Err: syscall.EIO})
	written := make(chan struct{})
	fsys.Hook(func(e vfs.Event) {
		if e.Op == vfs.OpWrite && strings.HasPrefix(path.Base(e.Path), "MANIFEST-") {
			<-written // else the end could come within the Write, which would report it
		}
	})
	check(t, put(s, 2, 1, kv{"large": strings.Repeat("x", 60<<10)})) // flushed by Pebble itself
	close(written)
	<-s.inst.gone
	if err := put(s, 3, 1, kv{"a": "3"}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the third write: %v", err)
	}
	check(t, s.Flush(1))
	if got := load(t, s, 1); len(got) != 0 {
		t.Fatalf("%v: the test does not test anything", got)
	}
	check(t, s.Close())
}
