package segment

import (
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"

	"godwit/internal/base"
	"godwit/internal/invariants"
	"godwit/internal/vfs"
)

// File is an open data file. It is shared: by the store as long as pieces or the writer refer
// to it, and by readers that hold a reference.
type File struct {
	Header
	Path string

	fs     vfs.FS
	f      vfs.File
	refs   atomic.Int32 // the store's own reference counts 1
	sealed atomic.Pointer[seal]

	live   atomic.Int64 // bytes of all pieces
	pieces atomic.Int64 // number of pieces

	logsMu sync.Mutex   // taken within a stripe's lock
	logs   []base.LogID // logs that got a piece, while the file is unsealed
}

// Name is the file name for a kind and number.
func Name(kind Kind, number uint32) string {
	if kind == KindMerged {
		return fmt.Sprintf("merged-%08d.seg", number)
	}
	return fmt.Sprintf("wal-%08d.log", number)
}

// Create makes a new data file under a temporary name, preallocated to size bytes (0: not at all), with its header on disk. Publish
// gives it its name.
func Create(fs vfs.FS, dir string, h Header, size int64) (*File, error) {
	path := fs.PathJoin(dir, Name(h.Kind, h.Number))
	f, err := fs.Create(path+TempSuffix, vfs.CategoryData)
	if err != nil {
		return nil, err
	}
	// The seal record's page is written too, so that it is never read past the end.
	page := append(h.Encode(), make([]byte, DataStart-HeaderSize)...)
	if size > 0 { // fallocate refuses nothing
		err = f.Preallocate(0, size)
	}
	if err == nil {
		if _, err = f.WriteAt(page, 0); err == nil {
			err = f.Sync()
		}
	}
	if err != nil {
		f.Close()
		fs.Remove(path + TempSuffix)
		return nil, fmt.Errorf("creating %s: %w", path, err)
	}
	return newFile(fs, path, f, h), nil
}

// TempSuffix marks files whose writer has not finished; they are removed at the start.
const TempSuffix = ".tmp"

// Publish renames a created file to its own name, durably. After an error the file is closed and its
// temporary name removed as far as the file system lets us.
func (f *File) Publish() error {
	err := f.fs.Rename(f.Path+TempSuffix, f.Path)
	if err == nil {
		if err = vfs.SyncDir(f.fs, f.fs.PathDir(f.Path)); err == nil {
			return nil
		}
		f.fs.Remove(f.Path)
	}
	f.Abandon()
	return err
}

// Abandon closes and removes a file that was not published.
func (f *File) Abandon() {
	f.Release()
	f.fs.Remove(f.Path + TempSuffix)
}

// Open opens an existing data file and reads its header and seal record.
func Open(fs vfs.FS, path string) (*File, error) {
	f, err := fs.OpenReadWrite(path, vfs.CategoryData)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, sealOffset+sealSize)
	n, _ := f.ReadAt(buf, 0)
	h, err := DecodeHeader(buf[:min(n, HeaderSize)])
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file := newFile(fs, path, f, h)
	if n == len(buf) {
		if s, ok := decodeSeal(buf[sealOffset:], h.Salt); ok {
			file.sealed.Store(&s)
		}
	}
	return file, nil
}

func newFile(fs vfs.FS, path string, f vfs.File, h Header) *File {
	file := &File{Header: h, Path: path, fs: fs, f: f}
	file.refs.Store(1)
	return file
}

// Handle is the open file. It stays valid while the caller holds a reference.
func (f *File) Handle() vfs.File { return f.f }

// Sealed reports whether the file is complete and has a footer.
func (f *File) Sealed() bool { return f.sealed.Load() != nil }

// DataEnd is where the data of a sealed file ends; 0 for one that is not sealed.
func (f *File) DataEnd() uint32 {
	if s := f.sealed.Load(); s != nil {
		return s.dataEnd
	}
	return 0
}

// Live is the sum of the bytes that the store's pieces have in this file.
func (f *File) Live() int64 { return f.live.Load() }

// Pieces is the number of pieces the store has in this file.
func (f *File) Pieces() int64 { return f.pieces.Load() }

// Acquire takes a reference. It fails if the file was already closed for good.
func (f *File) Acquire() bool {
	for {
		n := f.refs.Load()
		if n == 0 {
			return false
		}
		if f.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back; the last one closes the file.
func (f *File) Release() {
	n := f.refs.Add(-1)
	invariants.Check(n >= 0, "file %s released %d times too often", f.Path, -n)
	if n == 0 {
		f.f.Close()
	}
}

// ReadAt reads exactly len(b) bytes at off. A short file is corruption.
func (f *File) ReadAt(b []byte, off int64) error {
	n, err := f.f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	return &base.Error{Code: base.CodeCorruption,
		Msg: fmt.Sprintf("%s: read %d of %d bytes at %d: %v", f.Path, n, len(b), off, err)}
}

// WriteSeal completes the file: footer behind the data, then the seal record, each synced, so
// that a file with a seal always has its footer. logs and extents must be in order of log and offset.
func (f *File) WriteSeal(dataEnd uint32, logs []LogFooter, extents []Extent) error {
	footer := encodeFooter(logs, extents)
	s := seal{
		dataEnd:   dataEnd,
		footerPos: uint32(Padded(int(dataEnd))),
		footerLen: uint32(len(footer)),
		logs:      uint32(len(logs)),
		footerCRC: crc32.Checksum(footer, Castagnoli),
	}
	if int64(s.footerPos)+int64(len(footer)) > int64(^uint32(0)) {
		return fmt.Errorf("%s: footer of %d bytes does not fit behind %d", f.Path, len(footer), dataEnd)
	}
	if len(footer) > 0 {
		if _, err := f.f.WriteAt(footer, int64(s.footerPos)); err != nil {
			return err
		}
	}
	if _, err := vfs.Truncate(f.f, int64(s.footerPos)+int64(len(footer))); err != nil {
		return err
	}
	if err := f.f.Sync(); err != nil {
		return err
	}
	if _, err := f.f.WriteAt(s.encode(f.Salt), sealOffset); err != nil {
		return err
	}
	if err := f.f.Sync(); err != nil {
		return err
	}
	f.sealed.Store(&s)
	return nil
}

// Footer reads the log table of a sealed file and checks the footer's checksum.
func (f *File) Footer() ([]LogFooter, error) {
	s := f.sealed.Load()
	if s == nil {
		return nil, fmt.Errorf("%s: not sealed", f.Path)
	}
	b := make([]byte, s.footerLen)
	if err := f.ReadAt(b, int64(s.footerPos)); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, Castagnoli) != s.footerCRC {
		return nil, base.Errorf(base.CodeCorruption, "%s: footer checksum does not hold", f.Path)
	}
	logs, err := decodeLogs(b, s.logs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return logs, nil
}

// ReadExtents reads count extents of a sealed file's footer from index first, behind dst. scratch
// is used for the bytes and returned, grown if need be.
func (f *File) ReadExtents(dst []Extent, first, count uint32, scratch []byte) ([]Extent, []byte, error) {
	s := f.sealed.Load()
	need := int(count) * extentSize
	if cap(scratch) < need {
		scratch = make([]byte, need)
	}
	b := scratch[:need]
	off := int64(s.footerPos) + int64(s.logs)*footerLogSize + int64(first)*extentSize
	if err := f.ReadAt(b, off); err != nil {
		return dst, scratch, err
	}
	for i := range int(count) {
		dst = append(dst, decodeExtent(b[i*extentSize:]))
	}
	return dst, scratch, nil
}

// remove unlinks the file; readers that hold it go on until they release it.
func (f *File) remove() error {
	err := f.fs.Remove(f.Path)
	f.Release()
	return err
}

// Extents is the number of extents in a sealed file's footer.
func (f *File) Extents() int {
	s := f.sealed.Load()
	if s == nil {
		return 0
	}
	return (int(s.footerLen) - int(s.logs)*footerLogSize) / extentSize
}
