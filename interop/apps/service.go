package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// service is a program that is killed and started again, with the same command line and one log over all its lives.
type service struct {
	w       *world
	name    string
	command []string
	line    func(string) // takes each line of standard output; nil if it goes to the log
	p       *process
}

// java starts a class as a service; place has its class path, and args are the class and its arguments.
func (w *world) java(name, place string, line func(string), args ...string) (*service, error) {
	command, err := w.places.Java(place)
	if err != nil {
		return nil, err
	}
	command = append(command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS")
	s := &service{w: w, name: name, command: append(command, args...), line: line}
	return s, s.launch()
}

func (s *service) launch() (err error) {
	s.p, err = s.w.start(s.name, s.command, s.line)
	return err
}

// alive fails if the service has ended that should not.
func (s *service) alive() error {
	if s.p.running() {
		return nil
	}
	return fmt.Errorf("%s ended by itself: %w: %s", s.name, s.p.err, tail(s.p.log, 1000))
}

// restart kills the service with SIGKILL, leaves it down for a moment, and starts it again.
func (s *service) restart(down time.Duration) error {
	if err := s.alive(); err != nil {
		return err
	}
	s.p.kill()
	time.Sleep(down)
	return s.launch()
}

// properties writes a file of Java properties and returns its path.
func (w *world) properties(name string, lines ...string) (string, error) {
	path := filepath.Join(w.dir, name)
	return path, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// until asks again and again until done says so. The error that done returns is what is missing still; it ends the wait only
// after limit, or at once if ctx ends.
func until(ctx context.Context, limit time.Duration, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for last := error(nil); ; {
		err := done(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && last != nil {
			err = last // and not that this one was cut off
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", limit, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// listed is "name count, name count", in the order of the names.
func listed(counts map[string]int) string {
	var said []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		said = append(said, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(said, ", ")
}
