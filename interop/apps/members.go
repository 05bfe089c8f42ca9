package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/interop/canon"
)

const (
	ownedGroup      = "owned-group"
	ownedPartitions = 8
	ownedRate       = 150 // records a second and topic
	ownedTime       = 40 * time.Second
	ownedPatience   = 40 * time.Second
	ownedStay       = 3 * time.Second // with one protocol
)

// ownedTopics are there from the beginning. Halfway the first one gets more partitions, and another topic appears that only the regular
// expression fits.
var ownedTopics = []string{"owned-0", "owned-1"}

const (
	ownedLater = "owned-2"
	ownedRegex = "^owned-[0-9]+"
)

// ownedSettings are such that a member that was killed is soon forgotten.
var ownedSettings = []string{"group.consumer.session.timeout.ms=6000", "group.consumer.heartbeat.interval.ms=1000"}

// owned is a group whose members keep what they have over a rebalance, if they can.
type owned struct {
	*crew
	topics   string // that members subscribe to
	assignor string
	migrates bool // the group changes from one protocol to the other and back
	past     *owners
	sent     []*sent
	produced chan error
	wanted   string // protocol that members replace the other with, if it migrates

	mu      sync.Mutex
	types   []string  // what the group was found to be, without repetitions
	changed time.Time // when it was found to be the last of them
}

// membersUniform lets members of the consumer protocol (KIP-848) work off two topics, while they come, leave, are paused and
// killed, the broker is killed, and a topic gets more partitions.
func membersUniform(ctx context.Context, w *world) (string, error) {
	return (&owned{topics: strings.Join(ownedTopics, ","), assignor: "uniform"}).run(ctx, w)
}

// membersRegex does the same with the range assignor and a regular expression, which a new topic fits, too.
func membersRegex(ctx context.Context, w *world) (string, error) {
	return (&owned{topics: ownedRegex, assignor: "range"}).run(ctx, w)
}

// membersMigrate has members of the classic protocol and members of the consumer protocol replace each other, again and again.
func membersMigrate(ctx context.Context, w *world) (string, error) {
	return (&owned{topics: strings.Join(ownedTopics, ","), assignor: "uniform", migrates: true, wanted: "classic"}).run(ctx, w)
}

func (o *owned) run(ctx context.Context, w *world) (string, error) {
	b, err := w.broker("godwit", ownedSettings...)
	if err != nil {
		return "", err
	}
	o.past = newOwners()
	o.crew = &crew{w: w, broker: b, line: o.past.line, told: o.past.disturbed, command: o.member, least: 3, most: 7, calm: crewCalm}
	for _, kind := range []string{"confluent", "franz-go", "java"} {
		o.kinds = append(o.kinds, kind+"-consumer")
	}
	if err := o.open(); err != nil {
		return "", err
	}
	defer o.close()
	length := ownedTime
	if w.long {
		length *= longer
	}
	producing, stop := context.WithTimeout(ctx, length)
	defer stop()
	o.produced = make(chan error, 4)
	for _, topic := range ownedTopics {
		if err := b.createTopic(ctx, topic, ownedPartitions); err != nil {
			return "", err
		}
		o.produce(producing, newSent(topic, ownedPartitions, ownedRate))
	}
	for _, kind := range o.kinds {
		if err := o.join(kind); err != nil {
			return "", err
		}
	}
	watched := make(chan struct{})
	go func() { defer close(watched); o.watch(producing) }()
	grown := false
	err = o.disturb(producing, length, w.killCount(3), func(since time.Duration) (bool, error) {
		if !grown && since > length/2 {
			grown = true
			return true, o.grow(producing)
		}
		if o.migrates {
			return true, o.migrate()
		}
		return false, nil
	})
	if err != nil {
		stop()
	}
	for range o.sent {
		err = errors.Join(err, <-o.produced)
	}
	<-watched
	if err != nil {
		return "", err
	}
	return o.finish(ctx)
}

// member is the command line of a member; kind ends with its protocol.
func (o *owned) member(kind string) ([]string, error) {
	cut := strings.LastIndexByte(kind, '-')
	args := []string{o.broker.addr, ownedGroup, o.topics, kind[cut+1:], o.assignor}
	switch kind[:cut] {
	case "confluent":
		return append(o.w.places.Python("owner.py"), args...), nil
	case "java":
		command, err := o.w.places.Java("java-apps")
		return append(append(command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "Owner"), args...), err
	}
	command, err := o.w.places.Client(kind[:cut])
	return append(append(command, "own"), args...), err
}

func (o *owned) produce(ctx context.Context, s *sent) {
	o.sent = append(o.sent, s)
	go func() { o.produced <- s.produce(ctx, o.broker) }()
}

// grow adds partitions and a topic, and writes to them.
func (o *owned) grow(ctx context.Context) error {
	cl, err := o.broker.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	o.count("partitions added", ownedTopics[0])
	added, err := kadm.NewClient(cl).CreatePartitions(ctx, 2, ownedTopics[0])
	if err == nil {
		err = added.Error()
	}
	if err != nil {
		return err
	}
	more := newSent(ownedTopics[0], 2, ownedRate/3)
	more.first = ownedPartitions
	o.produce(ctx, more)
	if o.topics != ownedRegex {
		return nil
	}
	o.count("topic added", ownedLater)
	if err := o.broker.createTopic(ctx, ownedLater, ownedPartitions/2); err != nil {
		return err
	}
	o.produce(ctx, newSent(ownedLater, ownedPartitions/2, ownedRate/3))
	return nil
}

// migrate has members of one protocol replace those of the other, and back, as soon as the group has changed and worked for a while.
func (o *owned) migrate() error {
	o.mu.Lock()
	there := len(o.types) > 0 && o.types[len(o.types)-1] == o.wanted && time.Since(o.changed) > ownedStay
	o.mu.Unlock()
	if there {
		o.wanted = map[string]string{"classic": "consumer", "consumer": "classic"}[o.wanted]
	}
	protocol := "-" + o.wanted
	var wanted []string
	for _, kind := range o.kinds {
		wanted = append(wanted, strings.TrimSuffix(kind, "-consumer")+protocol)
	}
	var old []*process
	fresh := 0
	for _, p := range o.members {
		if !strings.HasSuffix(p.name, protocol) {
			old = append(old, p)
		} else if !p.isStopped() {
			fresh++
		}
	}
	switch {
	case fresh < 2:
		kind := o.lacking(wanted)
		o.count("joined", kind)
		return o.join(kind)
	case len(old) == 0:
		return o.event(wanted)
	}
	p := old[o.w.rand.IntN(len(old))]
	if p.isStopped() || o.w.rand.IntN(3) == 0 {
		o.count("killed", p.name)
		o.kill(p)
		return nil
	}
	o.count("left", p.name)
	return o.leave(p)
}

// watch asks for the group's offsets and members again and again until ctx ends.
func (o *owned) watch(ctx context.Context) {
	cl, err := o.broker.client()
	if err != nil {
		o.past.fault("%v", err)
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		before := o.past.commits()
		if got, err := ownedOffsets(ctx, cl); err == nil {
			o.past.observed(before, got)
		}
		if d, err := describe(ctx, cl); err == nil {
			o.seen(d)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// seen holds a description against what no description may show: a partition that two members have.
func (o *owned) seen(d kadm.DescribedConsumerGroup) {
	found := "consumer"
	if d.Err != nil {
		if found = "classic"; !errors.Is(d.Err, kerr.GroupIDNotFound) {
			return
		}
	}
	o.turned(found)
	holder := map[int32]string{}
	for _, m := range d.Members {
		for _, p := range numbered(m.Assignment) {
			if other, ok := holder[p]; ok {
				o.past.fault("the broker says that partition %d is with %s and with %s, epoch %d", p, other, m.MemberID, d.Epoch)
			}
			holder[p] = m.MemberID
		}
	}
}

// turned notes what the group is.
func (o *owned) turned(found string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.types); n == 0 && found == "classic" || n > 0 && o.types[n-1] == found {
		return // it is not there yet, or as it was
	}
	o.types, o.changed = append(o.types, found), time.Now()
	o.note("watch", "the group is "+found)
}

// numbered are the numbers of partitions, in order.
func numbered(s kadm.TopicsSet) (out []int32) {
	for topic, partitions := range s {
		for p := range partitions {
			out = append(out, canon.Number(topic, p))
		}
	}
	slices.Sort(out)
	return out
}

// describe asks for the group, as one of the consumer protocol.
func describe(ctx context.Context, cl *kgo.Client) (kadm.DescribedConsumerGroup, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all, err := kadm.NewClient(cl).DescribeConsumerGroups(ctx, ownedGroup)
	return all[ownedGroup], err
}

// ownedOffsets are what the group has committed, by number of the partition.
func ownedOffsets(ctx context.Context, cl *kgo.Client) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all, err := kadm.NewClient(cl).FetchOffsets(ctx, ownedGroup)
	if err == nil {
		err = all.Error()
	}
	got := map[int32]int64{}
	for _, at := range all.Sorted() {
		got[canon.Number(at.Topic, at.Partition)] = at.At
	}
	return got, err
}

// finish waits until everything is committed and the rebalances have ended, lets all leave, and checks.
func (o *owned) finish(ctx context.Context) (string, error) {
	written, ends := map[int32][]string{}, map[int32]int64{}
	for _, s := range o.sent {
		all, err := s.all()
		if err != nil {
			return "", err
		}
		for p, values := range all {
			n := canon.Number(s.topic, p)
			written[n] = values
			ends[n] = int64(len(values))
		}
	}
	o.resumeAll()
	start := time.Now()
	err := o.settle(ctx, ends)
	rest := time.Since(start)
	err = errors.Join(err, o.leaveAll())
	s, herr := o.past.check(written)
	if err = errors.Join(err, herr); err != nil {
		return "", err
	}
	if err := o.took(s.kinds); err != nil {
		return "", err
	}
	said := fmt.Sprintf("%d records, each processed, %d again; %d tenures of %d members (%s), %d of them lost, %d commits refused; the rest took %.1f s",
		s.records, s.again, s.tenures, o.made, listed(o.counts), o.past.lost, s.refused, rest.Seconds())
	if o.migrates {
		if len(o.types) < 3 { // at least back and forth
			return "", fmt.Errorf("the group was only ever %v", o.types)
		}
		said += "; the group was " + strings.Join(o.types, ", ")
	}
	return said, nil
}

// took wants every library and every protocol to have commits acknowledged.
func (o *owned) took(kinds map[string]int) error {
	wanted := []string{"confluent-", "franz-go-", "java-", "-consumer"}
	if o.migrates {
		wanted = append(wanted, "-classic")
	}
	for _, part := range wanted {
		sum := 0
		for kind, n := range kinds {
			if strings.Contains(kind, part) {
				sum += n
			}
		}
		if sum == 0 {
			return fmt.Errorf("no commit of a member like %s was ever acknowledged: %v", part, kinds)
		}
	}
	return nil
}

// settle waits until the committed offsets of the group are the ends of the partitions, and the group has found rest.
func (o *owned) settle(ctx context.Context, ends map[int32]int64) error {
	cl, err := o.broker.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	return until(ctx, ownedPatience, func(ctx context.Context) error {
		if err := o.alive(); err != nil {
			return err
		}
		got, err := ownedOffsets(ctx, cl)
		if err != nil {
			return err
		}
		if !maps.Equal(got, ends) {
			return fmt.Errorf("the committed offsets are %v, the partitions end at %v", got, ends)
		}
		d, err := describe(ctx, cl)
		if err != nil {
			return err
		}
		return o.atRest(d, slices.Sorted(maps.Keys(ends)))
	})
}

// atRest says what is missing until all partitions have a member, as the assignor wants it.
func (o *owned) atRest(d kadm.DescribedConsumerGroup, all []int32) error {
	if o.migrates && errors.Is(d.Err, kerr.GroupIDNotFound) {
		return nil // it is a classic one now
	}
	if d.Err != nil {
		return d.Err
	}
	if d.State != "Stable" || len(d.Members) != len(o.members) {
		return fmt.Errorf("the group is %s with %d members; there are %d", d.State, len(d.Members), len(o.members))
	}
	var have []int32
	least, most := len(all), 0
	for _, m := range d.Members {
		got := numbered(m.Assignment)
		have = append(have, got...)
		least, most = min(least, len(got)), max(most, len(got))
		if m.MemberEpoch != d.Epoch || !slices.Equal(got, numbered(m.TargetAssignment)) {
			return fmt.Errorf("member %s is in epoch %d of %d, it has %v of %v", m.MemberID, m.MemberEpoch, d.Epoch, got, numbered(m.TargetAssignment))
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, all) {
		return fmt.Errorf("the members have partitions %v of %v", have, all)
	}
	if o.assignor == "uniform" && most-least > 1 {
		return fmt.Errorf("some member has %d partitions, another %d", most, least)
	}
	return nil
}
