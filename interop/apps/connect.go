package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	connectTopic      = "lines"
	connectPartitions = 3
	connectRate       = 200 // lines a second
	connectKills      = 6   // half of them of workers, half of the broker
	connectWorkers    = 2
	connectPatience   = 90 * time.Second // until the sink has caught up after a kill
)

// connectInternal are the topics in which Kafka Connect keeps its own state. It makes them itself.
var connectInternal = []string{"connect-configs", "connect-offsets", "connect-status"}

// pipeline is a file, a source connector that writes its lines to a topic, and a sink connector that writes them to a file.
type pipeline struct {
	w       *world
	broker  *broker
	once    bool // the source is to write each line once
	input   string
	output  string
	written atomic.Int64 // lines
	workers []*service
	rests   []string // the address of each worker's REST interface
}

// connect runs the file connectors of Kafka Connect on two distributed workers, while workers and broker are killed. The
// sink file has to have every line.
func connect(ctx context.Context, w *world) (string, error) { return runConnect(ctx, w, false) }

// connectOnce does the same with exactly-once support of source connectors (KIP-618): the topic has to have each line once.
func connectOnce(ctx context.Context, w *world) (string, error) { return runConnect(ctx, w, true) }

func runConnect(ctx context.Context, w *world, once bool) (string, error) {
	b, err := w.broker("godwit")
	if err != nil {
		return "", err
	}
	if err := b.createTopic(ctx, connectTopic, connectPartitions); err != nil {
		return "", err
	}
	p := &pipeline{w: w, broker: b, once: once, input: filepath.Join(w.dir, "input.txt"), output: filepath.Join(w.dir, "output.txt")}
	for range connectWorkers {
		if err := p.addWorker(); err != nil {
			return "", err
		}
	}
	writing, stop := context.WithCancel(ctx)
	defer stop()
	wrote := make(chan error, 1)
	go func() { wrote <- p.write(writing) }()
	if err := p.create(ctx); err != nil {
		return "", err
	}
	kills, err := p.disturb(ctx)
	if err == nil {
		// The source leaves lines in its buffer until more come if it is far behind: it has to have caught up before the last.
		err = p.reach(ctx, p.written.Load(), connectPatience)
	}
	stop()
	if err = errors.Join(err, <-wrote); err != nil {
		return "", err
	}
	seen, err := p.check(ctx)
	return fmt.Sprintf("%s; kills %s", seen, kills), err
}

// addWorker starts a distributed worker on a free port.
func (p *pipeline) addWorker() error {
	rest, err := freeAddr()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("worker-%d", len(p.workers)+1)
	support := "disabled"
	if p.once {
		support = "enabled"
	}
	path, err := p.w.properties(name+".properties",
		"bootstrap.servers="+p.broker.addr,
		"group.id=connect",
		"listeners=http://"+rest,
		"config.storage.topic="+connectInternal[0], "config.storage.replication.factor=1",
		"offset.storage.topic="+connectInternal[1], "offset.storage.replication.factor=1", "offset.storage.partitions=5",
		"status.storage.topic="+connectInternal[2], "status.storage.replication.factor=1", "status.storage.partitions=3",
		"key.converter=org.apache.kafka.connect.storage.StringConverter",
		"value.converter=org.apache.kafka.connect.storage.StringConverter",
		"plugin.discovery=service_load",
		"session.timeout.ms=6000", "heartbeat.interval.ms=1000", "rebalance.timeout.ms=10000",
		"scheduled.rebalance.max.delay.ms=1000",
		"offset.flush.interval.ms=500",
		"exactly.once.source.support="+support,
		"consumer.session.timeout.ms=6000", "consumer.heartbeat.interval.ms=1000",
	)
	if err != nil {
		return err
	}
	s, err := p.w.java(name, "java-connect", nil, "org.apache.kafka.connect.cli.ConnectDistributed", path)
	p.workers, p.rests = append(p.workers, s), append(p.rests, rest)
	return err
}

// rest makes a request to a worker and decodes its answer into out, if that is not nil.
func (p *pipeline) rest(ctx context.Context, worker int, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	send, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.rests[worker]+path, bytes.NewReader(send))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %.300s", method, path, resp.Status, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// create makes both connectors as soon as the workers have found each other.
func (p *pipeline) create(ctx context.Context) error {
	source := map[string]string{
		"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
		"tasks.max":       "1", "file": p.input, "topic": connectTopic,
	}
	if p.once {
		source["exactly.once.support"] = "required"
	}
	sink := map[string]string{
		"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
		"tasks.max":       "1", "file": p.output, "topics": connectTopic,
		"consumer.override.isolation.level": "read_committed",
	}
	for name, config := range map[string]map[string]string{"source": source, "sink": sink} {
		err := until(ctx, time.Minute, func(ctx context.Context) error {
			if err := p.alive(); err != nil {
				return err
			}
			return p.rest(ctx, 0, http.MethodPut, "/connectors/"+name+"/config", config, nil)
		})
		if err != nil {
			return fmt.Errorf("make the connector %s: %w", name, err)
		}
	}
	return nil
}

func (p *pipeline) alive() error {
	for _, s := range p.workers {
		if err := s.alive(); err != nil {
			return err
		}
	}
	return nil
}

// write appends numbered lines to the input at an even rate until ctx ends.
func (p *pipeline) write(ctx context.Context) error {
	f, err := os.Create(p.input)
	if err != nil {
		return err
	}
	defer f.Close()
	const ticks = 20 // a second
	tick := time.NewTicker(time.Second / ticks)
	defer tick.Stop()
	for {
		var text []byte
		for i := range int64(connectRate / ticks) {
			text = fmt.Appendf(text, "%s\n", connectLine(p.written.Load()+i))
		}
		if _, err := f.Write(text); err != nil {
			return err
		}
		p.written.Add(connectRate / ticks)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func connectLine(n int64) string { return fmt.Sprintf("line-%07d.", n) }

// A worker that is killed may have written a line without its end.
var connectLines = regexp.MustCompile(`line-\d{7}\.`)

// sunk are the lines of the sink file, and how often each is there.
func (p *pipeline) sunk() (map[string]int, error) {
	text, err := os.ReadFile(p.output)
	if err != nil {
		return nil, err
	}
	if rest := strings.TrimSpace(connectLines.ReplaceAllString(string(text), "")); rest != "" {
		return nil, fmt.Errorf("the sink file has what nobody wrote: %.100s", rest)
	}
	got := map[string]int{}
	for _, line := range connectLines.FindAllString(string(text), -1) {
		got[line]++
	}
	return got, nil
}

// reach waits until the sink file has all lines before n.
func (p *pipeline) reach(ctx context.Context, n int64, limit time.Duration) error {
	err := until(ctx, limit, func(context.Context) error {
		if err := p.alive(); err != nil {
			return err
		}
		got, err := p.sunk()
		if err != nil {
			return err
		}
		if int64(len(got)) < n {
			return fmt.Errorf("the sink file has %d of %d lines", len(got), n)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%w (%s)", err, p.status(ctx))
	}
	return err
}

// status is what the workers say of the connectors, for a failure.
func (p *pipeline) status(ctx context.Context) string {
	var all json.RawMessage
	for i := range p.workers {
		if err := p.rest(ctx, i, http.MethodGet, "/connectors?expand=status", nil, &all); err == nil {
			return fmt.Sprintf("%.1500s", all)
		}
	}
	return "no worker answers"
}

// disturb kills workers and broker in an order that is drawn, each once the pipeline has caught up after the one before.
func (p *pipeline) disturb(ctx context.Context) (string, error) {
	counts := map[string]int{}
	for _, i := range p.w.rand.Perm(p.w.killCount(connectKills)) {
		if err := p.reach(ctx, p.written.Load(), connectPatience); err != nil {
			return "", fmt.Errorf("%w, after the kills %v", err, counts)
		}
		time.Sleep(p.w.between(0, 2*time.Second))
		down := p.w.between(0, 2*time.Second)
		err, who := error(nil), "broker"
		if i%2 == 0 {
			err = p.broker.restart(down)
		} else {
			s := p.workers[p.w.rand.IntN(len(p.workers))]
			err, who = s.restart(down), s.name
		}
		if err != nil {
			return "", err
		}
		counts[who]++
	}
	return listed(counts), nil
}

// check waits until every line is in the sink file and all offsets are committed, and looks at the topics.
func (p *pipeline) check(ctx context.Context) (string, error) {
	n := p.written.Load()
	if err := p.reach(ctx, n, connectPatience); err != nil {
		return "", err
	}
	got, err := p.sunk()
	if err != nil {
		return "", err
	}
	again := 0
	for i := range n {
		times := got[connectLine(i)]
		if times == 0 {
			return "", fmt.Errorf("line %d is not in the sink file", i)
		}
		again += times - 1
	}
	if int64(len(got)) != n {
		return "", fmt.Errorf("the sink file has %d different lines, %d were written", len(got), n)
	}
	repeated, err := p.checkTopic(ctx, n)
	if err == nil {
		err = p.checkInternal(ctx, n)
	}
	return fmt.Sprintf("%d lines, each in the topic, %d again; each in the sink file, %d again", n, repeated, again), err
}

// checkTopic holds the topic against the input, and says how many lines are there again.
func (p *pipeline) checkTopic(ctx context.Context, n int64) (again int, err error) {
	records, err := p.broker.readAll(ctx, connectTopic, true)
	if err != nil {
		return 0, err
	}
	times := map[string]int{}
	for partition, rs := range records {
		last := ""
		for _, r := range rs {
			line := string(r.Value)
			times[line]++
			if p.once && line <= last {
				return 0, fmt.Errorf("partition %d: %s comes after %s", partition, line, last)
			}
			last = line
		}
	}
	for i := range n {
		switch t := times[connectLine(i)]; {
		case t == 0:
			return 0, fmt.Errorf("line %d is not in the topic", i)
		case t > 1 && p.once:
			return 0, fmt.Errorf("line %d is in the topic %d times", i, t)
		default:
			again += t - 1
		}
	}
	return again, nil
}

// checkInternal looks at what Connect keeps in the broker: its topics are compacted, the offset of the source is the end of
// the file, and the offsets of the sink's group are the ends of the topic.
func (p *pipeline) checkInternal(ctx context.Context, n int64) error {
	cl, err := p.broker.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	configs, err := admin.DescribeTopicConfigs(ctx, connectInternal...)
	if err != nil {
		return err
	}
	for _, c := range configs {
		i := slices.IndexFunc(c.Configs, func(c kadm.Config) bool { return c.Key == "cleanup.policy" })
		if c.Err != nil || i < 0 || c.Configs[i].MaybeValue() != "compact" {
			return fmt.Errorf("%s is not a compacted topic: %w", c.Name, c.Err)
		}
	}
	return until(ctx, 30*time.Second, func(ctx context.Context) error {
		return errors.Join(p.checkPosition(ctx, n*int64(len(connectLine(0))+1)), p.checkCommits(ctx, cl))
	})
}

// checkPosition holds the last record of the source in the offsets topic against the size of the input.
func (p *pipeline) checkPosition(ctx context.Context, size int64) error {
	records, err := p.broker.readAll(ctx, connectInternal[1], true)
	if err != nil {
		return err
	}
	var last struct{ Position int64 }
	for _, rs := range records {
		for _, r := range rs {
			if strings.Contains(string(r.Key), p.input) {
				err = errors.Join(err, json.Unmarshal(r.Value, &last))
			}
		}
	}
	if err == nil && last.Position != size {
		err = fmt.Errorf("the offset of the source is %d, its file ends at %d", last.Position, size)
	}
	return err
}

// checkCommits holds the sink's group against the ends of the records in the topic.
func (p *pipeline) checkCommits(ctx context.Context, cl *kgo.Client) error {
	want, err := p.broker.dataEnds(ctx, connectTopic)
	if err != nil {
		return err
	}
	got, err := offsets(ctx, cl, "connect-sink", connectTopic)
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("the group of the sink is at %v, the records end at %v", got, want)
	}
	return err
}
