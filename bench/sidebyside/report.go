//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// report is everything that a run found, for people and for programs.
type report struct {
	Date    string    `json:"date"`
	Quick   bool      `json:"quick"`
	Machine machine   `json:"machine"`
	Plan    planJSON  `json:"plan"`
	Targets []target  `json:"targets"`
	Data    *recorder `json:"data"`
	labels  map[string]string
}

// planJSON is what a reader needs to know of the plan.
type planJSON struct {
	Rounds        int     `json:"rounds"`
	Starts        int     `json:"starts"`
	RunSeconds    float64 `json:"run_seconds"`
	ReadSeconds   float64 `json:"read_seconds"`
	ManySeconds   float64 `json:"many_seconds"`
	WarmUpRecords int64   `json:"warm_up_records"`
	Seconds       float64 `json:"seconds"`
}

// machine is where the run took place.
type machine struct {
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Memory  string `json:"memory"`
	Kernel  string `json:"kernel"`
	Disk    string `json:"disk"`
	Go      string `json:"go"`
	Java    string `json:"java"`
	Kafka   string `json:"kafka"`
	Godwit  string `json:"godwit"`
	FranzGo string `json:"franz_go"`
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// table is rendered with aligned pipes, so that it reads the same on a terminal and as Markdown.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	width := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c), 3)
		}
	}
	line := func(row []string) {
		var b strings.Builder
		for i, c := range row {
			b.WriteString("| ")
			b.WriteString(c)
			b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+1))
		}
		fmt.Fprintln(w, b.String()+"|")
	}
	line(t.header)
	rule := make([]string, len(width))
	for i, n := range width {
		rule[i] = strings.Repeat("-", n)
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
}

// spread writes a median with the smallest and the largest value.
func spread(s summary) string {
	switch {
	case !s.ok():
		return "-"
	case s.N == 1:
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.Median), number(s.Min), number(s.Max))
}

// number keeps three digits that mean something.
func number(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// writeTables writes the tables with a heading before each; prefix makes the heading.
func (r *report) writeTables(w io.Writer, prefix string) {
	for _, s := range []struct {
		title, about string
		table        *table
	}{
		{"Targets", "", r.targetTable()},
		{"Producing", producingText, r.phaseTable("produce", produceColumns)},
		{"Catch-up reading", readingText, r.phaseTable("read", readColumns)},
		{"Start and idle memory", startText, r.phaseTable("start", startColumns)},
		{"Few and many partitions", manyText, r.phaseTable("many", manyColumns)},
		{"Scale", scaleText, r.phaseTable("scale", scaleColumns)},
		{"The disk itself", diskText, r.phaseTable("disk", diskColumns)},
	} {
		if len(s.table.rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s%s\n\n", prefix, s.title)
		if s.about != "" && prefix != "" {
			fmt.Fprintf(w, "%s\n\n", s.about)
		}
		s.table.write(w)
		fmt.Fprintln(w)
	}
}

const (
	producingText = "Kafka's own producer load tool, 1 KiB records, 12 partitions, acks=all; \"franz-go producer\" is a lighter load, with that " +
		"client's defaults, which leaves more of the machine to the broker. Broker CPU is charged from the start of the " +
		"load tool to its end; what the broker still does until it comes to rest is in the column \"after\". \"Written\" is what the broker caused " +
		"to be written per byte of payload, \"device\" and \"busy\" are the disk's own counters during the load, \"unwritten\" is the page cache that " +
		"had not reached the disk when the load ended. \"Nothing stored\" answers as a broker and drops the records: the load tool's own ceiling here."
	readingText = "The same topics read from the beginning, out of the page cache. \"java\" is Kafka's consumer load tool (time to join the group left " +
		"out), \"franz-go\" decodes each record and drops it, \"raw\" asks with the Java consumer's limits on two connections and looks at batch headers only."
	startText = "On an empty data directory. \"Ready\" is the time from exec to the broker's own word, \"metadata\" to the first answered metadata " +
		"request; memory is read after a rest."
	manyText = "One franz-go producer with its defaults, uncompressed 1 KiB records, a fresh topic per run, one record written " +
		"to each partition before. The default partitioner fills 64 KiB for one partition and moves on; round robin gives neighbours to different " +
		"partitions, so that at many partitions a batch is a record or a few."
	scaleText = "1 record written to each partition, then a clean restart, then kill -9 and a restart. All records are counted after each restart."
	diskText  = "A file written from its beginning in groups, fdatasync after each."
)

func (r *report) targetTable() *table {
	t := &table{header: []string{"what", "wanted", "measured", "spread", "verdict"}}
	for _, g := range r.Targets {
		t.add(g.What, g.Want, number(g.Measured)+spaced(g.Unit), number(g.Min)+" to "+number(g.Max), g.verdict())
	}
	return t
}

// column is one metric of a table. Zero values of optional columns show as a dash.
type column struct {
	title, metric string
}

var (
	produceColumns = []column{
		{"MiB/s", mThroughput},
		{"p50 ms", mP50},
		{"p99 ms", mP99},
		{"broker CPU s/GiB", mCPU},
		{"after", mDeferred},
		{"tool CPU s/GiB", mClientCPU},
		{"RSS MiB", mRSS},
		{"written B/B", mWritten},
		{"device MiB/s", mDevice},
		{"busy %", mDeviceBusy},
		{"unwritten MiB", mUnwritten},
		{"others, cores", mOtherCPU},
	}
	readColumns = []column{
		{"MiB/s", mThroughput},
		{"broker CPU s/GiB", mCPU},
		{"reader CPU s/GiB", mClientCPU},
		{"RSS MiB", mRSS},
		{"others, cores", mOtherCPU},
	}
	startColumns = []column{{"ready ms", mReady}, {"metadata ms", mMetadata}, {"RSS MiB", mRSS}, {"PSS MiB", mPSS}}
	manyColumns  = []column{
		{"MiB/s", mThroughput},
		{"broker CPU s/GiB", mCPU},
		{"producer CPU s/GiB", mClientCPU},
		{"RSS MiB", mRSS},
		{"written B/B", mWritten},
		{"others, cores", mOtherCPU},
	}
	scaleColumns = []column{
		{"created s", mCreate},
		{"written to s", mTouch},
		{"stopped s", mStopTime},
		{"ready ms", mReady},
		{"metadata ms", mMetadata},
		{"records", mRecords},
		{"RSS MiB", mRSS},
	}
	diskColumns = []column{{"MiB/s", mThroughput}, {"ms per group", mSyncLatency}}
)

func (r *report) phaseTable(phase string, columns []column) *table {
	t := &table{header: []string{"case", "broker"}}
	for _, c := range columns {
		t.header = append(t.header, c.title)
	}
	for _, kase := range r.Data.cases(phase) {
		for _, broker := range r.Data.brokers(phase) {
			row, any := []string{kase, r.label(broker)}, false
			for _, c := range columns {
				s := r.Data.get(phase, kase, broker, c.metric)
				any = any || s.ok()
				row = append(row, spread(s))
			}
			if any {
				t.add(row...)
			}
		}
	}
	return t
}

func (r *report) label(broker string) string {
	if l := r.labels[broker]; l != "" {
		return l
	}
	return broker
}

func (r *report) writeText(w io.Writer) {
	fmt.Fprintln(w)
	r.writeTables(w, "")
	for _, n := range r.Data.notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

func (r *report) writeMarkdown(w io.Writer) {
	fmt.Fprintf(w, "# Godwit beside Apache Kafka, %s\n\n", r.Date)
	if r.Quick {
		fmt.Fprint(w, "A quick run, to try the harness: its figures mean little.\n\n")
	}
	fmt.Fprintf(w, "Written by `make bench-table`. Figures are medians of %d rounds (starts: %d) with the smallest and the largest in "+
		"parentheses; each round measures every broker in turn, and each begins with another. Brokers run through all rounds and were warmed up "+
		"with %d records per batch size (a tenth of that where every message is flushed). Broker and load share the machine's cores. "+
		"Memory and disk were primed by a large file, written and removed, as a virtual machine gets them from its host at first touch. "+
		"Between runs the page cache is written back and brokers and disk come to rest. The whole run took %.0f minutes.\n\n",
		r.Plan.Rounds, r.Plan.Starts, r.Plan.WarmUpRecords, r.Plan.Seconds/60)
	m := r.Machine
	t := &table{header: []string{"machine", ""}}
	t.add("processor", fmt.Sprintf("%s, %d cores", m.CPU, m.Cores))
	t.add("memory", m.Memory)
	t.add("kernel", m.Kernel)
	t.add("disk", m.Disk)
	t.add("Go, Java", m.Go+", "+m.Java)
	t.add("Apache Kafka", m.Kafka)
	t.add("Godwit", m.Godwit)
	t.add("franz-go", m.FranzGo)
	t.write(w)
	fmt.Fprintln(w)
	r.writeTables(w, "## ")
	if len(r.Data.notes) > 0 {
		fmt.Fprint(w, "## Notes\n\n")
		for _, n := range r.Data.notes {
			fmt.Fprintf(w, "- %s\n", n)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "## Commands\n\nAs run, from the root of the repository; `$SCRATCH` was a fresh directory on the disk above, ports were free ones. "+
		"`kafka.sh` adds Java's and Kafka's own settings, which it lists.\n\n")
	for _, c := range r.Data.commands {
		fmt.Fprintf(w, "- %s\n\n      %s\n\n", c.Use, c.Line)
	}
}
