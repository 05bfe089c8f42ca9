package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/partlog"
)

func listOf(topic string, index int32, timestamp int64, epoch int32) kmsg.ListOffsetsRequestTopic {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = index, timestamp, epoch
	t.Partitions = append(t.Partitions, p)
	return t
}

func TestListOffsets(t *testing.T) {
	s, f := serverStand(t, nil)
	st, empty := f.topic("t", 1), f.topic("empty", 1)
	log := st.Partitions[0].Log
	f.m.put(log, batchOf(10, 10))
	f.m.log(log).epochs = []partlog.Epoch{{Epoch: 1, Start: 0}, {Epoch: 3, Start: 4}, {Epoch: 4, Start: 7}}
	f.m.trim(log, 5)
	type answer struct {
		offset, at int64
		epoch      int32
	}
	none := answer{-1, -1, -1}
	for _, tc := range []struct {
		name      string
		timestamp int64
		since     int16
		full      answer
		empty     answer
	}{
		{"latest", -1, 1, answer{10, -1, 5}, answer{0, -1, 5}},
		{"earliest", -2, 1, answer{5, -1, 3}, answer{0, -1, 5}},
		{"max timestamp", -3, 7, answer{5, 1000, 5}, none},
		{"earliest local", -4, 8, answer{5, -1, 3}, answer{0, -1, 5}},
		{"latest tiered", -5, 9, none, none},
		{"earliest pending upload", -6, 11, none, none},
		{"not a name", -7, 100, none, none},
		{"time", 1000, 1, answer{5, 1000, 5}, none},
		{"later", 1001, 1, none, none},
	} {
		for version := int16(1); version <= 11; version++ {
			req := kmsg.NewPtrListOffsetsRequest()
			req.Topics = append(req.Topics, listOf(st.Name, 0, tc.timestamp, -1), listOf(empty.Name, 0, tc.timestamp, -1))
			resp := send[*kmsg.ListOffsetsResponse](s, version, req)
			for i, wanted := range []answer{tc.full, tc.empty} {
				var e *kerr.Error
				if version < tc.since {
					e, wanted = kerr.UnsupportedVersion, none
				}
				if version < 4 {
					wanted.epoch = -1
				}
				p := resp.Topics[i].Partitions[0]
				what := fmt.Sprintf("%s, version %d, topic %s", tc.name, version, resp.Topics[i].Topic)
				wantCode(t, what, p.ErrorCode, e)
				if got := (answer{p.Offset, p.Timestamp, p.LeaderEpoch}); got != wanted {
					t.Errorf("%s: %+v, want %+v", what, got, wanted)
				}
			}
		}
	}
	for _, tc := range []struct {
		name   string
		topics []kmsg.ListOffsetsRequestTopic
		err    *kerr.Error
	}{
		{"known epoch", []kmsg.ListOffsetsRequestTopic{listOf("t", 0, -1, 5)}, nil},
		{"old epoch", []kmsg.ListOffsetsRequestTopic{listOf("t", 0, -1, 4)}, kerr.FencedLeaderEpoch},
		{"new epoch", []kmsg.ListOffsetsRequestTopic{listOf("t", 0, -1, 6)}, kerr.UnknownLeaderEpoch},
		{"no topic", []kmsg.ListOffsetsRequestTopic{listOf("none", 0, -1, -1)}, kerr.UnknownTopicOrPartition},
		{"no partition", []kmsg.ListOffsetsRequestTopic{listOf("t", 1, -1, -1)}, kerr.UnknownTopicOrPartition},
		{"twice", []kmsg.ListOffsetsRequestTopic{listOf("t", 0, -1, -1), listOf("t", 0, -2, -1)}, kerr.InvalidRequest},
	} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Topics = tc.topics
		for _, topic := range send[*kmsg.ListOffsetsResponse](s, 9, req).Topics {
			wantCode(t, tc.name, topic.Partitions[0].ErrorCode, tc.err)
		}
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	s, f := serverStand(t, nil)
	st := f.topic("t", 1)
	log := st.Partitions[0].Log
	f.m.put(log, batchOf(10, 10))
	f.m.log(log).epochs = []partlog.Epoch{{Epoch: 1, Start: 0}, {Epoch: 3, Start: 4}}
	ask := func(version int16, topic string, index, current, epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = index, current, epoch
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
		return send[*kmsg.OffsetForLeaderEpochResponse](s, version, req).Topics[0].Partitions[0]
	}
	for version := int16(2); version <= 4; version++ {
		for _, tc := range []struct {
			epoch, found int32
			end          int64
		}{{1, 1, 4}, {2, 1, 4}, {3, 3, 10}, {5, 5, 10}, {6, -1, -1}, {-1, -1, -1}} {
			if p := ask(version, "t", 0, -1, tc.epoch); p.ErrorCode != 0 || p.LeaderEpoch != tc.found || p.EndOffset != tc.end || p.Partition != 0 {
				t.Errorf("epoch %d: %+v, want %+v", tc.epoch, p, tc)
			}
		}
		wantCode(t, "old epoch", ask(version, "t", 0, 4, 1).ErrorCode, kerr.FencedLeaderEpoch)
		wantCode(t, "new epoch", ask(version, "t", 0, 6, 1).ErrorCode, kerr.UnknownLeaderEpoch)
		wantCode(t, "no topic", ask(version, "none", 0, -1, 1).ErrorCode, kerr.UnknownTopicOrPartition)
		wantCode(t, "no partition", ask(version, "t", 7, -1, 1).ErrorCode, kerr.UnknownTopicOrPartition)
	}
}

func TestInitProducerID(t *testing.T) {
	s, _ := serverStand(t, nil)
	empty := ""
	last := int64(0)
	for version := int16(0); version <= 5; version++ {
		for _, tc := range []struct {
			name  string
			txn   *string
			id    int64
			epoch int16
			err   *kerr.Error
		}{
			{"new", nil, -1, -1, nil},
			{"next epoch", nil, 17, 3, nil},
			{"half", nil, 17, -1, kerr.InvalidRequest},
			{"other half", nil, -1, 3, kerr.InvalidRequest},
			{"empty transactional ID", &empty, -1, -1, kerr.InvalidRequest},
		} {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch = tc.txn, tc.id, tc.epoch
			if version < 3 && tc.txn == nil {
				tc.err = nil // the fields are not there
			}
			resp := send[*kmsg.InitProducerIDResponse](s, version, req)
			wantCode(t, fmt.Sprintf("%s, version %d", tc.name, version), resp.ErrorCode, tc.err)
			if tc.err != nil {
				if resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
					t.Errorf("%s: %+v", tc.name, resp)
				}
				continue
			}
			if resp.ProducerID <= last || resp.ProducerEpoch != 0 {
				t.Errorf("%s: %+v after ID %d", tc.name, resp, last)
			}
			last = resp.ProducerID
		}
	}
}
