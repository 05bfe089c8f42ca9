package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"godwit/internal/engine"
	"godwit/internal/storage/segment"
	"godwit/internal/storage/wal"
)

// collector turns the engine's counters into metrics when they are asked for.
type collector struct {
	e *engine.Engine

	records, groups, syncs, bytes, syncSeconds *prometheus.Desc
	state, files, fileBytes, lost, streams     *prometheus.Desc
	durability, term                           *prometheus.Desc
}

func newCollector(e *engine.Engine) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("godwit_"+name, help, labels, nil)
	}
	return &collector{
		e:           e,
		records:     desc("wal_entries_total", "Entries written to the log."),
		groups:      desc("wal_groups_total", "Gathered writes of the log; several may share a sync."),
		syncs:       desc("wal_syncs_total", "fdatasync calls of the log."),
		bytes:       desc("wal_bytes_total", "Bytes written to the log, heads included."),
		syncSeconds: desc("wal_sync_seconds_total", "Time spent in fdatasync."),
		state:       desc("wal_state", "1 for the state the log is in: healthy, full (data is refused) or failed (everything is refused).", "state"),
		files:       desc("data_files", "Data files by kind: wal (the log, also storage level 0) or merged (level 1).", "kind"),
		fileBytes:   desc("data_live_bytes", "Bytes of record batches that logs refer to, by kind of file.", "kind"),
		lost:        desc("lost_records_total", "Records removed before a registered group had read them, by cause; see the loss ledger.", "cause"),
		streams:     desc("topics", "Topics."),
		durability:  desc("durability_info", "1 for the level at which writes are acknowledged.", "level"),
		term:        desc("term", "Term under which the node writes: the leader epoch of its partitions."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	value := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	w := c.e.Writer()
	value(c.records, prometheus.CounterValue, float64(w.Stats.Records.Load()))
	value(c.groups, prometheus.CounterValue, float64(w.Stats.Groups.Load()))
	value(c.syncs, prometheus.CounterValue, float64(w.Stats.Syncs.Load()))
	value(c.bytes, prometheus.CounterValue, float64(w.Stats.Bytes.Load()))
	value(c.syncSeconds, prometheus.CounterValue, float64(w.Stats.SyncNanos.Load())/1e9)
	names := []string{wal.StateHealthy: "healthy", wal.StateFull: "full", wal.StateFailed: "failed"}
	for state, name := range names {
		on := 0.0
		if w.State() == uint32(state) {
			on = 1
		}
		value(c.state, prometheus.GaugeValue, on, name)
	}
	count, bytes := map[segment.Kind]float64{}, map[segment.Kind]float64{}
	for _, f := range c.e.Store().Files() {
		count[f.Kind]++
		bytes[f.Kind] += float64(f.Live())
	}
	for kind, name := range map[segment.Kind]string{segment.KindWAL: "wal", segment.KindMerged: "merged"} {
		value(c.files, prometheus.GaugeValue, count[kind], name)
		value(c.fileBytes, prometheus.GaugeValue, bytes[kind], name)
	}
	for cause, n := range c.e.LostRecords() {
		value(c.lost, prometheus.CounterValue, float64(n), string(cause))
	}
	value(c.streams, prometheus.GaugeValue, float64(c.e.View().Len()))
	value(c.durability, prometheus.GaugeValue, 1, c.e.Durability().String())
	value(c.term, prometheus.GaugeValue, float64(c.e.Term()))
}
