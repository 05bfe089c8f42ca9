package result

// The figures of rounds.
const (
	ProducedPerSecond   Figure = "produced_per_second"       // messages acknowledged, a second
	ConsumedPerSecond   Figure = "consumed_per_second"       // messages that the slowest subscription received, a second
	ThroughputPerSecond Figure = "throughput_per_second"     // the smaller of the two: what can be sustained
	ThroughputMiB       Figure = "throughput_mib_per_second" // payload at ThroughputPerSecond
	IntendedPerSecond   Figure = "intended_per_second"       // what the schedule asked for
	BacklogAtEnd        Figure = "backlog_at_end"            // messages acknowledged and not yet received when sending ended
	DrainSeconds        Figure = "drain_seconds"             // until the backlog was received
	CreateSeconds       Figure = "create_seconds"            // until all destinations existed
	CatchUpMiB          Figure = "catch_up_mib_per_second"
	CatchUpPerSecond    Figure = "catch_up_per_second"
	TailSlowdown        Figure = "tail_slowdown" // end-to-end p99 of the tail beside the catch-up reader, over that without
	WriteMiB            Figure = "backlog_write_mib_per_second"
	ReadMiB             Figure = "backlog_read_mib_per_second"
	BacklogMiB          Figure = "backlog_mib"
	RestartSeconds      Figure = "restart_seconds" // stop asked for, to the first answer of the new process
	StopSeconds         Figure = "stop_seconds"
	FirstMessageSeconds Figure = "first_message_seconds" // restart began, to the first message of the backlog
	CPUPerMillion       Figure = "cpu_seconds_per_million"
	RSSMiB              Figure = "rss_mib"
	DiskPerPayload      Figure = "disk_written_per_payload_byte"
	NetPerPayload       Figure = "network_per_payload_byte"
	FlushesPerMessage   Figure = "device_flushes_per_message"
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
