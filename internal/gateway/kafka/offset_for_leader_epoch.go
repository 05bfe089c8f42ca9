package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
)

// OffsetForLeaderEpoch: versions 2 to 4 (KIP-101, KIP-279, KIP-320).
//
//   - 3: replica ID; every reader is served alike
//   - 4: flexible
func (s *Server) offsetForLeaderEpoch(_ context.Context, rc *request, req *kmsg.OffsetForLeaderEpochRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	view := s.backend.Meta()
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		for k := range t.Partitions {
			p := &t.Partitions[k]
			r := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			r.Partition, r.LeaderEpoch, r.EndOffset = p.Partition, -1, -1
			_, at, err := rc.partitionOf(view, t.Topic, p.Partition)
			if err != nil {
				r.ErrorCode = rc.fail(err)
			} else if e := checkLeaderEpoch(p.CurrentLeaderEpoch, s.backend.LeaderEpoch(at)); e != nil {
				r.ErrorCode = rc.reject(e)
			} else if _, ok := s.backend.State(at.Log); !ok {
				r.ErrorCode = rc.reject(kerr.NotLeaderForPartition)
			} else {
				r.LeaderEpoch, r.EndOffset = s.backend.EpochEnd(at.Log, p.LeaderEpoch)
			}
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// partitionOf finds a partition by its topic's name. One whose log is not made yet is CodeNotReady.
func (rc *request) partitionOf(view *meta.View, topic string, index int32) (*meta.Stream, meta.Partition, error) {
	st, err := rc.streamByName(view, topic)
	if err == nil {
		err = hasPartition(st, index)
	}
	if err == nil && int(index) >= st.Ready {
		err = base.Errorf(base.CodeNotReady, "partition %d of topic %q is being made", index, topic)
	}
	if err != nil {
		return nil, meta.Partition{}, err
	}
	return st, st.Partitions[index], nil
}
