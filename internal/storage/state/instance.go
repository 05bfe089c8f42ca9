package state

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"godwit/internal/vfs"
)

// instance is one open Pebble, from Open to the error that it cannot go on after.
type instance struct {
	db   *pebble.DB
	gate *gate
	log  *slog.Logger
	wake chan struct{} // capacity 1: a flush failed, or the instance died

	mu       sync.Mutex // below Pebble's locks: its callbacks take it
	ended    error      // how the last attempt to flush ended
	flushErr error      // why the last attempt to flush failed, until one succeeds
	dead     error      // what Pebble cannot go on after
	stats    failures
}

// failures are what an instance could not do.
type failures struct{ flushes, compactions, corruptions int64 }

// openInstance opens Pebble in dir, which is locked.
func openInstance(fsys vfs.FS, dir string, lock *pebble.Lock, o *Options) (*instance, error) {
	i := &instance{gate: newGate(fsys), log: o.Logger, wake: make(chan struct{}, 1)}
	cache := pebble.NewCache(o.CacheBytes)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{
		FS:                 i.gate,
		Lock:               lock,
		Cache:              cache,
		MemTableSize:       uint64(o.MemTableBytes),
		DisableWAL:         true,
		FormatMajorVersion: formatMajorVersion,
		Logger:             i,
		MaxOpenFiles:       256,
		// Writes never wait inside Pebble, where an error could not end the wait: Store.admit bounds the memtables.
		MemTableStopWritesThreshold: 1 << 16,
		L0StopWritesThreshold:       1 << 16,
		EventListener: &pebble.EventListener{
			FlushEnd:        i.flushEnded,
			BackgroundError: i.failed,
			DataCorruption:  i.corrupted,
		},
	})
	if err != nil {
		return nil, err
	}
	i.db = db
	if err := i.death(); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// flushEnded runs under Pebble's lock.
func (i *instance) flushEnded(info pebble.FlushInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended = info.Err; info.Err == nil {
		i.flushErr = nil
	}
}

// failed runs under Pebble's lock, right after flushEnded if it was a flush that failed.
func (i *instance) failed(err error) {
	i.gate.pause()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended != nil && errors.Is(err, i.ended) {
		i.flushErr = err
		i.stats.flushes++
		i.signal()
	} else {
		i.stats.compactions++
	}
	if i.dead == nil {
		i.log.Warn("state store: background work failed; it is tried again with the next checkpoint", "error", err)
	}
}

func (i *instance) corrupted(info pebble.DataCorruptionInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stats.corruptions++
	i.log.Error("state store: damaged data", "path", info.Path, "error", info.Details)
}

func (i *instance) signal() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// Infof implements pebble.Logger.
func (i *instance) Infof(format string, args ...any) {
	i.log.Debug("state store: " + fmt.Sprintf(format, args...))
}

// Errorf implements pebble.Logger.
func (i *instance) Errorf(format string, args ...any) {
	i.log.Error("state store: " + fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. Pebble calls it, possibly under its lock, when it cannot write its manifest. Most
// programs end here. The shut gate has the same effect on the disk: nothing that Pebble does from now
// on gets there.
func (i *instance) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err = cause
		}
	}
	i.gate.shut(err)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dead == nil {
		i.dead = err
		i.log.Error("state store: cannot go on, it will be opened anew", "error", err)
	}
	i.signal()
}

// death is the error that the instance died of; nil while it lives.
func (i *instance) death() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.dead
}

// failing is the error of the last attempt to flush.
func (i *instance) failing() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.flushErr
}

// wait returns when the flush is on disk, or has failed.
func (i *instance) wait(flushed <-chan struct{}) error {
	for {
		select {
		case <-flushed:
			i.mu.Lock()
			defer i.mu.Unlock()
			i.flushErr = nil
			return i.dead
		case <-i.wake:
			if err := i.death(); err != nil {
				return err
			}
			if err := i.failing(); err != nil {
				select {
				case <-flushed:
				default:
					return err
				}
			}
		}
	}
}

// close ends the instance; what it has not flushed is gone.
func (i *instance) close() error {
	if i.death() != nil || i.failing() != nil {
		i.gate.shut(errClosed)
	}
	i.gate.release()
	return i.db.Close()
}
