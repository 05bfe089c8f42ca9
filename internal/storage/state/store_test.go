package state

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/vfs"
)

const dir = "/data/state"

func open(t testing.TB, fsys vfs.FS) *Store {
	t.Helper()
	s, err := Open(fsys, dir, Options{})
	check(t, err)
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type kv map[string]string

// put writes one value for each key; an empty value deletes the key.
func put(s *Store, shard base.ShardID, index uint64, changes kv) error {
	return s.Write(shard, index, 1, func(put func(key, value []byte), del func(key []byte)) {
		for _, k := range slices.Sorted(maps.Keys(changes)) {
			if v := changes[k]; v == "" {
				del([]byte(k))
			} else {
				put([]byte(k), []byte(v))
			}
		}
	})
}

func load(t testing.TB, s *Store, shard base.ShardID) kv {
	t.Helper()
	out := kv{}
	last := ""
	check(t, s.Load(shard, func(k, v []byte) error {
		if string(k) <= last && len(out) > 0 {
			t.Fatalf("key %q after %q", k, last)
		}
		last = string(k)
		out[last] = string(v)
		return nil
	}))
	return out
}

func wantApplied(t testing.TB, s *Store, shard base.ShardID, index, term uint64) {
	t.Helper()
	i, tm, err := s.Applied(shard)
	if err != nil || i != index || tm != term {
		t.Fatalf("shard %d is applied to %d of term %d, %v; want %d of term %d", shard, i, tm, err, index, term)
	}
}

func TestStore(t *testing.T) {
	fsys := vfs.NewCrashing()
	s := open(t, fsys)
	if s.ReplayFrom() != 0 || len(load(t, s, 0)) > 0 {
		t.Fatal("a new store is not empty")
	}
	wantApplied(t, s, 0, 0, 0)
	check(t, put(s, 0, 7, kv{"a": "0a", "b": "0b"}))
	check(t, put(s, 1, 1, kv{"a": "1a"}))
	check(t, put(s, 1<<31, 1, kv{"a": "2a", "\xff\xff": "last"}))
	check(t, s.Write(1, 3, 2, func(put func(key, value []byte), del func(key []byte)) {
		key, value := []byte("x"), []byte("y")
		put(key, value)
		key[0], value[0] = '?', '?' // they may be reused
		del([]byte("a"))
		put([]byte("empty"), nil)
	}))
	check(t, s.Put("node", []byte("identity")))
	check(t, s.Flush(base.At(3, 64)))
	for range 2 {
		if got := load(t, s, 0); !maps.Equal(got, kv{"a": "0a", "b": "0b"}) {
			t.Fatal(got)
		}
		if got := load(t, s, 1); !maps.Equal(got, kv{"x": "y", "empty": ""}) {
			t.Fatal(got)
		}
		if got := load(t, s, 1<<31); len(got) != 2 || len(load(t, s, 2)) > 0 {
			t.Fatal(got)
		}
		wantApplied(t, s, 0, 7, 1)
		wantApplied(t, s, 1, 3, 2)
		wantApplied(t, s, 2, 0, 0)
		v, ok, err := s.Get("node")
		if string(v) != "identity" || !ok || err != nil || s.ReplayFrom() != base.At(3, 64) {
			t.Fatal(v, ok, err, s.ReplayFrom())
		}
		if _, ok, err := s.Get("none"); ok || err != nil {
			t.Fatal(ok, err)
		}
		v, ok, err = s.Lookup(0, []byte("b"))
		if string(v) != "0b" || !ok || err != nil {
			t.Fatal(v, ok, err)
		}
		check(t, s.Close())
		s = open(t, fsys.CrashClone(nil, 0))
	}
	check(t, s.Close())
}

func TestLoadStopsAtError(t *testing.T) {
	s := open(t, vfs.NewCrashing())
	check(t, put(s, 1, 1, kv{"a": "1", "b": "2"}))
	mine, calls := errors.New("mine"), 0
	if err := s.Load(1, func(_, _ []byte) error { calls++; return mine }); err != mine || calls != 1 {
		t.Fatal(err, calls)
	}
	check(t, s.Close())
}

// TestScan compares ranges with a sorted map.
func TestScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Open(vfs.NewCrashing(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		key := rapid.StringMatching(`[ab\x00\xff]{0,3}`)
		want := kv{}
		for i := range rapid.IntRange(0, 5).Draw(t, "writes") {
			changes := rapid.MapOf(key, rapid.SampledFrom([]string{"", "1", "2"})).Draw(t, "changes")
			if err := put(s, 5, uint64(i+1), changes); err != nil {
				t.Fatal(err)
			}
			if err := put(s, 6, uint64(i+1), kv{"a": "other"}); err != nil {
				t.Fatal(err)
			}
			maps.Copy(want, changes)
			if rapid.Bool().Draw(t, "flush") {
				if err := s.Flush(base.Position(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := Range{From: []byte(key.Draw(t, "from")), To: []byte(key.Draw(t, "to")), Down: rapid.Bool().Draw(t, "down")}
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		var all, got []string
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if want[k] != "" && k >= string(r.From) && (len(r.To) == 0 || k < string(r.To)) {
				all = append(all, k+"="+want[k])
			}
		}
		if r.Down {
			slices.Reverse(all)
		}
		err = s.Scan(5, r, func(k, v []byte) bool {
			got = append(got, string(k)+"="+string(v))
			return len(got) < limit
		})
		if err != nil || !slices.Equal(got, all[:min(limit, len(all))]) {
			t.Fatalf("%v, %q, want %q", err, got, all)
		}
	})
}

// TestFormat holds the keys and values on disk against what doc.go says. A change needs a new layout version.
func TestFormat(t *testing.T) {
	fsys := vfs.NewCrashing()
	s := open(t, fsys)
	check(t, s.Write(0x01020304, 0x1122, 0x33, func(put func(key, value []byte), _ func(key []byte)) {
		put([]byte("key"), []byte("value"))
	}))
	check(t, s.Put("name", []byte("x")))
	check(t, s.Flush(base.At(0x0a0b0c0d, 0x01020304)))
	check(t, s.Close())
	db, err := pebble.Open(dir, &pebble.Options{FS: fsys, ReadOnly: true, Logger: new(instanceLog)})
	check(t, err)
	if v := db.FormatMajorVersion(); v != 24 {
		t.Errorf("format major version %d; doc.go says 24", v)
	}
	it, err := db.NewIter(nil)
	check(t, err)
	var got []string
	for ok := it.First(); ok; ok = it.Next() {
		got = append(got, hex.EncodeToString(it.Key())+" = "+hex.EncodeToString(it.Value()))
	}
	check(t, it.Close())
	check(t, db.Close())
	want := []string{
		"01020304" + hex.EncodeToString([]byte("key")) + " = " + hex.EncodeToString([]byte("value")),
		"ffffffff" + "61" + "01020304" + " = " + "0000000000001122" + "0000000000000033",
		"ffffffff" + "66" + " = " + "00000001",
		"ffffffff" + "72" + " = " + "0a0b0c0d01020304",
		"ffffffff" + "76" + hex.EncodeToString([]byte("name")) + " = " + hex.EncodeToString([]byte("x")),
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// instanceLog throws Pebble's words away.
type instanceLog struct{}

func (*instanceLog) Infof(string, ...any)  {}
func (*instanceLog) Errorf(string, ...any) {}
func (*instanceLog) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func TestNewerLayoutIsRefused(t *testing.T) {
	fsys := vfs.NewCrashing()
	s := open(t, fsys)
	check(t, s.write(func(b *pebble.Batch) error { return b.Set(nodeKey(nodeFormat), []byte{0, 0, 0, 2}, nil) }))
	check(t, s.flushTables())
	check(t, s.Close())
	_, err := Open(fsys, dir, Options{})
	if err == nil || !strings.Contains(err.Error(), "version 2") || !strings.Contains(err.Error(), "start the release that wrote it") {
		t.Fatal(err)
	}
	// The refused store is not locked.
	if _, err := fsys.Lock(dir + "/LOCK"); err != nil {
		t.Fatal(err)
	}
}

func TestLocked(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": vfs.NewCrashing(), "disk": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			dir := fsys.PathJoin(t.TempDir(), "state")
			s, err := Open(fsys, dir, Options{})
			check(t, err)
			_, err = Open(fsys, dir, Options{})
			if err == nil || !strings.Contains(err.Error(), dir+" is in use by another process") || !strings.Contains(err.Error(), "stop that process") {
				t.Fatal(err)
			}
			check(t, s.Close())
			s, err = Open(fsys, dir, Options{})
			check(t, err)
			check(t, s.Close())
		})
	}
}

func TestClosed(t *testing.T) {
	s := open(t, vfs.NewCrashing())
	check(t, s.Close())
	_, _, getErr := s.Get("x")
	for _, err := range []error{put(s, 1, 1, nil), s.Put("x", nil), s.Flush(1), s.Load(1, nil), getErr, s.Close()} {
		if err == nil || base.CodeOf(err) != base.CodeShutdown {
			t.Errorf("%v", err)
		}
	}
	if m := s.Metrics(); m != (Metrics{}) {
		t.Errorf("%+v", m)
	}
}

// TestIdleFlush checks that a Flush of nothing costs nothing.
func TestIdleFlush(t *testing.T) {
	fsys := vfs.NewFaults(vfs.NewCrashing(), 1)
	s := open(t, fsys)
	check(t, put(s, 1, 1, kv{"a": "1"}))
	check(t, s.Flush(5))
	before := fsys.Counts()
	check(t, s.Flush(5))
	if after := fsys.Counts(); after != before {
		t.Fatalf("%+v, before it was %+v", after, before)
	}
	check(t, s.Flush(6))
	check(t, s.Close())
}

// TestLarge writes more than the memtables hold at once, in batches of all sizes, and reads it back.
func TestLarge(t *testing.T) {
	fsys := vfs.NewCrashing()
	s, err := Open(fsys, dir, Options{MemTableBytes: 64 << 10})
	check(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	want := kv{}
	for i := range 60 {
		changes := kv{}
		for range 1 + rng.IntN(50) {
			changes[fmt.Sprint(rng.IntN(1000))] = strings.Repeat(fmt.Sprint(i%10), 1+rng.IntN(4000))
		}
		check(t, put(s, 3, uint64(i+1), changes))
		maps.Copy(want, changes)
		if m := s.Metrics(); m.MemTableBytes > 2<<20 {
			t.Fatalf("memtables of %d bytes, with a limit of 64 KiB", m.MemTableBytes)
		}
	}
	if m := s.Metrics(); m.Flushes == 0 || m.Tables == 0 || m.DiskBytes == 0 {
		t.Fatalf("%+v", m)
	}
	check(t, s.Flush(1))
	check(t, s.Close())
	s = open(t, fsys.CrashClone(nil, 0))
	if got := load(t, s, 3); !maps.Equal(got, want) {
		t.Fatalf("%d keys, want %d", len(got), len(want))
	}
	check(t, s.Close())
}

// damage flips a bit in the middle of every file with the suffix.
func damage(t *testing.T, fsys vfs.FS, match string) (n int) {
	t.Helper()
	names, err := fsys.List(dir)
	check(t, err)
	for _, name := range names {
		if !strings.Contains(name, match) {
			continue
		}
		f, err := fsys.OpenReadWrite(dir+"/"+name, vfs.CategoryState)
		check(t, err)
		info, err := f.Stat()
		check(t, err)
		if info.Size() == 0 {
			continue // a marker: its name says it all
		}
		b := make([]byte, 1)
		_, err = f.ReadAt(b, info.Size()/3)
		check(t, err)
		b[0] ^= 4
		_, err = f.WriteAt(b, info.Size()/3)
		check(t, err)
		check(t, f.Close())
		n++
	}
	return n
}

// filled is the file system of a closed store with a few kilobytes in one table.
func filled(t *testing.T) *vfs.Crashing {
	t.Helper()
	fsys := vfs.NewCrashing()
	s := open(t, fsys)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 200 {
		check(t, put(s, 1, uint64(i+1), kv{fmt.Sprint(i): fmt.Sprint(rng.Uint64(), rng.Uint64())}))
	}
	check(t, s.Flush(9))
	check(t, s.Close())
	return fsys
}

func TestCorruption(t *testing.T) {
	for name, ruin := range map[string]func(fsys *vfs.Crashing) int{
		"table":    func(fsys *vfs.Crashing) int { return damage(t, fsys, ".sst") },
		"manifest": func(fsys *vfs.Crashing) int { return damage(t, fsys, "MANIFEST") },
		"marker missing": func(fsys *vfs.Crashing) (n int) {
			names, err := fsys.List(dir)
			check(t, err)
			for _, name := range names {
				if strings.HasPrefix(name, "marker.manifest.") {
					check(t, fsys.Remove(dir+"/"+name))
					n++
				}
			}
			return n
		},
		"table missing": func(fsys *vfs.Crashing) (n int) {
			names, err := fsys.List(dir)
			check(t, err)
			for _, name := range names {
				if strings.HasSuffix(name, ".sst") {
					check(t, fsys.Remove(dir+"/"+name))
					n++
				}
			}
			return n
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := filled(t)
			if ruin(fsys) == 0 {
				t.Fatal("nothing to ruin")
			}
			s, err := Open(fsys, dir, Options{})
			if err == nil {
				err = s.Load(1, func(_, _ []byte) error { return nil })
				defer s.Close()
			}
			if err == nil {
				t.Fatal("the damage was not noticed")
			}
			err = fmt.Errorf("at the start: %w", fmt.Errorf("recovery: %w", err))
			if base.CodeOf(err) != base.CodeCorruption {
				t.Fatalf("code %d: %v", base.CodeOf(err), err)
			}
			if !strings.Contains(err.Error(), "state store: ") {
				t.Fatal(err)
			}
		})
	}
}

func TestDamagedNumbers(t *testing.T) {
	for _, key := range [][]byte{nodeKey(nodeReplay), nodeKey(nodeFormat), appliedKey(1)} {
		fsys := vfs.NewCrashing()
		s := open(t, fsys)
		check(t, s.write(func(b *pebble.Batch) error { return b.Set(key, []byte("abc"), nil) }))
		check(t, s.Close())
		s, err := Open(fsys, dir, Options{})
		if err == nil {
			_, _, err = s.Applied(1)
			check(t, s.Close())
		}
		if err == nil || base.CodeOf(err) != base.CodeCorruption {
			t.Errorf("%x: %v", key, err)
		}
	}
}

func TestRefusesReservedShard(t *testing.T) {
	s := open(t, vfs.NewCrashing())
	defer s.Close()
	defer func() {
		if v := recover(); v == nil || !bytes.Contains(fmt.Append(nil, v), []byte("4294967295")) {
			t.Fatal(v)
		}
	}()
	_ = put(s, nodeShard, 1, nil)
}

// TestDamagedManifest flips each bit of a manifest in turn. Opening fails, or the store is as of its last or its last but
// one flush: that of which nothing was behind the damage.
func TestDamagedManifest(t *testing.T) {
	fsys := vfs.NewCrashing()
	s := open(t, fsys)
	for i := range 3 {
		check(t, put(s, 1, uint64(i+1), kv{"a": fmt.Sprint(i)}))
		check(t, s.Flush(base.Position(i+1)))
	}
	disk := fsys.CrashClone(nil, 0)
	check(t, s.Close())
	names, err := disk.List(dir)
	check(t, err)
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, manifestPrefix) })
	path := dir + "/" + names[i]
	b, err := vfs.ReadFile(disk, path, 1<<20)
	check(t, err)
	refused, older := 0, 0
	for pos := range b {
		disk := disk.CrashClone(nil, 0)
		f, err := disk.OpenReadWrite(path, vfs.CategoryState)
		check(t, err)
		_, err = f.WriteAt([]byte{b[pos] ^ 1<<(pos%8)}, int64(pos))
		check(t, err)
		s, err := Open(disk, dir, Options{})
		if err != nil {
			if base.CodeOf(err) != base.CodeCorruption || !strings.Contains(err.Error(), path) {
				t.Fatalf("byte %d: %v", pos, err)
			}
			refused++
			continue
		}
		if from := s.ReplayFrom(); from < 2 {
			t.Fatalf("byte %d of %d: back at flush %v", pos, len(b), from)
		}
		older++
		check(t, s.Close())
	}
	if refused < len(b)/2 || older == 0 {
		t.Fatalf("refused %d times, %d times the last flush was gone, of %d", refused, older, len(b))
	}
}

// TestLongManifest opens a store whose manifest goes over several blocks.
func TestLongManifest(t *testing.T) {
	fsys := vfs.NewCrashing()
	s := open(t, fsys)
	for i := range 400 {
		check(t, put(s, 1, uint64(i+1), kv{strings.Repeat("key", 100): fmt.Sprint(i)}))
		check(t, s.Flush(base.Position(i+1)))
	}
	clone := fsys.CrashClone(nil, 0)
	check(t, s.Close())
	names, err := clone.List(dir)
	check(t, err)
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, manifestPrefix) })
	info, err := clone.Stat(dir + "/" + names[i])
	if err != nil || info.Size() < 3*manifestBlock {
		t.Fatalf("%v, %v: not several blocks", info, err)
	}
	s = open(t, clone)
	wantApplied(t, s, 1, 400, 1)
	check(t, s.Close())
}

func BenchmarkOpen(b *testing.B) {
	for _, keys := range []int{0, 200_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			dir := b.TempDir() + "/state"
			s, err := Open(vfs.Default, dir, Options{})
			check(b, err)
			for i := 0; i < keys; i += 100 {
				check(b, s.Write(base.ShardID(i/100%16), uint64(i+1), 1, func(put func(key, value []byte), _ func(key []byte)) {
					for k := range 100 {
						put(fmt.Appendf(nil, "%08d", i+k), make([]byte, 60))
					}
				}))
			}
			check(b, s.Flush(1))
			check(b, s.Close())
			for b.Loop() {
				s, err := Open(vfs.Default, dir, Options{})
				check(b, err)
				b.StopTimer()
				check(b, s.Close())
				b.StartTimer()
			}
		})
	}
}

// BenchmarkLoad reads 200,000 keys of 16 shards.
func BenchmarkLoad(b *testing.B) {
	s, err := Open(vfs.Default, b.TempDir()+"/state", Options{})
	check(b, err)
	for i := 0; i < 200_000; i += 100 {
		check(b, s.Write(base.ShardID(i/100%16), uint64(i+1), 1, func(put func(key, value []byte), _ func(key []byte)) {
			for k := range 100 {
				put(fmt.Appendf(nil, "%08d", i+k), make([]byte, 60))
			}
		}))
	}
	check(b, s.Flush(1))
	for b.Loop() {
		n := 0
		for shard := range base.ShardID(16) {
			check(b, s.Load(shard, func(_, _ []byte) error { n++; return nil }))
		}
		if n != 200_000 {
			b.Fatal(n)
		}
	}
	check(b, s.Close())
}

// BenchmarkCheckpoint writes and flushes 1000 keys.
func BenchmarkCheckpoint(b *testing.B) {
	s, err := Open(vfs.Default, b.TempDir()+"/state", Options{})
	check(b, err)
	pos := base.Position(0)
	for b.Loop() {
		pos++
		check(b, s.Write(1, uint64(pos), 1, func(put func(key, value []byte), _ func(key []byte)) {
			for k := range 1000 {
				put(fmt.Appendf(nil, "%08d", k), make([]byte, 60))
			}
		}))
		check(b, s.Flush(pos))
	}
	check(b, s.Close())
}
