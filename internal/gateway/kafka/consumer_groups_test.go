package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerBeat sends a heartbeat of the consumer protocol; with topics, one that says all of the member.
func (st *stand) consumerBeat(version int16, group, member string, epoch int32, change func(*kmsg.ConsumerGroupHeartbeatRequest), topics ...string) *kmsg.ConsumerGroupHeartbeatResponse {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = group, member, epoch, topics
	if topics != nil {
		req.RebalanceTimeoutMillis, req.Topics = 30_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if change != nil {
		change(req)
	}
	return send[*kmsg.ConsumerGroupHeartbeatResponse](st, version, req)
}

func (st *stand) describeConsumers(groups ...string) []kmsg.ConsumerGroupDescribeResponseGroup {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups, req.IncludeAuthorizedOperations = groups, true
	return send[*kmsg.ConsumerGroupDescribeResponse](st, 1, req).Groups
}

func TestConsumerGroups(t *testing.T) {
	for version := int16(0); version <= 1; version++ {
		st := newStand(t)
		id := st.topic("t", 3, nil).ID
		member := map[int16]string{1: "m"}[version] // before version 1 the broker chooses
		out := st.consumerBeat(version, "g", member, 0, nil, "t")
		wantCode(t, "join", out.ErrorCode, nil)
		member = textOf(out.MemberID)
		if member == "" || out.MemberEpoch != 2 || out.HeartbeatIntervalMillis != 5_000 || out.Assignment == nil || len(out.Assignment.Topics) != 1 ||
			fmt.Sprint(out.Assignment.Topics[0].Partitions) != "[0 1 2]" || out.Assignment.Topics[0].TopicID != id {
			t.Errorf("version %d: joined: %+v", version, out)
		}
		if out = st.consumerBeat(version, "g", member, 2, nil); out.ErrorCode != 0 || out.Assignment != nil {
			t.Errorf("version %d: went on: %+v", version, out)
		}
		d := st.describeConsumers("g", "none", "")
		if g := d[0]; g.State != "Stable" || g.Epoch != 2 || g.AssignmentEpoch != 2 || g.AssignorName != "uniform" || len(g.Members) != 1 || g.AuthorizedOperations == operationsUnknown {
			t.Errorf("described %+v", g)
		} else if m := g.Members[0]; m.MemberID != member || m.ClientHost == "" || m.MemberType != memberConsumer || m.InstanceID != nil ||
			len(m.Assignment.TopicPartitions) != 1 || m.Assignment.TopicPartitions[0].Topic != "t" || len(m.TargetAssignment.TopicPartitions[0].Partitions) != 3 {
			t.Errorf("described %+v", m)
		}
		wantCode(t, "describe nothing", d[1].ErrorCode, kerr.GroupIDNotFound)
		wantCode(t, "describe no name", d[2].ErrorCode, kerr.InvalidGroupID)
		if out = st.consumerBeat(version, "g", member, -1, nil); out.ErrorCode != 0 || out.MemberEpoch != -1 || out.HeartbeatIntervalMillis != 0 {
			t.Errorf("version %d: left: %+v", version, out)
		}
		if g := st.describeConsumers("g")[0]; g.State != "Empty" || len(g.Members) != 0 {
			t.Errorf("described %+v", g)
		}
	}
}

func TestConsumerGroupErrors(t *testing.T) {
	st := newStand(t)
	st.topic("t", 1, nil)
	text := kmsg.StringPtr
	wantCode(t, "join", st.consumerBeat(1, "g", "m", 0, nil, "t").ErrorCode, nil)
	wantCode(t, "join with an instance", st.consumerBeat(1, "g", "s", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = text("i") }, "t").ErrorCode, nil)
	st.join("classic")
	for name, tc := range map[string]struct {
		group, member string
		epoch         int32
		change        func(*kmsg.ConsumerGroupHeartbeatRequest)
		err           *kerr.Error
	}{
		"no group":          {"", "m", 0, nil, kerr.InvalidRequest},
		"no member":         {"g", "", 0, nil, kerr.InvalidRequest},
		"unknown group":     {"none", "m", 1, nil, kerr.GroupIDNotFound},
		"unknown member":    {"g", "nobody", 1, nil, kerr.UnknownMemberID},
		"epoch":             {"g", "m", 9, nil, kerr.FencedMemberEpoch},
		"assignor":          {"g", "n", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = text("best") }, kerr.UnsupportedAssignor},
		"expression":        {"g", "n", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = text("(") }, kerr.InvalidRegularExpression},
		"instance in use":   {"g", "n", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = text("i") }, kerr.UnreleasedInstanceID},
		"instance of other": {"g", "m", 1, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = text("i") }, kerr.FencedInstanceID},
	} {
		out := st.consumerBeat(1, tc.group, tc.member, tc.epoch, tc.change, "t")
		wantCode(t, name, out.ErrorCode, tc.err)
		if out.ErrorMessage == nil || out.MemberID != nil || out.Assignment != nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
	d := st.describeConsumers("classic")[0]
	wantCode(t, "describe a classic group", d.ErrorCode, kerr.GroupIDNotFound)
}
