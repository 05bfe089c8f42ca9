package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is a program that was started. Its standard error goes to a file; its standard output too, or line by line to a
// function.
type process struct {
	name  string
	log   string // path of the file
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when the process is gone and all its lines were handed over
	err   error         // how it ended; valid once ended is closed

	mu      sync.Mutex
	stopped bool // by SIGSTOP
}

// start runs command with its output in the world's folder, in NAME.log, which is appended to. Programs that are
// to end with this one watch their standard input, which stays open until then. line, if not nil, is called for each line of standard output.
func (w *world) start(name string, command []string, line func(string)) (*process, error) {
	p := &process{name: name, log: filepath.Join(w.dir, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Dir = w.dir
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	var out io.Reader
	if line == nil {
		p.cmd.Stdout = log
	} else if out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	go func() {
		if line != nil {
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				line(lines.Text())
			}
			_, _ = io.Copy(io.Discard, out) // the rest, if a line was too long
		}
		p.err = p.cmd.Wait()
		_ = log.Close()
		close(p.ended)
	}()
	w.own(p)
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends SIGSTOP, SIGCONT, SIGTERM or SIGKILL. One that is gone already is no error.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case syscall.SIGSTOP:
		p.stopped = true
	case syscall.SIGCONT:
		p.stopped = false
	}
	_ = p.cmd.Process.Signal(s)
}

func (p *process) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// kill ends the process by SIGKILL and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// closeInput ends standard input, by which members are told to leave and to end.
func (p *process) closeInput() { _ = p.stdin.Close() }

// wait waits until the process has ended by itself, and kills it after limit. The error has the end of its output.
func (p *process) wait(limit time.Duration) error {
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.kill()
		return fmt.Errorf("%s did not end within %v: see %s", p.name, limit, p.log)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with %w: %s", p.name, p.err, tail(p.log, 600))
	}
	return nil
}

// tail is the end of a file, n bytes at most.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-n), io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(f, n))
	return string(b)
}
