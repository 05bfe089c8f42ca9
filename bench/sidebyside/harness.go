//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// plan is how much of everything one run does.
type plan struct {
	rounds      int
	runFor      time.Duration // aimed length of a produce run
	flushFor    time.Duration // the same where every message is flushed
	franzFor    time.Duration // length of a produce run of our own load
	readFor     time.Duration // least length of a read run of our own readers
	warmRecords int64         // records per batching before anything is measured
	diskBytes   int64
	primeBytes  int64 // written once and removed, before anything is measured
	starts      int
	idle        time.Duration // rest before idle memory is read
	scaleTopics int           // of 100 partitions each
	many        int32         // partitions of the large topic
	manyFor     time.Duration
	needBytes   int64 // free disk space without which the run is not started
}

func fullPlan() plan {
	return plan{
		rounds: 3, runFor: 12 * time.Second, flushFor: 15 * time.Second, franzFor: 6 * time.Second, readFor: 4 * time.Second,
		warmRecords: 1_000_000, diskBytes: 512 << 20, primeBytes: 16 << 30, starts: 5, idle: 10 * time.Second,
		scaleTopics: 1000, many: 10_000, manyFor: 10 * time.Second, needBytes: 40 << 30,
	}
}

// quickPlan tries everything in under three minutes; its figures mean little.
func quickPlan() plan {
	return plan{
		rounds: 1, runFor: 2 * time.Second, flushFor: 2 * time.Second, franzFor: time.Second, readFor: 500 * time.Millisecond,
		warmRecords: 30_000, diskBytes: 64 << 20, starts: 1, idle: time.Second,
		scaleTopics: 50, many: 120, manyFor: time.Second, needBytes: 6 << 30,
	}
}

// toolLimit bounds one administrative request.
const toolLimit = time.Minute

// phases, in the order in which they run.
var phases = []string{"start", "disk", "produce", "read", "many", "scale"}

// options are what the command line says.
type options struct {
	repo, godwit, godwitArgs string
	phases, brokers          []string
	quick                    bool
	profile                  string // directory for CPU profiles of Godwit; empty for none
}

// harness is one run: what it measures with and what it has found.
type harness struct {
	opt     options
	plan    plan
	sup     *supervisor
	rec     *recorder
	scratch string
	self    string
	disk    disk
	begun   time.Time
	counts  map[string]int64    // records of a produce run, by broker and batching
	live    map[string]*running // brokers that stay up through the rounds
}

func (h *harness) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(h.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (h *harness) kafkaScript() string {
	return filepath.Join(h.opt.repo, "bench", "peers", "kafka.sh")
}

// shown is a command line as it stands in a report: relative to the repository, scratch by name.
func (h *harness) shown(args []string) string {
	r := strings.NewReplacer(h.scratch, "$SCRATCH", h.opt.repo+"/", "", h.opt.repo, ".", h.self, "sidebyside")
	return r.Replace(strings.Join(args, " "))
}

func (h *harness) wants(phase string) bool { return slices.Contains(h.opt.phases, phase) }

// kinds are the brokers that were asked for.
func (h *harness) kinds() []kind {
	return slices.DeleteFunc(kinds(), func(k kind) bool { return !slices.Contains(h.opt.brokers, k.name) })
}

// run does all phases. A phase that fails for one broker is noted and the rest goes on.
func (h *harness) run(ctx context.Context) error {
	if err := h.failed(ctx, "prime", "disk", h.prime(ctx)); err != nil {
		return err
	}
	if h.wants("start") {
		for range h.plan.starts {
			for _, k := range h.kinds() {
				if k.flush || k.name == godwitOSName {
					continue // starts like its sibling
				}
				if err := h.failed(ctx, "start", k.name, h.measureStart(ctx, k)); err != nil {
					return err
				}
			}
		}
	}
	if h.wants("disk") || h.wants("produce") || h.wants("read") {
		if err := h.runRounds(ctx); err != nil {
			return err
		}
	}
	if h.wants("many") {
		if err := h.failed(ctx, "many", sinkName, h.measureManySink(ctx)); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		phase string
		run   func(context.Context, kind) error
	}{{"many", h.measureMany}, {"scale", h.measureScale}} {
		for _, k := range h.kinds() {
			// Kafka at 100,000 partitions needs more open files and mappings than a process has by default.
			if !h.wants(p.phase) || k.flush || k.name == godwitOSName || p.phase == "scale" && k.name == kafkaName {
				continue
			}
			if err := h.failed(ctx, p.phase, k.name, p.run(ctx, k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// failed notes a failure and returns an error only if the whole run has to end.
func (h *harness) failed(ctx context.Context, phase, broker string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		h.logf("FAILED %s, %s: %v", phase, broker, err)
		first, _, _ := strings.Cut(err.Error(), "\n")
		h.rec.note(fmt.Sprintf("%s of %s failed: %s", phase, broker, h.shown([]string{first})))
	}
	return nil
}

// measureStart starts a broker on an empty directory and reads its memory after a rest.
func (h *harness) measureStart(ctx context.Context, k kind) error {
	r, err := h.launch(ctx, k)
	if err != nil {
		return err
	}
	defer r.discard()
	if err := sleep(ctx, h.plan.idle); err != nil {
		return err
	}
	rss, pss := rssMiB(r.proc.pid), pssMiB(r.proc.pid)
	h.rec.add("start", "empty", r.name, mReady, ms(r.readyAfter))
	h.rec.add("start", "empty", r.name, mMetadata, ms(r.metadataAfter))
	h.rec.add("start", "empty", r.name, mRSS, rss)
	h.rec.add("start", "empty", r.name, mPSS, pss)
	h.logf("start, %s: ready %.0f ms, metadata %.0f ms, idle %.1f MiB resident", r.name, ms(r.readyAfter), ms(r.metadataAfter), rss)
	return nil
}

// runRounds starts all brokers, warms them up, and measures them in turn, a round at a time. Each round
// begins with another broker.
func (h *harness) runRounds(ctx context.Context) error {
	var order []string
	defer h.discardLive()
	if h.wants("produce") || h.wants("read") {
		for _, k := range append(h.kinds(), sinkKind(partitions)) {
			if err := h.failed(ctx, "warm-up", k.name, h.warmUp(ctx, k)); err != nil {
				return err
			}
			if h.live[k.name] != nil {
				order = append(order, k.name)
			}
		}
	}
	for round := range h.plan.rounds {
		h.logf("round %d of %d", round+1, h.plan.rounds)
		if err := h.failed(ctx, "disk", "disk", h.measureDisk(ctx)); err != nil {
			return err
		}
		for i := range order {
			name := order[(i+round)%len(order)]
			r := h.live[name]
			if r == nil {
				continue
			}
			err := h.measureRound(ctx, r, round)
			if err != nil {
				err = r.explain(err)
				r.discard()
				h.live[name] = nil
			}
			if err := h.failed(ctx, "round", name, err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *harness) discardLive() {
	for _, r := range h.live {
		if r != nil {
			r.discard()
		}
	}
	clear(h.live)
}

// warmUp starts a broker for the rounds, drives it for a while, and sizes its runs by what it reached.
func (h *harness) warmUp(ctx context.Context, k kind) error {
	r, err := h.launch(ctx, k)
	if err != nil {
		return err
	}
	h.live[k.name] = r
	err = h.warm(ctx, r)
	if err != nil {
		r.discard()
		h.live[k.name] = nil
	}
	return err
}

func (h *harness) warm(ctx context.Context, r *running) error {
	records, length := h.plan.warmRecords, h.plan.runFor
	if r.flush {
		records, length = h.plan.warmRecords/10, h.plan.flushFor
	}
	var fill topicFill
	for i, b := range batchings() {
		fill = topicFill{topic: fmt.Sprintf("warm-up-%d", i), records: records}
		if r.name != sinkName {
			if err := createTopics(r.addr, []string{fill.topic}, partitions, toolLimit); err != nil {
				return err
			}
		}
		out, err := h.producerPerf(ctx, r.addr, fill.topic, "", records, b)
		if err != nil {
			return err
		}
		n := int64(out.mibPerSec * length.Seconds() * mib / recordSize)
		h.counts[r.name+b.name] = min(max(n/10_000*10_000, 20_000), 5_000_000)
		h.logf("warm-up, %s, %s: %.1f MiB/s; runs of %d records", r.name, b.name, out.mibPerSec, h.counts[r.name+b.name])
	}
	if r.name == sinkName || r.flush || !h.wants("read") {
		return nil
	}
	// Also makes the broker set up what groups need.
	_, err := h.consumerPerf(ctx, r.addr, "", fill)
	return err
}

// measureRound measures one broker in one round and removes what it filled.
func (h *harness) measureRound(ctx context.Context, r *running, round int) error {
	var fills []topicFill
	for _, b := range batchings() {
		fill, err := h.measureProduce(ctx, r, b, round)
		if err != nil {
			return err
		}
		fills = append(fills, fill)
	}
	if err := h.measureFranzProduce(ctx, r, round); err != nil {
		return err
	}
	if r.name == sinkName {
		return nil
	}
	if h.wants("read") && !r.flush {
		if err := h.measureReads(ctx, r, fills); err != nil {
			return err
		}
	}
	return deleteTopics(r.addr, fills[0].topic, fills[1].topic)
}

// measure runs one load against one broker and records what it said and what it cost.
func (h *harness) measure(ctx context.Context, phase, kase string, r *running, load func(context.Context) (outcome, error)) error {
	h.quiesce(ctx)
	before := readUsage(r.proc.pid, h.disk)
	profiled := h.startProfile(ctx, r, phase, kase)
	out, err := load(ctx)
	profiled()
	if err != nil {
		return fmt.Errorf("%s, %s: %w", phase, kase, err)
	}
	after, dirty, rss := readUsage(r.proc.pid, h.disk), dirtyMiB(), rssMiB(r.proc.pid)
	h.quiesce(ctx)
	settled, err := cpuSeconds(r.proc.pid)
	if err != nil {
		return fmt.Errorf("%s ended during %s, %s\n%s", r.name, phase, kase, r.proc.out.tail(2000))
	}
	size := float64(out.payload) / gib
	seconds := float64(out.payload) / mib / out.mibPerSec
	wall := after.at.Sub(before.at).Seconds()
	add := func(metric string, v float64) { h.rec.add(phase, kase, r.name, metric, v) }
	add(mThroughput, out.mibPerSec)
	if out.p99 > 0 {
		add(mP50, out.p50)
		add(mP99, out.p99)
	}
	add(mCPU, (after.cpu-before.cpu)/size)
	add(mDeferred, (settled-after.cpu)/size)
	add(mClientCPU, out.clientCPU/size)
	add(mOtherCPU, max(0, after.machine-before.machine-(after.cpu-before.cpu)-out.clientCPU)/wall)
	add(mRSS, rss)
	add(mWritten, float64(after.written-before.written)/float64(out.payload))
	add(mDevice, float64(after.device-before.device)/mib/seconds)
	add(mDeviceBusy, min(100, 100*(after.devBusy-before.devBusy).Seconds()/seconds))
	add(mUnwritten, dirty)
	add(mSeconds, seconds)
	h.logf("%s, %s, %s: %.1f MiB/s, broker %.2f and client %.2f CPU s/GiB, others %.2f cores", phase, r.name, kase, out.mibPerSec,
		(after.cpu-before.cpu)/size, out.clientCPU/size, max(0, after.machine-before.machine-(after.cpu-before.cpu)-out.clientCPU)/wall)
	return nil
}

// quiesce writes back the page cache and waits, for a while, until brokers and disk have come to rest, so
// that no run pays for the one before it.
func (h *harness) quiesce(ctx context.Context) {
	syscall.Sync()
	const step, tries = 250 * time.Millisecond, 60
	for range tries {
		cpu := h.liveCPU()
		written, _ := h.disk.counters()
		if sleep(ctx, step) != nil {
			return
		}
		after, _ := h.disk.counters()
		if h.liveCPU()-cpu < 0.1*step.Seconds() && after-written < 1*mib {
			return
		}
		syscall.Sync()
	}
	h.logf("brokers or disk still busy; going on")
}

func (h *harness) liveCPU() float64 {
	var sum float64
	h.sup.mu.Lock()
	defer h.sup.mu.Unlock()
	for p := range h.sup.children {
		c, err := cpuSeconds(p.pid)
		if err == nil {
			sum += c
		}
	}
	return sum
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkSpace refuses a run that the disk has no room for, or that would measure memory for disk.
func (h *harness) checkSpace() error {
	if inMemory(h.scratch) {
		return errors.New("the scratch directory lies in memory; name one on a disk with --scratch")
	}
	free, err := freeBytes(h.scratch)
	if err != nil {
		return err
	}
	if free < h.plan.needBytes {
		return fmt.Errorf("%.1f GiB free in the scratch directory's file system, %.0f GiB needed; name another with --scratch",
			float64(free)/gib, float64(h.plan.needBytes)/gib)
	}
	return nil
}
