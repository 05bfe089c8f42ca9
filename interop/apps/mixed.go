package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
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
)

var mixedKinds = []string{"aiokafka", "confluent", "franz-go", "java", "kafkajs", "sarama"}

// crowd is the members of the group.
type crowd struct {
	w      *world
	broker *broker
	past   *history
	log    *bufio.Writer // of all lines, under logMu
	logMu  sync.Mutex
	sent   *sent

	members []*process
	kinds   map[string]string // by member
	made    int
	counts  map[string]int // of events
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
	file, err := os.Create(filepath.Join(w.dir, "history.txt"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	c := &crowd{w: w, broker: b, past: newHistory(), log: bufio.NewWriter(file), sent: newSent(mixedTopic, mixedPartitions, mixedRate),
		kinds: map[string]string{}, counts: map[string]int{}}
	defer func() {
		c.logMu.Lock()
		defer c.logMu.Unlock()
		_ = c.log.Flush()
	}()
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
	if err := c.disturb(producing, length); err != nil {
		return "", err
	}
	if err := <-produced; err != nil {
		return "", fmt.Errorf("producer: %w", err)
	}
	return c.finish(ctx)
}

// join starts a member.
func (c *crowd) join(kind string) error {
	command, err := c.w.places.Client(kind)
	if err != nil {
		return err
	}
	c.made++
	name := fmt.Sprintf("%02d-%s", c.made, kind)
	c.note(name, "joins")
	p, err := c.w.start(name, append(command, "member", c.broker.addr, mixedGroup, mixedTopic), func(line string) {
		c.note(name, line)
		c.past.line(name, kind, line)
	})
	if err != nil {
		return err
	}
	c.members = append(c.members, p)
	c.kinds[name] = kind
	return nil
}

func (c *crowd) note(member, text string) {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	fmt.Fprintf(c.log, "%s %s %s\n", time.Now().Format("05.000"), member, text)
}

// disturb draws one event after the other until ctx ends. A third and two thirds through, the broker is killed.
func (c *crowd) disturb(ctx context.Context, length time.Duration) error {
	start, killed := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.w.between(500*time.Millisecond, 2500*time.Millisecond)):
		}
		if err := c.alive(); err != nil {
			return err
		}
		if time.Since(start) > length*time.Duration(killed+1)/3 {
			killed++
			c.count("broker killed", "godwit")
			if err := c.broker.restart(c.w.between(0, time.Second)); err != nil {
				return err
			}
			continue
		}
		if err := c.event(ctx); err != nil {
			return err
		}
	}
}

// event lets one thing happen to one member. At least three stay that are not paused.
func (c *crowd) event(ctx context.Context) error {
	var free []*process
	for _, p := range c.members {
		if !p.isStopped() {
			free = append(free, p)
		}
	}
	what := c.w.rand.IntN(10)
	if len(free) <= 3 || (what < 4 && len(c.members) < mixedMost) {
		kind := c.wanted()
		c.count("joined", kind)
		return c.join(kind)
	}
	p := free[c.w.rand.IntN(len(free))]
	switch {
	case what < 6:
		c.count("left", p.name)
		return c.leave(p)
	case what < 8:
		p = c.members[c.w.rand.IntN(len(c.members))] // a paused one too
		c.count("killed", p.name)
		c.remove(p)
		p.kill()
	default:
		c.count("paused", p.name)
		c.past.pause(p.name)
		p.signal(syscall.SIGSTOP)
		// Half of the pauses outlast the session time-out of 6 s.
		pause := c.w.between(time.Second, 11*time.Second)
		time.AfterFunc(pause, func() {
			c.note(p.name, "continues")
			p.signal(syscall.SIGCONT)
		})
	}
	return nil
}

// wanted draws a kind, one that has no member if there is such.
func (c *crowd) wanted() string {
	absent := slices.Clone(mixedKinds)
	for _, p := range c.members {
		absent = slices.DeleteFunc(absent, func(kind string) bool { return kind == c.kinds[p.name] })
	}
	if len(absent) == 0 {
		absent = mixedKinds
	}
	return absent[c.w.rand.IntN(len(absent))]
}

func (c *crowd) count(event, who string) {
	c.counts[event]++
	c.note(who, event)
}

func (c *crowd) remove(p *process) {
	c.members = slices.DeleteFunc(c.members, func(q *process) bool { return q == p })
}

// leave tells a member to go; it may take its time, but has to end in order.
func (c *crowd) leave(p *process) error {
	c.remove(p)
	p.closeInput()
	return p.wait(20 * time.Second)
}

// alive fails if a member has ended that should not.
func (c *crowd) alive() error {
	for _, p := range c.members {
		if !p.running() {
			return fmt.Errorf("%s ended by itself: %w: %s", p.name, p.err, tail(p.log, 1000))
		}
	}
	return nil
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
	for _, p := range c.members {
		p.signal(syscall.SIGCONT)
	}
	start := time.Now()
	err = c.settle(ctx, ends, 40*time.Second)
	rest := time.Since(start)
	for _, p := range slices.Clone(c.members) {
		err = errors.Join(err, c.leave(p))
	}
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
