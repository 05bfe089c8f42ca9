//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// measureScale fills a broker with many partitions, writes a record to each, and restarts it: once
// in order and once after kill -9.
func (h *harness) measureScale(ctx context.Context, k kind) error {
	r, err := h.launch(ctx, k)
	if err != nil {
		return err
	}
	defer r.discard()
	topics := make([]string, h.plan.scaleTopics)
	for i := range topics {
		topics[i] = fmt.Sprintf("scale-%04d", i)
	}
	kase := fmt.Sprintf("%d partitions", h.plan.scaleTopics*scalePartitions)
	add := func(metric string, v float64) { h.rec.add("scale", kase, r.name, metric, v) }

	begin := time.Now()
	if err := createTopics(r.addr, topics, scalePartitions, 5*time.Minute); err != nil {
		return err
	}
	add(mCreate, time.Since(begin).Seconds())
	h.logf("scale, %s: %s created in %.1f s", r.name, kase, time.Since(begin).Seconds())

	begin = time.Now()
	if err := touchAll(ctx, r.addr, topics, scalePartitions); err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	add(mTouch, took)
	add(mTouchRate, float64(len(topics)*scalePartitions)/took)
	add(mRSS, rssMiB(r.proc.pid))
	h.logf("scale, %s: one record written to each in %.1f s, %.0f MiB resident", r.name, took, rssMiB(r.proc.pid))

	add(mStopTime, r.proc.stop(2*time.Minute).Seconds())
	if err := h.measureRestart(ctx, r, kase+", clean restart", topics); err != nil {
		return err
	}
	r.proc.signal(syscall.SIGKILL)
	<-r.proc.done
	return h.measureRestart(ctx, r, kase+", restart after kill -9", topics)
}

// scalePartitions is the number of partitions of each topic.
const scalePartitions = 100

// measureRestart boots the broker on its data and counts what it still holds.
func (h *harness) measureRestart(ctx context.Context, r *running, kase string, topics []string) error {
	if err := r.boot(ctx); err != nil {
		return err
	}
	add := func(metric string, v float64) { h.rec.add("scale", kase, r.name, metric, v) }
	add(mReady, ms(r.readyAfter))
	add(mMetadata, ms(r.metadataAfter))
	records, err := countRecords(r.addr, topics)
	if err != nil {
		return err
	}
	add(mRecords, float64(records))
	if err := sleep(ctx, h.plan.idle); err != nil {
		return err
	}
	add(mRSS, rssMiB(r.proc.pid))
	add(mPSS, pssMiB(r.proc.pid))
	h.logf("scale, %s, %s: ready after %.2f s, %d records, %.0f MiB resident",
		r.name, kase, r.readyAfter.Seconds(), records, rssMiB(r.proc.pid))
	if want := int64(len(topics) * scalePartitions); records != want {
		return fmt.Errorf("%s: %d records after the restart, want %d", kase, records, want)
	}
	return nil
}

func countRecords(addr string, topics []string) (int64, error) {
	c, err := dial(addr, 5*time.Second)
	if err != nil {
		return 0, err
	}
	defer c.close()
	var n int64
	for _, t := range topics {
		ends, err := endOffsets(c, t, scalePartitions)
		if err != nil {
			return n, err
		}
		for _, e := range ends {
			n += e
		}
	}
	return n, nil
}

// touchAll writes one record to every partition, with the client's defaults.
func touchAll(ctx context.Context, addr string, topics []string, partitions int32) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DisableClientMetrics(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	value := make([]byte, recordSize)
	var failed firstError
	for _, t := range topics {
		for p := range partitions {
			cl.Produce(ctx, &kgo.Record{Topic: t, Partition: p, Value: value}, failed.promise)
		}
	}
	return errors.Join(cl.Flush(ctx), failed.get())
}

// firstError keeps the first failure among many promises.
type firstError struct {
	once sync.Once
	err  atomic.Pointer[error]
}

func (f *firstError) promise(_ *kgo.Record, err error) {
	if err != nil {
		f.once.Do(func() { f.err.Store(&err) })
	}
}

func (f *firstError) get() error {
	if p := f.err.Load(); p != nil {
		return *p
	}
	return nil
}

// spreading is one way in which the franz-go producer chooses partitions.
type spreading struct {
	name        string
	partitioner func() kgo.Partitioner
}

// spreadings: the client's default fills a batch of 64 KiB for one partition and moves on; round robin
// puts neighbours into different partitions, which at 10,000 makes every batch a record or a few.
func spreadings() []spreading {
	return []spreading{
		{"default partitioner", func() kgo.Partitioner { return kgo.UniformBytesPartitioner(64<<10, true, true, nil) }},
		{"round robin", kgo.RoundRobinPartitioner},
	}
}

func manyCase(s spreading, n int32) string { return fmt.Sprintf("%s, %d partitions", s.name, n) }

// measureMany compares few with many partitions on one broker, with one and the same producer.
func (h *harness) measureMany(ctx context.Context, k kind) error {
	r, err := h.launch(ctx, k)
	if err != nil {
		return err
	}
	defer r.discard()
	if err := h.manyWarmUp(ctx, r); err != nil {
		return err
	}
	rounds, ways := h.plan.rounds, spreadings()
	if k.name == kafkaName {
		// For comparison only: 10,000 partitions take it minutes to create, and a round robin over them
		// did not end within ten.
		rounds, ways = 1, ways[:1]
	}
	for round := range rounds {
		for _, s := range ways {
			for _, n := range []int32{partitions, h.plan.many} {
				topic := fmt.Sprintf("many-%d-%s-%d", round, strings.Fields(s.name)[0], n)
				if err := createLarge(r.addr, topic, n, 5*time.Minute); err != nil {
					return err
				}
				// What a partition costs once is the scale phase's matter.
				if err := touchAll(ctx, r.addr, []string{topic}, n); err != nil {
					return err
				}
				err := h.measure(ctx, "many", manyCase(s, n), r, func(ctx context.Context) (outcome, error) {
					return franzProduce(ctx, r.addr, topic, s.partitioner(), h.plan.manyFor)
				})
				if err != nil {
					return err
				}
				if err := deleteTopics(r.addr, topic); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measureManySink measures what the producer itself reaches at few and at many partitions.
func (h *harness) measureManySink(ctx context.Context) error {
	for _, n := range []int32{partitions, h.plan.many} {
		r, err := h.launch(ctx, sinkKind(n))
		if err != nil {
			return err
		}
		for range h.plan.rounds {
			for _, s := range spreadings() {
				err = errors.Join(err, h.measure(ctx, "many", manyCase(s, n), r, func(ctx context.Context) (outcome, error) {
					return franzProduce(ctx, r.addr, "many", s.partitioner(), h.plan.franzFor)
				}))
			}
		}
		r.discard()
		if err != nil {
			return err
		}
	}
	return nil
}

// manyWarmUp lets the broker compile or cache what it will.
func (h *harness) manyWarmUp(ctx context.Context, r *running) error {
	const topic = "many-warm-up"
	if err := createTopics(r.addr, []string{topic}, partitions, toolLimit); err != nil {
		return err
	}
	if _, err := franzProduce(ctx, r.addr, topic, kgo.RoundRobinPartitioner(), h.plan.manyFor); err != nil {
		return err
	}
	return deleteTopics(r.addr, topic)
}

// franzProduce sends records of 1 KiB for a while and waits for the last to be acknowledged. Everything
// but the partitioner and compression is the client's default: idempotent, acks=all, linger 10 ms,
// 50,000 records in memory.
func franzProduce(ctx context.Context, addr, topic string, p kgo.Partitioner, length time.Duration) (outcome, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DisableClientMetrics(), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(p), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return outcome{}, err
	}
	defer cl.Close()
	value := make([]byte, recordSize)
	for i := range value {
		value[i] = byte('A' + i%26)
	}
	var failed firstError
	// The first record waits for metadata, which at 10,000 partitions is large.
	if err := cl.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
		return outcome{}, err
	}
	var n int64
	begin, cpu := time.Now(), selfCPU()
	for time.Since(begin) < length && ctx.Err() == nil {
		for range 64 {
			cl.Produce(ctx, &kgo.Record{Value: value}, failed.promise)
		}
		n += 64
	}
	if err := errors.Join(cl.Flush(ctx), failed.get()); err != nil {
		return outcome{}, err
	}
	took := time.Since(begin).Seconds()
	out := outcome{payload: n * recordSize, clientCPU: selfCPU() - cpu}
	out.mibPerSec = float64(out.payload) / mib / took
	return out, nil
}
