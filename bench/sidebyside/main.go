//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "sink" {
		fs := flag.NewFlagSet("sink", flag.ExitOnError)
		listen := fs.String("listen", "127.0.0.1:0", "address to listen on")
		n := fs.Int("partitions", partitions, "partitions of every topic")
		_ = fs.Parse(os.Args[2:]) // exits on an error
		fmt.Fprintln(os.Stderr, serveSink(*listen, int32(*n), os.Stdout))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := sideBySide(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sidebyside:", err)
		os.Exit(1)
	}
}

// godwitServe is how Godwit is started; words in braces are filled in.
const godwitServe = "serve --data {data} --kafka {listen} --http {http} --durability {durability}"

type flags struct {
	*flag.FlagSet
	json                      *bool
	report, scratch           *string
	phases, brokers           *string
	rounds                    *int
	runSeconds                *float64
	repo, godwit, godwitServe *string
	quick                     *bool
	profile                   *string
}

func newFlags() flags {
	fs := flag.NewFlagSet("sidebyside", flag.ContinueOnError)
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return flags{
		FlagSet:     fs,
		quick:       fs.Bool("quick", false, "try everything in under three minutes"),
		json:        fs.Bool("json", false, "write the figures as JSON to standard output, in place of the tables"),
		report:      fs.String("report", "", "also write a Markdown report to this file"),
		scratch:     fs.String("scratch", "", "directory for the brokers' data, on a disk (default REPO/.cache/bench)"),
		phases:      fs.String("phases", strings.Join(phases, ","), "what to measure"),
		brokers:     fs.String("brokers", strings.Join(names, ","), "what to measure it on"),
		rounds:      fs.Int("rounds", 0, "rounds, if not the plan's"),
		runSeconds:  fs.Float64("seconds", 0, "aimed length of a produce run, if not the plan's"),
		profile:     fs.String("profile", "", "directory for CPU profiles of Godwit under each load; it has to serve /debug/pprof"),
		repo:        fs.String("repo", ".", "root of the repository"),
		godwit:      fs.String("godwit", "", "godwit binary (default REPO/bin/godwit)"),
		godwitServe: fs.String("godwit-serve", godwitServe, "arguments that start it"),
	}
}

func sideBySide(ctx context.Context, args []string) error {
	f := newFlags()
	if err := f.Parse(args); err != nil {
		return err
	}
	h, err := newHarness(f)
	if err != nil {
		return err
	}
	defer func() {
		h.sup.stopAll()
		if err := os.RemoveAll(h.scratch); err != nil {
			h.logf("remove the scratch directory: %v", err)
		}
	}()
	if err := h.checkSpace(); err != nil {
		return err
	}
	runErr := h.run(ctx)
	if ctx.Err() != nil {
		return errors.New("interrupted; what was started is stopped, nothing is reported")
	}
	return h.deliver(f, runErr)
}

// newHarness checks what was asked for and makes the scratch directory.
func newHarness(f flags) (*harness, error) {
	repo, err := filepath.Abs(*f.repo)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &harness{
		opt: options{
			repo: repo, godwit: *f.godwit, godwitArgs: *f.godwitServe, quick: *f.quick, profile: *f.profile,
			phases: strings.Split(*f.phases, ","), brokers: strings.Split(*f.brokers, ","),
		},
		plan: fullPlan(), sup: newSupervisor(), rec: newRecorder(), self: self, begun: time.Now(),
		counts: map[string]int64{}, live: map[string]*running{},
	}
	for _, p := range h.opt.phases {
		if !slices.Contains(phases, p) {
			return nil, fmt.Errorf("no phase %q: there are %s", p, strings.Join(phases, ", "))
		}
	}
	if len(h.kinds()) != len(h.opt.brokers) {
		return nil, fmt.Errorf("unknown broker in %q", *f.brokers)
	}
	if h.opt.godwit == "" {
		h.opt.godwit = filepath.Join(repo, "bin", "godwit")
	}
	if *f.quick {
		h.plan = quickPlan()
	}
	if *f.rounds > 0 {
		h.plan.rounds = *f.rounds
	}
	if *f.runSeconds > 0 {
		h.plan.runFor = time.Duration(*f.runSeconds * float64(time.Second))
	}
	if h.opt.profile != "" {
		if err := os.MkdirAll(h.opt.profile, 0o755); err != nil {
			return nil, err
		}
	}
	parent := *f.scratch
	if parent == "" {
		parent = filepath.Join(repo, ".cache", "bench")
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	if h.scratch, err = os.MkdirTemp(parent, "run-"); err != nil {
		return nil, err
	}
	if h.scratch, err = filepath.Abs(h.scratch); err != nil {
		return nil, err
	}
	h.disk = diskOf(h.scratch)
	return h, nil
}

// quietCores is how much of the machine others may use before the report says so.
const quietCores = 0.25

// deliver writes what was found, also after a run that ended early.
func (h *harness) deliver(f flags, runErr error) error {
	labels := map[string]string{sinkName: sinkKind(partitions).label, "disk": "fdatasync"}
	for _, k := range kinds() {
		labels[k.name] = k.label
	}
	if busiest := h.rec.largest(mOtherCPU); busiest > quietCores {
		h.rec.note(fmt.Sprintf("the machine was not quiet: others took up to %.1f cores during a run (median of its rounds)", busiest))
	}
	p := h.plan
	r := &report{
		Date: time.Now().Format(time.DateOnly), Quick: h.opt.quick, Machine: h.machine(), Data: h.rec, Targets: targets(h.rec), labels: labels,
		Plan: planJSON{
			Rounds: p.rounds, Starts: p.starts, RunSeconds: p.runFor.Seconds(), ReadSeconds: p.readFor.Seconds(),
			ManySeconds: p.manyFor.Seconds(), WarmUpRecords: p.warmRecords, Seconds: time.Since(h.begun).Seconds(),
		},
	}
	if *f.json {
		if err := r.writeJSON(os.Stdout); err != nil {
			return err
		}
	} else {
		r.writeText(os.Stdout)
	}
	if *f.report != "" {
		if err := writeReport(*f.report, r); err != nil {
			return err
		}
		h.logf("report in %s", *f.report)
	}
	return runErr
}

func writeReport(path string, r *report) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var b strings.Builder
	r.writeMarkdown(&b)
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// machine reads what the report says of the place.
func (h *harness) machine() machine {
	m := machine{CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version(), Kafka: "4.4.0, one KRaft node, defaults, 1 GiB heap"}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				m.CPU = strings.TrimSpace(v)
				break
			}
		}
	}
	m.Memory = fmt.Sprintf("%.1f GiB", float64(colonValue("/proc/meminfo", "MemTotal"))/1024/1024)
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	}
	m.Disk = h.disk.name + ", " + fileSystem(h.scratch)
	m.Java = firstLine("java", "-version")
	m.Godwit = firstLine(h.opt.godwit, "version")
	if rev := firstLine("git", "-C", h.opt.repo, "rev-parse", "--short", "HEAD"); rev != "" {
		m.Godwit = strings.TrimSpace(m.Godwit + " at commit " + rev)
	}
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, d := range bi.Deps {
			if d.Path == "github.com/twmb/franz-go" {
				m.FranzGo = d.Version
			}
		}
	}
	return m
}

// firstLine runs a command and returns the first line it prints, empty if it fails.
func firstLine(name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// fileSystem names the type of the file system that holds dir.
func fileSystem(dir string) string {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "unknown file system"
	}
	best, kind := "", "unknown file system"
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		within := f[1] == "/" || dir == f[1] || strings.HasPrefix(dir, f[1]+"/")
		if within && len(f[1]) >= len(best) {
			best, kind = f[1], f[2]
		}
	}
	return kind
}
