package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// step is one run of one of Kafka's command line tools, and what its output has to be. In args, input and patterns $B stands
// for the broker, $N for its node ID, $T for a topic of the step's chain, $G for a group, and $F for a file that holds file.
type step struct {
	name   string
	class  string // below org.apache.kafka.tools
	args   string // split at spaces
	input  string
	file   string
	fails  bool     // the tool has to end with an error
	stays  bool     // the tool goes on by itself, until a step without a class ends it or the chain does
	again  bool     // the tool is run again, for up to toolPatience, until its output is as it has to be
	want   []string // patterns that the output (both streams) has to match, line by line
	refuse []string // patterns that must not match
}

// toolPatience is how long a group may take to become what a step wants to see.
const toolPatience = 40 * time.Second

// chain is a series of steps on one topic. A failed step does not stop the others, which then fail by themselves.
type chain struct {
	name  string
	steps []step
}

func (s *session) tools(ctx context.Context) {
	brokers, err := s.admin.ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		s.report.add(check{group: "tools", name: "find the node ID", err: fmt.Errorf("brokers %v: %w", brokers, err)})
		return
	}
	node := fmt.Sprint(brokers[0].NodeID)
	each(s.jobs, chains, func(_ int, c chain) {
		topic, group := s.topic("tools-"+c.name), s.topic("tools-group-"+c.name)
		fill := strings.NewReplacer("$B", s.broker, "$N", node, "$T", topic, "$G", group)
		end := func() error { return nil }
		for _, st := range c.steps {
			var err error
			switch {
			case st.class == "":
				err = end()
			case st.stays:
				end, err = s.stay(st, fill)
			default:
				err = s.step(ctx, st, fill)
			}
			s.report.add(check{group: "tools", name: st.class + ": " + st.name, err: err})
		}
		_ = end() // again, unless a step has failed to
	})
}

// stay starts a tool that goes on; end ends it in order.
func (s *session) stay(st step, fill *strings.Replacer) (end func() error, err error) {
	end = func() error { return nil }
	command, err := s.tool(st.class)
	if err != nil {
		return end, err
	}
	command = append(command, strings.Fields(fill.Replace(st.args))...)
	ctx, cancel := context.WithTimeout(context.Background(), 2*processLimit)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	if err := cmd.Start(); err != nil {
		cancel()
		return end, err
	}
	return sync.OnceValue(func() error {
		defer cancel()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return fmt.Errorf("%s has ended by itself: %w", st.class, err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			return err
		}
		return ctx.Err()
	}), nil
}

// tool is the command line of a tool of Kafka.
func (s *session) tool(class string) ([]string, error) {
	command, err := s.places.Java("java")
	return append(command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "org.apache.kafka.tools."+class), err
}

// step runs a tool, and again if it may be.
func (s *session) step(ctx context.Context, st step, fill *strings.Replacer) error {
	for begin := time.Now(); ; time.Sleep(time.Second) {
		if err := s.once(ctx, st, fill); err == nil || !st.again || time.Since(begin) > toolPatience || ctx.Err() != nil {
			return err
		}
	}
}

func (s *session) once(ctx context.Context, st step, fill *strings.Replacer) error {
	args := fill.Replace(st.args)
	if st.file != "" {
		f, err := os.CreateTemp("", "interop-*")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		_, err = f.WriteString(fill.Replace(st.file))
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		args = strings.ReplaceAll(args, "$F", f.Name())
	}
	command, err := s.tool(st.class)
	if err != nil {
		return err
	}
	out, err := run(ctx, append(command, strings.Fields(args)...), []byte(fill.Replace(st.input)))
	text := string(out.stdout) + string(out.stderr)
	if err != nil && !st.fails {
		return fmt.Errorf("%w (output: %s)", err, tail([]byte(text), 600))
	}
	if err == nil && st.fails {
		return fmt.Errorf("succeeds: %s", tail([]byte(text), 600))
	}
	return match(st, fill, text)
}

func match(st step, fill *strings.Replacer, text string) error {
	for _, p := range st.want {
		if re := regexp.MustCompile("(?m)" + fill.Replace(p)); !re.MatchString(text) {
			return fmt.Errorf("output does not match %s: %s", re, tail([]byte(text), 1500))
		}
	}
	for _, p := range st.refuse {
		if re := regexp.MustCompile("(?m)" + fill.Replace(p)); re.MatchString(text) {
			return fmt.Errorf("output matches %s: %s", re, tail([]byte(text), 1500))
		}
	}
	return nil
}
