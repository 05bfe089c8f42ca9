package difftest

// What kinds of differences from Apache Kafka there are.
const (
	choice = "own"    // what a broker decides for itself
	wanted = "wanted" // Godwit is clearer
	limit  = "limit"  // of Godwit
)

// kafkaTable lists all differences from Apache Kafka 4.4.
var kafkaTable = []difference{
	{"*", "*", "*ErrorMessage", "*", "*", choice, "Texts are for people."},
	{"ApiVersions", "*", "ApiKeys[*ShareGroupState*]", absent, present, choice, "Requests between Kafka's brokers and its share coordinator; Godwit keeps that state in the partition's own journal."},
	{"ApiVersions", "*", "ApiKeys[*RaftVoter]", absent, present, choice, "Requests to Kafka's controllers, as are the next ones: Godwit has other ways to add, remove and ask nodes."},
	{"ApiVersions", "*", "ApiKeys[Unregister*]", absent, present, choice, "As above."},
	{"ApiVersions", "*", "ApiKeys[DescribeQuorum]", absent, present, choice, "As above."},
	{"ApiVersions", "*", "ApiKeys[UpdateFeatures]", absent, present, choice, "Features follow from the version of Godwit."},
	{"ApiVersions", "*", "ApiKeys[AlterReplicaLogDirs]", absent, present, choice, "A node has one log directory."},
	{"ApiVersions", "*", "ApiKeys[*SASL*]", absent, present, limit, "Authentication is not there yet."},
	{"ApiVersions", "*", "ApiKeys[*SCRAM*]", absent, present, limit, "As above."},
	{"ApiVersions", "*", "ApiKeys[*DelegationToken]", absent, present, limit, "As above."},
	{"ApiVersions", "*", "ApiKeys[*ACLs]", absent, present, limit, "There is no authorizer yet; DescribeACLs says so."},
	{"ApiVersions", "*", "ApiKeys[*ClientQuotas]", absent, present, limit, "There are no quotas yet."},
	{"ApiVersions", "*", "ApiKeys[*Partition*]", absent, present, limit, "Partitions have one replica yet: there is nothing to reassign."},
	{"ApiVersions", "*", "ApiKeys[ElectLeaders]", absent, present, limit, "As above."},
	{"ApiVersions", "*", "ApiKeys[StreamsGroupTopologyDescriptionUpdate]", absent, present, limit, "Kafka Streams tells its description to brokers with a plugin that keeps it; Kafka comes without one, and Godwit has none."},
	{"ApiVersions", "*", "*Features[*]", absent, present, choice, "Features of Kafka's controllers, which clients do not look at."},
	{"ApiVersions", "*", "FinalizedFeaturesEpoch", "*", "*", choice, "A count of a broker's own."},
	{"Produce", "*", "*].LogStartOffset", "-1", "0", limit, "Godwit tells no log start with a batch that is refused before it comes to the log, also where Kafka's log refuses it. Producers read it only behind UNKNOWN_PRODUCER_ID."},
	{"Produce", "*", "*].LogAppendTime", "-1", "base+*", wanted, "Kafka answers a duplicate with the largest timestamp of its records as time of append, though the topic has the time of creation."},
	{"Produce", "refused/length too small", "*].ErrorCode", "INVALID_RECORD", "CORRUPT_MESSAGE", choice, "Godwit sees the bytes behind the batch before it looks at the checksum. Producers give up on either."},
	{"Produce", "refused/codec 5", "*].ErrorCode", "UNSUPPORTED_COMPRESSION_TYPE", "UNKNOWN_SERVER_ERROR", wanted, "The client learns what is wrong."},
	{"Produce", "refused/null", "connection", "answer", "no answer", wanted, "A partition without a batch is an invalid record. Kafka fails, and never answers."},
	{"Produce", "txn records/*er epoch", "*].LogStartOffset", "0", "-1", choice, "Godwit tells the log start with all that the log refuses, Kafka not where it looks at the transaction first."},
	{"ListOffsets", "random/list -3", "*", "*", "*", wanted, "The largest timestamp is looked for among the records that can be read; Kafka may answer with a record below the log start, as long as its segment is there."},
	{"Fetch", "*", "*].RecordBatches", "*", "* bytes more", wanted, "Where a fetch is full, Kafka sends the beginning of one more batch, which clients throw away."},
	{"Metadata", "topics/*", "Topics[__*]", absent, present, choice, "Kafka's coordinators keep their state in topics, Godwit's in the journals of its shards."},
	{"ListConfigResources", "resources/*", "ConfigResources[__*]", absent, present, choice, "As above."},
	{"DescribeLogDirs", "*", "Dirs[*]", "*", "*", choice, "The name of the log directory."},
	{"CreateTopics", "*", "*.Configs[min.insync.replicas].Source", "5", "3", choice, "Kafka sets a default of the cluster for its eligible leader replicas."},
	{"DescribeConfigs", "*", "*.Configs[min.insync.replicas]*", "*", "*", choice, "As above."},
	{"DescribeConfigs", "*", "*.ConfigSynonyms[log.*]", present, absent, choice, "Kafka leaves out a synonym of the broker that is not set, Godwit shows it with its default."},
	{"DescribeConfigs", "group configs/*", "*.Configs[*].Source", "5", "4", limit, "What a group takes from a broker's setting is shown as a default; Kafka tells a setting from a default."},
	{"DescribeConfigs", "group configs/*", "*.ConfigSynonyms[*].Source", "5", "4", limit, "As above."},
	{"DescribeConfigs", "group configs/*", "*.ConfigSynonyms[*]", absent, present, limit, "As above: the default behind the setting is missing."},
	{"IncrementalAlterConfigs", "change/unknown op", "*].ErrorCode", "INVALID_REQUEST", "UNKNOWN_SERVER_ERROR", wanted, "The client learns what is wrong."},
	{"DescribeProducers", "*", "*].CoordinatorEpoch", "*", "*", choice, "A count of a broker's own."},
	{"OffsetCommit", "offsets/no group", "*].ErrorCode", "INVALID_GROUP_ID", "NONE", limit, "Kafka still keeps offsets of a group without a name, for consumers of before 2.2; Godwit refuses it."},
	{"DescribeGroups", "groups/describe no name", "*].State", "Dead", "Empty", limit, "Follows from the commit to the group without a name."},
	{"DeleteGroups", "groups/delete no name", "*].ErrorCode", "GROUP_ID_NOT_FOUND", "NONE", limit, "Follows from the commit to the group without a name."},
	{"ListGroups", "groups/list *", "Groups[*]", absent, present, limit, "Follows from the commit to the group without a name."},
	{"OffsetDelete", "offsets/*", "*", "*", "*", wanted, "A group without members is gone with its last offset; in Kafka it stays until its next look for expired offsets, up to ten minutes."},
	{"JoinGroup", "consumer share/of a classic member without a subscription", "MemberID", "member*", "", choice, "Godwit repeats the ID of the member that it refuses."},
	{"ConsumerGroupHeartbeat", "*", "HeartbeatIntervalMillis", "1000", "5000", wanted, "A member that waits for partitions comes back in a second, so that a rebalance takes less time; Kafka lets it wait for its interval."},
	{"ConsumerGroupHeartbeat", "consumer subscriptions/expression *", "MemberEpoch", "2", "1", wanted, "An expression is resolved at once; in Kafka by a later heartbeat."},
	{"ConsumerGroupHeartbeat", "consumer subscriptions/expression *", "Assignment.Topics[*]", present, absent, wanted, "As above."},
	{"ShareFetch", "queue refused/empty group", "ErrorCode", "INVALID_GROUP_ID", "NONE", wanted, "A group without a name is refused as a whole; Kafka fails at each partition with UNKNOWN_SERVER_ERROR."},
	{"ShareFetch", "queue refused/empty group", "AcquisitionLockTimeoutMillis", "0", "30000", wanted, "As above: a request that is refused is told no time."},
	{"ShareFetch", "queue refused/empty group", "Topics[*]", absent, present, wanted, "As above."},
	{"ShareFetch", "queue/some released", "*].AcquiredRecords[*]", absent, present, choice, "MaxRecords may be exceeded up to the end of a batch: Kafka does so also among the records that are released, Godwit only with new ones."},
	{"DescribeShareGroupOffsets", "queue acks/*", "*].StartOffset", "*", "*", wanted, "Godwit tells the start offset in force; Kafka the one that it wrote last, which is behind by an acknowledgement. The lag is the same."},
	{"DescribeShareGroupOffsets", "queue acks/offsets no name", "*", "*", "*", wanted, "Of a group that is not there the offsets are unknown, whatever its name; Kafka fails with UNKNOWN_SERVER_ERROR."},
}
