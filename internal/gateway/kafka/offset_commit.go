package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/group"
)

// OffsetCommit (8), versions 2 to 10: records a group's positions, and answers when they are committed.
//
//   - 2 to 4: how long to keep them; after that, the broker's setting counts
//   - 6: the leader epoch of the last record read (KIP-320)
//   - 7: static members (KIP-345)
//   - 9: members of the consumer protocol (KIP-848); GROUP_ID_NOT_FOUND for a generation of a group that does not exist; before, ILLEGAL_GENERATION
//   - 10: topic IDs in place of names (KIP-848)

// offsetCommitByID is the version from which topics are named by ID.
const offsetCommitByID = 10

func (s *Server) offsetCommit(ctx context.Context, rc *request, req *kmsg.OffsetCommitRequest) (kmsg.Response, error) {
	in := group.CommitRequest{
		Key:        rc.groupKey(req.Group),
		Generation: req.Generation,
		MemberID:   req.MemberID,
		InstanceID: textOf(req.InstanceID),
		Classic:    req.Version < 9,
		Retention:  req.RetentionTimeMillis,
	}
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	view := s.backend.Meta()
	var codes []*int16 // where the results of in.Offsets go
	for _, t := range req.Topics {
		st, unknown := rc.streamOf(view, offsetCommitByID, t.Topic, t.TopicID)
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		topic.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		for i, p := range t.Partitions {
			result := &topic.Partitions[i]
			result.Partition = p.Partition
			if unknown != nil {
				result.ErrorCode = rc.unknownTopic(offsetCommitByID)
				continue
			}
			if err := hasPartition(st, p.Partition); err != nil {
				result.ErrorCode = rc.failGroup(err)
				continue
			}
			in.Offsets = append(in.Offsets, group.CommitOffset{
				Partition: group.Partition{Stream: st.ID, Index: p.Partition},
				Offset:    p.Offset,
				Epoch:     p.LeaderEpoch,
				Metadata:  textOf(p.Metadata),
			})
			codes = append(codes, &result.ErrorCode)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if len(codes) > 0 || len(req.Topics) == 0 {
		rc.commitCodes(s.backend.CommitOffsets(ctx, in), codes)
	}
	return resp, nil
}

// commitCodes enters the results of a commit where they belong.
func (rc *request) commitCodes(out group.CommitResponse, codes []*int16) {
	for i, code := range codes {
		switch {
		case out.Err != nil && out.Err.Code == base.CodeUnknownGroup && rc.version < 9:
			*code = rc.reject(kerr.IllegalGeneration)
		case out.Err != nil:
			*code = rc.failGroup(out.Err)
		case out.Errs[i] != nil:
			*code = rc.failGroup(out.Errs[i])
		}
	}
}

// unknownTopic is the error of a topic that does not exist, in a request that names topics by ID from version
// byID on.
func (rc *request) unknownTopic(byID int16) int16 {
	if rc.version >= byID {
		return rc.reject(kerr.UnknownTopicID)
	}
	return rc.reject(kerr.UnknownTopicOrPartition)
}
