package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/group"
)

// OffsetDelete (47), version 0: forgets a group's positions in partitions that its members do not read (KIP-496).

func (s *Server) offsetDelete(ctx context.Context, rc *request, req *kmsg.OffsetDeleteRequest) (kmsg.Response, error) {
	in := group.DeleteOffsetsRequest{Key: rc.groupKey(req.Group)}
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	view := s.backend.Meta()
	var codes []*int16 // where the results of in.Partitions go
	for _, t := range req.Topics {
		st, known := view.Stream(rc.namespace, t.Topic)
		topic := kmsg.NewOffsetDeleteResponseTopic()
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(t.Partitions))
		for i, p := range t.Partitions {
			result := &topic.Partitions[i]
			result.Partition = p.Partition
			if !known || hasPartition(st, p.Partition) != nil {
				result.ErrorCode = rc.reject(kerr.UnknownTopicOrPartition)
				continue
			}
			in.Partitions = append(in.Partitions, group.NamedPartition{Partition: group.Partition{Stream: st.ID, Index: p.Partition}, Name: st.Name})
			codes = append(codes, &result.ErrorCode)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	out := s.backend.DeleteOffsets(ctx, in)
	if out.Err != nil {
		resp.ErrorCode, resp.Topics = rc.failGroup(out.Err), nil
		return resp, nil
	}
	for i, code := range codes {
		if out.Errs[i] != nil {
			*code = rc.failGroup(out.Errs[i])
		}
	}
	return resp, nil
}
