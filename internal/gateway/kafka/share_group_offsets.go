package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/coord/share"
)

// AlterShareGroupOffsets (91), version 0: sets where a share group without members begins, and makes the group if there is none
// (KIP-932). An offset below 0 stands for what the group's configuration says.

func (s *Server) alterShareGroupOffsets(ctx context.Context, rc *request, req *kmsg.AlterShareGroupOffsetsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.AlterShareGroupOffsetsResponse)
	if req.GroupID == "" {
		resp.ErrorCode, resp.ErrorMessage = rc.reject(kerr.InvalidGroupID), nullable(kerr.InvalidGroupID.Description)
		return resp, nil
	}
	topics := make([]share.SetTopicOffsets, len(req.Topics))
	for i, t := range req.Topics {
		topics[i].Topic = t.Topic
		for _, p := range t.Partitions {
			topics[i].Partitions = append(topics[i].Partitions, share.SetOffset{Index: p.Partition, Start: p.StartOffset})
		}
	}
	results, err := s.backend.AlterShareOffsets(ctx, rc.groupKey(req.GroupID), topics)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = rc.failGroup(err), message(err)
		return resp, nil
	}
	for i, r := range results {
		t := kmsg.NewAlterShareGroupOffsetsResponseTopic()
		t.Topic, t.TopicID = r.Topic, r.ID
		for k, p := range topics[i].Partitions {
			part := kmsg.NewAlterShareGroupOffsetsResponseTopicPartition()
			part.Partition = p.Index
			if err := r.Errs[k]; err != nil {
				part.ErrorCode, part.ErrorMessage = rc.failGroup(err), message(err)
			}
			t.Partitions = append(t.Partitions, part)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// DeleteShareGroupOffsets (92), version 0: has a share group without members forget topics (KIP-932).

func (s *Server) deleteShareGroupOffsets(ctx context.Context, rc *request, req *kmsg.DeleteShareGroupOffsetsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DeleteShareGroupOffsetsResponse)
	if req.GroupID == "" {
		resp.ErrorCode, resp.ErrorMessage = rc.reject(kerr.InvalidGroupID), nullable(kerr.InvalidGroupID.Description)
		return resp, nil
	}
	topics := make([]string, len(req.Topics))
	for i, t := range req.Topics {
		topics[i] = t.Topic
	}
	results, err := s.backend.DeleteShareOffsets(ctx, rc.groupKey(req.GroupID), topics)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = rc.failGroup(err), message(err)
		return resp, nil
	}
	for _, r := range results {
		t := kmsg.NewDeleteShareGroupOffsetsResponseTopic()
		t.Topic, t.TopicID = r.Topic, r.ID
		if r.Err != nil {
			t.ErrorCode, t.ErrorMessage = rc.failGroup(r.Err), message(r.Err)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}
