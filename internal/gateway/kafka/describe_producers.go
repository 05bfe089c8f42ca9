package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/meta"
)

// DescribeProducers (61), version 0: the idempotent and transactional producers that partitions remember
// (KIP-664).

func (s *Server) describeProducers(ctx context.Context, rc *request, req *kmsg.DescribeProducersRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	view := s.backend.Meta()
	for _, t := range req.Topics {
		topic := kmsg.NewDescribeProducersResponseTopic()
		topic.Topic = t.Topic
		st, unknown := rc.streamByName(view, t.Topic)
		for _, i := range t.Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition = i
			err := unknown
			if err == nil {
				err = hasPartition(st, i)
			}
			if err == nil {
				p.ActiveProducers, err = s.activeProducers(ctx, st.Partitions[i])
			}
			if err != nil {
				p.ErrorCode, p.ErrorMessage = rc.fail(err), message(err)
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

func (s *Server) activeProducers(ctx context.Context, at meta.Partition) (out []kmsg.DescribeProducersResponseTopicPartitionActiveProducer, err error) {
	states, err := s.backend.Producers(ctx, at)
	for _, st := range states {
		p := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		p.ProducerID, p.ProducerEpoch, p.LastSequence, p.LastTimestamp = st.ID, int32(st.Epoch), st.LastSequence, st.LastTimestamp
		p.CoordinatorEpoch, p.CurrentTxnStartOffset = st.CoordinatorEpoch, st.TxnStart
		out = append(out, p)
	}
	return out, err
}
