package app

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"godwit/internal/base"
	"godwit/internal/broker"
)

// lagCollector shows how far groups are behind, by group and topic: partitions are summed up, since a series for each
// would be too many where groups and partitions are.
type lagCollector struct {
	lags  func(ctx context.Context) ([]broker.GroupLag, error)
	limit int

	records, bytes, seconds, missing *prometheus.Desc
}

// The bounds of a scrape.
const (
	maxLagPairs = 10_000          // of group and topic that have series
	lagTime     = 5 * time.Second // for counting; what is left out is counted on at the next scrape
)

func newLagCollector(l *broker.Lags) *lagCollector {
	lag := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("godwit_group_lag_"+name, help, labels, nil)
	}
	return &lagCollector{
		lags: func(ctx context.Context) ([]broker.GroupLag, error) {
			return l.Groups(ctx, base.DefaultNamespace, false)
		},
		limit:   maxLagPairs,
		records: lag("records", "Records of a topic that exist and that a group has not read.", "group", "topic"),
		bytes:   lag("bytes", "Bytes of the batches with records that a group has not read.", "group", "topic"),
		seconds: lag("seconds", "Age of the oldest record that a group has not read, by its timestamp.", "group", "topic"),
		missing: lag("missing", "Pairs of group and topic without a lag here: uncounted, when it was not known in time; limit, when there are too many.", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *lagCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.records, c.bytes, c.seconds, c.missing} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *lagCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lagTime)
	defer cancel()
	groups, err := c.lags(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.missing, err)
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	pairs, uncounted, over := 0, 0, 0
	for i := range groups {
		for topic, of := range byTopic(groups[i].Partitions) {
			t := broker.Total(of)
			switch {
			case pairs == c.limit:
				over++
				continue
			case !t.Whole:
				uncounted++
				continue
			}
			pairs++
			gauge(c.records, float64(t.Records), groups[i].Group, topic)
			gauge(c.bytes, float64(t.Bytes), groups[i].Group, topic)
			if t.Age >= 0 {
				gauge(c.seconds, float64(t.Age)/1000, groups[i].Group, topic)
			}
		}
	}
	gauge(c.missing, float64(uncounted), "uncounted")
	gauge(c.missing, float64(over), "limit")
}

// byTopic goes through the topics of a list that is sorted by topic, with the partitions in which something is committed.
func byTopic(partitions []broker.PartitionLag) iter.Seq2[string, []broker.PartitionLag] {
	return func(yield func(string, []broker.PartitionLag) bool) {
		for len(partitions) > 0 {
			topic, n := partitions[0].Topic, 1
			for n < len(partitions) && partitions[n].Topic == topic {
				n++
			}
			of := partitions[:n]
			partitions = partitions[n:]
			if slices.ContainsFunc(of, func(p broker.PartitionLag) bool { return p.Committed >= 0 }) && !yield(topic, of) {
				return
			}
		}
	}
}
