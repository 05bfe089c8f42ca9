package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	wordsIn         = "words-in"
	wordsOut        = "words-out"
	wordsGroup      = "word-count" // the application's ID, which is its group's
	wordsPartitions = 4
	wordsRate       = 200 // lines a second, each of three words
	wordsKills      = 6   // half of them of the application, half of the broker
	wordsInstances  = 2
	wordsPatience   = 2 * time.Minute // until the application has worked off what there was at a kill
)

// counter is the word-count application of Kafka Streams, in several processes.
type counter struct {
	w         *world
	broker    *broker
	once      bool // exactly_once_v2
	settings  []string
	instances []*service
}

// words runs the word-count application of Kafka Streams with at-least-once processing while its processes and the broker are
// killed. No word may be counted less often than it was written.
func words(ctx context.Context, w *world) (string, error) {
	return runWords(ctx, &counter{w: w, settings: []string{"processing.guarantee=at_least_once", "group.protocol=classic"}})
}

// wordsOnce does the same with exactly_once_v2. Read under read_committed, the count of each word has to go up in steps of
// one, to what an offline count gives.
func wordsOnce(ctx context.Context, w *world) (string, error) {
	return runWords(ctx, &counter{w: w, once: true, settings: []string{"processing.guarantee=exactly_once_v2", "group.protocol=classic"}})
}

// wordsStreams is wordsOnce with the rebalance protocol of streams groups (KIP-1071).
func wordsStreams(ctx context.Context, w *world) (string, error) {
	return runWords(ctx, &counter{w: w, once: true, settings: []string{"processing.guarantee=exactly_once_v2", "group.protocol=streams"}})
}

func runWords(ctx context.Context, c *counter) (string, error) {
	b, err := c.w.broker("godwit")
	if err != nil {
		return "", err
	}
	c.broker = b
	for _, topic := range []string{wordsIn, wordsOut} {
		if err := b.createTopic(ctx, topic, wordsPartitions); err != nil {
			return "", err
		}
	}
	for range wordsInstances {
		if err := c.addInstance(); err != nil {
			return "", err
		}
	}
	in := newSent(wordsIn, wordsPartitions, wordsRate)
	in.value = wordsLine
	producing, stop := context.WithCancel(ctx)
	defer stop()
	produced := make(chan error, 1)
	go func() { produced <- in.produce(producing, b) }()
	counts, err := c.disturb(ctx)
	stop()
	if err = errors.Join(err, <-produced); err != nil {
		return "", err
	}
	if err := c.caughtUp(ctx); err != nil {
		return "", err
	}
	if slices.Contains(c.settings, "group.protocol=streams") {
		err = c.describe(ctx)
	}
	for _, s := range c.instances {
		s.p.closeInput()
		if werr := s.p.wait(40 * time.Second); werr != nil {
			err = errors.Join(err, werr)
			s.p.signal(syscall.SIGKILL)
		}
	}
	if err != nil {
		return "", err
	}
	text, err := c.check(ctx, in)
	return fmt.Sprintf("%s; kills %s", text, listed(counts)), err
}

// wordsLine is the n-th line: some words are frequent, some are not.
func wordsLine(n int) string { return fmt.Sprintf("a%d b%d c%d", n%7, n*n%61, n%499) }

func (c *counter) addInstance() error {
	name := fmt.Sprintf("instance-%d", len(c.instances)+1)
	args := []string{"WordCount", c.broker.addr, wordsGroup, wordsIn, wordsOut, filepath.Join(c.w.dir, name),
		"num.stream.threads=1", "statestore.cache.max.bytes=0"}
	if slices.Contains(c.settings, "group.protocol=classic") {
		args = append(args, "main.consumer.session.timeout.ms=6000", "main.consumer.heartbeat.interval.ms=1000")
	}
	s, err := c.w.java(name, "java-apps", nil, slices.Concat(args, c.settings)...)
	c.instances = append(c.instances, s)
	return err
}

// describe asks kafka-streams-groups for the application's group, whose members are all there.
func (c *counter) describe(ctx context.Context) error {
	for _, q := range []struct{ args, want string }{
		{"--list", `(?m)^` + wordsGroup + `$`},
		{"--describe --state --group " + wordsGroup, fmt.Sprintf(`(?m)^%s\s+\S+\s+\(\d+\)\s+\S+\s+Stable\s+%d`, wordsGroup, wordsInstances)},
		{"--describe --members --group " + wordsGroup, `(?m)^` + wordsGroup + `\s+\S+\s+\S+\s+\S+.*ACTIVE: .*0:\[`},
		{"--describe --offsets --group " + wordsGroup, `(?m)^` + wordsGroup + `\s+` + wordsIn + `\s+0\s+\d+`},
	} {
		command, err := c.w.places.Java("java")
		if err != nil {
			return err
		}
		command = append(command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "org.apache.kafka.tools.streams.StreamsGroupCommand",
			"--bootstrap-server", c.broker.addr)
		command = append(command, strings.Fields(q.args)...)
		want := regexp.MustCompile(q.want)
		// One that was killed may still be counted as a member.
		err = until(ctx, wordsPatience, func(ctx context.Context) error {
			out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
			if err == nil && !want.Match(out) {
				err = fmt.Errorf("it does not match %s", want)
			}
			if err != nil {
				return fmt.Errorf("kafka-streams-groups %s: %w: %s", q.args, err, out)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// disturb kills instances and broker in an order that is drawn, each once the application has caught up after the one before.
func (c *counter) disturb(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	for _, i := range c.w.rand.Perm(c.w.killCount(wordsKills)) {
		if err := c.caughtUp(ctx); err != nil {
			return counts, fmt.Errorf("%w, after the kills %v", err, counts)
		}
		time.Sleep(c.w.between(0, 2*time.Second))
		down := c.w.between(0, 2*time.Second)
		err, who := error(nil), "broker"
		if i%2 == 0 {
			err = c.broker.restart(down)
		} else {
			s := c.instances[c.w.rand.IntN(len(c.instances))]
			err, who = s.restart(down), s.name
		}
		if err != nil {
			return counts, err
		}
		counts[who]++
	}
	return counts, nil
}

// caughtUp waits until the application has committed all that the input has now, and has worked off all that it sent to
// itself to bring the same words together.
func (c *counter) caughtUp(ctx context.Context) error {
	cl, err := c.broker.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	const again = wordsGroup + "-words-repartition"
	for _, topic := range []string{wordsIn, again} {
		var want map[int32]int64
		err := until(ctx, wordsPatience, func(ctx context.Context) (err error) {
			if want == nil { // the topic is there only once the application has started
				if want, err = ends(ctx, c.broker, topic); err != nil {
					return err
				}
			}
			for _, s := range c.instances {
				if err := s.alive(); err != nil {
					return err
				}
			}
			return c.behind(ctx, cl, topic, want)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// behind fails if the application has not come as far in a topic.
func (c *counter) behind(ctx context.Context, cl *kgo.Client, topic string, want map[int32]int64) error {
	got, err := offsets(ctx, cl, wordsGroup, topic)
	if err != nil {
		return err
	}
	for p, o := range want {
		if got[p] < o {
			return fmt.Errorf("the application is at %v of %v in %s", got, want, topic)
		}
	}
	return nil
}

// check holds the counts against those of the lines.
func (c *counter) check(ctx context.Context, in *sent) (string, error) {
	lines, err := in.all()
	if err != nil {
		return "", err
	}
	want, total := map[string]int64{}, int64(0)
	for _, values := range lines {
		for _, line := range values {
			for _, word := range strings.Fields(line) {
				want[word]++
				total++
			}
		}
	}
	out, err := c.broker.readAll(ctx, wordsOut, true)
	if err != nil {
		return "", err
	}
	got, over := map[string]int64{}, int64(0)
	for _, rs := range out {
		for _, r := range rs {
			word := string(r.Key)
			if len(r.Value) != 8 {
				return "", fmt.Errorf("the count of %s has %d bytes", word, len(r.Value))
			}
			n := int64(binary.BigEndian.Uint64(r.Value))
			if c.once && n != got[word]+1 {
				return "", fmt.Errorf("the count of %s goes from %d to %d", word, got[word], n)
			}
			got[word] = n
		}
	}
	for word, n := range want {
		if got[word] < n || c.once && got[word] != n {
			return "", fmt.Errorf("%s was counted %d times, it was written %d times", word, got[word], n)
		}
		over += got[word] - n
	}
	if len(got) != len(want) {
		return "", fmt.Errorf("%d words were counted, %d written", len(got), len(want))
	}
	return fmt.Sprintf("%d words, %d different, counted %d times too often", total, len(want), over), nil
}
