//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

const (
	recordSize = 1024
	partitions = 12
	mib        = 1 << 20
	gib        = 1 << 30
)

// batching is one way in which the load tool batches.
type batching struct {
	name  string
	props []string
}

// batchings: the tool's default of 16 KiB per batch, and batches as a tuned producer sends them.
func batchings() []batching {
	return []batching{
		{"default batches", nil},
		{"128 KiB batches", []string{"batch.size=131072"}},
	}
}

// outcome is what a load says about itself.
type outcome struct {
	payload   int64   // bytes
	mibPerSec float64 //
	clientCPU float64 // seconds
	p50, p99  float64 // milliseconds; 0 if the load does not measure latency
}

// producerPerf runs Kafka's own producer load tool.
func (h *harness) producerPerf(ctx context.Context, addr, topic, use string, records int64, b batching) (outcome, error) {
	args := []string{
		"tool", "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", addr,
		"--topic", topic, "--num-records", strconv.FormatInt(records, 10),
		"--record-size", strconv.Itoa(recordSize), "--throughput", "-1",
		"--command-property", "acks=all",
	}
	args = append(args, b.props...)
	cmd := exec.Command(h.kafkaScript(), args...)
	if use != "" {
		h.rec.command(use, h.shown(cmd.Args))
	}
	text, err := h.sup.run(ctx, cmd)
	if err != nil {
		return outcome{}, err
	}
	out, err := parseProducerPerf(text)
	if err != nil {
		return outcome{}, err
	}
	out.payload = records * recordSize
	out.clientCPU = childCPU(cmd)
	return out, nil
}

func childCPU(cmd *exec.Cmd) float64 {
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

var producerLine = regexp.MustCompile(`^(\d+) records sent, [\d.,]+ records/sec \(([\d.]+) MB/sec\), ` +
	`[\d.]+ ms avg latency, [\d.]+ ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th`)

// parseProducerPerf reads the tool's closing line. Its MB are MiB.
func parseProducerPerf(text string) (outcome, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		m := producerLine.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		var out outcome
		out.mibPerSec, _ = strconv.ParseFloat(m[2], 64)
		out.p50, _ = strconv.ParseFloat(m[3], 64)
		out.p99, _ = strconv.ParseFloat(m[5], 64)
		return out, producerErrors(lines)
	}
	return outcome{}, fmt.Errorf("no closing line from the load tool:\n%s", text)
}

// producerErrors finds the exceptions that the tool prints for failed sends and then goes on.
func producerErrors(lines []string) error {
	for _, l := range lines {
		if strings.Contains(l, "Exception") {
			return fmt.Errorf("the load tool reported: %s", l)
		}
	}
	return nil
}

// measureProduce measures one case of the produce phase and returns the topic it filled.
func (h *harness) measureProduce(ctx context.Context, r *running, b batching, round int) (topicFill, error) {
	fill := topicFill{topic: fmt.Sprintf("produce-%d-%s", round, strings.Fields(b.name)[0]), records: h.counts[r.name+b.name]}
	if r.name != sinkName {
		if err := createTopics(r.addr, []string{fill.topic}, partitions, toolLimit); err != nil {
			return fill, err
		}
	}
	err := h.measure(ctx, "produce", b.name, r, func(ctx context.Context) (outcome, error) {
		return h.producerPerf(ctx, r.addr, fill.topic, "produce, "+b.name, fill.records, b)
	})
	return fill, err
}

// franzCase is the produce case of our own load, which costs about a tenth of the Java tool's CPU time
// and so leaves the broker to be the limit.
const franzCase = "franz-go producer"

// measureFranzProduce measures it on a topic of its own, which is removed again.
func (h *harness) measureFranzProduce(ctx context.Context, r *running, round int) error {
	topic := fmt.Sprintf("produce-%d-franz", round)
	if r.name != sinkName {
		if err := createLarge(r.addr, topic, partitions, toolLimit); err != nil {
			return err
		}
	}
	err := h.measure(ctx, "produce", franzCase, r, func(ctx context.Context) (outcome, error) {
		return franzProduce(ctx, r.addr, topic, spreadings()[0].partitioner(), h.plan.franzFor)
	})
	if err != nil || r.name == sinkName {
		return err
	}
	return deleteTopics(r.addr, topic)
}

// topicFill is a topic and how many records it holds.
type topicFill struct {
	topic   string
	records int64
}
