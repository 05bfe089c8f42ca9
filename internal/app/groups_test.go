package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/engine"
)

// lag is how a group is behind, as the command line tells it.
type lag struct {
	Records, Bytes int64
	Seconds        *float64
}

// described is what `group describe --json` shows.
type described struct {
	Group, Type, State string
	Lag                *lag
	OffsetsBehind      *int64
	Members            []struct {
		ClientID string
		Assigned []struct {
			Topic     string
			Partition int32
		}
	}
	Partitions []struct {
		Topic         string
		Partition     int32
		Member        string
		Committed     *int64
		Start, End    int64
		Lag           *lag
		OffsetsBehind *int64
	}
}

func (r *running) describe(t *testing.T, name string, more ...string) (d described) {
	t.Helper()
	text := r.godwit(t, "", 0, append([]string{"group", "describe", name, "--json"}, more...)...)
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return d
}

func (r *running) get(t *testing.T, path string) string {
	t.Helper()
	res, err := http.Get("http://" + r.addrs["http"] + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("GET %s: %d, %v", path, res.StatusCode, err)
	}
	return string(b)
}

func client(t *testing.T, r *running, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.addrs["kafka"])}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// numbers are lines to produce.
func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestGroups lets two members read, and then works on their group.
func TestGroups(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := serve(t, testSettings(t.TempDir()))
	defer r.stop()
	mustContain(t, r.godwit(t, "", 0, "group", "list"), "There are no groups", "--group")
	r.godwit(t, "", 0, "topic", "create", "orders", "--partitions", "2")
	for p := range 2 {
		r.godwit(t, numbers(1, 100), 0, "produce", "orders", "--partition", fmt.Sprint(p))
	}
	var members [2]*kgo.Client
	for i := range members {
		assigned := make(chan struct{}, 16)
		members[i] = client(t, r, kgo.ClientID(fmt.Sprint("worker-", i)), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()),
			kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { assigned <- struct{}{} }))
		go func() { members[i].PollFetches(ctx) }()
		<-assigned
	}
	// The first member keeps one of its two partitions once the second has joined.
	var d described
	for len(d.Members) != 2 || len(d.Members[0].Assigned) != 1 || len(d.Members[1].Assigned) != 1 {
		must(t, ctx.Err())
		d = r.describe(t, "billing")
	}
	if d.State != "Stable" || d.Type != "classic" || len(d.Partitions) != 2 || d.Partitions[0].Member == "" || d.Partitions[0].Member == d.Partitions[1].Member ||
		d.Partitions[0].Committed != nil || d.Partitions[0].Lag != nil || d.Partitions[0].End != 100 {
		t.Fatalf("described %+v", d)
	}
	mustContain(t, r.godwit(t, "", 0, "group", "describe", "billing"), "worker-0", "worker-1", "assignor range", "orders:0", "orders:1")
	mustContain(t, r.godwit(t, "", 1, "group", "delete", "billing", "none"), "2 member(s), worker-0 at ", "worker-1", "NON_EMPTY_GROUP", "none: ", "group list")
	mustContain(t, r.godwit(t, "", 1, "group", "reset-offsets", "billing", "--topic", "orders", "--to", "earliest", "--execute"), "2 member(s)", "stop them first")
	for _, m := range members {
		m.Close()
	}

	r.godwit(t, "", 0, "group", "reset-offsets", "billing", "--topic", "orders:0", "--to", "40")
	if d = r.describe(t, "billing"); len(d.Partitions) != 0 {
		t.Fatalf("a plan has set %+v", d.Partitions)
	}
	mustContain(t, r.godwit(t, "", 0, "group", "reset-offsets", "billing", "--topic", "orders:0", "--to", "40", "--execute"), "set 1 position(s)")
	mustContain(t, r.godwit(t, "", 0, "group", "reset-offsets", "billing", "--topic", "orders:1", "--to", "latest", "--execute"), "set 1 position(s)")
	d = r.describe(t, "billing")
	if *d.Partitions[0].Committed != 40 || d.Partitions[0].Lag.Records != 60 || d.Partitions[1].Lag.Records != 0 || d.Lag.Records != 60 || d.Lag.Bytes <= 60 || d.OffsetsBehind != nil || d.Members == nil {
		t.Fatalf("described %+v", d)
	}
	mustContain(t, r.godwit(t, "", 0, "group", "list"), "billing  classic  Empty  0        60")
	mustContain(t, r.get(t, "/metrics"), `godwit_group_lag_records{group="billing",topic="orders"} 60`, `godwit_group_lag_missing{reason="limit"} 0`)

	mustContain(t, r.godwit(t, "", 0, "group", "delete-offsets", "billing", "--topic", "orders:1"), "deleted the position of billing in orders/1")
	mustContain(t, r.godwit(t, "", 1, "group", "delete-offsets", "billing", "--topic", "orders:1"), "no positions there")
	mustContain(t, r.godwit(t, "", 0, "group", "delete", "billing"), "deleted billing")
	mustContain(t, r.godwit(t, "", 1, "group", "describe", "billing"), "GROUP_ID_NOT_FOUND", "godwit group list")
}

// TestLagIsExact has compaction remove what a group has not read, and compares with the difference of offsets.
func TestLagIsExact(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := testSettings(t.TempDir())
	o.RetentionCheckInterval = 50 * time.Millisecond
	r := serve(t, o)
	defer r.stop()
	r.godwit(t, "", 0, "topic", "create", "t", "--partitions", "1", "--config", "cleanup.policy=compact", "--config", "max.compaction.lag.ms=1")
	r.godwit(t, "a:1\nb:1\na:2\nb:2\na:3\nc:1\n", 0, "produce", "t", "--key-separator", ":")
	r.godwit(t, "", 0, "group", "reset-offsets", "g", "--topic", "t", "--to", "1", "--execute")
	// a:3, b:2 and c:1 stay.
	var d described
	for d.Lag == nil || d.Lag.Records != 3 {
		must(t, ctx.Err())
		d = r.describe(t, "g")
	}
	if d.Partitions[0].End != 6 || d.Lag.Seconds == nil || d.OffsetsBehind != nil {
		t.Errorf("described %+v", d)
	}
	if d = r.describe(t, "g", "--http", "off"); d.Lag != nil || *d.OffsetsBehind != 5 || *d.Partitions[0].OffsetsBehind != 5 {
		t.Errorf("by offsets: %+v", d)
	}
	if d = r.describe(t, "g", "--http", r.addrs["http"], "--read-committed"); d.Lag.Records != 3 {
		t.Errorf("by an address: %+v", d)
	}
	mustContain(t, r.godwit(t, "", 0, "group", "describe", "g", "--http", "off"), "OFFSETS", "--http")
	mustContain(t, r.godwit(t, "", 1, "group", "describe", "g", "--http", "127.0.0.1:1"), "does not answer")
	mustContain(t, r.godwit(t, "", 0, "info", "--json"), `"durability":"sync"`)
}

// TestLagMetricsAreBounded leaves out pairs beyond the limit, and those that were not counted, and says so.
func TestLagMetricsAreBounded(t *testing.T) {
	at := func(topic string, p int32, committed, records, age int64) broker.PartitionLag {
		return broker.PartitionLag{TopicPartition: broker.TopicPartition{Topic: topic, Partition: p}, Committed: committed, Lag: engine.Lag{Records: records, Bytes: 10 * records, Age: age}}
	}
	uncounted := at("b", 0, 1, 0, 0)
	uncounted.Err = base.Errorf(base.CodeTimeout, "not in time")
	groups := []broker.GroupLag{
		{Group: "g", Partitions: []broker.PartitionLag{at("a", 0, 1, 2, 500), at("a", 1, 1, 3, 1500), uncounted, at("c", 0, -1, 0, 0), at("d", 0, 1, 1, -1)}},
		{Group: "h", Partitions: []broker.PartitionLag{at("a", 0, 1, 0, 0)}},
	}
	c := newLagCollector(nil)
	c.lags = func(context.Context) ([]broker.GroupLag, error) { return groups, nil }
	c.limit = 2
	want := `
# HELP godwit_group_lag_bytes Bytes of the batches with records that a group has not read.
# TYPE godwit_group_lag_bytes gauge
godwit_group_lag_bytes{group="g",topic="a"} 50
godwit_group_lag_bytes{group="g",topic="d"} 10
# HELP godwit_group_lag_missing Pairs of group and topic without a lag here: uncounted, when it was not known in time; limit, when there are too many.
# TYPE godwit_group_lag_missing gauge
godwit_group_lag_missing{reason="limit"} 1
godwit_group_lag_missing{reason="uncounted"} 1
# HELP godwit_group_lag_records Records of a topic that exist and that a group has not read.
# TYPE godwit_group_lag_records gauge
godwit_group_lag_records{group="g",topic="a"} 5
godwit_group_lag_records{group="g",topic="d"} 1
# HELP godwit_group_lag_seconds Age of the oldest record that a group has not read, by its timestamp.
# TYPE godwit_group_lag_seconds gauge
godwit_group_lag_seconds{group="g",topic="a"} 1.5
`
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	must(t, err)
	var got strings.Builder
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&got, f)
		must(t, err)
	}
	if got.String() != want[1:] {
		t.Errorf("collected\n%s, want\n%s", got.String(), want)
	}
	c.lags = func(context.Context) ([]broker.GroupLag, error) {
		return nil, base.Errorf(base.CodeNotReady, "no shard")
	}
	if _, err := reg.Gather(); err == nil || !strings.Contains(err.Error(), "no shard") {
		t.Errorf("gathered without groups: %v", err)
	}
}
