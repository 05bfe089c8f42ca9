// Package result is what a benchmark run found: the model of its JSON file, and the medians and spreads
// that reports show of it.
package result

import "time"

// Format is the version of the JSON form; a reader refuses a newer one.
const Format = 1

// Run is one invocation of `godwit bench run`.
type Run struct {
	Format    int        `json:"format"`
	Started   time.Time  `json:"started"`
	Ended     time.Time  `json:"ended"`
	Godwit    string     `json:"godwit"`   // version of the measuring program
	Commands  []string   `json:"commands"` // what repeats it, in order: peers started, then the run
	Machine   Machine    `json:"machine"`
	Targets   []Target   `json:"targets"`
	Scenarios []Scenario `json:"scenarios"`
	Notes     []string   `json:"notes,omitempty"` // what a reader must know: noise, parts left out and why
}

// Machine is where clients ran, and usually targets as well.
type Machine struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	MemoryMB int64  `json:"memory_mib"`
	System   string `json:"system"` // kernel and its version
	Disk     string `json:"disk"`   // file system and device under the targets' data, if known
}

// Target is one broker in one configuration.
type Target struct {
	Name       string     `json:"name"` // as shown: "kafka", "kafka-synced"
	URL        string     `json:"url"`  // without its password
	Protocol   string     `json:"protocol"`
	Version    string     `json:"version"` // what it says of itself, or what its starter said
	Config     string     `json:"config"`  // what is special about its configuration, in words
	PID        int        `json:"pid,omitempty"`
	Durability Durability `json:"durability"`
}

// Grades of Durability.
const (
	GradeSynced   = "synced"   // every probed acknowledgement came after a sync that began after the message was sent
	GradePartly   = "partly"   // some did
	GradeUnsynced = "unsynced" // hardly any did
	GradeNone     = "no acks"  // the protocol does not acknowledge
	GradeUnknown  = "unknown"  // could not be observed; Why says why
)

// Durability is what was seen from outside while messages were sent one at a time.
type Durability struct {
	Grade   string   `json:"grade"`
	Why     string   `json:"why,omitempty"`   // for GradeUnknown
	Acked   int      `json:"acked"`           // messages probed
	Covered int      `json:"covered"`         // of them: a sync began after sending and ended before the acknowledgement
	Syncs   int      `json:"syncs"`           // all syncs seen, also late ones
	Files   []string `json:"files,omitempty"` // what was synced, most often first; at most 5
}

// Scenario is one scenario's outcome for all targets.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	About string `json:"about"`
	Kind  string `json:"kind"`
	Spec  string `json:"spec"`           // the YAML it was run with, overrides applied
	Axis  string `json:"axis,omitempty"` // the parameter that varies along the x axis of its plot
	Cells []Cell `json:"cells"`
}

// Cell is one target at one point of a scenario's parameters, over all rounds.
type Cell struct {
	Target      string            `json:"target"`
	Params      map[string]string `json:"params"`                // for example size=1024 producers=4 consumers=4 rate=max
	X           float64           `json:"x,omitempty"`           // value of the Axis parameter
	Unsupported string            `json:"unsupported,omitempty"` // why there is no figure
	Rounds      []Round           `json:"rounds"`
}

// Round is one measurement.
type Round struct {
	Figures  map[Figure]float64 `json:"figures"`
	Producer *Latency           `json:"producer_latency,omitempty"`   // intended send time to acknowledgement
	EndToEnd *Latency           `json:"end_to_end_latency,omitempty"` // intended send time to the consumer's handler
	Audit    *Audit             `json:"audit,omitempty"`
	Usage    *Usage             `json:"usage,omitempty"`
	Benefit  *Benefit           `json:"benefit,omitempty"`
	Error    string             `json:"error,omitempty"` // the round failed; what it has is shown with this
	Notes    []string           `json:"notes,omitempty"`
}

// Figure names a number; figures.go has their units, titles and directions.
type Figure string

// Latency is a distribution, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Max   float64 `json:"max"`
	// Curve has the percentiles of Percentiles, in its order.
	Curve []float64 `json:"curve"`
}

// Percentiles are those of every latency curve.
var Percentiles = []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 100}

// At is the value at a percentile of Percentiles, in microseconds; 0 for one that is not among them.
func (l *Latency) At(p float64) float64 {
	if l == nil {
		return 0
	}
	for i, q := range Percentiles {
		if q == p && i < len(l.Curve) {
			return l.Curve[i]
		}
	}
	return 0
}

// Audit counts by sequence numbers, per producer and key, over all subscriptions.
type Audit struct {
	Sent       int64 `json:"sent"`
	Acked      int64 `json:"acked"`
	Failed     int64 `json:"failed"`     // refused, or never acknowledged
	Expected   int64 `json:"expected"`   // deliveries: acked messages times subscriptions
	Delivered  int64 `json:"delivered"`  // distinct ones that arrived
	Lost       int64 `json:"lost"`       // acknowledged, and never arrived
	Duplicates int64 `json:"duplicates"` // arrived again, redeliveries announced as such included
	Disordered int64 `json:"disordered"` // arrived, for the first time, after a later one of their key, at the same consumer
	Foreign    int64 `json:"foreign"`    // not of this run, or damaged
}

// Usage is what the target's process took, from outside.
type Usage struct {
	CPUSeconds       float64 `json:"cpu_seconds"`
	RSSBytes         int64   `json:"rss_bytes"` // the highest seen
	DiskWritten      int64   `json:"disk_written_bytes"`
	DiskRead         int64   `json:"disk_read_bytes"`
	NetReceived      int64   `json:"net_received_bytes"` // by the target, from its clients
	NetSent          int64   `json:"net_sent_bytes"`
	Syncs            int64   `json:"syncs"`          // calls of the target's processes that synced something; -1 unknown
	DeviceFlushes    int64   `json:"device_flushes"` // of the disk under the data, from anybody; -1 unknown
	PayloadBytes     int64   `json:"payload_bytes"`  // acknowledged
	Messages         int64   `json:"messages"`       // acknowledged
	Seconds          float64 `json:"seconds"`
	OthersCores      float64 `json:"others_cores"` // CPU that neither target nor benchmark took, in cores
	ClientCPUSeconds float64 `json:"client_cpu_seconds"`
}

// Scores of a Benefit.
const (
	ScoreKept        = "kept"   // the promise was kept in full
	ScorePartly      = "partly" // kept with losses, or after help
	ScoreLost        = "not kept"
	ScoreUnsupported = "unsupported"
)

// Benefit is how a target did at something that message systems are used for.
type Benefit struct {
	Score   string  `json:"score"`
	Seconds float64 `json:"seconds"`        // the time that the benefit is scored with
	Timed   string  `json:"timed"`          // what Seconds is, in words
	Said    string  `json:"said,omitempty"` // what was told, in the target's or the client's own words
	Detail  string  `json:"detail"`         // counts, in words
}
