//go:build linux

package run

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/result"
	"godwit/internal/bench/scenario"
	"godwit/internal/bench/target"
)

// binary is the broker, built once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs(filepath.Join(testDir, "godwit"))
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir, "godwit/cmd/godwit").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

// broker starts a Godwit of its own and returns its target URL and process.
func broker(t *testing.T, durability string) (string, *exec.Cmd) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	c := exec.Command(bin, "serve", "--data", data, "--kafka", "127.0.0.1:0", "--http", "off", "--durability", durability)
	logs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGCONT) // whatever the test did
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	found := make(chan string, 1)
	go func() {
		defer close(found)
		listener, ready := regexp.MustCompile(`127\.0\.0\.1:\d+`), false
		address := ""
		for s := bufio.NewScanner(logs); s.Scan(); {
			if a := listener.FindString(s.Text()); a != "" && address == "" {
				address = a
			}
			if !ready && strings.Contains(s.Text(), "ready") {
				ready = true
				found <- address
			}
		}
	}()
	address := <-found
	if address == "" {
		t.Fatal("the broker did not get ready")
	}
	return fmt.Sprintf("kafka://%s?name=%s&pid=%d&data=%s", address, durability, c.Process.Pid, url.QueryEscape(data)), c
}

// TestStopped has the broker stopped by a signal for one second while load goes on: the benchmark's latency must
// show the whole second, for it goes from when messages were due, not from when they could be sent.
func TestStopped(t *testing.T) {
	u, c := broker(t, "sync")
	s := parse(t, `{kind: load, message: {size: [200]}, clients: {producers: [2], consumers: [1], partitions: 2}, rate: [1000], duration: 4s, rounds: 1}`)
	p := &during{after: "measuring", then: func() {
		if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		// The length of the stop is what is tested. A thousandth of the messages was due in its first milliseconds and is not below
		// the percentile: those after them must have waited for a second.
		<-time.After(time.Second + 50*time.Millisecond)
		if err := c.Process.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}}
	r, err := Run(context.Background(), Options{Scenarios: []*scenario.Scenario{s}, Targets: targets(t, u), Progress: p, NoProbe: true})
	if err != nil {
		t.Fatal(err)
	}
	p.wg.Wait()
	o := only(t, r.Scenarios[0].Cells)
	for what, l := range map[string]*result.Latency{"producer": o.Producer, "end-to-end": o.EndToEnd} {
		// A quarter of the messages were due during the stop: a tenth of them waited for longer than 0.9 s.
		if l.At(99.9) < 1e6 || l.At(90) < 300e3 || l.Max < 1e6 {
			t.Errorf("%s latency, p90 %.0f ms, p99.9 %.0f ms, max %.0f ms: a second is missing", what, l.At(90)/1e3, l.At(99.9)/1e3, l.Max/1e3)
		}
		if l.Count < 3900 {
			t.Errorf("%s latency of %d messages: those due during the stop were left out", what, l.Count)
		}
	}
	if a := o.Audit; a.Lost+a.Failed > 0 || a.Acked < 3900 {
		t.Errorf("audit %+v", *a)
	}
}

// during does something once, a second after a measurement came so far.
type during struct {
	quiet
	after string
	then  func()
	wg    sync.WaitGroup
}

func (d *during) Begin(n int, label string, live func() string) {
	d.quiet.Begin(n, label, live)
	d.wg.Go(func() {
		for range time.Tick(10 * time.Millisecond) {
			if strings.HasPrefix(live(), d.after) {
				d.then()
				return
			}
		}
	})
}

// TestGraded has a broker that syncs before it acknowledges, and one that does not, graded by what they do.
func TestGraded(t *testing.T) {
	synced, _ := broker(t, "sync")
	unsynced, _ := broker(t, "os")
	r, err := Run(context.Background(), Options{Targets: targets(t, synced, unsynced), Progress: &quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{result.GradeSynced, result.GradeUnsynced} {
		if d := r.Targets[i].Durability; d.Grade != want || d.Acked != probes {
			t.Errorf("%s is graded %+v, want %s", r.Targets[i].Name, d, want)
		}
	}
	if d := r.Targets[0].Durability; d.Covered < probes*99/100 || len(d.Files) == 0 || !strings.HasPrefix(d.Files[0], "log/wal-") {
		t.Errorf("what was synced: %+v", d)
	}
}

// TestAgree runs the same measurement three times: the medians differ by no more than the spreads they come with.
func TestAgree(t *testing.T) {
	u, _ := broker(t, "sync")
	s := parse(t, `{kind: load, message: {size: [1KiB]}, clients: {producers: [2], consumers: [1], partitions: 2}, rate: [max], window: 1MiB, warmup: 100ms, duration: 300ms, rounds: 5}`)
	var runs []result.Spread
	for range 3 {
		r, err := Run(context.Background(), Options{Scenarios: []*scenario.Scenario{s}, Targets: targets(t, u), Progress: &quiet{}, NoProbe: true})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r.Scenarios[0].Cells[0].Spread(result.ThroughputPerSecond))
	}
	for i, a := range runs {
		for _, b := range runs[:i] {
			if apart := math.Abs(a.Median - b.Median); apart > (a.Max-a.Min)+(b.Max-b.Min) {
				t.Errorf("medians %.0f and %.0f are %.0f apart; their spreads are %.0f to %.0f and %.0f to %.0f", a.Median, b.Median, apart, a.Min, a.Max, b.Min, b.Max)
			}
		}
		if a.N != 5 || a.Median <= 0 {
			t.Errorf("spread %+v", a)
		}
	}
}

// TestFaultsOfARealTarget puts a fault between a real broker and the benchmark: of one subscription's messages,
// one in 10,000 is swallowed or repeated. The benchmark must count exactly these.
func TestFaultsOfARealTarget(t *testing.T) {
	t.Parallel()
	u, _ := broker(t, "sync")
	for name, f := range map[string]struct {
		copies int
		want   result.Audit
	}{
		"dropped":  {0, result.Audit{Delivered: 29_997, Lost: 3}},
		"repeated": {2, result.Audit{Delivered: 30_000, Duplicates: 3}},
	} {
		open := func(ctx context.Context, x *target.Target, o driver.Options) (driver.Driver, error) {
			d, err := openDriver(ctx, x, o)
			return tampered{d, f.copies}, err
		}
		s := parse(t, `{kind: backlog, message: {size: [100]}, clients: {producers: [2], consumers: [1], durable: true}, backlog: {size: 3000000}, rounds: 1}`)
		r, err := Run(context.Background(), Options{Scenarios: []*scenario.Scenario{s}, Targets: targets(t, u), Progress: &quiet{}, NoProbe: true, Open: open, Idle: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		f.want.Sent, f.want.Acked, f.want.Expected = 30_000, 30_000, 30_000
		if o := only(t, r.Scenarios[0].Cells); *o.Audit != f.want {
			t.Errorf("%s: audit %+v, want %+v", name, *o.Audit, f.want)
		}
	}
}

// tampered delivers one message in 10,000 so many times.
type tampered struct {
	driver.Driver
	copies int
}

func (d tampered) Open(ctx context.Context, l driver.Layout) (driver.Space, error) {
	s, err := d.Driver.Open(ctx, l)
	return tamperedSpace{s, d.copies}, err
}

type tamperedSpace struct {
	driver.Space
	copies int
}

func (s tamperedSpace) Consumer(ctx context.Context, sub driver.Subscription, o driver.ConsumerOptions) (driver.Consumer, error) {
	handle, n := o.Handle, 0
	o.Handle = func(d driver.Delivery) bool {
		copies := 1
		if n++; n%10_000 == 0 {
			copies = s.copies
		}
		for range copies {
			if !handle(d) {
				return false
			}
		}
		return true
	}
	return s.Space.Consumer(ctx, sub, o)
}
