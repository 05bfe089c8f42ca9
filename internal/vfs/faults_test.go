package vfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestFaultsByRule(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		want string // of six writes to /d/a.log and then one to /d/b: x fails, . does not
	}{
		{Rule{Ops: OpWrite}, "xxxxxxx"},
		{Rule{Ops: OpAll}, "xxxxxxx"},
		{Rule{Ops: OpAll &^ OpWrite}, "......."},
		{Rule{Ops: OpWrite, Path: "*.log"}, "xxxxxx."},
		{Rule{Ops: OpWrite, Path: "/d/b"}, "......x"},
		{Rule{Ops: OpWrite, Path: "/*"}, "......."},
		{Rule{Ops: OpWrite, After: 2}, "..xxxxx"},
		{Rule{Ops: OpWrite, After: 2, Count: 3}, "..xxx.."},
		{Rule{Ops: OpWrite, Path: "b", After: 1}, "......."},
	} {
		fsys := NewFaults(NewCrashing(), 1)
		check(t, MkdirAll(fsys, "/d", 0o755))
		a, b := create(t, fsys, "/d/a.log", ""), create(t, fsys, "/d/b", "")
		c.rule.Err = syscall.EIO
		injection := fsys.Inject(c.rule)
		got := ""
		for _, f := range []File{a, a, a, a, a, a, b} {
			_, err := f.WriteAt([]byte("x"), 0)
			if err != nil && !isErrno(err, syscall.EIO) {
				t.Fatal(err)
			}
			got += map[bool]string{true: ".", false: "x"}[err == nil]
		}
		if got != c.want || injection.Hits() != int64(strings.Count(c.want, "x")) {
			t.Errorf("%+v: %s, want %s; %d hits", c.rule, got, c.want, injection.Hits())
		}
		injection.Stop()
		write(t, a, 0, "x")
	}
}

func TestFaultsOfEveryKind(t *testing.T) {
	fsys := NewFaults(NewCrashing(), 1)
	check(t, fsys.MkdirAll("/d", 0o755))
	f := create(t, fsys, "/d/f", "x")
	dir, err := fsys.OpenDir("/d")
	check(t, err)
	b := make([]byte, 1)
	second := func(_ any, err error) error { return err }
	ops := map[Op][]func() error{
		OpRead: {
			func() error { return second(f.Read(b)) },
			func() error { return second(f.ReadAt(b, 0)) },
		},
		OpWrite: {
			func() error { return second(f.Write(b)) },
			func() error { return second(f.WriteAt(b, 0)) },
			func() error { return Writev(f, 0, [][]byte{b}) },
		},
		OpSync:    {f.Sync, f.SyncData},
		OpSyncDir: {dir.Sync},
		OpCreate: {
			func() error { return second(fsys.Create("/d/g", CategoryData)) },
			func() error { return second(fsys.OpenReadWrite("/d/g", CategoryData)) },
		},
		OpOpen: {
			func() error { return second(fsys.Open("/d/f")) },
			func() error { return second(fsys.OpenReadWrite("/d/f", CategoryData)) },
			func() error { return second(fsys.OpenDir("/d")) },
		},
		OpRename: {
			func() error { return fsys.Rename("/d/f", "/d/h") },
			func() error { return second(fsys.ReuseForWrite("/d/f", "/d/h", CategoryData)) },
		},
		OpRemove: {
			func() error { return fsys.Remove("/d/f") },
			func() error { return fsys.RemoveAll("/d") },
		},
		OpLink:        {func() error { return fsys.Link("/d/f", "/d/i") }},
		OpMkdir:       {func() error { return fsys.MkdirAll("/e", 0o755) }},
		OpTruncate:    {func() error { return second(Truncate(f, 0)) }},
		OpPreallocate: {func() error { return f.Preallocate(0, 1) }},
		OpList:        {func() error { return second(fsys.List("/d")) }},
		OpStat:        {func() error { return second(fsys.Stat("/d")) }},
		OpLock:        {func() error { return second(fsys.Lock("/d/LOCK")) }},
	}
	all := Op(0)
	for op, calls := range ops {
		all |= op
		injection := fsys.Inject(Rule{Ops: op, Err: syscall.EIO})
		for i, call := range calls {
			if err := call(); !isErrno(err, syscall.EIO) || injection.Hits() != int64(i+1) {
				t.Errorf("op %b, call %d: %v, %d hits", op, i, err, injection.Hits())
			}
		}
		fsys.Clear()
	}
	if all != OpAll {
		t.Errorf("ops %b are not tried", OpAll&^all)
	}
	fsys.PowerOff()
	for op, calls := range ops {
		for i, call := range calls {
			if err := call(); !errors.Is(err, ErrPowerOff) {
				t.Errorf("power off: op %b, call %d: %v", op, i, err)
			}
		}
	}
	check(t, f.Close())
}

// TestFaultsPartialWrite checks that a failed write may have written a prefix, and nothing else.
func TestFaultsPartialWrite(t *testing.T) {
	fsys := NewFaults(NewCrashing(), 1)
	fsys.Inject(Rule{Ops: OpWrite, Err: syscall.ENOSPC, Partial: true})
	lengths := map[int]bool{}
	for i := range 60 {
		f, err := fsys.Create("/f", CategoryData)
		check(t, err)
		n := -1
		switch i % 3 {
		case 0:
			n, err = f.WriteAt([]byte("0123456789"), 0)
		case 1:
			n, err = f.Write([]byte("0123456789"))
		default:
			err = Writev(f, 0, [][]byte{[]byte("0123"), nil, []byte("456789")})
		}
		got := contents(t, fsys, "/f")
		if !isErrno(err, syscall.ENOSPC) || !strings.HasPrefix("0123456789", got) || n >= 0 && n != len(got) {
			t.Fatalf("%d, %v, %q", n, err, got)
		}
		lengths[len(got)] = true
	}
	if len(lengths) < 5 || lengths[10] {
		t.Fatalf("lengths %v", lengths)
	}
}

func TestFaultsDropSync(t *testing.T) {
	disk := NewCrashing()
	fsys := NewFaults(disk, 1)
	injection := fsys.Inject(Rule{Ops: OpSync | OpSyncDir, Drop: true})
	f := synced(t, fsys, "/f", "x")
	check(t, f.SyncData())
	if got := dump(t, disk.CrashClone(nil, 0), "/"); len(got) > 0 || injection.Hits() != 3 {
		t.Fatalf("%v is on disk without a sync; %d dropped", got, injection.Hits())
	}
	injection.Stop()
	check(t, f.Sync())
	check(t, SyncDir(fsys, "/"))
	if got := dump(t, disk.CrashClone(nil, 0), "/"); got["/f"] != "x" {
		t.Fatal("a dropped sync lost the data for good")
	}
}

// TestFaultsSeed checks that one seed makes one run.
func TestFaultsSeed(t *testing.T) {
	run := func(seed uint64) (out string) {
		fsys := NewFaults(NewCrashing(), seed)
		injection := fsys.Inject(Rule{Ops: OpCreate, Probability: 0.3, Err: syscall.EIO})
		for range 200 {
			f, err := fsys.Create("/f", CategoryData)
			if out += "."; err != nil {
				out += "x"
				continue
			}
			check(t, f.Close())
		}
		if n := injection.Hits(); n < 30 || n > 90 {
			t.Fatalf("%d of 200 with a probability of 0.3", n)
		}
		return out
	}
	if first, again := run(1), run(1); first != again || first == run(2) {
		t.Fatal("the faults do not follow from the seed")
	}
}

func TestFaultsHook(t *testing.T) {
	fsys := NewFaults(NewCrashing(), 1)
	var events []string
	fsys.Hook(func(e Event) {
		events = append(events, fmt.Sprintf("%d %b %s", e.N, e.Op, e.Path))
		if e.Op == OpSync {
			fsys.PowerOff()
		}
	})
	f := create(t, fsys, "/f", "x")
	_, err := f.ReadAt(make([]byte, 1), 0)
	check(t, err)
	if err := f.Sync(); !errors.Is(err, ErrPowerOff) {
		t.Fatalf("the power went off in front of the sync: %v", err)
	}
	want := []string{fmt.Sprintf("1 %b /f", OpCreate), fmt.Sprintf("2 %b /f", OpWrite), fmt.Sprintf("3 %b /f", OpSync)}
	if !slices.Equal(events, want) {
		t.Fatalf("%q, want %q", events, want)
	}
}

// TestFaultsPowerOffDuringSync checks that no sync succeeds during which the power went off.
func TestFaultsPowerOffDuringSync(t *testing.T) {
	below := NewFaults(NewCrashing(), 1)
	fsys := NewFaults(below, 1)
	f := create(t, fsys, "/f", "x")
	below.Hook(func(e Event) {
		if e.Op == OpSync {
			fsys.PowerOff()
		}
	})
	if err := f.Sync(); !errors.Is(err, ErrPowerOff) {
		t.Fatalf("the power went off during the sync: %v", err)
	}
}

func TestFaultsRefuseSenselessRules(t *testing.T) {
	for _, r := range []Rule{{Ops: OpSync}, {Ops: OpWrite, Drop: true}, {Ops: OpSync, Drop: true, Err: syscall.EIO}, {Ops: OpSync, Path: "[", Drop: true}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was accepted", r)
				}
			}()
			NewFaults(NewCrashing(), 1).Inject(r)
		}()
	}
	defer func() {
		if recover() == nil {
			t.Error("a capacity was accepted on a file system without one")
		}
	}()
	NewFaults(Default, 1).SetCapacity(1)
}
