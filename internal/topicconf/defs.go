package topicconf

import "math"

const (
	minInt  = math.MinInt32
	maxInt  = math.MaxInt32
	minLong = math.MinInt64
	maxLong = math.MaxInt64
)

const (
	noSegments = "Data lies in the node's log and in merged files, which all topics share."
	noThrottle = "There is one replica of each partition."
	noTiering  = "There is no tiered storage."
	noFlush    = "Records are synced before they are acknowledged, unless the broker's durability setting says otherwise."
)

// defs is ordered by name.
var defs = []Def{
	{Name: "cleanup.policy", Type: List, Default: "delete", Allowed: []string{"compact", "delete"}, Synonyms: []string{"log.cleanup.policy"}, Effect: true,
		Doc: "What happens to old records: `delete` removes them by age and size, `compact` keeps the last record of each key, both together do both. With an empty list, everything is kept."},
	{Name: "compression.gzip.level", Type: Int, Default: "-1", Min: 1, Max: 9, Besides: "-1", Synonyms: []string{"compression.gzip.level"}, Effect: true,
		Doc: "Level for `compression.type=gzip`: 1 to 9, or -1 for the codec's default."},
	{Name: "compression.lz4.level", Type: Int, Default: "9", Min: 1, Max: 17, Synonyms: []string{"compression.lz4.level"}, Effect: true,
		Doc: "Level for `compression.type=lz4`: 1 to 17."},
	{Name: "compression.type", Type: String, Default: "producer", Allowed: []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}, Synonyms: []string{"compression.type"}, Effect: true,
		Doc: "Codec in which batches are stored. `producer` keeps what the producer chose; any other value has the broker compress batches again where they differ."},
	{Name: "compression.zstd.level", Type: Int, Default: "3", Min: -131072, Max: 22, Synonyms: []string{"compression.zstd.level"}, Effect: true,
		Doc: "Level for `compression.type=zstd`: -131072 to 22."},
	{Name: "delete.retention.ms", Type: Long, Default: "86400000", Max: maxLong, Synonyms: []string{"log.cleaner.delete.retention.ms"}, Effect: true,
		Doc: "How long tombstones are kept after compaction first saw them, so that a reader that began at the start still meets them."},
	{Name: "errors.deadletterqueue.group.enable", Type: Boolean, Default: "false", Effect: true,
		Doc: "Whether share groups may use the topic as their dead-letter queue (KIP-1191)."},
	{Name: "file.delete.delay.ms", Type: Long, Default: "60000", Max: maxLong, Synonyms: []string{"log.segment.delete.delay.ms"},
		Doc: "How long Kafka waits before it deletes a segment file.", Note: "A file goes when nothing refers to it; readers that have it open keep it."},
	{Name: "flush.messages", Type: Long, Default: "9223372036854775807", Min: 1, Max: maxLong, Synonyms: []string{"log.flush.interval.messages"},
		Doc: "After how many records Kafka forces a sync.", Note: noFlush},
	{Name: "flush.ms", Type: Long, Default: "9223372036854775807", Max: maxLong, Synonyms: []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"},
		Doc: "After how many milliseconds Kafka forces a sync.", Note: noFlush},
	{Name: "follower.replication.throttled.replicas", Type: List, Default: "",
		Doc: "Replicas whose following is throttled: `*`, or partition:broker pairs.", Note: noThrottle},
	{Name: "index.interval.bytes", Type: Int, Default: "4096", Max: maxInt, Synonyms: []string{"log.index.interval.bytes"},
		Doc: "How often Kafka adds an entry to a segment's offset index.", Note: noSegments},
	{Name: "leader.replication.throttled.replicas", Type: List, Default: "",
		Doc: "Replicas whose leading is throttled: `*`, or partition:broker pairs.", Note: noThrottle},
	{Name: "local.retention.bytes", Type: Long, Default: "-2", Min: -2, Max: maxLong, Synonyms: []string{"log.local.retention.bytes"},
		Doc: "Bytes of a partition that stay local with tiered storage; -2 stands for `retention.bytes`.", Note: noTiering},
	{Name: "local.retention.ms", Type: Long, Default: "-2", Min: -2, Max: maxLong, Synonyms: []string{"log.local.retention.ms"},
		Doc: "Milliseconds that records stay local with tiered storage; -2 stands for `retention.ms`.", Note: noTiering},
	{Name: "max.compaction.lag.ms", Type: Long, Default: "9223372036854775807", Min: 1, Max: maxLong, Synonyms: []string{"log.cleaner.max.compaction.lag.ms"}, Effect: true,
		Doc: "Longest time for which a record may stay uncompacted, whatever the dirty ratio."},
	{Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639", Min: 1, Max: 2147483639, Synonyms: []string{"max.decompressed.message.bytes"}, Effect: true,
		Doc: "Largest size of a batch's records after decompression.", Note: "The broker's own limit for one batch applies too."},
	{Name: "max.message.bytes", Type: Int, Default: "1048588", Max: maxInt, Synonyms: []string{"message.max.bytes"}, Effect: true,
		Doc: "Largest record batch, as stored, in bytes."},
	{Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", Max: maxLong, Synonyms: []string{"log.message.timestamp.after.max.ms"}, Effect: true,
		Doc: "How far in the future a record's timestamp may be, with `message.timestamp.type=CreateTime`."},
	{Name: "message.timestamp.before.max.ms", Type: Long, Default: "9223372036854775807", Max: maxLong, Synonyms: []string{"log.message.timestamp.before.max.ms"}, Effect: true,
		Doc: "How far in the past a record's timestamp may be, with `message.timestamp.type=CreateTime`."},
	{Name: "message.timestamp.type", Type: String, Default: "CreateTime", Allowed: []string{"CreateTime", "LogAppendTime"}, Synonyms: []string{"log.message.timestamp.type"}, Effect: true,
		Doc: "Whether records keep the producer's timestamp or get the time of appending."},
	{Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Max: 1, Synonyms: []string{"log.cleaner.min.cleanable.ratio"}, Effect: true,
		Doc: "Share of a log that must be uncompacted before compaction runs again."},
	{Name: "min.compaction.lag.ms", Type: Long, Default: "0", Max: maxLong, Synonyms: []string{"log.cleaner.min.compaction.lag.ms"}, Effect: true,
		Doc: "Shortest time for which a record stays uncompacted."},
	{Name: "min.insync.replicas", Type: Int, Default: "1", Min: 1, Max: maxInt, Synonyms: []string{"min.insync.replicas"},
		Doc: "How many replicas must have a record before `acks=all` is answered.", Note: "There is one replica, and every write is committed before it is answered."},
	{Name: "preallocate", Type: Boolean, Default: "false", Synonyms: []string{"log.preallocate"},
		Doc: "Whether Kafka allocates a segment file when it makes it.", Note: "Log files are always preallocated."},
	{Name: "remote.copy.lag.bytes", Type: Long, Default: "-1", Min: -1, Max: maxLong, Synonyms: []string{"log.remote.copy.lag.bytes"},
		Doc: "Bytes that stay local before they are copied to remote storage.", Note: noTiering},
	{Name: "remote.copy.lag.ms", Type: Long, Default: "0", Min: -1, Max: maxLong, Synonyms: []string{"log.remote.copy.lag.ms"},
		Doc: "Milliseconds that records stay local before they are copied to remote storage.", Note: noTiering},
	{Name: "remote.log.copy.disable", Type: Boolean, Default: "false",
		Doc: "Whether copying to remote storage is off.", Note: noTiering},
	{Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false",
		Doc: "Whether remote data goes when remote storage is turned off.", Note: noTiering},
	{Name: "remote.storage.enable", Type: Boolean, Default: "false",
		Doc: "Whether the topic uses tiered storage.", Note: "`true` is refused, as by a Kafka broker without tiered storage."},
	{Name: "retention.bytes", Type: Long, Default: "-1", Min: minLong, Max: maxLong, Synonyms: []string{"log.retention.bytes"}, Effect: true,
		Doc: "Bytes of each partition that are kept at least, with `cleanup.policy=delete`; below 0 for no limit."},
	{Name: "retention.ms", Type: Long, Default: "604800000", Min: -1, Max: maxLong, Synonyms: []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"}, Effect: true,
		Doc: "Milliseconds for which records are kept, with `cleanup.policy=delete`; -1 for no limit."},
	{Name: "segment.bytes", Type: Int, Default: "1073741824", Min: 1 << 20, Max: maxInt, Synonyms: []string{"log.segment.bytes"},
		Doc: "Size at which Kafka goes on to the next segment file.", Note: noSegments},
	{Name: "segment.index.bytes", Type: Int, Default: "10485760", Min: 4, Max: maxInt, Synonyms: []string{"log.index.size.max.bytes"},
		Doc: "Size of a segment's offset index.", Note: noSegments},
	{Name: "segment.jitter.ms", Type: Long, Default: "0", Max: maxLong, Synonyms: []string{"log.roll.jitter.ms", "log.roll.jitter.hours"},
		Doc: "Random time taken off `segment.ms`.", Note: noSegments},
	{Name: "segment.ms", Type: Long, Default: "604800000", Min: 1, Max: maxLong, Synonyms: []string{"log.roll.ms", "log.roll.hours"}, Effect: true,
		Doc: "Age at which the newest records of a compacted topic become open to compaction though the log has not reached its next file.", Note: "At most every ten seconds. Kafka also rolls the segments of other topics."},
	{Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Synonyms: []string{"unclean.leader.election.enable"},
		Doc: "Whether a replica that is behind may become leader.", Note: "It never may."},
}
