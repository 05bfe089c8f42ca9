//go:build !linux

package probe

import (
	"runtime"
	"time"

	"godwit/internal/bench/result"
)

// Process is a process that cannot be watched on this system.
type Process struct{}

// Open answers ErrUnsupported.
func Open(int) (*Process, error) { return nil, ErrUnsupported }

// Sample answers ErrUnsupported.
func (*Process) Sample() (Sample, error) { return Sample{}, ErrUnsupported }

// device is a disk whose flushes are not counted on this system.
type device struct{}

func deviceOf(string) device { return device{} }

func (device) flushes() int64 { return -1 }

func machineBusy() time.Duration { return 0 }

func selfCPU() time.Duration { return 0 }

// counter does not exist on this system.
type counter struct{}

func countSyncs(int) *counter { return nil }

func (*counter) end() int64 { return -1 }

// MachineInfo tells what the Go runtime knows of the machine.
func MachineInfo(string) result.Machine {
	return result.Machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), System: runtime.GOOS + " " + runtime.GOARCH}
}

// Syncs is a trace that does not exist on this system.
type Syncs struct{}

// TraceSyncs answers ErrUnsupported.
func TraceSyncs(int) (*Syncs, error) { return nil, ErrUnsupported }

// TraceSyncsByEvents answers ErrUnsupported.
func TraceSyncsByEvents(int) (*Syncs, error) { return nil, ErrUnsupported }

// TraceSyncsByPtrace answers ErrUnsupported.
func TraceSyncsByPtrace(int) (*Syncs, error) { return nil, ErrUnsupported }

// Method is nothing.
func (*Syncs) Method() string { return "" }

// Stop returns nothing.
func (*Syncs) Stop() []Sync { return nil }

// Blind says why syncs may have gone unseen.
func (*Syncs) Blind() string { return ErrUnsupported.Error() }

// WriteBack does nothing.
func WriteBack() {}
