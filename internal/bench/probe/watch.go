package probe

import (
	"sync"
	"time"

	"godwit/internal/bench/result"
)

// sampleInterval is how often memory is looked at; a peak that is shorter can be missed.
const sampleInterval = 200 * time.Millisecond

// Sample is what a process and its descendants have taken so far, and the memory they have now.
type Sample struct {
	CPU         time.Duration // user and system, children that have ended included
	RSS         int64         // resident bytes; pages that processes share count for each of them
	DiskRead    int64         // bytes fetched from storage; -1 if the system does not tell
	DiskWritten int64         // bytes caused to be written to storage, sooner or later; -1 if the system does not tell
	Processes   int
	Threads     int
}

// Watcher measures what a target takes from Watch to Stop.
type Watcher struct {
	process *Process // nil: unknown, or not there
	device  device
	calls   *counter // nil: syncs cannot be counted
	begin   reading
	last    Sample // of the process, while it is there
	rss     int64
	quit    chan struct{}
	done    chan struct{}
	stop    sync.Once
	usage   result.Usage
}

// reading is one look at all counters.
type reading struct {
	at      time.Time
	target  Sample
	machine time.Duration // CPU of all cores that was not idle
	self    time.Duration // CPU of this process
	flushes int64
}

// Watch begins to measure. A pid of 0, or one that is not there, leaves what needs the process at zero; the target's own CPU,
// if it runs on this machine, then counts among that of others. A dataDir of "" leaves device flushes unknown.
func Watch(pid int, dataDir string) *Watcher {
	w := &Watcher{device: deviceOf(dataDir), quit: make(chan struct{}), done: make(chan struct{})}
	if pid > 0 {
		if p, err := Open(pid); err == nil {
			w.process = p
		}
	}
	if w.process != nil {
		w.calls = countSyncs(pid)
	}
	w.begin = w.read()
	go w.sample()
	return w
}

// sample looks for the highest memory until Stop.
func (w *Watcher) sample() {
	defer close(w.done)
	if w.process == nil {
		return
	}
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
			w.look()
		}
	}
}

// look takes a sample; once the process has ended, what it took last stands.
func (w *Watcher) look() {
	if s, err := w.process.Sample(); err == nil {
		w.last = s
		w.rss = max(w.rss, s.RSS)
	}
}

func (w *Watcher) read() reading {
	r := reading{at: time.Now(), machine: machineBusy(), self: selfCPU(), flushes: w.device.flushes()}
	if w.process != nil {
		w.look()
		r.target = w.last
	}
	return r
}

// Stop ends the measurement and returns its outcome; again, when called again. Of result.Usage the network's bytes and the counts
// of messages are left to the caller. DiskRead and DiskWritten are -1 if the system does not tell. Syncs are the calls of fsync,
// fdatasync, syncfs, sync, msync and the writes that ask for it, -1 if they could not be counted, or not all.
func (w *Watcher) Stop() result.Usage {
	w.stop.Do(func() {
		close(w.quit)
		<-w.done
		w.usage = w.use(w.read())
		if w.usage.Syncs = -1; w.calls != nil {
			w.usage.Syncs = w.calls.end()
		}
	})
	return w.usage
}

// use is the difference between the end and the beginning.
func (w *Watcher) use(end reading) result.Usage {
	b := w.begin
	u := result.Usage{
		CPUSeconds:       (end.target.CPU - b.target.CPU).Seconds(),
		RSSBytes:         w.rss,
		DiskWritten:      delta(b.target.DiskWritten, end.target.DiskWritten),
		DiskRead:         delta(b.target.DiskRead, end.target.DiskRead),
		DeviceFlushes:    delta(b.flushes, end.flushes),
		Seconds:          end.at.Sub(b.at).Seconds(),
		ClientCPUSeconds: (end.self - b.self).Seconds(),
	}
	if others := (end.machine - b.machine).Seconds() - u.CPUSeconds - u.ClientCPUSeconds; others > 0 && u.Seconds > 0 {
		u.OthersCores = others / u.Seconds
	}
	return u
}

// delta is the difference of two counters, -1 if one of them is unknown.
func delta(begin, end int64) int64 {
	if begin < 0 || end < 0 {
		return -1
	}
	return end - begin
}
