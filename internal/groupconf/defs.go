package groupconf

import (
	"math"

	"godwit/internal/topicconf"
)

const (
	maxInt  = math.MaxInt32
	maxLong = math.MaxInt64
)

const inBackground = "Assignments are computed at once."

// defs is ordered by name.
var defs = []Def{
	{Name: "consumer.assignment.interval.ms", Type: topicconf.Int, Default: "1000", Max: maxInt, High: 15_000, Synonym: "group.consumer.assignment.interval.ms", Effect: true,
		Doc: "Milliseconds that lie between two assignments of a consumer group at least."},
	{Name: "consumer.assignor.offload.enable", Type: topicconf.Boolean, Default: "true", Internal: true, Synonym: "group.consumer.assignor.offload.enable",
		Doc: "Whether a consumer group's assignments are computed in the background.", Note: inBackground},
	{Name: "consumer.heartbeat.interval.ms", Type: topicconf.Int, Default: "5000", Min: 1, Max: maxInt, Low: 5_000, High: 15_000, Synonym: "group.consumer.heartbeat.interval.ms", Effect: true,
		Doc: "Milliseconds after which the members of a consumer group are to send the next heartbeat."},
	{Name: "consumer.session.timeout.ms", Type: topicconf.Int, Default: "45000", Min: 1, Max: maxInt, Low: 45_000, High: 60_000, Synonym: "group.consumer.session.timeout.ms", Effect: true,
		Doc: "Milliseconds without a heartbeat after which a member of a consumer group is removed."},
	{Name: "errors.deadletterqueue.copy.record.enable", Type: topicconf.Boolean, Default: "false", Effect: true,
		Doc: "Whether a record of the dead-letter queue carries key, value and headers of the original, or only headers that say where it was (KIP-1191)."},
	{Name: "errors.deadletterqueue.topic.name", Type: topicconf.String, Default: "", Effect: true,
		Doc: "Topic that is a share group's dead-letter queue; empty for none (KIP-1191)."},
	{Name: "share.assignment.interval.ms", Type: topicconf.Int, Default: "1000", Max: maxInt, High: 15_000, Synonym: "group.share.assignment.interval.ms", Effect: true,
		Doc: "Milliseconds that lie between two assignments of a share group at least."},
	{Name: "share.assignor.offload.enable", Type: topicconf.Boolean, Default: "true", Internal: true, Synonym: "group.share.assignor.offload.enable",
		Doc: "Whether a share group's assignments are computed in the background.", Note: inBackground},
	{Name: resetName, Type: topicconf.String, Default: "latest", Effect: true,
		Doc: "Where a share group begins in a topic that it never read: `earliest`, `latest`, or `by_duration:` with an ISO 8601 duration back from now."},
	{Name: "share.delivery.count.limit", Type: topicconf.Int, Default: "5", Min: 2, Max: maxInt, Low: 2, High: 10, Synonym: "group.share.delivery.count.limit", Effect: true,
		Doc: "How often a record is delivered to a share group at most (KIP-1240)."},
	{Name: "share.heartbeat.interval.ms", Type: topicconf.Int, Default: "5000", Min: 1, Max: maxInt, Low: 5_000, High: 15_000, Synonym: "group.share.heartbeat.interval.ms", Effect: true,
		Doc: "Milliseconds after which the members of a share group are to send the next heartbeat."},
	{Name: "share.isolation.level", Type: topicconf.String, Default: "read_uncommitted", Allowed: []string{"read_committed", "read_uncommitted"}, Effect: true,
		Doc: "Whether a share group gets records of aborted and of unfinished transactions."},
	{Name: "share.partition.max.record.locks", Type: topicconf.Int, Default: "2000", Min: 100, Max: maxInt, Low: 100, High: 4_000, Synonym: "group.share.partition.max.record.locks", Effect: true,
		Doc: "How many records of one partition a share group may have in flight (KIP-1240)."},
	{Name: "share.record.lock.duration.ms", Type: topicconf.Int, Default: "30000", Min: 1_000, Max: maxInt, Low: 15_000, High: 60_000, Synonym: "group.share.record.lock.duration.ms", Effect: true,
		Doc: "Milliseconds for which a consumer of a share group has a record to itself."},
	{Name: "share.renew.acknowledge.enable", Type: topicconf.Boolean, Default: "true", Effect: true,
		Doc: "Whether consumers of a share group may renew the lock of a record (KIP-1222)."},
	{Name: "share.session.timeout.ms", Type: topicconf.Int, Default: "45000", Min: 1, Max: maxInt, Low: 45_000, High: 60_000, Synonym: "group.share.session.timeout.ms", Effect: true,
		Doc: "Milliseconds without a heartbeat after which a member of a share group is removed."},
	{Name: "streams.acceptable.recovery.lag", Type: topicconf.Long, Default: "10000", Max: maxLong, Internal: true, Synonym: "group.streams.acceptable.recovery.lag",
		Doc: "Records that a client of a streams group may lack and still get an active task.", Note: "Told to clients; there are no warm-up tasks, as in Kafka 4.4."},
	{Name: "streams.assignment.interval.ms", Type: topicconf.Int, Default: "1000", Max: maxInt, High: 15_000, Synonym: "group.streams.assignment.interval.ms", Effect: true,
		Doc: "Milliseconds that lie between two assignments of a streams group at least."},
	{Name: assignorName, Type: topicconf.String, Unset: true, Broker: "sticky", Synonym: "group.streams.assignors",
		Doc: "Task assignor of a streams group; the broker's first if unset.", Note: "There is one, sticky, as in Kafka 4.4."},
	{Name: "streams.assignor.offload.enable", Type: topicconf.Boolean, Default: "true", Internal: true, Synonym: "group.streams.assignor.offload.enable",
		Doc: "Whether a streams group's assignments are computed in the background.", Note: inBackground},
	{Name: "streams.heartbeat.interval.ms", Type: topicconf.Int, Default: "5000", Min: 1, Max: maxInt, Low: 5_000, High: 15_000, Synonym: "group.streams.heartbeat.interval.ms", Effect: true,
		Doc: "Milliseconds after which the members of a streams group are to send the next heartbeat."},
	{Name: "streams.initial.rebalance.delay.ms", Type: topicconf.Int, Default: "3000", Max: maxInt, Synonym: "group.streams.initial.rebalance.delay.ms", Effect: true,
		Doc: "Milliseconds for which a new streams group waits for more clients before its first assignment."},
	{Name: "streams.num.standby.replicas", Type: topicconf.Int, Default: "0", Max: maxInt, High: 2, Bound: highOnly, Synonym: "group.streams.num.standby.replicas", Effect: true,
		Doc: "Standby tasks for each task of a streams group."},
	{Name: "streams.num.warmup.replicas", Type: topicconf.Int, Default: "2", Max: maxInt, High: 20, Bound: highOnly, Internal: true, Synonym: "group.streams.num.warmup.replicas",
		Doc: "Warm-up tasks of a streams group at most.", Note: "There are no warm-up tasks, as in Kafka 4.4."},
	{Name: tagsName, Type: topicconf.List, Default: "", Synonym: "group.streams.rack.aware.assignment.tags", Effect: true,
		Doc: "Client tags over which a streams group's standby tasks are spread. Members that lack one are told; the assignor does not look at them, as in Kafka 4.4."},
	{Name: "streams.session.timeout.ms", Type: topicconf.Int, Default: "45000", Min: 1, Max: maxInt, Low: 45_000, High: 60_000, Synonym: "group.streams.session.timeout.ms", Effect: true,
		Doc: "Milliseconds without a heartbeat after which a member of a streams group is removed."},
	{Name: "streams.task.offset.interval.ms", Type: topicconf.Int, Default: "60000", Min: 1, Max: maxInt, Low: 15_000, Bound: lowOnly, Internal: true, Synonym: "group.streams.task.offset.interval.ms", Effect: true,
		Doc: "Milliseconds between two reports of how far a client of a streams group has the state of its tasks."},
}
