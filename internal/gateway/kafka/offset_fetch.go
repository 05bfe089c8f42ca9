package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/group"
	"godwit/internal/meta"
)

// OffsetFetch (9), versions 1 to 10: a group's committed positions. Offset -1 without an error says that there is
// none, be it that the partition, the topic or the group does not exist.
//
//   - 2: null in place of topics asks for all; an error code of the whole response
//   - 5: the leader epoch (KIP-320)
//   - 7: offsets that a transaction may still change are held back if asked for (KIP-447)
//   - 8: several groups (KIP-709)
//   - 9: member ID and epoch, which only groups of KIP-848 check
//   - 10: topic IDs in place of names (KIP-848)

// Versions of OffsetFetch in which the form changes.
const (
	offsetFetchGroups = 8
	offsetFetchByID   = 10
)

func (s *Server) offsetFetch(ctx context.Context, rc *request, req *kmsg.OffsetFetchRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version >= offsetFetchGroups {
		for _, g := range req.Groups {
			resp.Groups = append(resp.Groups, s.fetchGroup(ctx, rc, g, req.RequireStable))
		}
		return resp, nil
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = req.Group
	if req.Topics != nil {
		one.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(req.Topics))
	}
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = t.Topic, t.Partitions
		one.Topics = append(one.Topics, topic)
	}
	resp.Topics, resp.ErrorCode = oneGroup(s.fetchGroup(ctx, rc, one, req.RequireStable), one.Topics, req.Version)
	return resp, nil
}

// oneGroup turns a group's result into the form for a single group. Version 1 has no place for an error of the
// group but its partitions.
func oneGroup(g kmsg.OffsetFetchResponseGroup, asked []kmsg.OffsetFetchRequestGroupTopic, version int16) (topics []kmsg.OffsetFetchResponseTopic, code int16) {
	if g.ErrorCode != 0 && version < 2 {
		g.Topics = nil
		for _, t := range asked {
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, noOffset(p, g.ErrorCode))
			}
			g.Topics = append(g.Topics, topic)
		}
	}
	for _, t := range g.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			})
		}
		topics = append(topics, topic)
	}
	return topics, g.ErrorCode
}

// noOffset is the entry of a partition without a committed offset.
func noOffset(partition int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = partition, -1, -1, kmsg.StringPtr(""), code
	return p
}

func (s *Server) fetchGroup(ctx context.Context, rc *request, g kmsg.OffsetFetchRequestGroup, stable bool) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = g.Group
	view := s.backend.Meta()
	in := group.FetchOffsetsRequest{Key: rc.groupKey(g.Group), MemberID: g.MemberID, Epoch: g.MemberEpoch, All: g.Topics == nil, Stable: stable}
	if in.All {
		out := s.backend.FetchOffsets(ctx, in)
		if out.Err != nil {
			resp.ErrorCode = rc.failGroup(out.Err)
			return resp
		}
		resp.Topics = rc.topicsOf(view, &out)
		return resp
	}
	var found []*kmsg.OffsetFetchResponseGroupTopicPartition // where the results of in.Partitions go
	for _, t := range g.Topics {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		topic.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))
		st, unknown := rc.streamOf(view, offsetFetchByID, t.Topic, t.TopicID)
		for i, p := range t.Partitions {
			topic.Partitions[i] = noOffset(p, 0)
			switch {
			case unknown == nil:
				in.Partitions = append(in.Partitions, group.Partition{Stream: st.ID, Index: p})
				found = append(found, &topic.Partitions[i])
			case rc.version >= offsetFetchByID:
				topic.Partitions[i].ErrorCode = rc.unknownTopic(offsetFetchByID)
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	out := s.backend.FetchOffsets(ctx, in)
	if out.Err != nil {
		resp.Topics, resp.ErrorCode = nil, rc.failGroup(out.Err)
		return resp
	}
	for i, p := range found {
		rc.found(p, &out, i)
	}
	return resp
}

// found enters a result into the entry of its partition.
func (rc *request) found(p *kmsg.OffsetFetchResponseGroupTopicPartition, out *group.FetchOffsetsResponse, i int) {
	at := &out.Offsets[i]
	p.Offset, p.LeaderEpoch, p.Metadata = at.Offset, at.Epoch, &at.Metadata
	if out.Errs != nil && out.Errs[i] != nil {
		p.ErrorCode = rc.failGroup(out.Errs[i])
	}
}

// topicsOf gathers the offsets, which are ordered by topic, under their topics. Those of topics that are just
// being deleted are left out.
func (rc *request) topicsOf(view *meta.View, out *group.FetchOffsetsResponse) (topics []kmsg.OffsetFetchResponseGroupTopic) {
	for i := range out.Offsets {
		at := &out.Offsets[i]
		st, err := rc.streamByID(view, at.Stream)
		if err != nil {
			continue
		}
		if n := len(topics); n == 0 || topics[n-1].TopicID != at.Stream {
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic, topic.TopicID = st.Name, st.ID
			topics = append(topics, topic)
		}
		p := noOffset(at.Index, 0)
		rc.found(&p, out, i)
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return topics
}
