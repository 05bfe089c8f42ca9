//go:build peers

package difftest

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestKafka plays the tape beside Apache Kafka and holds what differs against its table. Kafka is the one in GODWIT_PEER_KAFKA, with the
// settings below, or is started for the test.
func TestKafka(t *testing.T) {
	target, first := os.Getenv("GODWIT_PEER_KAFKA"), 1
	if target == "" {
		target = runKafka(t)
	} else {
		first = int(time.Now().UnixMilli()) // it may have played the tape before
	}
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	s := &side{name: "Kafka", addr: u.Host, lags: true, settled: first}
	s.ready(t)
	explain(t, tape(t, s, first, deepPlays()...), kafkaTable)
}

// kafkaSettings are those in which a Kafka for tests differs: nothing waits for members that may come, and no topic is made unasked.
const kafkaSettings = `
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.streams.initial.rebalance.delay.ms=0
group.consumer.assignment.interval.ms=0
group.share.assignment.interval.ms=0
group.streams.assignment.interval.ms=0
`

// runKafka starts Apache Kafka and answers its URL.
func runKafka(t *testing.T) string {
	t.Helper()
	script, err := filepath.Abs("../../bench/peers/kafka.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	do := func(args ...string) string {
		t.Helper()
		c := exec.Command(script, args...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("kafka.sh %s: %v: %s", strings.Join(args, " "), err, &stderr)
		}
		return strings.TrimSpace(string(out))
	}
	do("install")
	do("prepare", dir, "default", "0")
	f, err := os.OpenFile(filepath.Join(dir, "server.properties"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(kafkaSettings); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(script, "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("stopping Kafka: %v: %s", err, out)
		}
	})
	return do("restart", dir)
}

// ready makes the topics that a Kafka makes when it is first asked for a coordinator, and the one of settle.
func (s *side) ready(t *testing.T) {
	t.Helper()
	c := dial(t, s)
	defer c.close()
	for kind, key := range []string{"group", "transaction", "group:AAAAAAAAAAAAAAAAAAAAAQ:0"} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorType, req.CoordinatorKeys = 6, int8(kind), []string{key}
		resp, err := c.ask(req)
		if err != nil {
			t.Fatal(err)
		}
		if r := resp.(*kmsg.FindCoordinatorResponse).Coordinators[0]; r.ErrorCode != 0 {
			t.Fatalf("Kafka has no coordinator for %q: error %d", key, r.ErrorCode)
		}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis, req.Topics = 7, 10_000, append(req.Topics, newTopic(settleTopic, 1, 1))
	if _, err := c.ask(req); err != nil {
		t.Fatal(err)
	}
}
