package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
)

func TestInfo(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(3, "t"), kfake.ClusterID("the-cluster"), kfake.BrokerConfigs(map[string]string{"godwit.durability": "sync"}))
	do(t, addr, "a\n", "produce t").want(t, 0)
	do(t, addr, "", "info").want(t, 0, "Cluster ", "the-cluster", "1 with 3 partition(s)", "Kafka APIs, Produce to version", addr, "This program")
	var in information
	if err := json.Unmarshal([]byte(do(t, addr, "", "info --json").out), &in); err != nil {
		t.Fatal(err)
	}
	if in.Cluster != "the-cluster" || in.Topics != 1 || in.Partitions != 3 || in.Client != "v1" || in.Health != nil ||
		len(in.Brokers) != 1 || in.Brokers[0].Address != addr || len(in.Brokers[0].APIs) < 30 || in.Brokers[0].Data <= 0 {
		t.Errorf("told %+v", in)
	}
}

func TestInfoOverHTTP(t *testing.T) {
	_, addr := cluster(t)
	reason, losses := "", `[{"group":"g","count":3},{"group":"h","count":1}]`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reason != "" {
			http.Error(w, reason, http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /losses", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, losses) })
	web := httptest.NewServer(mux)
	defer web.Close()
	host := strings.TrimPrefix(web.URL, "http://")

	do(t, addr, "", "info --http "+host).want(t, 0, "Ready", "yes", "2 recorded")
	do(t, addr, "", "info --json --http "+web.URL+"/").want(t, 0, `"ready":true`, `{"group":"g","count":3}`)
	reason = "the disk is full"
	do(t, addr, "", "info --http "+host).want(t, exitFailed, "no: the disk is full", "not ready")
	reason, losses = "", "<html>"
	do(t, addr, "", "info --http "+host).want(t, exitFailed)
	do(t, addr, "", "info --http 127.0.0.1:1").want(t, exitFailed, "--http of godwit serve")
	do(t, addr, "", "info --http a%zz").want(t, exitUsage, "--http")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	do(t, addr, "", "info --http "+other.URL).want(t, exitFailed, "not the HTTP address of a Godwit broker")
}

func TestErrorsSayWhatToDoNext(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("%w at x: refused", errNoBroker):             "godwit serve",
		kerr.UnknownTopicOrPartition:                            "godwit topic list",
		kerr.TopicAlreadyExists:                                 "godwit topic describe",
		kerr.InvalidConfig:                                      "--all",
		kerr.InvalidPartitions:                                  "grow",
		kerr.InvalidReplicationFactor:                           "--replicas",
		kerr.MessageTooLarge:                                    "max.message.bytes",
		context.DeadlineExceeded:                                "--timeout",
		withMessage("t", kerr.InvalidConfig, "no such name"):    "t: no such name (INVALID_CONFIG)\n",
		withMessage("t", kerr.UnknownTopicOrPartition, ""):      "t: UNKNOWN_TOPIC_OR_PARTITION",
		fmt.Errorf("reading: %w", kerr.UnknownTopicOrPartition): "godwit topic create",
	} {
		if got := explain(err); !strings.Contains(got, want) {
			t.Errorf("%v is explained as %q, want %q in it", err, got, want)
		}
	}
	if got := explain(kerr.CorruptMessage); strings.Contains(got, "\n") {
		t.Errorf("explained %q", got)
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 3 << 29: "1.5 GiB", 1<<63 - 1: "8.0 EiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
