package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// benchProgress shows how far a benchmark is: a bar and a live line on a terminal, and a line for every measurement.
type benchProgress struct {
	w     io.Writer
	p     *mpb.Progress // nil without a terminal
	bar   *mpb.Bar
	total int
	begun time.Time

	mu    sync.Mutex
	n     int
	label string        // guarded by mu
	live  func() string // guarded by mu; nil between measurements
}

func newBenchProgress(w io.Writer) *benchProgress {
	b := &benchProgress{w: w, begun: time.Now()}
	if terminal(w) {
		b.p = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
		b.w = b.p // lines go above the bar
	}
	return b
}

// Total says how many measurements there will be.
func (b *benchProgress) Total(n int) {
	b.total = n
	if b.p == nil {
		return
	}
	b.bar = b.p.AddBar(int64(n), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.CountersNoUnit("%d/%d ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return b.line() })))
}

// line is what is shown beside the bar.
func (b *benchProgress) line() string {
	b.mu.Lock()
	label, live := b.label, b.live
	b.mu.Unlock()
	if live == nil {
		return ""
	}
	return " " + label + ": " + live()
}

// Begin starts a measurement.
func (b *benchProgress) Begin(n int, label string, live func() string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n, b.label, b.live = n, label, live
}

// End ends it.
func (b *benchProgress) End(outcome string) {
	b.mu.Lock()
	label, n := b.label, b.n
	b.live = nil
	b.mu.Unlock()
	fmt.Fprintf(b.w, "%5s %d/%d %s: %s\n", time.Since(b.begun).Round(time.Second), n, b.total, label, outcome)
	if b.bar != nil {
		b.bar.Increment()
	}
}

// Note shows a line of its own.
func (b *benchProgress) Note(text string) {
	fmt.Fprintf(b.w, "%5s %s\n", time.Since(b.begun).Round(time.Second), text)
}

// close takes the bar away.
func (b *benchProgress) close() {
	if b.bar != nil {
		b.bar.Abort(true)
	}
	if b.p != nil {
		b.p.Wait()
	}
}
