package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// broker is a Godwit, or an Apache Kafka, that keeps its address and its data over all its lives.
type broker struct {
	w       *world
	name    string
	addr    string
	command []string
	ready   string // what it logs when it serves
	p       *process
	lives   int
}

// broker starts a Godwit with every limit as it is by default but for these settings of groups (NAME=VALUE), or a Kafka if that is
// what the run is for.
func (w *world) broker(name string, settings ...string) (*broker, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(w.dir, name+"-data")
	b := &broker{w: w, name: name, addr: addr, ready: "msg=ready",
		command: []string{w.godwit, "serve", "--data", dir, "--kafka", addr, "--http", "off"}}
	if len(settings) > 0 {
		b.command = append(b.command, "--group-settings", strings.Join(settings, ";"))
	}
	if w.kafka {
		_, port, _ := net.SplitHostPort(addr)
		script := filepath.Join(w.places.Source, "../bench/peers/kafka.sh")
		b.ready, b.command = "Kafka Server started", []string{script, "run", dir}
		if out, err := exec.Command(script, "prepare", dir, "default", port).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("prepare Kafka: %w: %s", err, out)
		}
		if err := kafkaSettings(filepath.Join(dir, "server.properties"), settings); err != nil {
			return nil, err
		}
	}
	w.brokers = append(w.brokers, b)
	return b, b.launch()
}

// kafkaSettings appends settings of groups to Kafka's, with the bounds that Kafka keeps apart.
func kafkaSettings(file string, settings []string) error {
	var lines strings.Builder
	for _, s := range settings {
		_, rest, _ := strings.Cut(s, "group.")
		kind, rest, _ := strings.Cut(rest, ".")
		fmt.Fprintf(&lines, "%s\ngroup.%s.min.%s\n", s, kind, rest)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines.String())
	return errors.Join(err, f.Close())
}

// freeAddr finds an address on which nothing listens now.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// launch starts the broker and waits until it says that it is ready.
func (b *broker) launch() error {
	p, err := b.w.start(b.name, b.command, nil)
	if err != nil {
		return err
	}
	b.p = p
	b.lives++
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		log, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		if strings.Count(string(log), b.ready) == b.lives {
			return nil
		}
		if !p.running() {
			return fmt.Errorf("%s ended before it was ready: %w: %s", b.name, p.err, tail(p.log, 1000))
		}
	}
	return fmt.Errorf("%s is not ready after 30 s: %s", b.name, tail(p.log, 1000))
}

// restart kills the broker with SIGKILL, leaves it down for a moment, and starts it again on its data.
func (b *broker) restart(down time.Duration) error {
	if !b.p.running() {
		return fmt.Errorf("%s ended by itself: %w: %s", b.name, b.p.err, tail(b.p.log, 1000))
	}
	b.p.kill()
	time.Sleep(down)
	return b.launch()
}

// complaint is a line in Godwit's log that no client should be able to cause.
var complaint = regexp.MustCompile(`(?m)^.*(level=ERROR|panic| failed).*$`)

// retire ends the broker in order and says what was wrong with it: that it had ended before, does not end, or complains.
func (b *broker) retire() error {
	if b.p == nil {
		return nil
	}
	if !b.p.running() {
		return fmt.Errorf("%s ended by itself: %w: %s", b.name, b.p.err, tail(b.p.log, 1000))
	}
	b.p.signal(syscall.SIGTERM)
	if err := b.p.wait(40 * time.Second); err != nil && !b.w.kafka {
		return err
	}
	log, err := os.ReadFile(b.p.log)
	if err != nil {
		return err
	}
	if found := complaint.FindAll(log, -1); len(found) > 0 && !b.w.kafka {
		return fmt.Errorf("%s complains, %d lines, the first: %s", b.name, len(found), found[0])
	}
	return nil
}

// client is a client of the program's own.
func (b *broker) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.addr), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
}

// createTopic makes a topic whose records are kept.
func (b *broker) createTopic(ctx context.Context, topic string, partitions int32) error {
	cl, err := b.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic)
	return err
}

// readAll reads a topic from its beginning to the end it has now, per partition in the order of offsets. committed leaves
// out what a transaction has not committed.
func (b *broker) readAll(ctx context.Context, topic string, committed bool) (map[int32][]*kgo.Record, error) {
	opts := []kgo.Opt{}
	if committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	cl, err := b.client(append(opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	list := admin.ListEndOffsets
	if committed {
		list = admin.ListCommittedOffsets
	}
	ends, err := list(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	got := map[int32][]*kgo.Record{}
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return nil, fmt.Errorf("read %s up to %v: %w", topic, left, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			end, ok := left[r.Partition]
			if !ok || r.Offset >= end {
				return
			}
			if !r.Attrs.IsControl() {
				got[r.Partition] = append(got[r.Partition], r)
			}
			if r.Offset == end-1 {
				delete(left, r.Partition)
			}
		})
	}
	return got, nil
}

// dataEnds are the offsets behind the last committed record of each partition. The end of a partition can be further on, behind
// the marker of a transaction.
func (b *broker) dataEnds(ctx context.Context, topic string) (map[int32]int64, error) {
	records, err := b.readAll(ctx, topic, true)
	out := map[int32]int64{}
	for p, rs := range records {
		out[p] = rs[len(rs)-1].Offset + 1
	}
	return out, err
}
