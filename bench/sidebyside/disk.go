//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// diskCase is one way of writing a file in groups, each followed by fdatasync.
type diskCase struct {
	name      string
	group     int
	overwrite bool // blocks that were written before, as a recycled log file has them
}

func diskCases() []diskCase {
	return []diskCase{
		{"append 1 MiB", 1 << 20, false},
		{"append 256 KiB", 256 << 10, false},
		{"overwrite 1 MiB", 1 << 20, true},
		{"overwrite 256 KiB", 256 << 10, true},
	}
}

// measureDisk measures the ceiling of a log that is synced group by group.
func (h *harness) measureDisk(ctx context.Context) error {
	path := filepath.Join(h.scratch, "disk")
	defer os.Remove(path)
	for _, c := range diskCases() {
		if !c.overwrite {
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
		h.quiesce(ctx)
		rate, median, err := writeGroups(ctx, path, c.group, h.plan.diskBytes)
		if err != nil {
			return fmt.Errorf("disk: %w", err)
		}
		h.rec.add("disk", c.name, "disk", mThroughput, rate)
		h.rec.add("disk", c.name, "disk", mSyncLatency, float64(median.Microseconds())/1000)
		h.logf("disk, %s groups: %.0f MiB/s, %.2f ms per group", c.name, rate, float64(median.Microseconds())/1000)
	}
	return nil
}

// writeGroups writes size bytes from the start of a file and syncs after each group.
func writeGroups(ctx context.Context, path string, group int, size int64) (mibPerSec float64, median time.Duration, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	buf := make([]byte, group)
	for i := range buf {
		buf[i] = byte(i * 31)
	}
	var each []time.Duration
	begin := time.Now()
	for off := int64(0); off < size; off += int64(group) {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		t := time.Now()
		if _, err := f.WriteAt(buf, off); err != nil {
			return 0, 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, 0, err
		}
		each = append(each, time.Since(t))
	}
	took := time.Since(begin)
	slices.Sort(each)
	return float64(size) / mib / took.Seconds(), each[len(each)/2], nil
}

// prime writes a large file and removes it again, so that no broker pays for being the first to use a
// part of the machine: a virtual machine's memory and thin disk are backed by its host at first touch,
// which was seen to multiply the CPU time of a write and to divide the disk's rate.
func (h *harness) prime(ctx context.Context) error {
	size := min(h.plan.primeBytes, colonValue("/proc/meminfo", "MemAvailable")*1024*7/10)
	if size <= 0 {
		return nil
	}
	h.logf("priming memory and disk with %.1f GiB", float64(size)/gib)
	path := filepath.Join(h.scratch, "prime")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer f.Close()
	buf := make([]byte, 4*mib)
	for i := range buf {
		buf[i] = byte(i * 31)
	}
	for off := int64(0); off < size; off += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := f.WriteAt(buf, off); err != nil {
			return fmt.Errorf("prime: %w", err)
		}
	}
	return f.Sync()
}

// freeBytes is what a directory's file system has left for this user.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// inMemory reports whether a directory lies on a file system without a disk.
func inMemory(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}
