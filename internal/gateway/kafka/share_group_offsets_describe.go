package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/share"
)

// DescribeShareGroupOffsets (90), versions 0 and 1: how far share groups have come in partitions (KIP-932). Where a group has
// no queue, and in a topic that is not there, its offset is -1; that is no error.
//
//   - 1: lag (KIP-1226), in records that are not settled, -1 if it is not known
func (s *Server) describeShareGroupOffsets(ctx context.Context, rc *request, req *kmsg.DescribeShareGroupOffsetsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeShareGroupOffsetsResponse)
	for i := range req.Groups {
		asked := &req.Groups[i]
		g := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
		g.GroupID = asked.GroupID
		var err error
		if asked.Topics == nil {
			g.Topics, err = s.allShareOffsets(ctx, rc, asked.GroupID)
		} else {
			g.Topics, err = s.shareOffsets(ctx, rc, asked.GroupID, asked.Topics)
		}
		if err != nil {
			g.Topics, g.ErrorCode, g.ErrorMessage = nil, rc.failGroup(err), message(err)
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

// allShareOffsets describes all partitions in which a group has a queue. Topics that are gone are left out.
func (s *Server) allShareOffsets(ctx context.Context, rc *request, group string) (out []kmsg.DescribeShareGroupOffsetsResponseGroupTopic, err error) {
	found, err := s.backend.ShareOffsets(ctx, rc.groupKey(group), nil)
	if err != nil {
		return nil, err
	}
	view := s.backend.Meta()
	for i := range found {
		o := &found[i]
		st, ok := view.StreamByID(o.Stream)
		if !ok {
			continue
		}
		if n := len(out); n == 0 || base.StreamID(out[n-1].TopicID) != o.Stream {
			t := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
			t.Topic, t.TopicID = st.Name, st.ID
			out = append(out, t)
		}
		t := &out[len(out)-1]
		t.Partitions = append(t.Partitions, describedShareOffset(rc, o))
	}
	return out, nil
}

// shareOffsets describes partitions of topics by their names, in the order asked for.
func (s *Server) shareOffsets(ctx context.Context, rc *request, group string, topics []kmsg.DescribeShareGroupOffsetsRequestGroupTopic) (out []kmsg.DescribeShareGroupOffsetsResponseGroupTopic, err error) {
	view := s.backend.Meta()
	var asked []share.Partition
	for i := range topics {
		if st, ok := view.Stream(rc.namespace, topics[i].Topic); ok {
			for _, p := range topics[i].Partitions {
				asked = append(asked, share.Partition{Stream: st.ID, Index: p})
			}
		}
	}
	var found []broker.ShareOffset
	if len(asked) > 0 {
		if found, err = s.backend.ShareOffsets(ctx, rc.groupKey(group), asked); err != nil {
			return nil, err
		}
	}
	for i := range topics {
		t := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
		t.Topic = topics[i].Topic
		st, ok := view.Stream(rc.namespace, topics[i].Topic)
		if ok {
			t.TopicID = st.ID
		}
		for _, index := range topics[i].Partitions {
			p := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopicPartition()
			p.Partition, p.StartOffset = index, -1
			if ok {
				p, found = describedShareOffset(rc, &found[0]), found[1:]
			}
			t.Partitions = append(t.Partitions, p)
		}
		out = append(out, t)
	}
	return out, nil
}

// describedShareOffset shows how a queue stands.
func describedShareOffset(rc *request, o *broker.ShareOffset) kmsg.DescribeShareGroupOffsetsResponseGroupTopicPartition {
	p := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopicPartition()
	p.Partition, p.StartOffset = o.Index, -1
	switch {
	case o.Err == nil:
		p.StartOffset, p.LeaderEpoch, p.Lag = o.Start, o.Epoch, o.Lag
	case base.CodeOf(o.Err) == base.CodeUnknownPartition:
		// No queue is there.
	default:
		p.ErrorCode, p.ErrorMessage = rc.fail(o.Err), message(o.Err)
	}
	return p
}
