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
	work *compactions
	log  *slog.Logger
	wake chan struct{} // capacity 1: a flush failed
	gone chan struct{} // closed when the instance died

	mu       sync.Mutex // below Pebble's locks: its callbacks take it
	started  bool
	ended    error // how the last attempt to flush ended
	flushErr error // why the last attempt to flush failed, until one succeeds
	dead     error // what Pebble cannot go on after
	stats    failures
}

// failures are what an instance could not do.
type failures struct{ flushes, compactions, corruptions int64 }

// openInstance opens Pebble in dir, which is locked.
func openInstance(fsys vfs.FS, dir string, cache *pebble.Cache, o *Options) (*instance, error) {
	i := &instance{work: newCompactions(), log: o.Logger, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	i.gate = newGate(fsys, i.die)
	if err := prepare(i.gate, dir); err != nil {
		return nil, err
	}
	opts := &pebble.Options{
		FS:                  i.gate,
		Cache:               cache,
		MemTableSize:        uint64(o.MemTableBytes),
		DisableWAL:          true,
		FormatMajorVersion:  formatMajorVersion,
		Logger:              i,
		MaxOpenFiles:        256,
		MaxManifestFileSize: 1 << 20,
		DisableTableStats:   true, // only hints for compaction, and a table that cannot be read is tried without end
		// Writes never wait inside Pebble, where an error could not end the wait: Store.commit bounds the memtables.
		MemTableStopWritesThreshold: 1 << 16,
		L0StopWritesThreshold:       1 << 16,
		EventListener: &pebble.EventListener{
			FlushEnd:        i.flushEnded,
			BackgroundError: i.failed,
			DataCorruption:  i.corrupted,
		},
	}
	opts.Experimental.CompactionScheduler = i.work
	if err := i.open(dir, opts); err != nil {
		return nil, err
	}
	i.gate.start()
	i.mu.Lock()
	i.started = true
	i.mu.Unlock()
	i.work.resume()
	return i, nil
}

// open is pebble.Open, which panics if it cannot sync the directory.
func (i *instance) open(dir string, opts *pebble.Options) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(error)
			if !ok {
				panic(r)
			}
			err = failed
		}
	}()
	if i.db, err = pebble.Open(dir, opts); err == nil && i.death() != nil {
		err = errors.Join(i.death(), i.db.Close())
	}
	return err
}

// flushEnded runs under Pebble's lock.
func (i *instance) flushEnded(info pebble.FlushInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended = info.Err; info.Err == nil {
		i.flushErr = nil
	}
}

// failed runs under Pebble's lock, right after flushEnded if it was a flush that failed. Pebble would try again at once; it
// is held up until the next flush that is asked for.
func (i *instance) failed(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended != nil && errors.Is(err, i.ended) {
		i.gate.pause()
		i.flushErr = err
		i.stats.flushes++
		select {
		case i.wake <- struct{}{}:
		default:
		}
	} else {
		i.work.pause()
		i.stats.compactions++
	}
	if !errors.Is(err, errClosed) {
		i.log.Warn("state store: background work failed; it is tried again with the next checkpoint", "error", err)
	}
}

func (i *instance) corrupted(info pebble.DataCorruptionInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stats.corruptions++
	i.log.Error("state store: damaged data", "path", info.Path, "error", info.Details)
}

// die is called by the gate, and keeps the first error.
func (i *instance) die(err error) {
	i.work.pause()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dead == nil {
		i.dead = err
		close(i.gone)
		i.log.Error("state store: cannot go on, it will be opened anew", "error", err)
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

// Fatalf implements pebble.Logger. At opening Pebble returns the error as well. Later the gate lets nothing through that
// could lead here but a bug.
func (i *instance) Fatalf(format string, args ...any) {
	err := fmt.Errorf("state store: "+format, args...)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		panic(err.Error())
	}
	if i.dead == nil {
		i.dead = err
	}
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

// resume lets everything go on that was held up after a failure.
func (i *instance) resume() {
	i.gate.resume()
	i.work.resume()
}

// wait returns when the flush is on disk, or has failed.
func (i *instance) wait(flushed <-chan struct{}) error {
	for {
		select {
		case <-flushed:
			i.mu.Lock()
			defer i.mu.Unlock()
			i.flushErr = nil
			return nil
		case <-i.gone:
			return i.death()
		case <-i.wake:
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

// close ends the instance; what it has not flushed is gone. One that died is left as it is: it
// changes nothing any more, and its goroutines stand still for ever.
func (i *instance) close() error {
	if i.death() != nil {
		return nil
	}
	i.gate.close()
	closed := make(chan error, 1)
	go func() { closed <- i.db.Close() }()
	select {
	case <-i.gone:
		return i.death()
	case err := <-closed:
		return err
	}
}
