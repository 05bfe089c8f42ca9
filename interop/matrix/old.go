package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// oldProducers checks what happens to producers of Kafka before 0.11, whose record format Kafka 4 no longer takes: they are
// turned away, store nothing, and harm nobody else. (Clients of 0.11 and 2.1 are part of the matrix.)
func (s *session) oldProducers(ctx context.Context) {
	topic := s.topic("old")
	err := s.createTopics(ctx, topic)
	// librdkafka that is not to ask for versions sends what the release it is told to expect understands: Produce v0 and v1.
	for _, release := range []string{"0.8.2", "0.9.0"} {
		if err == nil {
			err = s.refused(ctx, topic, release)
		}
		s.report.add(check{group: "old", name: "produce of librdkafka for Kafka " + release + " is refused", err: err})
	}
	s.report.add(check{group: "old", name: "librdkafka with a fallback of 0.10 asks for versions", err: s.fallback(ctx, topic)})
}

// produceAs lets kcat produce one record as librdkafka does for a broker of the given release that cannot tell its versions.
func (s *session) produceAs(ctx context.Context, topic, release string) (output, error) {
	return run(ctx, []string{
		"kcat", "-P", "-b", s.broker, "-t", topic, "-p", "0", "-X", "broker.version.fallback=" + release,
		"-X", "api.version.request=false", "-X", "message.timeout.ms=3000",
	}, []byte("from kcat for "+release+"\n"))
}

func (s *session) refused(ctx context.Context, topic, release string) error {
	before, err := s.end(ctx, topic)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := s.produceAs(ctx, topic, release); err == nil {
		return errors.New("kcat reports success")
	} else if ctx.Err() != nil {
		return fmt.Errorf("kcat hangs: %w", ctx.Err())
	}
	after, err := s.end(ctx, topic)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("the end of the partition went from %d to %d", before, after)
	}
	r := &kgo.Record{Topic: topic, Partition: 0, Value: []byte("after " + release)}
	if err := s.kafka.ProduceSync(ctx, r).FirstErr(); err != nil {
		return fmt.Errorf("another client afterwards: %w", err)
	}
	return nil
}

// fallback checks that a librdkafka of the years after 0.10 goes by what ApiVersions says.
func (s *session) fallback(ctx context.Context, topic string) error {
	before, err := s.end(ctx, topic)
	if err != nil {
		return err
	}
	out, err := s.produceAs(ctx, topic, "0.10.2")
	if err != nil {
		return err
	}
	if text := string(out.stderr); strings.Contains(text, "ERROR") {
		return fmt.Errorf("kcat says %s", text)
	}
	after, err := s.end(ctx, topic)
	if err == nil && after != before+1 {
		err = fmt.Errorf("the end of the partition went from %d to %d, want one record", before, after)
	}
	return err
}

// end is the end offset of partition 0.
func (s *session) end(ctx context.Context, topic string) (int64, error) {
	ends, err := s.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	o, ok := ends.Lookup(topic, 0)
	if !ok {
		return 0, fmt.Errorf("no end offset for %s partition 0", topic)
	}
	return o.Offset, o.Err
}
