package app

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/internal/base"
	"godwit/internal/clock"
	"godwit/internal/coord/share"
	"godwit/internal/coord/txn"
	"godwit/internal/engine"
	"godwit/internal/queue"
	"godwit/internal/shard"
)

func TestSumMetrics(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	key := func(name string) share.Key { return share.Key{Namespace: base.DefaultNamespace, Group: name} }
	sums := &engine.Sums{Txns: txn.Standing{Open: 2, Ending: 1, Oldest: at.UnixMilli() - 1500}, Groups: map[share.Key]*shard.QueueSums{
		key("a"): {Queues: 1, Available: 3, InFlight: 4, Letters: 5, Totals: queue.Totals{Deliveries: 6, Acked: 7}},
		key("b"): {Queues: 1, Available: 1},
		key("c"): {Queues: 1, Available: 2, Totals: queue.Totals{Deliveries: 8}},
	}}
	sums.Groups[key("c")].Totals.Archived[queue.CauseRejected] = 9
	c := newSumCollector(nil, clock.NewManual(at))
	c.sums = func(context.Context) (*engine.Sums, error) { return sums, nil }
	c.limit = 1
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	must(t, err)
	var text strings.Builder
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		must(t, err)
	}
	mustContain(t, text.String(),
		"godwit_transactions{state=\"open\"} 2\n", "godwit_transactions{state=\"ending\"} 1\n", "godwit_transaction_oldest_seconds 1.5\n",
		"godwit_share_group_records{group=\"a\",state=\"available\"} 3\n", "godwit_share_group_records{group=\"a\",state=\"acquired\"} 4\n",
		"godwit_share_group_dead_letters_pending{group=\"a\"} 5\n", "godwit_share_group_deliveries_total{group=\"a\"} 6\n",
		"godwit_share_group_completed_total{group=\"a\",reason=\"accepted\"} 7\n",
		"godwit_share_group_records{group=\"\",state=\"available\"} 3\n", "godwit_share_group_deliveries_total{group=\"\"} 8\n",
		"godwit_share_group_completed_total{group=\"\",reason=\"rejected\"} 9\n")

	c.sums = func(context.Context) (*engine.Sums, error) { return nil, base.Errorf(base.CodeNotReady, "no shard") }
	if _, err := reg.Gather(); err == nil || !strings.Contains(err.Error(), "no shard") {
		t.Errorf("gathered without shards: %v", err)
	}
}

// TestOpenTransactionIsSeen holds a transaction open, and ends it.
func TestOpenTransactionIsSeen(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := serve(t, testSettings(t.TempDir()))
	defer r.stop()
	r.godwit(t, "", 0, "topic", "create", "orders")
	cl := client(t, r, kgo.TransactionalID("payments"), kgo.DefaultProduceTopic("orders"))
	must(t, cl.BeginTransaction())
	must(t, cl.ProduceSync(ctx, kgo.StringRecord("one")).FirstErr())
	mustContain(t, r.get(t, "/metrics"), `godwit_transactions{state="open"} 1`, `godwit_transactions{state="ending"} 0`)
	must(t, cl.EndTransaction(ctx, kgo.TryCommit))
	mustContain(t, r.get(t, "/metrics"), `godwit_transactions{state="open"} 0`)
}
