//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// supervisor starts child processes and ends those that are left, by pid.
//
// Children also end when this process is killed: they are started from one thread that lives as long
// as the process, as Linux ties the parent-death signal to the thread that forked.
type supervisor struct {
	spawn chan func()

	mu       sync.Mutex
	children map[*process]struct{}
}

func newSupervisor() *supervisor {
	s := &supervisor{spawn: make(chan func()), children: map[*process]struct{}{}}
	go func() {
		runtime.LockOSThread()
		for f := range s.spawn {
			f()
		}
	}()
	return s
}

// process is a child whose output is kept in memory, up to a limit, and searched for a line.
type process struct {
	cmd  *exec.Cmd
	sup  *supervisor
	pid  int
	out  *watcher
	done chan struct{} // closed when it has ended
	err  error         // why it ended, valid after done

	started time.Time
}

// start runs cmd and returns at once; readyLine, if not empty, is what marks its readiness.
func (s *supervisor) start(cmd *exec.Cmd, readyLine string) (*process, error) {
	p := &process{cmd: cmd, sup: s, out: newWatcher(readyLine), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	result := make(chan error)
	s.spawn <- func() {
		p.started = time.Now()
		result <- cmd.Start()
	}
	if err := <-result; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p.pid = cmd.Process.Pid
	s.mu.Lock()
	s.children[p] = struct{}{}
	s.mu.Unlock()
	go func() {
		p.err = cmd.Wait()
		s.mu.Lock()
		delete(s.children, p)
		s.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// run runs cmd to its end and returns its output; it is killed when ctx ends.
func (s *supervisor) run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	p, err := s.start(cmd, "")
	if err != nil {
		return "", err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		return "", ctx.Err()
	}
	if p.err != nil {
		return p.out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), p.err, p.out.tail(2000))
	}
	return p.out.String(), nil
}

// waitReady waits for the line that marks readiness and returns the time from exec to it.
func (p *process) waitReady(ctx context.Context, limit time.Duration) (time.Duration, error) {
	select {
	case at := <-p.out.ready:
		return at.Sub(p.started), nil
	case <-p.done:
		return 0, fmt.Errorf("%s ended before it was ready: %v\n%s", p.cmd.Path, p.err, p.out.tail(2000))
	case <-time.After(limit):
		return 0, fmt.Errorf("%s not ready after %v\n%s", p.cmd.Path, limit, p.out.tail(2000))
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// stop asks the process to end, kills it after the limit, and returns how long that took.
func (p *process) stop(limit time.Duration) time.Duration {
	begin := time.Now()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(limit):
		p.kill()
	}
	return time.Since(begin)
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) signal(sig syscall.Signal) {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintf(os.Stderr, "signal %v to pid %d: %v\n", sig, p.pid, err)
	}
}

// stopAll ends whatever still runs: politely first, so that brokers close their files.
func (s *supervisor) stopAll() {
	s.mu.Lock()
	var left []*process
	for p := range s.children {
		left = append(left, p)
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range left {
		wg.Add(1)
		go func() {
			defer wg.Done()
			p.stop(10 * time.Second)
		}()
	}
	wg.Wait()
}

// outputLimit bounds what is kept of a child's output: its beginning is dropped.
const outputLimit = 1 << 20

// watcher keeps a child's output and reports the first line that holds the marker.
type watcher struct {
	marker string
	ready  chan time.Time

	mu    sync.Mutex
	buf   bytes.Buffer
	line  []byte
	found bool
}

var _ io.Writer = (*watcher)(nil)

func newWatcher(marker string) *watcher {
	return &watcher{marker: marker, ready: make(chan time.Time, 1)}
}

// Write never fails: a child must not block on its own log.
func (w *watcher) Write(b []byte) (int, error) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.buf.Len()+len(b) > outputLimit {
		w.buf.Next(w.buf.Len() / 2)
	}
	w.buf.Write(b)
	if w.found || w.marker == "" {
		return len(b), nil
	}
	w.line = append(w.line, b...)
	for {
		i := bytes.IndexByte(w.line, '\n')
		if i < 0 {
			return len(b), nil
		}
		if hasMarker(string(w.line[:i]), w.marker) {
			w.found = true
			w.ready <- now
			return len(b), nil
		}
		w.line = w.line[i+1:]
	}
}

// hasMarker reports whether the marker stands in the line as whole words, so that "ready" is not
// found in "already".
func hasMarker(line, marker string) bool {
	for from := 0; ; {
		i := strings.Index(line[from:], marker)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(marker)
		if (start == 0 || !isWord(line[start-1])) && (end == len(line) || !isWord(line[end])) {
			return true
		}
		from = start + 1
	}
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func (w *watcher) tail(n int) string {
	s := w.String()
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}
