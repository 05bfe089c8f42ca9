package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
)

// DeleteRecords (21), versions 0 to 2: raises the start of partitions; -1 means the high watermark. All
// versions are alike but for the encoding.
//
// A topic that is only compacted keeps the last record of every key, so nothing can be deleted from it.

func (s *Server) deleteRecords(ctx context.Context, rc *request, req *kmsg.DeleteRecordsRequest) (kmsg.Response, error) {
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	view := s.backend.Meta()
	type item struct {
		st  *meta.Stream
		p   kmsg.DeleteRecordsRequestTopicPartition
		err error
	}
	var items []item
	for _, t := range req.Topics {
		st, err := rc.streamByName(view, t.Topic)
		if err == nil && st.Config.CleanupCompact && !st.Config.CleanupDelete {
			err = base.Errorf(base.CodePolicyViolation, "records of topic %q cannot be deleted: it is compacted only", t.Topic)
		}
		for _, p := range t.Partitions {
			it := item{st: st, p: p, err: err}
			if err == nil {
				it.err = hasPartition(st, p.Partition)
			}
			items = append(items, it)
		}
	}
	parallel(len(items), func(i int) {
		if it := &items[i]; it.err == nil {
			it.p.Offset, it.err = s.backend.DeleteRecords(ctx, it.st, it.p.Partition, it.p.Offset)
		}
	})
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for _, t := range req.Topics {
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = t.Topic
		for _, it := range items[:len(t.Partitions)] {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark = it.p.Partition, it.p.Offset
			if it.err != nil {
				p.LowWatermark, p.ErrorCode = -1, rc.fail(it.err)
			}
			out.Partitions = append(out.Partitions, p)
		}
		items = items[len(t.Partitions):]
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
