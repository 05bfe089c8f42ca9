package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one row of the list: what is served, in which versions, by which handler.
type api struct {
	key      kmsg.Key
	min, max int16
	run      handler

	// lower makes ApiVersions announce version 0 though min is above. Old librdkafka gives up on a
	// broker that does not announce Produce 0, though it does not use it (KAFKA-18659).
	lower bool
}

// handler answers one request. body is the request behind its header. It returns a kmsg.Response, a
// recordsReply, or nil for a request that has no answer; an error ends the connection.
type handler func(s *Server, ctx context.Context, rc *request, body []byte) (any, error)

// listAPIs is the list of everything served. The versions are those of Apache Kafka 4.4, stable ones only.
func listAPIs() []api {
	return []api{
		{key: kmsg.Produce, min: 3, max: 13, lower: true, run: nil}, // begun by the worker itself
		{key: kmsg.Fetch, min: 4, max: 18, run: (*Server).fetch},
		{key: kmsg.ListOffsets, min: 1, max: 11, run: handle((*Server).listOffsets)},
		{key: kmsg.OffsetForLeaderEpoch, min: 2, max: 4, run: handle((*Server).offsetForLeaderEpoch)},
		{key: kmsg.InitProducerID, min: 0, max: 5, run: handle((*Server).initProducerID)},

		{key: kmsg.AddPartitionsToTxn, min: 0, max: 5, run: handle((*Server).addPartitionsToTxn)},
		{key: kmsg.AddOffsetsToTxn, min: 0, max: 4, run: handle((*Server).addOffsetsToTxn)},
		{key: kmsg.EndTxn, min: 0, max: 5, run: handle((*Server).endTxn)},
		{key: kmsg.WriteTxnMarkers, min: 1, max: 2, run: handle((*Server).writeTxnMarkers)},
		{key: kmsg.TxnOffsetCommit, min: 0, max: 6, run: handle((*Server).txnOffsetCommit)},
		{key: kmsg.DescribeTransactions, min: 0, max: 0, run: handle((*Server).describeTransactions)},
		{key: kmsg.ListTransactions, min: 0, max: 2, run: handle((*Server).listTransactions)},

		{key: kmsg.ApiVersions, min: 0, max: 5, run: handle((*Server).apiVersions)},
		{key: kmsg.Metadata, min: 0, max: 13, run: handle((*Server).metadata)},
		{key: kmsg.DescribeCluster, min: 0, max: 2, run: handle((*Server).describeCluster)},
		{key: kmsg.DescribeTopicPartitions, min: 0, max: 0, run: handle((*Server).describeTopicPartitions)},

		{key: kmsg.FindCoordinator, min: 0, max: 6, run: handle((*Server).findCoordinator)},
		{key: kmsg.JoinGroup, min: 0, max: 9, run: handle((*Server).joinGroup)},
		{key: kmsg.SyncGroup, min: 0, max: 5, run: handle((*Server).syncGroup)},
		{key: kmsg.Heartbeat, min: 0, max: 4, run: handle((*Server).heartbeat)},
		{key: kmsg.LeaveGroup, min: 0, max: 5, run: handle((*Server).leaveGroup)},
		{key: kmsg.OffsetCommit, min: 2, max: 10, run: handle((*Server).offsetCommit)},
		{key: kmsg.OffsetFetch, min: 1, max: 10, run: handle((*Server).offsetFetch)},
		{key: kmsg.OffsetDelete, min: 0, max: 0, run: handle((*Server).offsetDelete)},
		{key: kmsg.ListGroups, min: 0, max: 5, run: handle((*Server).listGroups)},
		{key: kmsg.DescribeGroups, min: 0, max: 6, run: handle((*Server).describeGroups)},
		{key: kmsg.DeleteGroups, min: 0, max: 3, run: handle((*Server).deleteGroups)},

		{key: kmsg.ConsumerGroupHeartbeat, min: 0, max: 1, run: handle((*Server).consumerGroupHeartbeat)},
		{key: kmsg.ConsumerGroupDescribe, min: 0, max: 1, run: handle((*Server).consumerGroupDescribe)},

		{key: kmsg.ShareGroupHeartbeat, min: 1, max: 1, run: handle((*Server).shareGroupHeartbeat)},
		{key: kmsg.ShareGroupDescribe, min: 1, max: 1, run: handle((*Server).shareGroupDescribe)},
		{key: kmsg.ShareFetch, min: 1, max: 2, run: (*Server).shareFetch},
		{key: kmsg.ShareAcknowledge, min: 1, max: 2, run: handle((*Server).shareAcknowledge)},
		{key: kmsg.DescribeShareGroupOffsets, min: 0, max: 1, run: handle((*Server).describeShareGroupOffsets)},
		{key: kmsg.AlterShareGroupOffsets, min: 0, max: 0, run: handle((*Server).alterShareGroupOffsets)},
		{key: kmsg.DeleteShareGroupOffsets, min: 0, max: 0, run: handle((*Server).deleteShareGroupOffsets)},

		{key: kmsg.StreamsGroupHeartbeat, min: 0, max: 1, run: handle((*Server).streamsGroupHeartbeat)},
		{key: kmsg.StreamsGroupDescribe, min: 0, max: 1, run: handle((*Server).streamsGroupDescribe)},

		{key: kmsg.CreateTopics, min: 2, max: 7, run: handle((*Server).createTopics)},
		{key: kmsg.DeleteTopics, min: 1, max: 6, run: handle((*Server).deleteTopics)},
		{key: kmsg.CreatePartitions, min: 0, max: 3, run: handle((*Server).createPartitions)},
		{key: kmsg.DescribeConfigs, min: 1, max: 4, run: handle((*Server).describeConfigs)},
		{key: kmsg.AlterConfigs, min: 0, max: 2, run: handle((*Server).alterConfigs)},
		{key: kmsg.IncrementalAlterConfigs, min: 0, max: 1, run: handle((*Server).incrementalAlterConfigs)},
		{key: kmsg.DeleteRecords, min: 0, max: 2, run: handle((*Server).deleteRecords)},
		{key: kmsg.DescribeLogDirs, min: 1, max: 5, run: handle((*Server).describeLogDirs)},
		{key: kmsg.DescribeProducers, min: 0, max: 0, run: handle((*Server).describeProducers)},
		{key: kmsg.DescribeACLs, min: 1, max: 3, run: handle((*Server).describeACLs)},
		{key: kmsg.ListConfigResources, min: 0, max: 1, run: handle((*Server).listConfigResources)},
	}
}

// handle adapts a handler of one message type: it decodes the request, and gives the response the
// request's version. The decoded request owns its memory.
func handle[T any, R interface {
	*T
	kmsg.Request
}](h func(*Server, context.Context, *request, R) (kmsg.Response, error)) handler {
	return func(s *Server, ctx context.Context, rc *request, body []byte) (any, error) {
		req := R(new(T))
		req.SetVersion(rc.version)
		if err := req.ReadFrom(body); err != nil {
			return nil, malformedf("%s version %d cannot be decoded: %v", rc.api.name, rc.version, err)
		}
		resp, err := h(s, ctx, rc, req)
		if err != nil || resp == nil {
			return nil, err
		}
		resp.SetVersion(rc.version)
		return resp, nil
	}
}

// served is an api as a server has it: with its name and its metrics.
type served struct {
	api
	name string
	m    apiMetrics
}

// apiTable finds a served API by its key.
type apiTable []*served

func newAPITable(list []api, m *metrics) apiTable {
	var t apiTable
	for _, a := range list {
		for int(a.key) >= len(t) {
			t = append(t, nil)
		}
		name := a.key.Name()
		t[a.key] = &served{api: a, name: name, m: m.of(name)}
	}
	return t
}

func (t apiTable) find(key int16) *served {
	if key < 0 || int(key) >= len(t) {
		return nil
	}
	return t[key]
}
