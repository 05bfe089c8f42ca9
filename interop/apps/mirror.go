package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	mirrorTopic      = "orders"
	mirrorGroup      = "app"
	mirrorPartitions = 4
	mirrorRate       = 200 // records a second
	mirrorKills      = 6   // of MirrorMaker and of both brokers
	mirrorPatience   = 90 * time.Second
)

// twins are two brokers and the MirrorMaker between them. Topics have the same name on both.
type twins struct {
	w     *world
	once  bool
	a, b  *broker
	maker *service
}

// sample is where the group stood on the second broker at some time, and soon after on the first.
type sample struct{ there, here map[int32]int64 }

// mirror lets MirrorMaker 2 copy a topic from one broker to another and translate the offsets of a group, while
// MirrorMaker and both brokers are killed. Then the group's consumer moves to the second broker, and goes on where it was.
func mirror(ctx context.Context, w *world) (string, error) { return runMirror(ctx, w, false) }

// mirrorOnce does the same with exactly-once support: the copy of the topic has to have each record once.
func mirrorOnce(ctx context.Context, w *world) (string, error) { return runMirror(ctx, w, true) }

func runMirror(ctx context.Context, w *world, once bool) (string, error) {
	t := &twins{w: w, once: once}
	if err := t.launch(ctx); err != nil {
		return "", err
	}
	first, kills, samples, err := t.whileKilled(ctx)
	if err != nil {
		return "", err
	}
	if err := t.translated(ctx); err != nil {
		return "", err
	}
	second, err := t.move(ctx, first)
	if err != nil {
		return "", err
	}
	n, again, err := t.compare(ctx, second, samples)
	return fmt.Sprintf("%d records mirrored, %d again; the group went on at record %d; kills %s; %d translations compared",
		n, again, first, kills, len(samples)), err
}

func (t *twins) launch(ctx context.Context) (err error) {
	if t.a, err = t.w.broker("first"); err != nil {
		return err
	}
	if t.b, err = t.w.broker("second"); err != nil {
		return err
	}
	if err := t.a.createTopic(ctx, mirrorTopic, mirrorPartitions); err != nil {
		return err
	}
	support := "disabled"
	if t.once {
		support = "enabled"
	}
	path, err := t.w.properties("mirror.properties",
		"clusters=a,b",
		"a.bootstrap.servers="+t.a.addr, "b.bootstrap.servers="+t.b.addr,
		"a->b.enabled=true", "b->a.enabled=false",
		"a->b.topics="+mirrorTopic, "a->b.groups="+mirrorGroup,
		"replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
		"replication.factor=1", "checkpoints.topic.replication.factor=1", "heartbeats.topic.replication.factor=1",
		"offset-syncs.topic.replication.factor=1", "offset.storage.replication.factor=1", "config.storage.replication.factor=1",
		"status.storage.replication.factor=1",
		"sync.group.offsets.enabled=true", "sync.group.offsets.interval.seconds=1", "emit.checkpoints.interval.seconds=1",
		"refresh.topics.interval.seconds=2", "refresh.groups.interval.seconds=2", "offset.lag.max=0",
		"b.offset.flush.interval.ms=500", "b.scheduled.rebalance.max.delay.ms=0",
		"b.session.timeout.ms=6000", "b.heartbeat.interval.ms=1000", "b.rebalance.timeout.ms=10000",
		"b.exactly.once.source.support="+support, "dedicated.mode.enable.internal.rest="+strconv.FormatBool(t.once),
		"listeners=http://127.0.0.1:0",
	)
	if err != nil {
		return err
	}
	t.maker, err = t.w.java("mirrormaker", "java-connect", nil, "org.apache.kafka.connect.mirror.MirrorMaker", path)
	return err
}

// whileKilled lets a producer write to the first broker and the group read there, kills, and returns how many records were
// written once all are read and their offsets are committed.
func (t *twins) whileKilled(ctx context.Context) (written int, kills string, samples []sample, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	in := newSent(mirrorTopic, mirrorPartitions, mirrorRate)
	produced := make(chan error, 1)
	go func() { produced <- in.produce(running, t.a) }()
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	read := newReader()
	done := make(chan error, 1)
	go func() { done <- read.run(reading, t.a) }()
	var taking sync.WaitGroup
	taking.Go(func() { samples = t.take(running) })

	counts := map[string]int{}
	for _, i := range t.w.rand.Perm(t.w.killCount(mirrorKills)) {
		if err := t.caughtUp(ctx); err != nil {
			return 0, "", nil, fmt.Errorf("%w, after the kills %v", err, counts)
		}
		time.Sleep(t.w.between(0, 2*time.Second))
		if err := t.kill(i%3, counts); err != nil {
			return 0, "", nil, err
		}
	}
	if err := t.caughtUp(ctx); err != nil {
		return 0, "", nil, fmt.Errorf("%w, after the kills %v", err, counts)
	}
	stop()
	taking.Wait()
	if err := <-produced; err != nil {
		return 0, "", nil, err
	}
	all, err := in.all()
	if err != nil {
		return 0, "", nil, err
	}
	n := 0
	for _, values := range all {
		n += len(values)
	}
	err = until(ctx, mirrorPatience, func(context.Context) error { return read.has(0, n) })
	stopReading()
	return n, listed(counts), samples, errors.Join(err, <-done)
}

func (t *twins) kill(which int, counts map[string]int) error {
	down := t.w.between(0, 2*time.Second)
	switch which {
	case 0:
		counts["mirrormaker"]++
		return t.maker.restart(down)
	case 1:
		counts["first"]++
		return t.a.restart(down)
	default:
		counts["second"]++
		return t.b.restart(down)
	}
}

// caughtUp waits until the second broker has what the first has now.
func (t *twins) caughtUp(ctx context.Context) error {
	want, err := ends(ctx, t.a, mirrorTopic)
	if err != nil {
		return err
	}
	return until(ctx, mirrorPatience, func(ctx context.Context) error {
		if err := t.maker.alive(); err != nil {
			return err
		}
		got, err := ends(ctx, t.b, mirrorTopic)
		if err != nil {
			return err
		}
		for p, o := range want {
			if got[p] < o {
				return fmt.Errorf("the first broker's topic ended at %v, the second's ends at %v", want, got)
			}
		}
		return nil
	})
}

// ends are the end offsets of a topic, as read_committed shows them, by partition.
func ends(ctx context.Context, b *broker, topic string) (map[int32]int64, error) {
	cl, err := b.client()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	list, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = list.Error()
	}
	out := map[int32]int64{}
	list.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	return out, err
}

// take asks for the group's offsets on the second broker and then on the first, again and again.
func (t *twins) take(ctx context.Context) (samples []sample) {
	a, err := t.a.client()
	if err != nil {
		return nil
	}
	defer a.Close()
	b, err := t.b.client()
	if err != nil {
		return nil
	}
	defer b.Close()
	for ctx.Err() == nil {
		there, err := offsets(ctx, b, mirrorGroup, mirrorTopic)
		if err == nil && len(there) > 0 {
			if here, err := offsets(ctx, a, mirrorGroup, mirrorTopic); err == nil {
				samples = append(samples, sample{there, here})
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return samples
}

// translated waits until the group stands at the end of the topic on the second broker, too.
func (t *twins) translated(ctx context.Context) error {
	cl, err := t.b.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	return until(ctx, mirrorPatience, func(ctx context.Context) error {
		got, err := offsets(ctx, cl, mirrorGroup, mirrorTopic)
		if err != nil {
			return err
		}
		want, err := t.b.dataEnds(ctx, mirrorTopic)
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("on the second broker the group is at %v, the records end at %v", got, want)
		}
		return err
	})
}

// move writes more records to the first broker, and lets the group read on the second. It has to get just these. first is how
// many were written before; the result is how many there are now.
func (t *twins) move(ctx context.Context, first int) (int, error) {
	cl, err := t.a.client(kgo.DefaultProduceTopic(mirrorTopic))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	const more = 1000
	for n := first; n < first+more; n++ {
		cl.Produce(ctx, &kgo.Record{Partition: int32(n % mirrorPartitions), Value: []byte(strconv.Itoa(n))}, nil)
	}
	if err := cl.Flush(ctx); err != nil {
		return 0, err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	read := newReader()
	done := make(chan error, 1)
	go func() { done <- read.run(reading, t.b) }()
	err = until(ctx, mirrorPatience, func(context.Context) error { return read.has(first, first+more) })
	stop()
	err = errors.Join(err, <-done)
	for n := range read.values {
		if n < first {
			return 0, errors.Join(err, fmt.Errorf("on the second broker the group got record %d, which it had processed on the first", n))
		}
	}
	return first + more, err
}

// compare holds the topic on the second broker against what was written to the first: n records, numbered. And no sample may
// have been ahead of the truth.
func (t *twins) compare(ctx context.Context, n int, samples []sample) (_, again int, err error) {
	records, err := t.b.readAll(ctx, mirrorTopic, true)
	if err != nil {
		return 0, 0, err
	}
	times := map[int]int{}
	for _, rs := range records {
		for _, r := range rs {
			i, err := strconv.Atoi(string(r.Value))
			if err != nil {
				return 0, 0, err
			}
			times[i]++
		}
	}
	for i := range n {
		if times[i] == 0 {
			return 0, 0, fmt.Errorf("record %d was not mirrored", i)
		}
		if t.once && times[i] > 1 {
			return 0, 0, fmt.Errorf("record %d was mirrored %d times", i, times[i])
		}
		again += times[i] - 1
	}
	if len(times) != n {
		return 0, 0, fmt.Errorf("%d different records were mirrored, %d written", len(times), n)
	}
	for _, s := range samples {
		for p, there := range s.there {
			if err := ahead(records[p], there, s.here[p]); err != nil {
				return 0, 0, fmt.Errorf("partition %d: %w", p, err)
			}
		}
	}
	return n, again, nil
}

// ahead fails if records before the translated offset were not yet processed on the first broker: what is at offset o there
// has the number o times partitions and something.
func ahead(records []*kgo.Record, there, here int64) error {
	for _, r := range records {
		if i, _ := strconv.ParseInt(string(r.Value), 10, 64); r.Offset < there && i/mirrorPartitions >= here {
			return fmt.Errorf("the group was at %d on the first broker; %d on the second is behind the record that was at %d there",
				here, there, i/mirrorPartitions)
		}
	}
	return nil
}

// reader is a consumer of the group that commits what it read.
type reader struct {
	mu     sync.Mutex
	values map[int]int // how often each record was read
}

func newReader() *reader { return &reader{values: map[int]int{}} }

// has fails until all records of the range were read.
func (r *reader) has(from, to int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := from; n < to; n++ {
		if r.values[n] == 0 {
			return fmt.Errorf("the group has not read record %d of %d to before %d", n, from, to)
		}
	}
	return nil
}

// run reads until ctx ends, and leaves.
func (r *reader) run(ctx context.Context, b *broker) error {
	cl, err := b.client(kgo.ConsumerGroup(mirrorGroup), kgo.ConsumeTopics(mirrorTopic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		records := cl.PollFetches(ctx).Records()
		r.mu.Lock()
		for _, rec := range records {
			n, err := strconv.Atoi(string(rec.Value))
			if err != nil {
				r.mu.Unlock()
				return err
			}
			r.values[n]++
		}
		r.mu.Unlock()
		last := map[int32]*kgo.Record{}
		for _, rec := range records {
			last[rec.Partition] = rec
		}
		// What is not committed because the broker is away is committed with what follows.
		_ = cl.CommitRecords(context.WithoutCancel(ctx), slices.Collect(maps.Values(last))...)
	}
	return nil
}
