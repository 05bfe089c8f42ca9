package engine

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/meta"
	"godwit/internal/vfs"
)

// TestOnTheMachinesFiles does what touches files in unusual ways on the real file system: making merged files, sealing,
// cutting, removing, and opening again.
func TestOnTheMachinesFiles(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, nil)
	open := func() {
		t.Helper()
		e, err := Open(Options{FS: vfs.Default, Dir: dir, Clock: r.clock, Rand: rand.New(rand.NewPCG(8, 9)), Shards: 3, FileSize: 1 << 20,
			Stepped: true, Groups: group.DefaultOptions(), Limits: meta.Limits{DefaultPartitions: 1, DefaultReplicas: 1, MaxReplicas: 1}})
		r.must(err)
		r.Engine = e
		r.must(e.Start())
	}
	r.must(r.Close(ctx))
	open()
	keyed := r.create("keyed", 1, map[string]string{"cleanup.policy": "compact"})
	plain := r.create("plain", 1, nil)
	gone := r.create("gone", 1, nil)
	for range 3 {
		r.must(r.write(keyed, 0, kv{"a", "1"}, kv{"a", "2"}))
		r.must(r.write(gone, 0, kv{"x", strings.Repeat("y", 300_000)}))
		r.must(r.write(plain, 0, kv{"p", "q"}))
	}
	_, err := r.DecideMeta(ctx, func(s *meta.State, _ int64) (*meta.Command, error) { return s.DecideDelete(gone.ID) })
	r.must(err)
	r.Drain()
	r.seal()
	r.must(r.Compact(ctx))
	check := func() {
		t.Helper()
		if got, at := r.read(keyed, 0, 0); !reflect.DeepEqual(got, []kv{{"a", "2"}}) || at[0] != 5 {
			t.Fatalf("the compacted topic has %v at %v", got, at)
		}
		if got, _ := r.read(plain, 0, 0); len(got) != 3 {
			t.Fatalf("the other topic has %v", got)
		}
	}
	check()
	merged := 0
	for _, f := range r.Store().Files() {
		if strings.HasSuffix(f.Path, ".seg") {
			merged++
		}
	}
	if merged == 0 {
		t.Fatal("nothing was merged")
	}
	r.must(r.Close(ctx))
	found, err := Check(ctx, vfs.Default, dir, func(f Finding) { t.Errorf("fsck: %+v", f) })
	r.must(err)
	if found.Records == 0 {
		t.Fatal("fsck read nothing")
	}
	open()
	check()
	if _, err := r.DeleteRecords(ctx, plain, 0, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.DeleteRecords(ctx, plain, 0, 9); base.CodeOf(err) != base.CodeOffsetOutOfRange {
		t.Fatalf("beyond the end: %v", err)
	}
	r.must(r.Close(ctx))
}
