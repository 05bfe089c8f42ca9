package app

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit/internal/clock"
	"godwit/internal/coord/share"
	"godwit/internal/engine"
	"godwit/internal/queue"
	"godwit/internal/shard"
)

// sumCollector shows the transactions of the node, and how the share groups stand.
type sumCollector struct {
	sums  func(ctx context.Context) (*engine.Sums, error)
	clock clock.Clock
	limit int

	txns, oldest                            *prometheus.Desc
	records, letters, deliveries, completed *prometheus.Desc
}

const (
	maxShareGroups = 1_000           // that have series of their own
	sumTime        = 5 * time.Second // for asking the shards
)

func newSumCollector(e *engine.Engine, c clock.Clock) *sumCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("godwit_"+name, help, labels, nil)
	}
	return &sumCollector{
		sums: e.Sums, clock: c, limit: maxShareGroups,
		txns:       desc("transactions", "Transactions that are not over: open, or ending, when the outcome is decided and has not reached all partitions and groups.", "state"),
		oldest:     desc("transaction_oldest_seconds", "Time since the oldest transaction that is not over began; 0 if there is none."),
		records:    desc("share_group_records", "Records that share groups are at work on: available to consumers, delayed ones included, or acquired by one. Without a group's name: groups beyond the first 1,000.", "group", "state"),
		letters:    desc("share_group_dead_letters_pending", "Runs of records that are to be written to a dead-letter topic.", "group"),
		deliveries: desc("share_group_deliveries_total", "Records handed to consumers of share groups, each as often as it was.", "group"),
		completed:  desc("share_group_completed_total", "Records that share groups are done with: accepted; or archived, as rejected, delivery-limit, retention, expired or overflow.", "group", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *sumCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.txns, c.oldest, c.records, c.letters, c.deliveries, c.completed} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *sumCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), sumTime)
	defer cancel()
	sums, err := c.sums(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.txns, err)
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	age := 0.0
	if at := sums.Txns.Oldest; at >= 0 {
		age = max(0, float64(c.clock.Now().UnixMilli()-at)/1000)
	}
	gauge(c.txns, float64(sums.Txns.Open), "open")
	gauge(c.txns, float64(sums.Txns.Ending), "ending")
	gauge(c.oldest, age)

	names := slices.SortedFunc(maps.Keys(sums.Groups), func(a, b share.Key) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Group, b.Group))
	})
	rest := shard.QueueSums{}
	for i, k := range names {
		if i < c.limit {
			c.group(out, k.Group, sums.Groups[k])
		} else {
			rest.Add(sums.Groups[k])
		}
	}
	if len(names) > c.limit {
		c.group(out, "", &rest)
	}
}

// group shows one group, or what is left.
func (c *sumCollector) group(out chan<- prometheus.Metric, name string, s *shard.QueueSums) {
	value := func(d *prometheus.Desc, t prometheus.ValueType, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, t, float64(v), append([]string{name}, labels...)...)
	}
	value(c.records, prometheus.GaugeValue, s.Available, "available")
	value(c.records, prometheus.GaugeValue, s.InFlight, "acquired")
	value(c.letters, prometheus.GaugeValue, s.Letters)
	value(c.deliveries, prometheus.CounterValue, s.Totals.Deliveries)
	value(c.completed, prometheus.CounterValue, s.Totals.Acked, "accepted")
	for _, cause := range []queue.Cause{queue.CauseRejected, queue.CauseLimit, queue.CauseExpired, queue.CauseOverflow, queue.CauseRetention} {
		value(c.completed, prometheus.CounterValue, s.Totals.Archived[cause], cause.String())
	}
}
