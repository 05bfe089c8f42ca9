package wal

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/storage/segment"
	"godwit/internal/vfs"
)

const (
	costFile  = 64 << 20
	costBatch = 16 << 10
)

// BenchmarkCost tells what writing costs in processor time, as cpu-s/GiB: "kernel" is the gathered write and the sync of the
// same bytes with nothing around them, below which no writer on this file system comes; "writer" is the log. Run it
// twice: on a virtual machine memory that the host has yet to provide makes the first time dearer by far.
func BenchmarkCost(b *testing.B) {
	for _, group := range []int{64 << 10, 256 << 10, 1 << 20} {
		payload := make([]byte, group)
		for i := range payload {
			payload[i] = byte(i * 7)
		}
		b.Run(fmt.Sprintf("group=%dKiB/kernel", group>>10), func(b *testing.B) { costOfKernel(b, payload) })
		b.Run(fmt.Sprintf("group=%dKiB/writer", group>>10), func(b *testing.B) { costOfWriter(b, payload) })
	}
}

func costOfKernel(b *testing.B, payload []byte) {
	dir, fsys := b.TempDir(), vfs.Default
	bufs := make([][]byte, 0, len(payload)/costBatch)
	for from := 0; from < len(payload); from += costBatch {
		bufs = append(bufs, payload[from:from+costBatch])
	}
	scratch := make([][]byte, len(bufs))
	var f vfs.File
	var at int64
	next := func() {
		if f != nil {
			f.Close()
		}
		path := filepath.Join(dir, "kernel")
		if err := fsys.Remove(path); err != nil && f != nil {
			b.Fatal(err)
		}
		var err error
		if f, err = fsys.Create(path, vfs.CategoryData); err != nil {
			b.Fatal(err)
		}
		if err := vfs.Preallocate(f, 0, costFile); err != nil {
			b.Fatal(err)
		}
		at = segment.DataStart
	}
	next()
	defer func() { f.Close() }()
	measure(b, len(payload), func() {
		// As in the log, a group does not begin where a page does.
		if at+int64(len(payload))+segment.FrameHeader > costFile {
			next()
		}
		copy(scratch, bufs)
		if err := vfs.Writev(f, at, scratch); err != nil {
			b.Fatal(err)
		}
		if err := f.SyncData(); err != nil {
			b.Fatal(err)
		}
		at += int64(len(payload)) + segment.FrameHeader
	})
}

func costOfWriter(b *testing.B, payload []byte) {
	store := segment.NewStore(vfs.Default, b.TempDir())
	w, err := Begin(store, Options{FileSize: costFile, Clock: clock.System{}, Rand: rand.New(rand.NewPCG(1, 2))}, 1, 1, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	first := store.Files()[0]
	var index uint64
	measure(b, len(payload), func() {
		for from := 0; from < len(payload); from += costBatch {
			index++
			w.Append(&Record{
				Frame: segment.Frame{Kind: segment.FrameEntry, Shard: 1, Index: index, Term: w.Term(), Extents: []segment.LogExtent{
					{Log: 1, Base: int64(index), Last: int64(index), Len: costBatch}}},
				Payload: [][]byte{payload[from : from+costBatch]}, Gen: 1,
				Done: func(_ Placement, err error) {
					if err != nil {
						b.Error(err)
					}
				},
			})
		}
		w.Step()
		// Files that are full go, so that the disk holds no more than two.
		if files := store.Files(); files[0] == first && len(files) > 2 {
			if err := first.WriteSeal(segment.DataStart, nil, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := store.RemoveDead(base.Position(w.Synced()).File()); err != nil {
				b.Fatal(err)
			}
			first = store.Files()[0]
		}
	})
}

// measure runs write b.N times, which is size bytes each, and reports the processor time of the process.
func measure(b *testing.B, size int, write func()) {
	b.SetBytes(int64(size))
	write()
	b.ResetTimer()
	before := spent(b)
	for range b.N {
		write()
	}
	b.ReportMetric((spent(b)-before)/(float64(b.N)*float64(size)/(1<<30)), "cpu-s/GiB")
}

// spent is the processor time of this process so far, in seconds.
func spent(b *testing.B) float64 {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
