package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
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
	want   []string // patterns that the output (both streams) has to match, line by line
	refuse []string // patterns that must not match
}

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
		for _, st := range c.steps {
			fill := strings.NewReplacer("$B", s.broker, "$N", node, "$T", topic, "$G", group)
			s.report.add(check{group: "tools", name: st.class + ": " + st.name, err: s.step(ctx, st, fill)})
		}
	})
}

func (s *session) step(ctx context.Context, st step, fill *strings.Replacer) error {
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
	command, err := s.places.Java("java")
	if err != nil {
		return err
	}
	command = append(command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "org.apache.kafka.tools."+st.class)
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
