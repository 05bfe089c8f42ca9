package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	sharedBroker     = "godwit"
	sharedTopic      = "shared"
	sharedGroup      = "shared-group"
	sharedLetters    = "dlq.shared"
	sharedPartitions = 3
	sharedRate       = 250 // records a second
	sharedTime       = 40 * time.Second
	sharedLimit      = 3 // deliveries
	sharedLock       = 3 * time.Second
	sharedPatience   = 40 * time.Second
	sharedLate       = 10 * time.Second // a dead letter, after the group has nothing left
)

// sharedSettings are such that what a killed member has soon goes to another one.
var sharedSettings = []string{"group.share.session.timeout.ms=6000", "group.share.heartbeat.interval.ms=1000",
	fmt.Sprintf("group.share.record.lock.duration.ms=%d", sharedLock.Milliseconds())}

// sharing is a share group with its broker.
type sharing struct {
	*crew
	past *deliveries
	sent *sent
}

// shares lets members of two libraries work off a topic as one share group (KIP-932): they accept, release, reject and renew, come,
// leave, are paused and killed, and the broker is killed.
func shares(ctx context.Context, w *world) (string, error) {
	b, err := w.broker(sharedBroker, sharedSettings...)
	if err != nil {
		return "", err
	}
	s := &sharing{past: newDeliveries(sharedLimit, sharedLock), sent: newSent(sharedTopic, sharedPartitions, sharedRate)}
	s.past.loose = w.kafka
	s.crew = &crew{w: w, broker: b, kinds: []string{"franz-go", "java"}, line: s.past.line, told: s.past.disturbed, command: s.member, least: 3, most: 7, calm: crewCalm}
	if err := s.open(); err != nil {
		return "", err
	}
	defer s.close()
	if err := s.prepare(ctx); err != nil {
		return "", err
	}
	for range 2 {
		for _, kind := range s.kinds {
			if err := s.join(kind); err != nil {
				return "", err
			}
		}
	}
	length := sharedTime
	if w.long {
		length *= longer
	}
	producing, stop := context.WithTimeout(ctx, length)
	defer stop()
	produced, watched := make(chan error, 1), make(chan struct{})
	go func() { produced <- s.sent.produce(producing, b) }()
	go func() { defer close(watched); s.watch(producing) }()
	kills := w.killCount(3)
	if w.kafka {
		kills = 0 // it takes half a minute to come back, and does not deliver everything then
	}
	err = s.disturb(producing, length, kills, nil)
	stop()
	err = errors.Join(err, <-produced)
	<-watched
	if err != nil {
		return "", err
	}
	return s.finish(ctx)
}

// prepare makes the topics and configures the group.
func (s *sharing) prepare(ctx context.Context) error {
	cl, err := s.broker.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := s.broker.createTopic(ctx, sharedTopic, sharedPartitions); err != nil {
		return err
	}
	yes := kadm.StringPtr("true")
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, sharedPartitions, 1, map[string]*string{"errors.deadletterqueue.group.enable": yes}, sharedLetters); err != nil {
		return err
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, sharedGroup
	for _, c := range [][2]string{{"share.auto.offset.reset", "earliest"}, {"share.delivery.count.limit", strconv.Itoa(sharedLimit)},
		{"errors.deadletterqueue.topic.name", sharedLetters}, {"errors.deadletterqueue.copy.record.enable", "true"}} {
		x := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		x.Name, x.Value = c[0], &c[1]
		r.Configs = append(r.Configs, x)
	}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("configure %s: %w", r.ResourceName, err)
		}
	}
	return nil
}

// member is the command line of a member.
func (s *sharing) member(kind string) ([]string, error) {
	args := []string{s.broker.addr, sharedGroup, sharedTopic, strconv.Itoa(s.w.rand.IntN(1 << 30))}
	if kind == "java" {
		command, err := s.w.places.Java("java-apps")
		return append(append(command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "Sharer"), args...), err
	}
	command, err := s.w.places.Client(kind)
	return append(append(command, "share"), args...), err
}

// watch asks where the group begins, again and again until ctx ends.
func (s *sharing) watch(ctx context.Context) {
	cl, err := s.broker.client()
	if err != nil {
		s.past.fault("%v", err)
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		_, _ = s.look(ctx, cl) // fails while the broker is away
		time.Sleep(50 * time.Millisecond)
	}
}

// standing is where a group begins in a partition, and how many records it has yet to finish.
type standing struct{ start, lag int64 }

// look asks how the group stands in each partition, and notes where it begins.
func (s *sharing) look(ctx context.Context, cl *kgo.Client) (map[int32]standing, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	g := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	g.GroupID = sharedGroup
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	out := map[int32]standing{}
	for _, g := range resp.Groups {
		err = errors.Join(err, kerr.ErrorForCode(g.ErrorCode))
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.StartOffset >= 0 {
					out[p.Partition] = standing{p.StartOffset, p.Lag}
					s.past.observed(p.Partition, p.StartOffset)
				}
			}
		}
	}
	return out, err
}

// finish waits until nothing is left and the dead letters are written, lets all leave, and checks.
func (s *sharing) finish(ctx context.Context) (string, error) {
	written, err := s.sent.all()
	if err != nil {
		return "", err
	}
	s.resumeAll()
	start := time.Now()
	err = s.settle(ctx, written)
	rest := time.Since(start)
	if err = errors.Join(err, s.leaveAll()); err != nil {
		return "", errors.Join(err, s.past.soFar())
	}
	var a audit
	err = until(ctx, sharedLate, func(ctx context.Context) error {
		letters, err := s.letters(ctx)
		if err == nil {
			a, err = s.past.check(written, letters)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	for _, kind := range s.kinds {
		for _, answer := range answers {
			if s.past.counts[kind+" "+answer] == 0 {
				return "", fmt.Errorf("nothing was ever %s by %s", answer, kind)
			}
		}
	}
	if a.limit == 0 {
		return "", errors.New("nothing was ever delivered too often")
	}
	return fmt.Sprintf("%d records, all accepted or in the dead-letter topic (%d rejected, %d delivered too often); %d delivered again, %d deliveries that no member saw; "+
		"%d members (%s); answers: %s, %d not taken; the rest took %.1f s", a.records, a.rejected, a.limit, a.again, a.unseen,
		s.made, listed(s.counts), listed(s.past.counts), s.past.unsure, rest.Seconds()), nil
}

// settle waits until no record is left and the group begins where the partitions end. Kafka moves the beginning only when a later record
// is answered.
func (s *sharing) settle(ctx context.Context, written map[int32][]string) error {
	cl, err := s.broker.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	return until(ctx, sharedPatience, func(ctx context.Context) error {
		if err := s.alive(); err != nil {
			return err
		}
		got, err := s.look(ctx, cl)
		for p, values := range written {
			if g := got[p]; g.lag != 0 || (g.start != int64(len(values)) && !s.past.loose) {
				err = errors.Join(err, fmt.Errorf("the group begins at %d of %d records in partition %d, it has yet to finish %d", g.start, len(values), p, g.lag))
			}
		}
		return err
	})
}

// letters are the records of the dead-letter topic, by the place of what they are about.
func (s *sharing) letters(ctx context.Context) (map[spot][]letter, error) {
	out := map[spot][]letter{}
	all, err := s.broker.readAll(ctx, sharedLetters, false)
	for _, records := range all {
		for _, r := range records {
			h := map[string]string{}
			for _, header := range r.Headers {
				h[header.Key] = string(header.Value)
			}
			n, nerr := numbers([]string{h["__dlq.errors.partition"], h["__dlq.errors.offset"], h["__dlq.errors.delivery.count"]})
			if nerr != nil || h["__dlq.errors.topic"] != sharedTopic || h["__dlq.errors.group"] != sharedGroup {
				return nil, fmt.Errorf("a dead letter at offset %d with headers %v", r.Offset, h)
			}
			at := spot{int32(n[0]), n[1]}
			out[at] = append(out[at], letter{h["__dlq.errors.message"] == "Offset rejected by client.", int(n[2]), string(r.Value)})
		}
	}
	return out, err
}
