package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

func TestTopics(t *testing.T) {
	_, addr := cluster(t)
	do := func(args string) result {
		t.Helper()
		return runIn(t, "", append(strings.Fields(args), "--broker", addr)...)
	}
	do("topic list").want(t, 0, "There are no topics", "godwit topic create")
	if r := do("topic list --json"); r.out != "" {
		t.Errorf("no topics are listed as %q", r.out)
	}
	do("topic create a --partitions 3 --config retention.ms=5 --config cleanup.policy=compact,delete --dry-run").want(t, 0, "a could be created")
	do("topic list").want(t, 0, "no topics")
	do("topic create a --partitions 3 --config retention.ms=5 --config cleanup.policy=compact").want(t, 0, "created a with 3 partition(s)\n")
	do("topic create b c --json").want(t, 0, `"topic":"b"`, `"topic":"c"`, `"id":`, `"dryRun":false`)
	do("topic list").want(t, 0, "TOPIC", "a      3", "b ", "c ")
	if r := do("topic list --json"); strings.Count(r.out, "\n") != 3 || !strings.Contains(r.out, `"partitions":3`) {
		t.Errorf("listed %s", r.out)
	}

	do("topic create d b e").want(t, exitFailed, "created d", "created e", "b: ", "TOPIC_ALREADY_EXISTS", "godwit topic describe")
	do("topic create f --replicas 3").want(t, exitFailed, "INVALID_REPLICATION_FACTOR", "--replicas")

	do("topic describe a").want(t, 0, "Topic a, ID ", "PARTITION", "retention.ms", "dynamic topic config")
	do("topic describe b").want(t, 0, "No configuration was set")
	do("topic describe b --all").want(t, 0, "max.message.bytes")
	do("topic describe none").want(t, exitFailed, "UNKNOWN_TOPIC_OR_PARTITION", "godwit topic list")

	do("topic alter a --config retention.ms=7 --unset cleanup.policy --partitions 4").want(t, 0, "changed a")
	do("topic alter a --partitions 2").want(t, exitFailed, "INVALID_PARTITIONS", "only grow")
	do("topic alter none --config retention.ms=1").want(t, exitFailed, "UNKNOWN_TOPIC_OR_PARTITION")
	var d described
	if err := json.Unmarshal([]byte(do("topic describe a --json").out), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Partitions) != 4 || len(d.Configs) != 1 || d.Configs[0].Name != "retention.ms" || d.Configs[0].Value != "7" || len(d.ID) != 22 {
		t.Errorf("described %+v", d)
	}

	do("topic delete a none b").want(t, exitFailed, "deleted a", "deleted b", "none: ", "UNKNOWN_TOPIC_OR_PARTITION")
	do("topic delete c --json").want(t, 0, `"deleted":true`)
	do("topic list").want(t, 0, "d ", "e ")
}

func TestDescribeShowsOffsets(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(2, "t"))
	runIn(t, "a\nb\nc\n", "produce", "t", "--partition", "1", "--broker", addr).want(t, 0)
	var d described
	if err := json.Unmarshal([]byte(runIn(t, "", "topic", "describe", "t", "--json", "--broker", addr).out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Partitions[0].End != 0 || d.Partitions[1].End != 3 || d.Partitions[1].Bytes <= 0 {
		t.Errorf("described %+v", d.Partitions)
	}
}
