package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

func isErrno(err error, errno syscall.Errno) bool { return errors.Is(err, errno) }

// buffers makes n buffers of different lengths, some empty, and their bytes in one.
func buffers(n int) (bufs [][]byte, all []byte) {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for range n {
		b := make([]byte, rng.IntN(40))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		bufs, all = append(bufs, b), append(all, b...)
	}
	return bufs, all
}

// everywhere runs a test on all file systems.
func everywhere(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	for name, fsys := range map[string]FS{
		"default": Default, "crashing": NewCrashing(), "faults": NewFaults(NewCrashing(), 1),
		"faults on disk": NewFaults(Default, 1), "pebble": pebblevfs.NewCrashableMem(),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := MkdirAll(fsys, dir, 0o755); err != nil {
				t.Fatal(err)
			}
			test(t, fsys, dir)
		})
	}
}

func create(t testing.TB, fsys FS, name, data string) File {
	t.Helper()
	f, err := fsys.Create(name, CategoryData)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(data), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents reads a file, "?" if there is none.
func contents(t testing.TB, fsys FS, name string) string {
	t.Helper()
	b, err := ReadFile(fsys, name, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return "?"
	}
	check(t, err)
	return string(b)
}

func TestWritev(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS, dir string) {
		for _, n := range []int{0, 1, 3, 1024, 1025, 3000} {
			name := fsys.PathJoin(dir, "f")
			f := create(t, fsys, name, strings.Repeat("x", 50))
			bufs, all := buffers(n)
			check(t, Writev(f, 50, bufs))
			check(t, f.Close())
			if got := contents(t, fsys, name); got != strings.Repeat("x", 50)+string(all) {
				t.Fatalf("%d buffers: %d bytes in the file, want %d", n, len(got), 50+len(all))
			}
			if again := slices.Concat(bufs...); !bytes.Equal(again, all) {
				t.Fatal("the caller's bytes were changed")
			}
		}
	})
}

func TestTruncate(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS, dir string) {
		name := fsys.PathJoin(dir, "f")
		f := create(t, fsys, name, "0123456789")
		defer f.Close()
		ok, err := Truncate(f, 4)
		check(t, err)
		if _, mem := fsys.(*pebblevfs.MemFS); ok == mem {
			t.Fatalf("truncated: %v", ok)
		}
		if !ok {
			return
		}
		ok, err = Truncate(f, 6)
		if got := contents(t, fsys, name); !ok || err != nil || got != "0123\x00\x00" {
			t.Fatalf("%v, %v, %q", ok, err, got)
		}
	})
}

func TestPreallocateKeepsSize(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, fsys.PathJoin(dir, "f"), "abc")
		defer f.Close()
		check(t, Preallocate(f, 0, 1<<20))
		if info, err := f.Stat(); err != nil || info.Size() != 3 {
			t.Fatalf("%v, %v", info, err)
		}
	})
}

func TestReadFileLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS, dir string) {
		name := fsys.PathJoin(dir, "f")
		check(t, create(t, fsys, name, "0123456789").Close())
		if b, err := ReadFile(fsys, name, 10); err != nil || len(b) != 10 {
			t.Fatalf("%q, %v", b, err)
		}
		if _, err := ReadFile(fsys, name, 9); err == nil {
			t.Fatal("a file above the limit was read")
		}
	})
}

func TestLockDir(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS, dir string) {
		lock, err := LockDir(fsys, fsys.PathJoin(dir, "LOCK"))
		check(t, err)
		_, err = LockDir(fsys, fsys.PathJoin(dir, "LOCK"))
		if err == nil || !strings.Contains(err.Error(), dir+" is in use by another process") ||
			!strings.Contains(err.Error(), "stop that process, or choose another data directory") {
			t.Fatalf("second lock: %v", err)
		}
		check(t, lock.Close())
		lock, err = LockDir(fsys, fsys.PathJoin(dir, "LOCK"))
		check(t, err)
		check(t, lock.Close())
		_, err = LockDir(fsys, fsys.PathJoin(dir, "missing", "LOCK"))
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "must exist") {
			t.Fatalf("lock in a directory that is not there: %v", err)
		}
	})
}

// TestWriteFileAtomicCrash loses the power at every point of a replacement.
func TestWriteFileAtomicCrash(t *testing.T) {
	disk := NewCrashing()
	fsys := NewFaults(disk, 1)
	check(t, MkdirAll(fsys, "/a/b", 0o755))
	check(t, WriteFileAtomic(fsys, "/a/b/f", []byte("old")))
	rng := rand.New(rand.NewPCG(7, 7))
	points, olds, news := 0, 0, 0
	fsys.Hook(func(Event) {
		points++
		for range 50 {
			switch got := contents(t, disk.CrashClone(rng, rng.IntN(101)), "/a/b/f"); got {
			case "old":
				olds++
			case "a new one":
				news++
			default:
				t.Errorf("point %d: %q is neither", points, got)
			}
		}
	})
	check(t, WriteFileAtomic(fsys, "/a/b/f", []byte("a new one")))
	if points != 5 || olds == 0 || news == 0 { // create, write, sync, rename, sync of the directory
		t.Fatalf("%d points, %d times the old content, %d times the new", points, olds, news)
	}
	if got := contents(t, disk.CrashClone(nil, 0), "/a/b/f"); got != "a new one" {
		t.Fatalf("%q after it was done", got)
	}
}

func TestWriteFileAtomicFails(t *testing.T) {
	for _, op := range []Op{OpCreate, OpWrite, OpSync, OpRename, OpSyncDir} {
		fsys := NewFaults(NewCrashing(), 1)
		check(t, WriteFileAtomic(fsys, "/f", []byte("old")))
		fsys.Inject(Rule{Ops: op, Err: syscall.EIO, Partial: true})
		if err := WriteFileAtomic(fsys, "/f", []byte("new")); !isErrno(err, syscall.EIO) {
			t.Fatalf("%b: %v", op, err)
		}
		names, _ := fsys.List("/")
		if got := contents(t, fsys, "/f"); op != OpSyncDir && got != "old" || !slices.Equal(names, []string{"f"}) {
			t.Fatalf("%b: content %q among %v", op, got, names)
		}
	}
}

func TestMkdirAllIsDurable(t *testing.T) {
	for _, there := range []string{"/", "/a", "/a/b", "/a/b/c"} {
		disk := NewCrashing()
		check(t, disk.MkdirAll(there, 0o755))
		check(t, MkdirAll(disk, "/a/b/c", 0o755))
		if _, err := disk.CrashClone(nil, 0).Stat("/a/b/c"); err != nil {
			t.Fatalf("%s was there: %v", there, err)
		}
	}
}
