package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
)

// The timestamps of ListOffsets that stand for something else.
const (
	offsetLatest          int64 = -1 // the end of what the client may read
	offsetEarliest        int64 = -2 // the log start offset
	offsetMaxTimestamp    int64 = -3 // of the record with the largest timestamp
	offsetEarliestLocal   int64 = -4 // of what is not tiered only
	offsetLatestTiered    int64 = -5
	offsetEarliestPending int64 = -6 // of what is not tiered yet
)

// listOffsetsSince is the version of ListOffsets from which on a special timestamp is known; the others
// are as old as the lowest version.
var listOffsetsSince = map[int64]int16{
	offsetLatest:          1,
	offsetEarliest:        1,
	offsetMaxTimestamp:    7,
	offsetEarliestLocal:   8,
	offsetLatestTiered:    9,
	offsetEarliestPending: 11,
}

// ListOffsets: versions 1 to 11.
//
// Storage has no second tier that a client could see, so the questions about it are answered as by a Kafka
// without one: the earliest local offset is the earliest, the others are unknown (-1).
//
//   - 2: isolation level: for read_committed what is at or above the last stable offset does not exist
//   - 4: leader epochs (KIP-320)
//   - 6: flexible
//   - 7: the offset of the largest timestamp (KIP-734)
//   - 8, 9, 11: tiered storage (KIP-405, KIP-1005, KIP-1023)
//   - 10: a time-out for reading the other tier (KIP-1075)
func (s *Server) listOffsets(ctx context.Context, rc *request, req *kmsg.ListOffsetsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	ctx, cancel := context.WithTimeout(ctx, listOffsetsTimeout)
	defer cancel()
	type partition struct {
		topic string
		index int32
	}
	named := map[partition]int{}
	for i := range req.Topics {
		for k := range req.Topics[i].Partitions {
			named[partition{req.Topics[i].Topic, req.Topics[i].Partitions[k].Partition}]++
		}
	}
	view := s.backend.Meta()
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for k := range t.Partitions {
			p := &t.Partitions[k]
			r := kmsg.NewListOffsetsResponseTopicPartition()
			r.Partition, r.Timestamp, r.Offset, r.LeaderEpoch = p.Partition, -1, -1, -1
			if named[partition{t.Topic, p.Partition}] > 1 {
				r.ErrorCode = rc.reject(kerr.InvalidRequest)
			} else {
				s.listOffset(ctx, rc, view, t.Topic, p, req.IsolationLevel == 1, &r)
			}
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// listOffsetsTimeout bounds the search for timestamps, which reads batches.
const listOffsetsTimeout = 25 * time.Second

// listOffset answers for one partition.
func (s *Server) listOffset(ctx context.Context, rc *request, view *meta.View, topic string, p *kmsg.ListOffsetsRequestTopicPartition, committed bool, r *kmsg.ListOffsetsResponseTopicPartition) {
	if since, known := listOffsetsSince[p.Timestamp]; p.Timestamp < 0 && (!known || rc.version < since) {
		r.ErrorCode = rc.reject(kerr.UnsupportedVersion)
		return
	}
	_, at, err := rc.partitionOf(view, topic, p.Partition)
	if err != nil {
		r.ErrorCode = rc.fail(err)
		return
	}
	leader := s.backend.LeaderEpoch(at)
	if e := checkLeaderEpoch(p.CurrentLeaderEpoch, leader); e != nil {
		r.ErrorCode = rc.reject(e)
		return
	}
	st, ok := s.backend.State(at.Log)
	if !ok {
		r.ErrorCode = rc.reject(kerr.NotLeaderForPartition)
		return
	}
	end := st.HighWatermark
	if committed {
		end = st.LastStable
	}
	switch p.Timestamp {
	case offsetLatest:
		r.Offset, r.LeaderEpoch = end, leader
	case offsetEarliest, offsetEarliestLocal:
		r.Offset, r.LeaderEpoch = st.Start, s.epochAt(at, st.Start, st.HighWatermark)
	case offsetLatestTiered, offsetEarliestPending:
	case offsetMaxTimestamp:
		r.Offset, r.Timestamp, r.LeaderEpoch, err = s.backend.MaxTimestamp(ctx, at)
	default:
		r.Offset, r.Timestamp, r.LeaderEpoch, err = s.backend.OffsetForTime(ctx, at, p.Timestamp)
	}
	if err != nil || p.Timestamp != offsetLatest && p.Timestamp != offsetEarliest && p.Timestamp != offsetEarliestLocal && r.Offset >= end {
		r.Offset, r.Timestamp, r.LeaderEpoch = -1, -1, -1
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = base.Errorf(base.CodeTimeout, "the search took too long")
		}
		r.ErrorCode = rc.fail(err)
	}
}

// epochAt is the leader epoch of the record at an offset; the current one if the log ends there. The end of an
// epoch rises with the epoch, so the first that ends behind the offset is found by halving.
func (s *Server) epochAt(at meta.Partition, offset, end int64) int32 {
	lo, hi := int32(0), s.backend.LeaderEpoch(at)
	if offset >= end {
		return hi
	}
	for lo < hi {
		mid := lo + (hi-lo)/2
		if _, e := s.backend.EpochEnd(at.Log, mid); e > offset {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	epoch, _ := s.backend.EpochEnd(at.Log, lo)
	return epoch
}
