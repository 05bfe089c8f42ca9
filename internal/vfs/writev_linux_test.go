package vfs

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestWritevShort has the kernel take a few bytes at a time, and sometimes none.
func TestWritevShort(t *testing.T) {
	bufs, want := buffers(2500)
	for _, most := range []int{1, 7, 512, 1 << 20} {
		var got []byte
		calls := 0
		err := gather(func(_ uintptr, iov *iovecs, n int, off int64) (int, unix.Errno) {
			if calls++; calls%3 == 0 {
				return 0, unix.EINTR
			}
			if off != int64(100+len(got)) {
				t.Fatalf("call %d is for offset %d, want %d", calls, off, 100+len(got))
			}
			wrote := 0
			for i := 0; i < n && wrote < most; i++ {
				b := unsafe.Slice(iov[i].Base, iov[i].Len)
				b = b[:min(len(b), most-wrote)]
				got = append(got, b...)
				wrote += len(b)
			}
			return wrote, 0
		}, 0, 100, bufs)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("at most %d bytes a call: %v, %d bytes written of %d, equal: %v", most, err, len(got), len(want), bytes.Equal(got, want))
		}
	}
}

func TestWritevErrors(t *testing.T) {
	bufs := [][]byte{[]byte("abc")}
	fail := func(errno unix.Errno) error {
		return gather(func(uintptr, *iovecs, int, int64) (int, unix.Errno) { return 0, errno }, 0, 0, bufs)
	}
	if err := fail(unix.ENOSPC); !isErrno(err, unix.ENOSPC) {
		t.Fatalf("ENOSPC became %v", err)
	}
	if err := fail(0); err == nil {
		t.Fatal("a write that goes nowhere must end with an error")
	}
}

func TestWritevAllocatesNothing(t *testing.T) {
	fsys, dir := Default, t.TempDir()
	f, err := fsys.Create(fsys.PathJoin(dir, "f"), CategoryData)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bufs, _ := buffers(300)
	scratch := slices.Clone(bufs)
	if n := testing.AllocsPerRun(50, func() {
		copy(scratch, bufs)
		if err := Writev(f, 4096, scratch); err != nil {
			t.Fatal(err)
		}
	}); n >= 1 {
		t.Fatalf("%v allocations for a write", n)
	}
}
