package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/meta"
)

// DescribeLogDirs (35), versions 1 to 5: how many bytes each partition takes. There is one directory.
//
//   - 3: an error code of the whole response
//   - 4: the space of the file system (KIP-827)
//   - 5: whether the directory takes new partitions (KIP-1066); it always does
//
// All partitions share files, so the size of a partition is that of its batches.

func (s *Server) describeLogDirs(_ context.Context, rc *request, req *kmsg.DescribeLogDirsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = s.opts.LogDir
	if d := s.backend.Disk(); d.Total > 0 {
		dir.TotalBytes, dir.UsableBytes = d.Total, d.Usable
	}
	view := s.backend.Meta()
	if req.Topics == nil {
		for _, st := range view.Streams(rc.namespace) {
			dir.Topics = append(dir.Topics, s.sizes(st, nil))
		}
	}
	for _, t := range req.Topics {
		if st, ok := view.Stream(rc.namespace, t.Topic); ok {
			if topic := s.sizes(st, t.Partitions); len(topic.Partitions) > 0 {
				dir.Topics = append(dir.Topics, topic)
			}
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp, nil
}

// sizes tells the sizes of partitions, of all if none are named. One that is just being made is left out.
func (s *Server) sizes(st *meta.Stream, partitions []int32) kmsg.DescribeLogDirsResponseDirTopic {
	topic := kmsg.NewDescribeLogDirsResponseDirTopic()
	topic.Topic = st.Name
	add := func(i int32) {
		if hasPartition(st, i) != nil {
			return
		}
		state, ok := s.backend.State(st.Partitions[i].Log)
		if !ok {
			return
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = i, state.Size
		topic.Partitions = append(topic.Partitions, p)
	}
	for _, i := range partitions {
		add(i)
	}
	if partitions == nil {
		for i := range st.Partitions {
			add(int32(i))
		}
	}
	return topic
}
