package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// dump lists all files with their contents, directories with a slash.
func dump(t testing.TB, fsys FS, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := fsys.List(dir)
	check(t, err)
	for _, name := range names {
		name = fsys.PathJoin(dir, name)
		info, err := fsys.Stat(name)
		check(t, err)
		if info.IsDir() {
			out[name+"/"] = ""
			maps.Copy(out, dump(t, fsys, name))
		} else {
			out[name] = contents(t, fsys, name)
		}
	}
	return out
}

// survivors counts what many clones of the disk hold.
func survivors(t *testing.T, disk *Crashing, percent int) map[string]int {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(percent)))
	seen := map[string]int{}
	for range 400 {
		seen[fmt.Sprint(dump(t, disk.CrashClone(rng, percent), "/"))]++
	}
	return seen
}

// wantSurvivors checks that exactly these states occur.
func wantSurvivors(t *testing.T, disk *Crashing, want ...map[string]string) {
	t.Helper()
	seen := survivors(t, disk, 50)
	for _, w := range want {
		if seen[fmt.Sprint(w)] == 0 {
			t.Errorf("%v never survived", w)
		}
		delete(seen, fmt.Sprint(w))
	}
	for other, n := range seen {
		t.Errorf("%d times %s survived", n, other)
	}
}

type m = map[string]string

// synced makes a durable file.
func synced(t *testing.T, fsys FS, name, data string) File {
	t.Helper()
	f := create(t, fsys, name, data)
	check(t, f.Sync())
	check(t, SyncDir(fsys, fsys.PathDir(name)))
	return f
}

func write(t testing.TB, f File, off int64, data string) {
	t.Helper()
	n, err := f.WriteAt([]byte(data), off)
	if n != len(data) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(data), err)
	}
}

func TestCrashNames(t *testing.T) {
	t.Run("create", func(t *testing.T) {
		disk := NewCrashing()
		check(t, create(t, disk, "/a", "x").Sync())
		wantSurvivors(t, disk, m{}, m{"/a": "x"})
		check(t, SyncDir(disk, "/"))
		wantSurvivors(t, disk, m{"/a": "x"})
	})
	t.Run("remove", func(t *testing.T) {
		disk := NewCrashing()
		synced(t, disk, "/a", "x")
		check(t, disk.Remove("/a"))
		wantSurvivors(t, disk, m{}, m{"/a": "x"})
		check(t, SyncDir(disk, "/"))
		wantSurvivors(t, disk, m{})
	})
	t.Run("rename is atomic", func(t *testing.T) {
		disk := NewCrashing()
		synced(t, disk, "/a", "old")
		synced(t, disk, "/a.tmp", "new")
		check(t, disk.Rename("/a.tmp", "/a"))
		wantSurvivors(t, disk, m{"/a": "old", "/a.tmp": "new"}, m{"/a": "new"})
		check(t, SyncDir(disk, "/"))
		wantSurvivors(t, disk, m{"/a": "new"})
	})
	t.Run("rename between directories", func(t *testing.T) {
		for _, dir := range []string{"/p", "/q"} {
			disk := NewCrashing()
			check(t, MkdirAll(disk, "/p", 0o755))
			check(t, MkdirAll(disk, "/q", 0o755))
			synced(t, disk, "/p/a", "x")
			check(t, disk.Rename("/p/a", "/q/b"))
			wantSurvivors(t, disk, m{"/p/": "", "/q/": "", "/p/a": "x"}, m{"/p/": "", "/q/": "", "/q/b": "x"})
			check(t, SyncDir(disk, dir))
			wantSurvivors(t, disk, m{"/p/": "", "/q/": "", "/q/b": "x"})
		}
	})
	t.Run("changes of one name keep their order", func(t *testing.T) {
		disk := NewCrashing()
		synced(t, disk, "/log", "1")
		check(t, disk.Rename("/log", "/log.old"))
		check(t, create(t, disk, "/log", "2").Sync())
		wantSurvivors(t, disk, m{"/log": "1"}, m{"/log.old": "1"}, m{"/log.old": "1", "/log": "2"})
	})
	t.Run("changes of different names do not", func(t *testing.T) {
		disk := NewCrashing()
		check(t, create(t, disk, "/a", "1").Sync())
		check(t, create(t, disk, "/b", "2").Sync())
		wantSurvivors(t, disk, m{}, m{"/a": "1"}, m{"/b": "2"}, m{"/a": "1", "/b": "2"})
	})
	t.Run("a file needs its directory", func(t *testing.T) {
		disk := NewCrashing()
		check(t, disk.MkdirAll("/d", 0o755))
		synced(t, disk, "/d/a", "1")
		wantSurvivors(t, disk, m{}, m{"/d/": "", "/d/a": "1"})
	})
	t.Run("link", func(t *testing.T) {
		disk := NewCrashing()
		f := synced(t, disk, "/a", "1")
		check(t, disk.Link("/a", "/b"))
		check(t, SyncDir(disk, "/"))
		write(t, f, 0, "2")
		clone := disk.CrashClone(nil, 100)
		g, err := clone.OpenReadWrite("/a", CategoryData)
		check(t, err)
		write(t, g, 0, "3")
		if got := contents(t, clone, "/b"); got != "3" {
			t.Fatalf("the names of one file became two files: %q", got)
		}
	})
}

func TestCrashData(t *testing.T) {
	old, fresh := strings.Repeat("o", blockSize), strings.Repeat("n", blockSize)
	t.Run("overwritten", func(t *testing.T) {
		disk := NewCrashing()
		f := synced(t, disk, "/a", old+old+old)
		write(t, f, 0, fresh+fresh+fresh)
		whole, torn, out := 0, 0, 0
		for s := range survivors(t, disk, 50) {
			s = strings.TrimSuffix(strings.TrimPrefix(s, "map[/a:"), "]")
			for i := 0; i < len(s); i += sectorSize {
				if sector := s[i : i+sectorSize]; sector != old[:sectorSize] && sector != fresh[:sectorSize] {
					t.Fatalf("a sector at %d is torn: %q", i, sector)
				}
			}
			b := [3]string{s[:blockSize], s[blockSize : 2*blockSize], s[2*blockSize:]}
			whole += count(b[0] == fresh && b[1] == fresh && b[2] == old)
			out += count(b[0] == old && b[2] == fresh)
			torn += count(b[0] != old && b[0] != fresh)
		}
		if whole == 0 || torn == 0 || out == 0 {
			t.Fatalf("%d times a prefix, %d times torn, %d times out of order", whole, torn, out)
		}
		check(t, f.SyncData())
		wantSurvivors(t, disk, m{"/a": fresh + fresh + fresh})
	})
	t.Run("appended", func(t *testing.T) {
		disk := NewCrashing()
		f := synced(t, disk, "/a", "12345")
		write(t, f, 5, "67890")
		wantSurvivors(t, disk, m{"/a": "12345"}, m{"/a": "1234567890"}, m{"/a": "12345\x00\x00\x00\x00\x00"})
	})
	t.Run("truncated", func(t *testing.T) {
		disk := NewCrashing()
		f := synced(t, disk, "/a", "12345")
		_, err := Truncate(f, 2)
		check(t, err)
		seen := survivors(t, disk, 50)
		if seen["map[/a:12]"] == 0 || seen["map[/a:12345]"] == 0 {
			t.Fatal(seen)
		}
		check(t, f.Sync())
		wantSurvivors(t, disk, m{"/a": "12"})
		_, err = Truncate(f, 4)
		check(t, err)
		check(t, f.Sync())
		wantSurvivors(t, disk, m{"/a": "12\x00\x00"})
	})
	t.Run("a hole where there was data", func(t *testing.T) {
		disk := NewCrashing()
		f := synced(t, disk, "/a", old+old+old)
		_, err := Truncate(f, 0)
		check(t, err)
		write(t, f, 2*blockSize, "x")
		check(t, f.Sync())
		wantSurvivors(t, disk, m{"/a": strings.Repeat("\x00", 2*blockSize) + "x"})
	})
	t.Run("nothing and everything", func(t *testing.T) {
		disk := NewCrashing()
		f := synced(t, disk, "/a", old)
		write(t, f, 100, fresh)
		create(t, disk, "/b", fresh)
		if got := dump(t, disk.CrashClone(nil, 0), "/"); !maps.Equal(got, m{"/a": old}) {
			t.Fatal("what was not synced is there, with 0 %")
		}
		if got := dump(t, disk.CrashClone(nil, 100), "/"); !maps.Equal(got, dump(t, disk, "/")) {
			t.Fatal("not everything is there, with 100 %")
		}
	})
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestFailedSyncLoses checks rule 4 of Crashing: after a failed sync, the next one does not help.
func TestFailedSyncLoses(t *testing.T) {
	disk := NewCrashing()
	fsys := NewFaults(disk, 1)
	f := synced(t, fsys, "/a", "old")
	write(t, f, 0, "new")
	fsys.Inject(Rule{Ops: OpSync, Count: 1, Err: syscall.EIO})
	if err := f.Sync(); !isErrno(err, syscall.EIO) {
		t.Fatal(err)
	}
	check(t, f.Sync())
	if got := contents(t, fsys, "/a"); got != "new" {
		t.Fatalf("memory holds %q", got)
	}
	if got := contents(t, disk.CrashClone(nil, 0), "/a"); got != "old" {
		t.Fatalf("the disk holds %q: the second sync wrote what the first had lost", got)
	}
	wantSurvivors(t, disk, m{"/a": "old"}, m{"/a": "new"})
	write(t, f, 0, "NEW")
	check(t, f.Sync())
	if got := contents(t, disk.CrashClone(nil, 0), "/a"); got != "NEW" {
		t.Fatalf("the disk holds %q after writing again", got)
	}
}

func TestClonesAreIndependent(t *testing.T) {
	disk := NewCrashing()
	f := synced(t, disk, "/a", strings.Repeat("a", 3*blockSize))
	one, two := disk.CrashClone(nil, 0), disk.CrashClone(nil, 100)
	write(t, f, 10, "0")
	g, err := one.OpenReadWrite("/a", CategoryData)
	check(t, err)
	write(t, g, 10, "1")
	if a, b, c := contents(t, disk, "/a")[10], contents(t, one, "/a")[10], contents(t, two, "/a")[10]; a != '0' || b != '1' || c != 'a' {
		t.Fatalf("%c %c %c", a, b, c)
	}
}

func TestCapacity(t *testing.T) {
	disk := NewCrashing()
	fsys := NewFaults(disk, 1)
	fsys.SetCapacity(10 * blockSize)
	avail := func() int64 {
		du, err := fsys.GetDiskUsage("/")
		check(t, err)
		if du.TotalBytes != 10*blockSize || du.UsedBytes+du.AvailBytes != du.TotalBytes {
			t.Fatalf("%+v", du)
		}
		return int64(du.AvailBytes / blockSize)
	}
	a := create(t, fsys, "/a", strings.Repeat("a", 6*blockSize))
	b := create(t, fsys, "/b", "")
	check(t, b.Preallocate(0, 3*blockSize))
	if avail() != 1 {
		t.Fatalf("%d blocks left", avail())
	}
	if err := b.Preallocate(0, 5*blockSize); !isErrno(err, syscall.ENOSPC) {
		t.Fatalf("preallocated more than there is: %v", err)
	}
	n, err := b.WriteAt(make([]byte, 5*blockSize), 0)
	if n != 4*blockSize || !isErrno(err, syscall.ENOSPC) {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}
	if err := Writev(a, 6*blockSize, [][]byte{{1}}); !isErrno(err, syscall.ENOSPC) {
		t.Fatalf("wrote on a full disk: %v", err)
	}
	write(t, a, 0, "overwriting takes no space")
	if clone := disk.CrashClone(nil, 100); clone.Used() != 10*blockSize {
		t.Fatalf("the clone takes %d", clone.Used())
	}
	check(t, fsys.Remove("/a"))
	if avail() != 0 {
		t.Fatal("a file that is open gave its space back")
	}
	check(t, a.Close())
	if avail() != 6 {
		t.Fatalf("%d blocks left after the removal", avail())
	}
	_, err = Truncate(b, 1)
	check(t, err)
	if avail() != 9 {
		t.Fatalf("%d blocks left after the truncation", avail())
	}
	check(t, fsys.Rename("/b", "/c"))
	check(t, create(t, fsys, "/c", "").Close())
	check(t, b.Close())
	if avail() != 10 {
		t.Fatalf("%d blocks left in the end", avail())
	}
}

func TestCrashingErrors(t *testing.T) {
	disk := NewCrashing()
	check(t, disk.MkdirAll("/d/e", 0o755))
	f := create(t, disk, "/d/f", "x")
	dir, err := disk.OpenDir("/d")
	check(t, err)
	reader, err := disk.Open("/d/f")
	check(t, err)
	one := make([]byte, 1)
	errs := map[string]error{}
	_, errs["ENOENT open"] = disk.Open("/none")
	_, errs["ENOENT create"] = disk.Create("/none/f", CategoryData)
	_, errs["ENOTDIR create"] = disk.Create("/d/f/g", CategoryData)
	_, errs["EISDIR create"] = disk.Create("/d", CategoryData)
	_, errs["EISDIR open"] = disk.OpenReadWrite("/d", CategoryData)
	_, errs["ENOTDIR opendir"] = disk.OpenDir("/d/f")
	errs["ENOTEMPTY remove"] = disk.Remove("/d")
	errs["ENOENT remove"] = disk.Remove("/d/none")
	errs["ENOENT rename"] = disk.Rename("/none", "/d/g")
	errs["EISDIR rename"] = disk.Rename("/d/f", "/d/e")
	errs["ENOTDIR rename"] = disk.Rename("/d/e", "/d/f")
	errs["EINVAL rename"] = disk.Rename("/d", "/d/e/d")
	errs["EEXIST link"] = disk.Link("/d/f", "/d/f")
	errs["EPERM link"] = disk.Link("/d", "/x")
	errs["ENOTDIR mkdir"] = disk.MkdirAll("/d/f/g", 0o755)
	_, errs["ENOTDIR list"] = disk.List("/d/f")
	_, errs["EBADF write"] = reader.WriteAt(one, 0)
	_, errs["EISDIR read"] = dir.Read(one)
	_, errs["EINVAL read"] = f.ReadAt(one, -1)
	codes := map[string]syscall.Errno{"ENOENT": syscall.ENOENT, "ENOTDIR": syscall.ENOTDIR, "EISDIR": syscall.EISDIR, "EBADF": syscall.EBADF,
		"ENOTEMPTY": syscall.ENOTEMPTY, "EINVAL": syscall.EINVAL, "EEXIST": syscall.EEXIST, "EPERM": syscall.EPERM}
	for name, err := range errs {
		code, _, _ := strings.Cut(name, " ")
		if !isErrno(err, codes[code]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	check(t, disk.RemoveAll("/none/at/all"))
	check(t, disk.RemoveAll("/d"))
	if n, err := reader.Read(one); n != 1 || err != nil {
		t.Errorf("reading a removed file: %v", err)
	}
	if _, err := reader.Read(one); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	check(t, f.Close())
	if err := f.Sync(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("sync of a closed file: %v", err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
}

func TestCrashingReuse(t *testing.T) {
	disk := NewCrashing()
	check(t, create(t, disk, "/a", "123").Close())
	f, err := disk.ReuseForWrite("/a", "/b", CategoryData)
	check(t, err)
	if n, err := f.Write([]byte("9")); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got := dump(t, disk, "/"); !maps.Equal(got, m{"/b": "923"}) {
		t.Fatal(got)
	}
}

// TestSyncCost measures that a sync does not depend on the size of the file.
func TestSyncCost(t *testing.T) {
	disk := NewCrashing()
	f := create(t, disk, "/a", "")
	write(t, f, 256<<20, "x")
	check(t, f.Sync())
	if n := testing.AllocsPerRun(100, func() {
		write(t, f, 1000, "y")
		check(t, f.Sync())
	}); n > 3 { // the block, and the test's own string
		t.Fatalf("%v allocations for a sync of one block", n)
	}
}

// TestCrashingConcurrent is for the race detector.
func TestCrashingConcurrent(t *testing.T) {
	disk := NewCrashing()
	fsys := NewFaults(disk, 1)
	var wg sync.WaitGroup
	work := func(name string) error {
		f, err := fsys.Create(name, CategoryData)
		for i := 0; i < 100 && err == nil; i++ {
			_, err = f.WriteAt([]byte("y"), int64(i))
			err = errors.Join(err, f.Sync(), SyncDir(fsys, "/"))
		}
		return errors.Join(err, f.Close(), fsys.Rename(name, name+".done"))
	}
	for k := range 4 {
		wg.Go(func() {
			if err := work(fmt.Sprintf("/f%d", k)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for range 50 {
			if _, err := disk.CrashClone(rng, 50).List("/"); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if names, err := fsys.List("/"); err != nil || !slices.Equal(names, []string{"f0.done", "f1.done", "f2.done", "f3.done"}) {
		t.Fatal(names, err)
	}
	if c := fsys.Counts(); c.Syncs != 400 || c.DirSyncs != 400 || c.Writes != 400 || c.Creates != 4 || c.Renames != 4 {
		t.Fatalf("%+v", c)
	}
}
