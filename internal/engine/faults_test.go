package engine

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/vfs"
)

func TestFailedSyncRefusesAndRecoversUnderANewTerm(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	r.must(r.write(s, 0, kv{"a", "1"}))
	term := r.Term()
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	err := r.write(s, 0, kv{"b", "lost"})
	if base.CodeOf(err) != base.CodeStorage || !base.CodeOf(err).Retriable() {
		t.Fatalf("write during EIO: %v", err)
	}
	if got, _ := r.read(s, 0, 0); len(got) != 1 {
		t.Fatalf("reads show %v after a failed write", got)
	}
	if r.Term() <= term {
		t.Fatalf("term %d after recovery, was %d", r.Term(), term)
	}
	r.must(r.write(s, 0, kv{"c", "2"}))
	r.must(r.powerLoss(100)) // everything that was ever written reached the disk
	got, at := r.read(s, 0, 0)
	if fmt.Sprint(got, at) != "[{a 1} {c 2}] [0 1]" {
		t.Fatalf("after a power loss: %v at %v", got, at)
	}
}

func TestFailedSyncIsNotRetried(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	files := r.Writer().Stats.Files.Load()
	r.faults.Inject(vfs.Rule{Ops: vfs.OpSync, Path: "wal-*", Count: 1, Err: syscall.EIO})
	if err := r.write(s, 0, kv{"a", "1"}); err == nil {
		t.Fatal("a write whose sync failed was acknowledged")
	}
	if n := r.Writer().Stats.Files.Load(); n != files+1 {
		t.Fatalf("the writer went on in the same file (%d files, %d before)", n, files)
	}
}

func TestFullDiskRefusesDataAndFreesItself(t *testing.T) {
	r := newRig(t, func(o *Options) { o.FileSize = 128 << 10; o.ReserveFree = 64 << 10 })
	s := r.create("t", 1, nil)
	keep := r.create("keep", 1, nil)
	r.must(r.write(keep, 0, kv{"k", "v"}))
	r.faults.SetCapacity(2 << 20)
	var err error
	written := 0
	for range 400 {
		if err = r.write(s, 0, kv{"k", strings.Repeat("x", 10_000)}); err != nil {
			break
		}
		written++
	}
	if base.CodeOf(err) != base.CodeDiskFull || written < 50 {
		t.Fatalf("after %d writes: %v", written, err)
	}
	if got, _ := r.read(s, 0, 0); len(got) != written {
		t.Fatalf("%d records are readable, %d were acknowledged", len(got), written)
	}
	// Deletion still works, and gives the space back.
	_, err = r.DecideMeta(ctx, func(st *meta.State, _ int64) (*meta.Command, error) { return st.DecideDelete(s.ID) })
	r.must(err)
	r.Drain()
	r.must(r.Checkpoint(ctx))
	r.must(r.Compact(ctx))
	r.must(r.write(keep, 0, kv{"k2", "v2"}))
	r.must(r.powerLoss(0))
	if got, _ := r.read(keep, 0, 0); len(got) != 2 {
		t.Fatalf("after a power loss: %v", got)
	}
}

func TestSealThatFailsIsTriedAgainWhole(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	r.must(r.write(s, 0, kv{"a", "1"}))
	r.must(r.Roll(ctx))
	r.faults.Inject(vfs.Rule{Ops: vfs.OpWrite, Path: "wal-*.tmp", Count: 1, Err: syscall.EIO})
	if err := r.Checkpoint(ctx); err == nil {
		t.Fatal("a checkpoint could not write the index of a file, and reports nothing")
	}
	r.must(r.Checkpoint(ctx))
	r.must(r.powerLoss(0))
	if got, _ := r.read(s, 0, 0); len(got) != 1 {
		t.Fatalf("after a power loss: %v", got)
	}
}

func TestRefusedEffectIsSentAgain(t *testing.T) {
	r := newRig(t, nil)
	refuse := func(term uint64) {
		for _, l := range r.loops[1:] {
			l.term, l.why = term, base.Errorf(base.CodeDiskFull, "the disk is full")
		}
	}
	refuse(0)
	id := r.NewID()
	req := &meta.CreateStream{Namespace: base.DefaultNamespace, Name: "t", Partitions: 3, Replicas: 1}
	_, err := r.DecideMeta(ctx, func(s *meta.State, now int64) (*meta.Command, error) {
		return s.DecideCreate(req, id, now, r.Engine.opts.Limits)
	})
	r.must(err)
	r.Drain()
	refuse(r.Term())
	if s, _ := r.View().StreamByID(id); s.Ready != 0 {
		t.Fatalf("%d partitions are ready, though their shards refused", s.Ready)
	}
	r.must(r.Retain(ctx))
	r.Drain()
	s, _ := r.View().StreamByID(id)
	if s.Ready != 3 {
		t.Fatalf("%d of 3 partitions are ready", s.Ready)
	}
	r.must(r.write(s, 2, kv{"a", "1"}))
}

// flip changes one byte of a file.
func (r *rig) flip(path string, at int64) {
	r.t.Helper()
	f, err := r.disk.OpenReadWrite(path, vfs.CategoryData)
	r.must(err)
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		r.t.Fatal(err)
	}
	b[0] ^= 0x10
	_, err = f.WriteAt(b, at)
	r.must(err)
	r.must(f.Sync())
}

// find returns the position of some text in a file.
func (r *rig) find(path, text string) int64 {
	r.t.Helper()
	f, err := r.disk.Open(path)
	r.must(err)
	defer f.Close()
	st, err := f.Stat()
	r.must(err)
	b := make([]byte, st.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		r.t.Fatal(err)
	}
	i := strings.Index(string(b), text)
	if i < 0 {
		r.t.Fatalf("%q is not in %s", text, path)
	}
	return int64(i)
}

func TestDamageBelowTheSyncedPositionIsReported(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	r.must(r.write(s, 0, kv{"a", "damaged-one"}))
	r.must(r.write(s, 0, kv{"b", "later-one"}))
	r.must(r.write(s, 0, kv{"c", "last-one"}))
	path := "/data/log/wal-00000001.log"
	at := r.find(path, "damaged-one")
	r.disk = r.disk.CrashClone(r.rng, 0)
	r.Abort()
	r.flip(path, at)
	err := r.boot()
	if base.CodeOf(err) != base.CodeCorruption || !strings.Contains(err.Error(), path) {
		t.Fatalf("boot over a damaged file: %v", err)
	}
	found := []Finding{}
	if _, err := Check(ctx, r.disk, "/data", func(f Finding) { found = append(found, f) }); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].File != path || found[0].Offset > at || found[0].Offset < at-400 {
		t.Fatalf("fsck found %+v, the damage is at %d", found, at)
	}
}

func TestTornTailIsCutOff(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	r.must(r.write(s, 0, kv{"a", "1"}))
	r.must(r.write(s, 0, kv{"b", "torn-one"}))
	path := "/data/log/wal-00000001.log"
	at := r.find(path, "torn-one")
	r.disk = r.disk.CrashClone(r.rng, 0)
	r.Abort()
	r.flip(path, at) // the last frame: nothing says that it was ever synced
	r.must(r.boot())
	if got, _ := r.read(s, 0, 0); len(got) != 1 {
		t.Fatalf("after a torn tail: %v", got)
	}
	r.must(r.write(s, 0, kv{"c", "2"}))
	r.must(r.powerLoss(100))
	if got, at := r.read(s, 0, 0); fmt.Sprint(got, at) != "[{a 1} {c 2}] [0 1]" {
		t.Fatalf("after a power loss: %v at %v", got, at)
	}
}

func TestMissingFileIsReported(t *testing.T) {
	r := newRig(t, nil)
	s := r.create("t", 1, nil)
	r.must(r.write(s, 0, kv{"a", "1"}))
	r.seal()
	r.must(r.write(s, 0, kv{"b", "2"}))
	r.disk = r.disk.CrashClone(r.rng, 0)
	r.Abort()
	r.must(r.disk.Remove("/data/log/wal-00000001.log"))
	if err := r.boot(); base.CodeOf(err) != base.CodeCorruption {
		t.Fatalf("boot without a data file: %v", err)
	}
}

func TestLockedDirectory(t *testing.T) {
	r := newRig(t, nil)
	if _, err := Open(r.Engine.opts); err == nil || !strings.Contains(err.Error(), "another") {
		t.Fatalf("second engine in one directory: %v", err)
	}
}
