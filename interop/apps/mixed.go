package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The one topic and the one group of the clients of six libraries.
const (
	mixedTopic      = "mixed"
	mixedGroup      = "mixed-group"
	mixedPartitions = 12
	mixedRate       = 400 // records a second
	mixedTime       = 60 * time.Second
	mixedMost       = 9 // members at a time
	mixedCalm       = 2500 * time.Millisecond
)

var mixedKinds = []string{"aiokafka", "confluent", "franz-go", "java", "kafkajs", "sarama"}

// crowd is the group of all of them.
type crowd struct {
	*crew
	past *history
	sent *sent
}

// mixed lets members of six client libraries work off a topic as one classic group with the range assignor, while they
// come, leave, are paused and killed, and the broker is killed twice.
func mixed(ctx context.Context, w *world) (string, error) {
	b, err := w.broker("godwit")
	if err != nil {
		return "", err
	}
	if err := b.createTopic(ctx, mixedTopic, mixedPartitions); err != nil {
		return "", err
	}
	c := &crowd{past: newHistory(), sent: newSent(mixedTopic, mixedPartitions, mixedRate)}
	c.crew = &crew{w: w, broker: b, kinds: mixedKinds, line: c.past.line, told: c.told, command: c.member, least: 3, most: mixedMost, calm: mixedCalm}
	if err := c.open(); err != nil {
		return "", err
	}
	defer c.close()
	for _, kind := range mixedKinds {
		if err := c.join(kind); err != nil {
			return "", err
		}
	}
	length := mixedTime
	if w.long {
		length *= longer
	}
	producing, stop := context.WithTimeout(ctx, length)
	defer stop()
	produced := make(chan error, 1)
	go func() { produced <- c.sent.produce(producing, b) }()
	go c.watch(producing)
	if err := c.disturb(producing, length, w.killCount(2), nil); err != nil {
		return "", err
	}
	if err := <-produced; err != nil {
		return "", fmt.Errorf("producer: %w", err)
	}
	return c.finish(ctx)
}

// member is the command line of a member.
func (c *crowd) member(kind string) ([]string, error) {
	command, err := c.w.places.Client(kind)
	return append(command, "member", c.broker.addr, mixedGroup, mixedTopic), err
}

func (c *crowd) told(member string, what disturbance) {
	if what == paused {
		c.past.pause(member)
	}
}

// finish waits until everything is committed, lets all leave, and checks.
func (c *crowd) finish(ctx context.Context) (string, error) {
	written, err := c.sent.all()
	if err != nil {
		return "", err
	}
	ends := map[int32]int64{}
	for p, values := range written {
		ends[p] = int64(len(values))
	}
	c.resumeAll()
	start := time.Now()
	err = c.settle(ctx, ends, 40*time.Second)
	rest := time.Since(start)
	err = errors.Join(err, c.leaveAll())
	s, herr := c.past.check(written)
	if err = errors.Join(err, herr); err != nil {
		return "", err
	}
	for _, kind := range mixedKinds {
		if s.kinds[kind] == 0 {
			return "", fmt.Errorf("no commit of %s was ever acknowledged", kind)
		}
	}
	return fmt.Sprintf("%d records, each processed, %d again; %d tenures of %d members (%s), %d commits refused; the rest took %.1f s",
		s.records, s.again, s.tenures, c.made, listed(c.counts), s.refused, rest.Seconds()), nil
}

// watch asks for the group's offsets again and again until ctx ends.
func (c *crowd) watch(ctx context.Context) {
	cl, err := c.broker.client()
	if err != nil {
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		before := c.past.commits()
		if got, err := offsets(ctx, cl, mixedGroup, mixedTopic); err == nil {
			c.note("watch", fmt.Sprint(got))
			c.past.observed(before, got)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// offsets are what a group has committed, by partition of a topic.
func offsets(ctx context.Context, cl *kgo.Client, group, topic string) (map[int32]int64, error) {
	all, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err == nil {
		err = all.Error()
	}
	got := map[int32]int64{}
	for _, o := range all.Sorted() {
		if o.Topic == topic {
			got[o.Partition] = o.At
		}
	}
	return got, err
}

// settle waits until the committed offsets of the group are the ends of the partitions.
func (c *crowd) settle(ctx context.Context, ends map[int32]int64, limit time.Duration) error {
	cl, err := c.broker.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		got, err := offsets(ctx, cl, mixedGroup, mixedTopic)
		if err == nil && maps.Equal(got, ends) {
			return nil
		}
		if aerr := c.alive(); aerr != nil {
			return aerr
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v the committed offsets are %v, the partitions end at %v (last error: %w)", limit, got, ends, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
