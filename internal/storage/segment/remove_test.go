package segment

import (
	"testing"

	"godwit/internal/vfs"
)

// deadFiles makes a store of n sealed WAL files without pieces.
func deadFiles(t *testing.T, fs vfs.FS, n uint32) *Store {
	t.Helper()
	if err := vfs.MkdirAll(fs, "/d", 0o755); err != nil {
		t.Fatal(err)
	}
	s := NewStore(fs, "/d")
	for number := uint32(1); number <= n; number++ {
		f, err := Create(fs, "/d", Header{Kind: KindWAL, Number: number, Salt: number}, 0)
		if err == nil {
			err = f.Publish()
		}
		if err == nil {
			s.Register(f)
			err = s.Seal(f, DataStart)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestRemoveDeadBesideItself has a checkpoint and a compaction find the same dead files: while one removes its first, the
// other removes all. No file may be released twice, nor its bytes counted twice.
func TestRemoveDeadBesideItself(t *testing.T) {
	const files = 5
	fs := vfs.NewFaults(vfs.NewCrashing(), 1)
	s := deadFiles(t, fs, files)
	defer s.Close()
	var inner int64
	entered := false
	fs.Hook(func(e vfs.Event) {
		if e.Op != vfs.OpRemove || entered {
			return
		}
		entered = true
		var err error
		if inner, err = s.RemoveDead(files + 1); err != nil {
			t.Error(err)
		}
	})
	outer, err := s.RemoveDead(files + 1)
	if err != nil {
		t.Fatal(err)
	}
	if left := s.Files(); len(left) != 0 {
		t.Fatalf("%d files are left", len(left))
	}
	if outer != DataStart || inner != (files-1)*DataStart {
		t.Fatalf("freed %d and %d bytes, want %d and %d", outer, inner, DataStart, (files-1)*DataStart)
	}
}
