package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	copyIn         = "copy-in"
	copyPartitions = 6
	copyRate       = 300 // records a second
	copyMembers    = 2   // of each group
	copyKills      = 15
	copyPatience   = time.Minute // until every group has committed something after a kill
)

// copiers is one group whose members copy the input in transactions.
type copiers struct {
	kind    string
	group   string
	out     string
	members []*service

	committed atomic.Int64 // transactions
	aborted   atomic.Int64 // on purpose
	refused   atomic.Int64
	log       *os.File // of what was refused
}

// copying lets two groups, one of franz-go and one of the Java client, copy a topic in a read-process-write loop, while the
// broker and the members are killed. What is read under read_committed has to be the input, exactly.
func copying(ctx context.Context, w *world) (string, error) {
	b, err := w.broker("godwit")
	if err != nil {
		return "", err
	}
	if err := b.createTopic(ctx, copyIn, copyPartitions); err != nil {
		return "", err
	}
	var groups []*copiers
	for _, kind := range []string{"franz-go", "java"} {
		g := &copiers{kind: kind, group: "copy-" + kind, out: "copy-out-" + kind}
		if g.log, err = os.Create(filepath.Join(w.dir, g.group+"-refused.txt")); err != nil {
			return "", err
		}
		defer g.log.Close()
		if err := b.createTopic(ctx, g.out, copyPartitions); err != nil {
			return "", err
		}
		for range copyMembers {
			if err := g.join(w, b); err != nil {
				return "", err
			}
		}
		groups = append(groups, g)
	}
	in := newSent(copyIn, copyPartitions, copyRate)
	producing, stop := context.WithCancel(ctx)
	defer stop()
	produced := make(chan error, 1)
	go func() { produced <- in.produce(producing, b) }()
	kills, err := copyDisturb(ctx, w, b, groups)
	stop()
	if err = errors.Join(err, <-produced); err != nil {
		return "", err
	}
	written, err := in.all()
	if err != nil {
		return "", err
	}
	said := []string{kills}
	for _, g := range groups {
		text, err := g.check(ctx, b, written)
		if err != nil {
			return "", fmt.Errorf("%s: %w", g.kind, err)
		}
		said = append(said, text)
	}
	return strings.Join(said, "; "), nil
}

// join starts one more member.
func (g *copiers) join(w *world, b *broker) (err error) {
	id := fmt.Sprintf("%s-%d", g.group, len(g.members)+1)
	args := []string{b.addr, g.group, copyIn, g.out, id}
	var s *service
	if g.kind == "java" {
		s, err = w.java(id, "java-apps", g.line, append([]string{"Copier"}, args...)...)
	} else {
		var command []string
		if command, err = w.places.Client(g.kind); err != nil {
			return err
		}
		s = &service{w: w, name: id, command: slices.Concat(command, []string{"copy"}, args), line: g.line}
		err = s.launch()
	}
	g.members = append(g.members, s)
	return err
}

// line takes a line of a member.
func (g *copiers) line(text string) {
	switch {
	case strings.HasPrefix(text, "t "):
		g.committed.Add(1)
	case strings.HasPrefix(text, "u "):
		g.aborted.Add(1)
	default:
		g.refused.Add(1)
		fmt.Fprintln(g.log, time.Now().Format("15:04:05.000"), text)
	}
}

func (g *copiers) alive() error {
	for _, s := range g.members {
		if err := s.alive(); err != nil {
			return err
		}
	}
	return nil
}

// copyDisturb kills members and, a third of the times, the broker. Each kill waits until every group has committed a few
// transactions after the one before.
func copyDisturb(ctx context.Context, w *world, b *broker, groups []*copiers) (string, error) {
	counts := map[string]int{}
	for range w.killCount(copyKills) {
		for _, g := range groups {
			if err := g.progress(ctx, 3); err != nil {
				return "", fmt.Errorf("%w, after the kills %v", err, counts)
			}
		}
		time.Sleep(w.between(0, 500*time.Millisecond))
		down := w.between(0, time.Second)
		if w.rand.IntN(3) == 0 {
			counts["broker"]++
			if err := b.restart(down); err != nil {
				return "", err
			}
			continue
		}
		g := groups[w.rand.IntN(len(groups))]
		counts[g.kind]++
		if err := g.members[w.rand.IntN(len(g.members))].restart(down); err != nil {
			return "", err
		}
	}
	return "kills " + listed(counts), nil
}

// progress waits until n more transactions have committed.
func (g *copiers) progress(ctx context.Context, n int64) error {
	before := g.committed.Load()
	return until(ctx, copyPatience, func(context.Context) error {
		if err := g.alive(); err != nil {
			return err
		}
		if now := g.committed.Load(); now < before+n {
			return fmt.Errorf("%s: %d transactions were committed since the last kill", g.kind, now-before)
		}
		return nil
	})
}

// check waits until the group has copied everything, lets its members end, and holds the output against what was written.
func (g *copiers) check(ctx context.Context, b *broker, written map[int32][]string) (string, error) {
	cl, err := b.client()
	if err != nil {
		return "", err
	}
	defer cl.Close()
	err = until(ctx, copyPatience, func(ctx context.Context) error {
		if err := g.alive(); err != nil {
			return err
		}
		got, err := offsets(ctx, cl, g.group, copyIn)
		if err != nil {
			return err
		}
		for p, values := range written {
			if got[p] != int64(len(values)) {
				return fmt.Errorf("partition %d: the group is at %d of %d records", p, got[p], len(values))
			}
		}
		return nil
	})
	for _, s := range g.members {
		s.p.closeInput()
		if werr := s.p.wait(30 * time.Second); werr != nil {
			err = errors.Join(err, werr)
			s.p.signal(syscall.SIGKILL)
		}
	}
	if err != nil {
		return "", err
	}
	n, err := g.compare(ctx, b, written)
	if err != nil {
		return "", err
	}
	all, err := b.readAll(ctx, g.out, false)
	if err != nil {
		return "", err
	}
	raw := 0
	for _, rs := range all {
		raw += len(rs)
	}
	return fmt.Sprintf("%s: %d records in %d transactions, as they were written; %d more in aborted ones, %d of those on purpose, %d failed",
		g.kind, n, g.committed.Load(), raw-n, g.aborted.Load(), g.refused.Load()), nil
}

// compare wants each partition of the output, read under read_committed, to have the records of the input, each once. One
// member writes a partition at a time, so that they are in order, too.
func (g *copiers) compare(ctx context.Context, b *broker, written map[int32][]string) (int, error) {
	out, err := b.readAll(ctx, g.out, true)
	if err != nil {
		return 0, err
	}
	n := 0
	for p, values := range written {
		for i := range max(len(values), len(out[p])) {
			want, got := "nothing", "nothing"
			if i < len(values) {
				want = values[i]
			}
			if i < len(out[p]) {
				got = string(out[p][i].Value) + " at offset " + strconv.FormatInt(out[p][i].Offset, 10)
			}
			if got != want && !strings.HasPrefix(got, want+" at ") {
				return 0, fmt.Errorf("partition %d: %d records were written and %d copied; record %d is %s, it should be %s",
					p, len(values), len(out[p]), i, got, want)
			}
		}
		n += len(values)
	}
	return n, nil
}
