package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

// The types of the file system, shared with Pebble.
type (
	FS         = pebblevfs.FS
	File       = pebblevfs.File
	FileInfo   = pebblevfs.FileInfo
	DeviceID   = pebblevfs.DeviceID
	OpenOption = pebblevfs.OpenOption
	DiskUsage  = pebblevfs.DiskUsage
	Category   = pebblevfs.DiskWriteCategory
)

// InvalidFd is what File.Fd returns for a file that the kernel does not know.
const InvalidFd = pebblevfs.InvalidFd

// The categories of what a file is written for.
const (
	CategoryData  Category = "data"  // data files: the log, merged files
	CategoryState Category = "state" // the state store
	CategoryMeta  Category = "meta"  // small files of the data directory
)

// Default is the operating system's file system.
var Default FS = pebblevfs.Default

// Writev writes the buffers one behind the other at offset off. It returns nil only if all bytes
// were written. The buffers are not changed and not kept. It allocates nothing on Linux files.
func Writev(f File, off int64, bufs [][]byte) error {
	if v, ok := f.(vectorWriter); ok {
		return v.writev(off, bufs)
	}
	if fd := f.Fd(); fd != InvalidFd {
		return pwritev(fd, off, bufs)
	}
	return writeEach(f, off, bufs)
}

// vectorWriter is a file of this package that takes all buffers as one write.
type vectorWriter interface {
	writev(off int64, bufs [][]byte) error
}

// writeEach writes buffer by buffer.
func writeEach(f io.WriterAt, off int64, bufs [][]byte) error {
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		n, err := f.WriteAt(b, off)
		if err != nil {
			return err
		}
		if n < len(b) {
			return io.ErrShortWrite
		}
		off += int64(n)
	}
	return nil
}

// Truncate sets the size of a file. It reports false, and does nothing, if the file cannot be
// truncated: Pebble's in-memory files.
func Truncate(f File, size int64) (bool, error) {
	switch f := f.(type) {
	case interface {
		truncate(size int64) (bool, error)
	}:
		return f.truncate(size)
	case interface{ Truncate(size int64) error }:
		return true, f.Truncate(size)
	}
	return false, nil
}

// Preallocate reserves blocks for length bytes at off, without changing the file's size. On file systems that
// cannot it does nothing. A full disk is syscall.ENOSPC.
func Preallocate(f File, off, length int64) error {
	err := f.Preallocate(off, length)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return nil
	}
	return err
}

// SyncDir makes the names in a directory durable.
func SyncDir(fsys FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MkdirAll makes a directory and its parents, and all their names durable: also of those that were there, since who
// made them may have come to an end before syncing.
func MkdirAll(fsys FS, dir string, perm fs.FileMode) error {
	if err := fsys.MkdirAll(dir, perm); err != nil {
		return err
	}
	for parent := fsys.PathDir(dir); parent != dir; dir, parent = parent, fsys.PathDir(parent) {
		// A parent that this user may enter but not open is left to the system to sync.
		if err := SyncDir(fsys, parent); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// TempSuffix ends the names of files that WriteFileAtomic has not finished. A crash may leave one.
const TempSuffix = ".tmp"

// WriteFileAtomic replaces the file's content durably: after a crash it holds the old or the new.
func WriteFileAtomic(fsys FS, path string, data []byte) error {
	tmp := path + TempSuffix
	f, err := fsys.Create(tmp, CategoryMeta)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	return SyncDir(fsys, fsys.PathDir(path))
}

// ReadFile reads a file of at most limit bytes. A larger one is an error.
func ReadFile(fsys FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, err
}

// LockDir takes the lock file of a directory, so that no second process works in it. Closing the result, or the
// end of the process, releases it; the file stays.
func LockDir(fsys FS, lockFile string) (io.Closer, error) {
	c, err := fsys.Lock(lockFile)
	if err != nil {
		return nil, ExplainLock(fsys.PathDir(lockFile), err)
	}
	return c, nil
}

// ExplainLock says what to do about a directory that could not be locked.
func ExplainLock(dir string, err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) { // the file could not be made
		return fmt.Errorf("cannot lock %s: %w: the directory must exist and this user must be able to write to it", dir, err)
	}
	return fmt.Errorf("%s is in use by another process (%w): stop that process, or choose another data directory", dir, err)
}
