package difftest

// difference is an entry of the table: where the two brokers may differ, and why. In patterns * stands for anything.
type difference struct {
	api    string // pattern
	at     string // pattern of case/request
	field  string // pattern of the path within the response; "connection": whether there was an answer
	godwit string // pattern of Godwit's value
	kfake  string // pattern of kfake's
	like   string // which of the two answers as Apache Kafka does
	why    string
}

// Who is like Apache Kafka.
const (
	ours    = "Godwit"
	fakes   = "kfake"
	either  = "either"
	neither = "neither"
)

// table lists all differences. Which side is like Kafka was looked up in its source for groups, timestamps, formats and deletion, and
// is known from its protocol otherwise.
var table = []difference{
	{"*", "*", "*ErrorMessage", "*", "*", either, "Texts are for people; kfake mostly sends none."},
	{"*", "*", "*Rack", "null", "krack", either, "kfake says that its brokers are in a rack; Godwit has no setting for one."},
	{"*", "refused/no group", "ErrorCode", "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", ours, "Members need a group with a name."},
	{"*", "refused/unknown group", "ErrorCode", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND", ours, "Of a group that is not there, nobody is a member."},
	{"ApiVersions", "*", "ApiKeys[*]", absent, present, fakes, "Not served: transactions, share groups, the new consumer groups (KIP-848), ACL changes, quotas, SASL, reassignment, telemetry and features. Clients see from this that they must not ask."},
	{"ApiVersions", "*", "ApiKeys[*].MinVersion", "*", "*", ours, "The lowest versions are Kafka's after KIP-896. Produce is announced from 0 on for old librdkafka (KAFKA-18659)."},
	{"ApiVersions", "*", "ApiKeys[ListOffsets].MaxVersion", "11", "10", ours, "Kafka 4.4 serves version 11; kfake does not know it yet."},
	{"ApiVersions", "*", "*Features*", "*", "*", fakes, "Godwit announces no features: a finalized one would switch clients to protocols that are not served."},
	{"Produce", "*", "*].BaseOffset", "-1", "*", ours, "The offset of a batch that was refused is -1."},
	{"Produce", "*", "*].LogStartOffset", "-1", "0", fakes, "Godwit tells no log start with a batch that is refused before it comes to the log, also where Kafka's log refuses it; kfake takes these batches. Producers read it only behind UNKNOWN_PRODUCER_ID."},
	{"Produce", "idempotent/*", "*].LogStartOffset", "0", "-1", ours, "What the log itself refuses is answered with the log start, from which a producer sees whether its records were deleted."},
	{"Produce", "random/produce out of order", "*].LogStartOffset", "*", "-1", ours, "As with the cases of idempotent producers."},
	{"Produce", "*/duplicate*", "*].LogStartOffset", "0", "-1", ours, "A duplicate is answered like the first delivery, with the log start."},
	{"Produce", "*", "*].ErrorRecords[*]", present, absent, ours, "Godwit names each record that is refused (KIP-467)."},
	{"Produce", "codecs/zstd", "*].ErrorCode", "UNSUPPORTED_COMPRESSION_TYPE", "NONE", ours, "zstd is for Produce from version 7 on (KIP-110)."},
	{"Produce", "refused/count and delta differ", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", ours, "A range of offsets that does not go with the count is an invalid record."},
	{"Produce", "refused/no records", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", ours, "A batch without records is an invalid record."},
	{"Produce", "refused/first offset", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", ours, "A batch of a client that does not begin at offset 0 is an invalid record."},
	{"Produce", "refused/two batches", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", ours, "A second batch for a partition is an invalid record."},
	{"Produce", "refused/length too small", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", fakes, "Godwit sees the bytes behind the batch before it looks at the checksum. Producers give up on either."},
	{"Produce", "refused/empty", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", ours, "A partition without a batch is an invalid record."},
	{"Produce", "refused/null", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", ours, "A partition without a batch is an invalid record."},
	{"Produce", "refused/length too large", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", ours, "A part of a batch counts as none."},
	{"Produce", "refused/short", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", ours, "A part of a batch counts as none."},
	{"Produce", "refused/magic *", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", ours, "Message sets of magic 0 and 1 are invalid records since Produce 3."},
	{"Produce", "refused/too * announced", "*].ErrorCode", "INVALID_RECORD", "NONE", ours, "kfake does not count the records in a batch."},
	{"Produce", "refused/codec 5", "*].ErrorCode", "UNSUPPORTED_COMPRESSION_TYPE", "CORRUPT_MESSAGE", neither, "Kafka fails with UNKNOWN_SERVER_ERROR on a codec that it does not know."},
	{"Produce", "refused/future", "*].ErrorCode", "INVALID_TIMESTAMP", "NONE", ours, "kfake has no message.timestamp.after.max.ms."},
	{"Produce", "refused/producer without sequence", "*].ErrorCode", "INVALID_RECORD", "OUT_OF_ORDER_SEQUENCE_NUMBER", ours, "A producer ID without a sequence is an invalid record."},
	{"Produce", "refused/log append time", "*].LogAppendTime", "-1", "now", ours, "Whether the broker stamps records is the topic's configuration, not the client's attribute."},
	{"Produce", "config/log append time", "*].LogAppendTime", "now", "-1", ours, "kfake has no message.timestamp.type."},
	{"Produce", "config/log append time of the client", "*].*", "*", "*", ours, "Producers cannot set the timestamp type LogAppendTime where the broker stamps."},
	{"Produce", "config/without keys", "*].ErrorCode", "INVALID_RECORD", "NONE", ours, "Compacted topics take only records with keys; kfake does not look."},
	{"ListOffsets", "random/list -3", "*", "*", "*", fakes, "The largest timestamp is looked for among the records that can be read; Kafka may answer with a record below the log start, as long as its segment is there."},
	{"Fetch", "codecs/read", "*", "*", "*", ours, "What follows from the batch in zstd that kfake takes in Produce below version 7."},
	{"Fetch", "*", "*].HighWatermark", "-1", "*", ours, "With an error Kafka tells no offsets of the partition."},
	{"Fetch", "*", "*].LastStableOffset", "-1", "*", ours, "With an error Kafka tells no offsets of the partition."},
	{"Fetch", "*", "*].LogStartOffset", "-1", "*", ours, "With an error Kafka tells no offsets of the partition."},
	{"Fetch", "unknown/topic", "*].ErrorCode", "UNKNOWN_TOPIC_ID", "NONE", ours, "kfake answers an unknown topic ID outside of a session without an error."},
	{"OffsetForLeaderEpoch", "epochs/negative", "*].EndOffset", "-1", "0", ours, "An undefined epoch has an undefined end."},
	{"DeleteRecords", "*", "*].LowWatermark", "-1", "0", ours, "With an error the low watermark is -1."},
	{"DeleteRecords", "delete/less than before", "*", "*", "*", ours, "Deleting up to below the log start does nothing, and is no error."},
	{"DeleteRecords", "random/trim", "*", "*", "*", ours, "As above: the log may already begin there."},
	{"InitProducerID", "init/empty transactional", "ProducerEpoch", "-1", "0", ours, "With an error the epoch is -1."},
	{"InitProducerID", "init/transactional", "*", "*", "*", fakes, "There are no transactions: a transactional ID is refused with UNSUPPORTED_VERSION, which producers report at once."},
	{"DescribeProducers", "producers/one", "*].ActiveProducers[*]", present, absent, ours, "kfake lists only producers in a transaction."},
	{"Metadata", "topics/invalid", "*].ErrorCode", "INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION", ours, "kfake does not check names."},
	{"Metadata", "*", "Topics[*]", present, absent, ours, "In version 0 an empty list asks for all topics."},
	{"DescribeCluster", "*", "ClusterAuthorizedOperations", "8096", "8184", ours, "Kafka names the seven operations that a cluster has."},
	{"DescribeCluster", "cluster/controllers", "*", "*", "*", ours, "A broker refuses to describe controllers (KIP-919); kfake does not look at the endpoint type."},
	{"DescribeTopicPartitions", "pages/invalid", "*].ErrorCode", "INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION", ours, "kfake does not check names."},
	{"DescribeTopicPartitions", "pages/negative cursor", "connection", "answer", "connection closed", ours, "Kafka answers with INVALID_REQUEST; kfake closes the connection."},
	{"DescribeLogDirs", "*", "Dirs[/data]", present, absent, ours, "A log directory is listed though none of the partitions that were asked for is in it; its name is the broker's own."},
	{"DescribeLogDirs", "*", "Dirs[/mem/kfake]", absent, present, either, "kfake's log directory has another name."},
	{"DescribeACLs", "*", "ErrorCode", "SECURITY_DISABLED", "NONE", ours, "Without an authorizer Kafka says that security is disabled."},
	{"FindCoordinator", "find/transaction", "*", "*", "*", fakes, "There are no transactions, hence no coordinators for them."},
	{"FindCoordinator", "find/unknown kind", "*NodeID", "-1", "node", ours, "With an error no node is named."},
	{"CreateTopics", "create/unknown config", "*", "*", "*", ours, "kfake accepts any configuration of a new topic."},
	{"CreateTopics", "create/bad config *", "*", "*", "*", ours, "kfake accepts any configuration of a new topic."},
	{"CreateTopics", "create/negative partitions", "*", "*", "*", ours, "The number of partitions is -1 or above 0."},
	{"CreateTopics", "create/no replicas", "*", "*", "*", ours, "The replication factor is -1 or above 0."},
	{"CreateTopics", "create/odd name", "*", "*", "*", ours, "kfake does not check names."},
	{"CreateTopics", "create/dots", "*", "*", "*", ours, "kfake does not check names."},
	{"CreateTopics", "create/empty name", "*", "*", "*", ours, "kfake does not check names."},
	{"CreateTopics", "create/long name", "*", "*", "*", ours, "kfake does not check names."},
	{"CreateTopics", "create/dry", "Topics[*].TopicID", "new ID", "none", ours, "Kafka answers a validation with the ID that it had drawn."},
	{"CreateTopics", "*", "*.Configs[*]", present, absent, ours, "Kafka answers with all of a new topic's configuration (KIP-525), kfake with what was set."},
	{"CreateTopics", "*", "*.Configs[*].Source", "1", "-1", ours, "kfake does not say where a value comes from."},
	{"ListConfigResources", "*", "ConfigResources[*]", absent, present, ours, "Follows from the names that kfake accepts for topics."},
	{"DeleteTopics", "*", "Topics[*]", "*", "*", ours, "A topic that was asked for by an unknown ID has no name in the answer; kfake sends an empty one."},
	{"CreatePartitions", "grow/same", "*].ErrorCode", "INVALID_PARTITIONS", "NONE", ours, "A topic that has as many partitions already is an error."},
	{"DescribeConfigs", "*", "Resources[*].Configs[*]*", present, absent, ours, "Kafka lists every topic configuration with its synonyms; kfake knows some."},
	{"DescribeConfigs", "*", "Resources[*].Configs[*]*", "*", "*", ours, "kfake has other defaults, and lists the default in place of the value among the synonyms."},
	{"DescribeConfigs", "describe/odd topic", "*].ErrorCode", "INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION", ours, "kfake does not check names."},
	{"AlterConfigs", "replace/*", "*].ErrorCode", "INVALID_CONFIG", "NONE", ours, "kfake accepts any name and value."},
	{"IncrementalAlterConfigs", "change/append to a number", "*].ErrorCode", "INVALID_CONFIG", "INVALID_REQUEST", ours, "Appending is for lists."},
	{"IncrementalAlterConfigs", "change/*", "*].ErrorCode", "INVALID_CONFIG", "NONE", ours, "kfake accepts any name and value."},
	{"IncrementalAlterConfigs", "change/null value", "*].ErrorCode", "INVALID_REQUEST", "NONE", ours, "Only deleting goes without a value."},
	{"LeaveGroup", "refused/unknown group", "*", "*", "*", ours, "Of a group that is not there, nobody is a member; from version 3 on each is answered apart."},
	{"JoinGroup", "refused/unknown member*", "MemberID", "nobody", "", ours, "Kafka repeats the ID that it does not know."},
	{"DescribeGroups", "*", "*].ClientHost", "/127.0.0.1", "127.0.0.1:port", ours, "Java's form of an address."},
	{"DescribeGroups", "*", "*].MemberAssignment", "65766572797468696e67", "", ours, "Until the leader brings the next assignment, a member has its last one."},
	{"DescribeGroups", "groups/describe no name", "*].State", "Dead", "Empty", fakes, "Follows from the commit to the group without a name."},
	{"OffsetFetch", "*", "*ErrorCode", "NONE", "GROUP_ID_NOT_FOUND", ours, "A group that is not there has no offsets, which is no error."},
	{"OffsetFetch", "*", "*Topics[*]", present, absent, ours, "A group that is not there has the offset -1 in every partition that was asked for."},
	{"OffsetFetch", "*", "*].Metadata", "", "null", ours, "Without an offset the metadata is empty."},
	{"OffsetFetch", "offsets/topic", "*].ErrorCode", "UNKNOWN_TOPIC_ID", "NONE", ours, "kfake does not look up topic IDs of offsets."},
	{"OffsetCommit", "offsets/long metadata", "*].ErrorCode", "OFFSET_METADATA_TOO_LARGE", "NONE", ours, "kfake has no offset.metadata.max.bytes."},
	{"OffsetCommit", "offsets/generation of an unknown group", "*].ErrorCode", "GROUP_ID_NOT_FOUND", "ILLEGAL_GENERATION", ours, "From version 9 on Kafka says that there is no such group."},
	{"OffsetCommit", "offsets/no group", "*].ErrorCode", "INVALID_GROUP_ID", "NONE", fakes, "Kafka still keeps offsets of a group without a name, for consumers of before 2.2; Godwit refuses it."},
	{"DeleteGroups", "groups/delete no name", "*].ErrorCode", "GROUP_ID_NOT_FOUND", "NONE", fakes, "Follows from the commit to the group without a name."},
	{"ListGroups", "groups/list *", "Groups[*]", absent, present, fakes, "Follows from the commit to the group without a name."},
	{"OffsetDelete", "offsets/*", "*", "*", "*", fakes, "A group without members is gone with its last offset; in Kafka it stays until its next look for expired offsets."},
	{"OffsetDelete", "offsets/no group", "ErrorCode", "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", ours, "Offsets are deleted of a group with a name."},
	{"ShareGroupHeartbeat", "*", "MemberEpoch", "2", "1", ours, "A share group begins in epoch 1, so its first member brings epoch 2."},
	{"ShareGroupHeartbeat", "*", "HeartbeatIntervalMillis", "0", "5000", ours, "Who leaves or is refused is told no interval."},
	{"ShareGroupHeartbeat", "*", "Assignment.TopicPartitions[*]", absent, present, ours, "A partition is assigned once its state is made, which a later heartbeat finds."},
	{"ShareGroupDescribe", "*", "*Epoch", "2", "1", ours, "A share group begins in epoch 1."},
	{"ShareGroupDescribe", "*", "*].ClientHost", "/127.0.0.1", "127.0.0.1:port", ours, "Java's form of an address."},
	{"ShareGroupDescribe", "*/describe no name", "*].ErrorCode", "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", ours, "Groups have names."},
	{"DeleteShareGroupOffsets", "*/delete without a name", "ErrorCode", "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", ours, "Groups have names."},
	{"DeleteShareGroupOffsets", "*/delete again", "*", "*", "*", ours, "A group without offsets is still there; kfake forgets it with the last."},
}
