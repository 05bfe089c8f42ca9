package kafka

import (
	"cmp"
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/meta"
)

// DescribeTopicPartitions: version 0 (KIP-966).
//
// Topics come in the order of their names, in pages of at most response_partition_limit partitions. The cursor
// says where the next page begins; its topic need not exist any more.
func (s *Server) describeTopicPartitions(_ context.Context, rc *request, req *kmsg.DescribeTopicPartitionsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	names := make([]string, 0, len(req.Topics))
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	if req.Cursor != nil && (req.Cursor.Partition < 0 || len(names) > 0 && !slices.Contains(names, req.Cursor.Topic)) {
		for _, name := range names {
			t := missingPartitions(rc, kerr.InvalidRequest, name)
			t.AuthorizedOperations = operationsUnknown
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil
	}
	g := paging{s: s, rc: rc, resp: resp, left: int(req.ResponsePartitionLimit), nodes: []int32{s.backend.NodeID()}}
	g.left = max(min(g.left, s.opts.PartitionsPerPage), 1)
	if req.Cursor != nil {
		g.topic, g.first = req.Cursor.Topic, int(req.Cursor.Partition)
	}
	view := s.backend.Meta()
	if len(names) == 0 {
		for _, st := range view.Streams(rc.namespace) {
			if !g.add(st.Name, st) {
				break
			}
		}
		return resp, nil
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		st, _ := view.Stream(rc.namespace, name)
		if !g.add(name, st) {
			break
		}
	}
	return resp, nil
}

// paging fills one page.
type paging struct {
	s     *Server
	rc    *request
	resp  *kmsg.DescribeTopicPartitionsResponse
	topic string // the page begins at this topic's
	first int    // partition
	left  int    // partitions that fit
	nodes []int32
}

// add describes a topic, nil if there is none of that name, and reports whether the page goes on. Names come in order.
func (g *paging) add(name string, st *meta.Stream) bool {
	from := 0
	switch cmp.Compare(name, g.topic) {
	case -1:
		return true
	case 0:
		from = g.first
	}
	if g.left == 0 {
		g.next(name, 0)
		return false
	}
	if st == nil {
		g.resp.Topics = append(g.resp.Topics, missingPartitions(g.rc, missingTopic(name), name))
		return true
	}
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.TopicID, t.IsInternal, t.AuthorizedOperations = &st.Name, st.ID, isInternal(st.Name), operationsTopic
	to := min(len(st.Partitions), from+g.left)
	for i := from; i < to; i++ {
		t.Partitions = append(t.Partitions, g.partition(st, i))
		g.left--
	}
	g.resp.Topics = append(g.resp.Topics, t)
	if to > from && to < len(st.Partitions) {
		g.next(name, to)
		return false
	}
	return true
}

func (g *paging) next(topic string, partition int) {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, int32(partition)
	g.resp.NextCursor = &c
}

func (g *paging) partition(st *meta.Stream, i int) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	p.Partition, p.Replicas, p.ISR = int32(i), g.nodes, g.nodes
	p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
	p.LeaderID, p.LeaderEpoch = g.nodes[0], g.s.backend.LeaderEpoch(st.Partitions[i])
	if i >= st.Ready {
		p.LeaderID, p.LeaderEpoch, p.ErrorCode = -1, -1, kerr.LeaderNotAvailable.Code
	}
	return p
}

func missingPartitions(rc *request, e *kerr.Error, name string) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.ErrorCode, t.Topic, t.AuthorizedOperations = rc.reject(e), &name, operationsTopic
	return t
}
