package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/broker"
	"godwit/internal/partlog"
)

// WriteTxnMarkers (27), versions 1 and 2: ends transactions in single partitions, past their coordinator. Kafka's brokers send it to one
// another; here only operators do, to abort a transaction that hangs (KIP-664).
//
//   - 2: the version of the transaction, which says whether its epoch was raised for the end (KIP-890)

func (s *Server) writeTxnMarkers(ctx context.Context, rc *request, req *kmsg.WriteTxnMarkersRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	view := s.backend.Meta()
	var markers []broker.Marker
	var codes []*int16 // where the results of markers go
	for _, m := range req.Markers {
		out := kmsg.NewWriteTxnMarkersResponseMarker()
		out.ProducerID = m.ProducerID
		marker := partlog.Marker{
			ProducerID: m.ProducerID, Epoch: m.ProducerEpoch, CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Committed, Version: int16(m.TransactionVersion),
		}
		for _, t := range m.Topics {
			st, err := rc.streamByName(view, t.Topic)
			topic := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			topic.Topic = t.Topic
			topic.Partitions = make([]kmsg.WriteTxnMarkersResponseMarkerTopicPartition, len(t.Partitions))
			for i, p := range t.Partitions {
				topic.Partitions[i].Partition = p
				if err != nil || hasPartition(st, p) != nil {
					topic.Partitions[i].ErrorCode = rc.reject(kerr.UnknownTopicOrPartition)
					continue
				}
				at := st.Partitions[p]
				markers = append(markers, broker.Marker{Log: at.Log, Shard: at.Shard, Marker: marker})
				codes = append(codes, &topic.Partitions[i].ErrorCode)
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Markers = append(resp.Markers, out)
	}
	if len(markers) == 0 {
		return resp, nil
	}
	for i, err := range s.backend.WriteTxnMarkers(ctx, markers) {
		*codes[i] = rc.fail(err)
	}
	return resp, nil
}
