package difftest

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// adminPlays are the cases about topics, their configuration and the cluster.
func adminPlays() []play {
	return []play{
		{kmsg.ApiVersions, "versions", apiVersions},
		{kmsg.Metadata, "topics", metadata},
		{kmsg.DescribeCluster, "cluster", describeCluster},
		{kmsg.DescribeTopicPartitions, "pages", describeTopicPartitions},
		{kmsg.CreateTopics, "create", createTopics},
		{kmsg.DeleteTopics, "delete", deleteTopics},
		{kmsg.CreatePartitions, "grow", createPartitions},
		{kmsg.DescribeConfigs, "describe", describeConfigs},
		{kmsg.AlterConfigs, "replace", alterConfigs},
		{kmsg.IncrementalAlterConfigs, "change", incrementalAlterConfigs},
		{kmsg.DescribeLogDirs, "dirs", describeLogDirs},
		{kmsg.DescribeACLs, "acls", describeACLs},
		{kmsg.ListConfigResources, "resources", listConfigResources},
	}
}

func apiVersions(x *exchange) {
	ask := func(label, name, version string) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
		x.same(label, req)
	}
	ask("", "difftest", "1.0")
	ask("odd software", "diff test", "1.0")
	ask("no software", "", "")
}

func metadata(x *exchange) {
	a, _ := x.topic("a", 3, nil), x.topic("b", 1, nil)
	ask := func(label string, edit func(req *kmsg.MetadataRequest, s *side)) {
		x.t.Helper()
		x.each(label, func(_ int, s *side) kmsg.Request {
			req := kmsg.NewPtrMetadataRequest()
			edit(req, s)
			return req
		})
	}
	names := func(names ...string) func(*kmsg.MetadataRequest, *side) {
		return func(req *kmsg.MetadataRequest, _ *side) {
			for _, n := range names {
				rt := kmsg.NewMetadataRequestTopic()
				rt.Topic = &n
				req.Topics = append(req.Topics, rt)
			}
		}
	}
	ask("all", func(req *kmsg.MetadataRequest, _ *side) { req.Topics = nil })
	ask("none", func(req *kmsg.MetadataRequest, _ *side) { req.Topics = []kmsg.MetadataRequestTopic{} })
	ask("one", names(a))
	ask("unknown", names(x.name("nothing")))
	ask("invalid", names(x.name("a b")))
	ask("twice", names(a, a))
	ask("operations", func(req *kmsg.MetadataRequest, s *side) {
		names(a)(req, s)
		req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
	})
	if x.version >= 10 {
		byID := func(topic string) func(*kmsg.MetadataRequest, *side) {
			return func(req *kmsg.MetadataRequest, s *side) {
				rt := kmsg.NewMetadataRequestTopic()
				rt.TopicID = s.id(topic)
				req.Topics = append(req.Topics, rt)
			}
		}
		ask("by ID", byID(a))
		ask("unknown ID", byID("nothing"))
	}
}

func describeCluster(x *exchange) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 1
	x.same("", req)
	req.IncludeClusterAuthorizedOperations = true
	x.same("operations", req)
	req.EndpointType = 2
	x.same("controllers", req)
}

func describeTopicPartitions(x *exchange) {
	a, b := x.topic("a", 3, nil), x.topic("b", 2, nil)
	ask := func(label string, limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, topics ...string) {
		x.t.Helper()
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit, req.Cursor = limit, cursor
		for _, t := range topics {
			rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
			rt.Topic = t
			req.Topics = append(req.Topics, rt)
		}
		x.same(label, req)
	}
	cursor := func(topic string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = topic, partition
		return &c
	}
	ask("both", 2000, nil, a, b)
	ask("limited", 2, nil, a, b)
	ask("from a cursor", 2000, cursor(a, 1), a, b)
	ask("from a cursor behind", 2000, cursor(b, 0), a, b)
	ask("negative cursor", 2000, cursor(a, -1), a)
	ask("unknown", 2000, nil, x.name("nothing"))
	ask("invalid", 2000, nil, x.name("a b"))
}

// newTopic is a topic to be made.
func newTopic(name string, partitions int32, replicas int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, replicas
	for i := 0; i < len(configs); i += 2 {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = configs[i], &configs[i+1]
		rt.Configs = append(rt.Configs, rc)
	}
	return rt
}

func createTopics(x *exchange) {
	ask := func(label string, dry bool, topics ...kmsg.CreateTopicsRequestTopic) {
		x.t.Helper()
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis, req.ValidateOnly, req.Topics = 10_000, dry, topics
		x.each(label, func(_ int, s *side) kmsg.Request {
			req := copyAt(req, x.version)
			for i := range req.(*kmsg.CreateTopicsRequest).Topics {
				for j := range req.(*kmsg.CreateTopicsRequest).Topics[i].ReplicaAssignment {
					req.(*kmsg.CreateTopicsRequest).Topics[i].ReplicaAssignment[j].Replicas = []int32{s.node}
				}
			}
			return req
		})
		for i := range x.sides {
			for _, t := range topics {
				if !dry && !strings.Contains(t.Topic, " ") {
					x.learn(i, t.Topic)
				}
			}
		}
	}
	n := x.name
	ask("dry", true, newTopic(n("dry"), 2, 1))
	// IDs of new topics are learned after the answer: those that bring them are not compared by name.
	ask("one", false, newTopic(n("a"), 2, 1))
	ask("exists", false, newTopic(n("a"), 2, 1))
	ask("defaults", false, newTopic(n("defaults"), -1, -1))
	ask("configured", false, newTopic(n("configured"), 1, 1, "retention.ms", "1000", "cleanup.policy", "compact"))
	ask("unknown config", false, newTopic(n("x1"), 1, 1, "no.such.config", "1"))
	ask("bad config value", false, newTopic(n("x2"), 1, 1, "retention.ms", "soon"))
	ask("bad config choice", false, newTopic(n("x3"), 1, 1, "cleanup.policy", "shred"))
	ask("no partitions", false, newTopic(n("x4"), 0, 1))
	ask("negative partitions", false, newTopic(n("x5"), -2, 1))
	ask("no replicas", false, newTopic(n("x6"), 1, 0))
	ask("too many replicas", false, newTopic(n("x7"), 1, 3))
	ask("odd name", false, newTopic(n("a b"), 1, 1))
	ask("dots", false, newTopic("..", 1, 1))
	ask("empty name", false, newTopic("", 1, 1))
	ask("long name", false, newTopic(n(strings.Repeat("x", 250)), 1, 1))
	ask("with a dot", false, newTopic(n("p.q"), 1, 1))
	ask("colliding", false, newTopic(n("p_q"), 1, 1))
	ask("twice", false, newTopic(n("x8"), 1, 1), newTopic(n("x8"), 1, 1))
	assigned := newTopic(n("assigned"), -1, -1)
	ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	ra.Replicas = []int32{0}
	assigned.ReplicaAssignment = append(assigned.ReplicaAssignment, ra)
	ask("assigned", false, assigned)
	assigned.Topic, assigned.NumPartitions = n("x9"), 1
	ask("assigned and counted", false, assigned)
	assigned = newTopic(n("x10"), -1, -1)
	ra.Partition = 1
	assigned.ReplicaAssignment = append(assigned.ReplicaAssignment, ra)
	ask("assigned from 1", false, assigned)
}

// copyAt copies a request as its version carries it.
func copyAt(req kmsg.Request, version int16) kmsg.Request {
	req.SetVersion(version)
	return copyOf(req)
}

func deleteTopics(x *exchange) {
	a, b := x.topic("a", 1, nil), x.topic("b", 2, nil)
	ask := func(label string, name, id string) {
		x.t.Helper()
		x.each(label, func(_ int, s *side) kmsg.Request {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TimeoutMillis = 10_000
			if x.version < 6 {
				req.TopicNames = []string{name}
				return req
			}
			rt := kmsg.NewDeleteTopicsRequestTopic()
			if name != "" {
				rt.Topic = &name
			}
			if id != "" {
				rt.TopicID = s.id(id)
			}
			req.Topics = append(req.Topics, rt)
			return req
		})
	}
	ask("one", a, "")
	ask("again", a, "")
	ask("unknown", x.name("nothing"), "")
	if x.version >= 6 {
		ask("by ID", "", b)
		ask("by unknown ID", "", "nothing")
		ask("neither", "", "")
	}
}

func createPartitions(x *exchange) {
	t := x.topic("t", 2, nil)
	ask := func(label, topic string, count int32, dry bool, assigned int) {
		x.t.Helper()
		x.each(label, func(_ int, s *side) kmsg.Request {
			req := kmsg.NewPtrCreatePartitionsRequest()
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count = topic, count
			for range assigned {
				ra := kmsg.NewCreatePartitionsRequestTopicAssignment()
				ra.Replicas = []int32{s.node}
				rt.Assignment = append(rt.Assignment, ra)
			}
			req.TimeoutMillis, req.ValidateOnly, req.Topics = 10_000, dry, append(req.Topics, rt)
			return req
		})
	}
	ask("dry", t, 5, true, 0)
	ask("more", t, 3, false, 0)
	ask("same", t, 3, false, 0)
	ask("fewer", t, 1, false, 0)
	ask("negative", t, -1, false, 0)
	ask("assigned", t, 4, false, 1)
	ask("assigned too many", t, 5, false, 2)
	ask("unknown", x.name("nothing"), 3, false, 0)
}

// resource asks for the configuration of one resource.
func (x *exchange) resource(label string, kind kmsg.ConfigResourceType, name func(*side) string, names ...string) {
	x.t.Helper()
	x.each(label, func(_ int, s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeConfigsRequest()
		rr := kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName, rr.ConfigNames = kind, name(s), names
		req.IncludeSynonyms, req.Resources = true, append(req.Resources, rr)
		return req
	})
}

func fixedName(name string) func(*side) string { return func(*side) string { return name } }

func describeConfigs(x *exchange) {
	t := x.topic("t", 1, map[string]string{"retention.ms": "1000000", "cleanup.policy": "compact,delete"})
	x.resource("some", kmsg.ConfigResourceTypeTopic, fixedName(t), "retention.ms", "cleanup.policy", "max.message.bytes", "segment.bytes")
	x.resource("all", kmsg.ConfigResourceTypeTopic, fixedName(t))
	x.resource("unknown config", kmsg.ConfigResourceTypeTopic, fixedName(t), "no.such.config")
	x.resource("unknown topic", kmsg.ConfigResourceTypeTopic, fixedName(x.name("nothing")))
	x.resource("odd topic", kmsg.ConfigResourceTypeTopic, fixedName(x.name("a b")))
	x.resource("unknown broker", kmsg.ConfigResourceTypeBroker, fixedName("4711"))
	x.resource("odd broker", kmsg.ConfigResourceTypeBroker, fixedName("one"))
	x.resource("unknown kind", kmsg.ConfigResourceType(77), fixedName(t))
}

func alterConfigs(x *exchange) {
	t := x.topic("t", 1, map[string]string{"retention.ms": "1000000", "cleanup.policy": "compact,delete"})
	ask := func(label string, kind kmsg.ConfigResourceType, topic string, dry bool, configs ...string) {
		x.t.Helper()
		req := kmsg.NewPtrAlterConfigsRequest()
		rr := kmsg.NewAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kind, topic
		for i := 0; i < len(configs); i += 2 {
			rc := kmsg.NewAlterConfigsRequestResourceConfig()
			rc.Name, rc.Value = configs[i], &configs[i+1]
			rr.Configs = append(rr.Configs, rc)
		}
		req.ValidateOnly, req.Resources = dry, append(req.Resources, rr)
		x.same(label, req)
	}
	topics := kmsg.ConfigResourceTypeTopic
	ask("dry", topics, t, true, "retention.ms", "5")
	ask("replace", topics, t, false, "retention.ms", "2000000")
	x.resource("after", topics, fixedName(t), "retention.ms", "cleanup.policy")
	ask("bad value", topics, t, false, "retention.ms", "soon")
	ask("unknown config", topics, t, false, "no.such.config", "1")
	ask("unknown topic", topics, x.name("nothing"), false, "retention.ms", "5")
	ask("unknown kind", kmsg.ConfigResourceType(77), t, false, "retention.ms", "5")
	ask("none", topics, t, false)
	x.resource("after none", topics, fixedName(t), "retention.ms", "cleanup.policy")
}

func incrementalAlterConfigs(x *exchange) {
	t := x.topic("t", 1, map[string]string{"retention.ms": "1000000", "cleanup.policy": "delete"})
	ask := func(label string, kind kmsg.ConfigResourceType, topic, name string, op kmsg.IncrementalAlterConfigOp, value *string) {
		x.t.Helper()
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Op, rc.Value = name, op, value
		rr := kmsg.NewIncrementalAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName, rr.Configs = kind, topic, append(rr.Configs, rc)
		req.Resources = append(req.Resources, rr)
		x.same(label, req)
	}
	topics := kmsg.ConfigResourceTypeTopic
	set, del, add, sub := kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	v := func(s string) *string { return &s }
	after := func(label string) {
		x.t.Helper()
		x.resource(label, topics, fixedName(t), "retention.ms", "cleanup.policy")
	}
	ask("set", topics, t, "retention.ms", set, v("2000000"))
	ask("append", topics, t, "cleanup.policy", add, v("compact"))
	after("after append")
	ask("append again", topics, t, "cleanup.policy", add, v("compact"))
	ask("subtract", topics, t, "cleanup.policy", sub, v("delete"))
	after("after subtract")
	ask("delete", topics, t, "retention.ms", del, nil)
	after("after delete")
	ask("append to a number", topics, t, "retention.ms", add, v("1"))
	ask("null value", topics, t, "retention.ms", set, nil)
	ask("bad value", topics, t, "retention.ms", set, v("soon"))
	ask("unknown op", topics, t, "retention.ms", kmsg.IncrementalAlterConfigOp(9), v("1"))
	ask("unknown config", topics, t, "no.such.config", set, v("1"))
	ask("unknown topic", topics, x.name("nothing"), "retention.ms", set, v("1"))
	ask("unknown kind", kmsg.ConfigResourceType(77), t, "retention.ms", set, v("1"))
}

func describeLogDirs(x *exchange) {
	t := x.filled("t", 2)
	ask := func(label string, topics ...kmsg.DescribeLogDirsRequestTopic) {
		x.t.Helper()
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = topics
		x.same(label, req)
	}
	of := func(topic string, partitions ...int32) kmsg.DescribeLogDirsRequestTopic {
		rt := kmsg.NewDescribeLogDirsRequestTopic()
		rt.Topic, rt.Partitions = topic, partitions
		return rt
	}
	ask("all")
	ask("one", of(t, 0))
	ask("partition", of(t, 8))
	ask("topic", of(x.name("nothing"), 0))
}

func describeACLs(x *exchange) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	x.same("any", req)
}

func listConfigResources(x *exchange) {
	x.topic("t", 1, nil)
	req := kmsg.NewPtrListConfigResourcesRequest()
	x.same("any", req)
	if x.version >= 1 {
		req.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeTopic)}
		x.same("topics", req)
		req.ResourceTypes = []int8{99}
		x.same("unknown kind", req)
	}
}
