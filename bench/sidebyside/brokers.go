//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// kind is one way of running one broker.
type kind struct {
	name  string
	label string // for people
	flush bool   // slow by design: fewer records

	// prepare makes dir ready before the start that is timed.
	prepare func(ctx context.Context, h *harness, dir string, ports [2]int) error
	// command is the broker itself, as a direct child.
	command func(h *harness, dir string, ports [2]int) *exec.Cmd
	marker  string
}

const (
	kafkaName      = "kafka"
	kafkaFlushName = "kafka-flush"
	godwitName     = "godwit"
	godwitOSName   = "godwit-os"
	sinkName       = "sink"
)

// kinds are all brokers, in the order of the tables.
func kinds() []kind {
	return []kind{
		kafkaKind(kafkaName, "Kafka, defaults (unsynced)", "default"),
		kafkaKind(kafkaFlushName, "Kafka, flush every message", "synced"),
		godwitKind(godwitName, "Godwit, synced (default)", "sync"),
		godwitKind(godwitOSName, "Godwit, durability os", "os"),
	}
}

// kafkaKind is Kafka in a configuration of its script, which finds a port for the controller by itself.
func kafkaKind(name, label, config string) kind {
	return kind{
		name: name, label: label, flush: config == "synced", marker: "Kafka Server started",
		prepare: func(ctx context.Context, h *harness, dir string, ports [2]int) error {
			args := []string{"prepare", dir, config, strconv.Itoa(ports[0])}
			h.rec.command("prepare "+name, h.shown(append([]string{h.kafkaScript()}, args...)))
			_, err := h.sup.run(ctx, exec.Command(h.kafkaScript(), args...))
			return err
		},
		command: func(h *harness, dir string, _ [2]int) *exec.Cmd {
			return exec.Command(h.kafkaScript(), "run", dir)
		},
	}
}

func godwitKind(name, label, durability string) kind {
	return kind{
		name: name, label: label, marker: "ready",
		prepare: func(context.Context, *harness, string, [2]int) error { return nil },
		command: func(h *harness, dir string, ports [2]int) *exec.Cmd {
			r := strings.NewReplacer("{data}", filepath.Join(dir, "data"), "{durability}", durability,
				"{listen}", address(ports[0]), "{http}", address(ports[1]))
			args := strings.Fields(h.opt.godwitArgs)
			if h.opt.profile != "" {
				args = append(args, "--pprof")
			}
			for i := range args {
				args[i] = r.Replace(args[i])
			}
			return exec.Command(h.opt.godwit, args...)
		},
	}
}

// sinkKind is this program as a broker that stores nothing.
func sinkKind(partitions int32) kind {
	return kind{
		name: sinkName, label: "nothing stored (the load tool's ceiling)", marker: "ready",
		prepare: func(context.Context, *harness, string, [2]int) error { return nil },
		command: func(h *harness, _ string, ports [2]int) *exec.Cmd {
			return exec.Command(h.self, "sink", "--listen", address(ports[0]), "--partitions", strconv.Itoa(int(partitions)))
		},
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// running is a broker that has been started and is ready.
type running struct {
	kind
	h     *harness
	dir   string
	ports [2]int
	addr  string
	proc  *process

	readyAfter    time.Duration // exec until it said so
	metadataAfter time.Duration // exec until it answered a metadata request
}

// readyLimit is how long a broker may take to start; a broker of 100,000 partitions included.
const readyLimit = 5 * time.Minute

// launch starts a broker in a fresh directory under the scratch directory.
func (h *harness) launch(ctx context.Context, k kind) (*running, error) {
	dir, err := os.MkdirTemp(h.scratch, k.name+"-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts()
	if err != nil {
		return nil, err
	}
	if err := k.prepare(ctx, h, dir, ports); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", k.name, err)
	}
	r := &running{kind: k, h: h, dir: dir, ports: ports, addr: address(ports[0])}
	return r, r.boot(ctx)
}

// boot starts the process on the directory as it is.
func (r *running) boot(ctx context.Context) error {
	cmd := r.command(r.h, r.dir, r.ports)
	r.h.rec.command("start "+r.name, r.h.shown(cmd.Args))
	p, err := r.h.sup.start(cmd, r.marker)
	if err != nil {
		return err
	}
	r.proc = p
	type answer struct {
		at  time.Time
		err error
	}
	first := make(chan answer, 1)
	actx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		at, err := awaitMetadata(actx, r.addr, readyLimit)
		first <- answer{at, err}
	}()
	if r.readyAfter, err = p.waitReady(ctx, readyLimit); err != nil {
		return err
	}
	a := <-first
	r.metadataAfter = a.at.Sub(p.started)
	return a.err
}

// explain adds to an error how the broker ended, if it did, and what it said last.
func (r *running) explain(err error) error {
	select {
	case <-r.proc.done:
		return fmt.Errorf("%w (the broker had ended: %v)\n%s", err, r.proc.err, r.proc.out.tail(4000))
	default:
		return err
	}
}

// discard stops the broker and removes what it stored.
func (r *running) discard() {
	if r.proc != nil {
		r.proc.stop(60 * time.Second)
	}
	if err := os.RemoveAll(r.dir); err != nil {
		r.h.logf("remove %s: %v", r.dir, err)
	}
}

// freePorts finds two ports that nothing listens on, below the range from which the kernel takes the
// local ports of clients: one that polls a port of that range before the broker listens there can
// end up connected to itself.
func freePorts() ([2]int, error) {
	const lowest, span = 20000, 12000
	var out [2]int
	for i := range out {
		for try := 0; out[i] == 0; try++ {
			port := lowest + rand.IntN(span)
			l, err := net.Listen("tcp", address(port))
			switch {
			case err == nil:
				defer l.Close()
				out[i] = port
			case try == 100:
				return out, fmt.Errorf("no free port: %w", err)
			}
		}
	}
	return out, nil
}
