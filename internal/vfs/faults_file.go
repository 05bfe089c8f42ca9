package vfs

import "slices"

// faultyFile is a file of a Faults.
type faultyFile struct {
	File
	f    *Faults
	path string
	dir  bool
}

// Read implements File.
func (f *faultyFile) Read(p []byte) (int, error) {
	if err := f.read(p); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

// ReadAt implements File.
func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.read(p); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) read(p []byte) error {
	f.f.reads.Add(1)
	f.f.readBytes.Add(int64(len(p)))
	return f.f.check(OpRead, f.path)
}

// Write implements File.
func (f *faultyFile) Write(p []byte) (int, error) {
	v := f.written(len(p))
	if v.err == nil {
		return f.File.Write(p)
	}
	n, _ := f.File.Write(p[:int(v.part*float64(len(p)))])
	return n, v.err
}

// WriteAt implements File.
func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	v := f.written(len(p))
	if v.err == nil {
		return f.File.WriteAt(p, off)
	}
	n := 0
	if p = p[:int(v.part*float64(len(p)))]; len(p) > 0 {
		n, _ = f.File.WriteAt(p, off)
	}
	return n, v.err
}

// writev takes all buffers as one write.
func (f *faultyFile) writev(off int64, bufs [][]byte) error {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	v := f.written(total)
	if v.err == nil {
		return Writev(f.File, off, bufs)
	}
	if part := int(v.part * float64(total)); part > 0 {
		all := slices.Concat(bufs...)
		_, _ = f.File.WriteAt(all[:part], off)
	}
	return v.err
}

func (f *faultyFile) written(n int) verdict {
	f.f.writes.Add(1)
	f.f.writtenBytes.Add(int64(n))
	return f.f.before(OpWrite, f.path)
}

// Sync implements File.
func (f *faultyFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements File.
func (f *faultyFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *faultyFile) sync(do func() error) error {
	op, count := OpSync, &f.f.syncs
	if f.dir {
		op, count = OpSyncDir, &f.f.dirSyncs
	}
	count.Add(1)
	v := f.f.before(op, f.path)
	switch {
	case v.err != nil:
		if l, ok := f.File.(interface{ loseUnsynced() }); ok && v.err != ErrPowerOff {
			l.loseUnsynced()
		}
		return v.err
	case v.drop:
		return nil
	}
	err := do()
	if err == nil && f.f.off.Load() {
		return ErrPowerOff // it may have come too late
	}
	return err
}

// loseUnsynced passes on that a wrapper around this one failed a sync.
func (f *faultyFile) loseUnsynced() {
	if l, ok := f.File.(interface{ loseUnsynced() }); ok {
		l.loseUnsynced()
	}
}

// SyncTo implements File and makes nothing durable.
func (f *faultyFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }

// truncate is Truncate for this file.
func (f *faultyFile) truncate(size int64) (bool, error) {
	if err := f.f.check(OpTruncate, f.path); err != nil {
		return true, err
	}
	return Truncate(f.File, size)
}

// Preallocate implements File.
func (f *faultyFile) Preallocate(off, length int64) error {
	if err := f.f.check(OpPreallocate, f.path); err != nil {
		return err
	}
	return f.File.Preallocate(off, length)
}

// Fd implements File: the kernel would pass the faults by.
func (f *faultyFile) Fd() uintptr { return InvalidFd }
