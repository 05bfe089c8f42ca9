//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerPerf runs Kafka's own consumer load tool over a topic, once.
func (h *harness) consumerPerf(ctx context.Context, addr, use string, f topicFill) (outcome, error) {
	cmd := exec.Command(h.kafkaScript(), "tool", "org.apache.kafka.tools.ConsumerPerformance",
		"--bootstrap-server", addr, "--topic", f.topic, "--num-records", strconv.FormatInt(f.records, 10),
		"--timeout", "60000")
	if use != "" {
		h.rec.command(use, h.shown(cmd.Args))
	}
	text, err := h.sup.run(ctx, cmd)
	if err != nil {
		return outcome{}, err
	}
	rate, n, err := parseConsumerPerf(text)
	if err != nil {
		return outcome{}, err
	}
	if n < f.records {
		return outcome{}, fmt.Errorf("the load tool read %d of %d records of %s", n, f.records, f.topic)
	}
	return outcome{payload: n * recordSize, mibPerSec: rate, clientCPU: childCPU(cmd)}, nil
}

// parseConsumerPerf finds the rate while fetching (the time to join the group is left out) and the
// number of records, by the names in the tool's header line. Its MB are MiB.
func parseConsumerPerf(text string) (mibPerSec float64, records int64, err error) {
	var header []string
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		if fields[0] == "start.time" {
			header = fields
			continue
		}
		if header == nil || len(fields) != len(header) {
			continue
		}
		for i, name := range header {
			switch name {
			case "fetch.MB.sec":
				mibPerSec, err = strconv.ParseFloat(fields[i], 64)
			case "data.consumed.in.nMsg":
				records, err = strconv.ParseInt(fields[i], 10, 64)
			}
			if err != nil {
				return 0, 0, fmt.Errorf("%s: %w", name, err)
			}
		}
		return mibPerSec, records, nil
	}
	return 0, 0, fmt.Errorf("no figures from the load tool:\n%s", text)
}

// readPass reads a whole topic once and returns the records read.
type readPass func(ctx context.Context, addr string, f topicFill) (int64, error)

// repeatRead reads a topic from its beginning again and again until the time is over and the pass
// is complete.
func repeatRead(ctx context.Context, addr string, f topicFill, atLeast time.Duration, pass readPass) (outcome, error) {
	begin, cpu := time.Now(), selfCPU()
	var out outcome
	for {
		n, err := pass(ctx, addr, f)
		if err != nil {
			return out, err
		}
		out.payload += n * recordSize
		took := time.Since(begin)
		if took >= atLeast {
			out.mibPerSec = float64(out.payload) / mib / took.Seconds()
			out.clientCPU = selfCPU() - cpu
			return out, nil
		}
	}
}

// franzRead reads with franz-go, which decodes every record, and drops them.
func franzRead(ctx context.Context, addr string, f topicFill) (int64, error) {
	offsets := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		offsets[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DisableClientMetrics(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{f.topic: offsets}))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	var n int64
	for n < f.records {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return n, fmt.Errorf("read %s: %w", f.topic, err)
		}
		n += int64(fetches.NumRecords())
	}
	return n, nil
}

// rawConnections is how many connections the raw reader divides the partitions among.
const rawConnections = 2

// rawRead fetches with a client's default limits and looks at batch headers only, so that the broker
// and the kernel's loopback are what is measured.
func rawRead(ctx context.Context, addr string, f topicFill) (int64, error) {
	var (
		wg    sync.WaitGroup
		total atomic.Int64
		errs  [rawConnections]error
	)
	for i := range rawConnections {
		wg.Add(1)
		go func() {
			defer wg.Done()
			n, err := rawReadShare(ctx, addr, f.topic, int32(i))
			total.Add(n)
			errs[i] = err
		}()
	}
	wg.Wait()
	return total.Load(), errors.Join(errs[:]...)
}

// rawReadShare reads the partitions p with p mod rawConnections = share.
func rawReadShare(ctx context.Context, addr, topic string, share int32) (int64, error) {
	c, err := dial(addr, 5*time.Second)
	if err != nil {
		return 0, err
	}
	defer c.close()
	ends, err := endOffsets(c, topic, partitions)
	if err != nil {
		return 0, err
	}
	next := map[int32]int64{}
	for p := share; p < partitions; p += rawConnections {
		if ends[p] > 0 {
			next[p] = 0
		}
	}
	var total int64
	for len(next) > 0 {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		resp, err := c.roundTrip(rawFetch(topic, next), time.Minute)
		if err != nil {
			return total, fmt.Errorf("fetch: %w", err)
		}
		n, err := rawAdvance(resp.(*kmsg.FetchResponse), next, ends)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// rawFetch asks for all partitions that are left, without a session. Its limits are the Java consumer's defaults.
func rawFetch(topic string, next map[int32]int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = 12
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, 50<<20
	req.SessionID, req.SessionEpoch = 0, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for p := range int32(partitions) {
		off, ok := next[p]
		if !ok {
			continue
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.CurrentLeaderEpoch = p, off, -1
		rp.LastFetchedEpoch, rp.LogStartOffset, rp.PartitionMaxBytes = -1, -1, mib
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// rawAdvance moves the positions past what was fetched and forgets the partitions that are read.
func rawAdvance(resp *kmsg.FetchResponse, next map[int32]int64, ends []int64) (int64, error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, fmt.Errorf("fetch: %w", err)
	}
	var total int64
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return total, fmt.Errorf("fetch of partition %d: %w", p.Partition, err)
			}
			n, after := walkBatches(p.RecordBatches)
			total += n
			if after < 0 {
				continue
			}
			next[p.Partition] = after
			if after >= ends[p.Partition] {
				delete(next, p.Partition)
			}
		}
	}
	return total, nil
}

// measureReads measures the ways of reading over the topics of one round: fills[0] holds default
// batches, fills[1] large ones.
func (h *harness) measureReads(ctx context.Context, r *running, fills []topicFill) error {
	for i, b := range batchings() {
		f := fills[i]
		ways := []struct {
			name string
			run  func(context.Context) (outcome, error)
		}{
			{"java", func(ctx context.Context) (outcome, error) {
				return h.consumerPerf(ctx, r.addr, "read, java", f)
			}},
			{"franz-go", func(ctx context.Context) (outcome, error) {
				return repeatRead(ctx, r.addr, f, h.plan.readFor, franzRead)
			}},
			{"raw", func(ctx context.Context) (outcome, error) {
				return repeatRead(ctx, r.addr, f, h.plan.readFor, rawRead)
			}},
		}
		for _, w := range ways {
			if err := h.measure(ctx, "read", w.name+", "+b.name, r, w.run); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil
}
