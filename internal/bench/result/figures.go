package result

// The figures of rounds.
const (
	ProducedPerSecond   Figure = "produced_per_second"       // messages acknowledged, a second
	ConsumedPerSecond   Figure = "consumed_per_second"       // messages that the slowest subscription received, a second
	ThroughputPerSecond Figure = "throughput_per_second"     // the smaller of the two: what can be sustained
	ThroughputMiB       Figure = "throughput_mib_per_second" // payload at ThroughputPerSecond
	IntendedPerSecond   Figure = "intended_per_second"       // what was due
	BacklogAtEnd        Figure = "backlog_at_end"            // messages acknowledged and not yet received when sending ended
	DrainSeconds        Figure = "drain_seconds"             // until the backlog was received
	CreateSeconds       Figure = "create_seconds"            // until all destinations existed
	CatchUpMiB          Figure = "catch_up_mib_per_second"
	CatchUpPerSecond    Figure = "catch_up_per_second"
	TailSlowdown        Figure = "tail_slowdown" // end-to-end p99 of the tail beside the catch-up reader, over that without
	WriteMiB            Figure = "backlog_write_mib_per_second"
	ReadMiB             Figure = "backlog_read_mib_per_second"
	BacklogMiB          Figure = "backlog_mib"
	RestartSeconds      Figure = "restart_seconds"       // stop asked for, to the first answer of the new process
	FirstMessageSeconds Figure = "first_message_seconds" // to the first message of a backlog
	CommitsPerSecond    Figure = "commits_per_second"    // places made durable, by all consumers
	CommitP50           Figure = "commit_p50_ms"         // from asking for it to being told
	CommitP99           Figure = "commit_p99_ms"
	AtomicShare         Figure = "atomic_share" // throughput with atomic batches, over that without
	CPUPerMillion       Figure = "cpu_seconds_per_million"
	RSSMiB              Figure = "rss_mib"
	DiskPerPayload      Figure = "disk_written_per_payload_byte"
	NetPerPayload       Figure = "network_per_payload_byte"
	SyncsPerMessage     Figure = "syncs_per_message"
	FlushesPerMessage   Figure = "device_flushes_per_message"
	ClientCPUPerMillion Figure = "client_cpu_seconds_per_million"
	OthersCores         Figure = "others_cores"
)

// Direction says which way is better.
type Direction int

// The directions.
const (
	Neutral Direction = iota
	MoreIsBetter
	LessIsBetter
)

// About describes a figure for people.
type About struct {
	Title  string // short, for a table's head
	Unit   string
	Better Direction
	Says   string // one sentence: what it is
}

// Order has every figure once, in the order in which reports show them.
var Order = []Figure{
	CommitsPerSecond, CommitP50, CommitP99,
	ThroughputPerSecond, ThroughputMiB, AtomicShare, ProducedPerSecond, ConsumedPerSecond, IntendedPerSecond, BacklogAtEnd, DrainSeconds,
	CatchUpMiB, CatchUpPerSecond, TailSlowdown, ReadMiB, WriteMiB, BacklogMiB,
	FirstMessageSeconds, RestartSeconds, CreateSeconds,
	CPUPerMillion, RSSMiB, DiskPerPayload, NetPerPayload, SyncsPerMessage, FlushesPerMessage, ClientCPUPerMillion, OthersCores,
}

// OfUsage are the figures that Usage.Figures derives: reports show them apart, as resources.
var OfUsage = []Figure{CPUPerMillion, RSSMiB, DiskPerPayload, NetPerPayload, SyncsPerMessage, FlushesPerMessage, ClientCPUPerMillion, OthersCores}

// abouts describes every figure.
var abouts = map[Figure]About{
	ThroughputPerSecond: {"throughput", "msg/s", MoreIsBetter,
		"The smaller of what producers got acknowledged and what the slowest subscription received, a second of the measuring time: what can be sustained."},
	ThroughputMiB: {"payload", "MiB/s", MoreIsBetter,
		"The payload bytes of the throughput."},
	ProducedPerSecond: {"produced", "msg/s", MoreIsBetter,
		"Messages that the target acknowledged, a second; with a protocol that does not acknowledge, messages written to the connection."},
	ConsumedPerSecond: {"consumed", "msg/s", MoreIsBetter,
		"Messages that the slowest subscription received, a second, while producers were sending."},
	IntendedPerSecond: {"intended", "msg/s", Neutral,
		"Messages that were due, a second: the rate asked for, with the chance of random arrivals, the same for every target; a target that falls behind it is sent the same messages late, none is left out."},
	BacklogAtEnd: {"backlog at end", "messages", LessIsBetter,
		"Messages that were acknowledged and not yet received when sending ended: a growing backlog means that the rate was not sustained."},
	DrainSeconds: {"drain", "s", LessIsBetter,
		"Time from the end of sending until the backlog was received."},
	CatchUpMiB: {"catch-up", "MiB/s", MoreIsBetter,
		"Payload that a subscription which began with the first message received, a second, while others kept sending and receiving."},
	CatchUpPerSecond: {"catch-up", "msg/s", MoreIsBetter,
		"Messages that a subscription which began with the first message received, a second, while others kept sending and receiving."},
	TailSlowdown: {"tail slowdown", "times", LessIsBetter,
		"End-to-end p99 of the reader of new messages while another reads from the beginning, over the same without that other reader."},
	ReadMiB: {"backlog read", "MiB/s", MoreIsBetter,
		"Payload a second at which the backlog was read from its beginning to its end."},
	WriteMiB: {"backlog written", "MiB/s", MoreIsBetter,
		"Payload a second at which the backlog was written, with nobody reading."},
	BacklogMiB: {"backlog", "MiB", Neutral,
		"The payload of the backlog; where it is larger than the machine's memory, reading it comes from the disk."},
	FirstMessageSeconds: {"first message", "s", LessIsBetter,
		"Time until a consumer had the first message of a backlog: from connecting, or from the request to stop where the target is restarted before."},
	RestartSeconds: {"restart", "s", LessIsBetter,
		"Time from the request to stop until the new process answered for the first time."},
	CreateSeconds: {"create", "s", LessIsBetter,
		"Time until all destinations of the scenario existed."},
	CommitsPerSecond: {"commits", "/s", MoreIsBetter,
		"How often a second consumers, all together, made their place durable: each waits until the target has said so, and goes on."},
	CommitP50: {"commit p50", "ms", LessIsBetter,
		"Time from a consumer's asking for its place to be made durable until the target said that it is: half of them took no longer."},
	CommitP99: {"commit p99", "ms", LessIsBetter,
		"The same for 99 of 100."},
	AtomicShare: {"of plain", "times", MoreIsBetter,
		"Throughput with atomic batches over that without, of the same target in the same round: what the promise costs."},
	CPUPerMillion: {"CPU", "s/million", LessIsBetter,
		"CPU seconds that the target's processes took for a million acknowledged messages, including their delivery to every subscription."},
	RSSMiB: {"memory", "MiB", LessIsBetter,
		"The highest resident memory that was seen of the target's processes; the page cache is not in it."},
	DiskPerPayload: {"disk", "B/B", LessIsBetter,
		"Bytes that the target's processes caused to be written to storage, for each payload byte acknowledged, as far as the system charges them to a process."},
	NetPerPayload: {"network", "B/B", LessIsBetter,
		"Bytes in both directions at the clients' sockets for each payload byte acknowledged, protocol included, TCP's headers excluded."},
	SyncsPerMessage: {"syncs", "per msg", Neutral,
		"Calls of the target's processes that asked for data to be made safe (fsync and its like), for each acknowledged message, seen from outside: many messages may share one, none at all means that nothing was made safe."},
	FlushesPerMessage: {"flushes", "per msg", Neutral,
		"Flushes of the device under the data, from anybody, for each acknowledged message: one for each message is dear, none at all means that nothing was made safe."},
	ClientCPUPerMillion: {"client CPU", "s/million", Neutral,
		"CPU seconds that the benchmark itself took for a million acknowledged messages: where it is near the machine's limit, the client was measured."},
	OthersCores: {"others", "cores", Neutral,
		"CPU that neither the target nor the benchmark took, in cores: noise."},
}

// About describes the figure; one that this version does not know has its name for a title.
func (f Figure) About() About {
	if a, ok := abouts[f]; ok {
		return a
	}
	return About{Title: string(f), Says: "A figure that this version does not know."}
}
