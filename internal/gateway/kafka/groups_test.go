package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
)

func joinRequest(group, member string, instance *string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = group, member, instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 20_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff}}}
	return req
}

// join makes a member of a new group and gives it its assignment.
func (st *stand) join(group string) (member string) {
	st.t.Helper()
	out := send[*kmsg.JoinGroupResponse](st, 3, joinRequest(group, "", nil))
	wantCode(st.t, "join", out.ErrorCode, nil)
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, out.MemberID, out.Generation
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: out.MemberID, MemberAssignment: []byte("part")}}
	sync := send[*kmsg.SyncGroupResponse](st, 4, req)
	wantCode(st.t, "sync", sync.ErrorCode, nil)
	if string(sync.MemberAssignment) != "part" {
		st.t.Errorf("assignment %q", sync.MemberAssignment)
	}
	return out.MemberID
}

func TestJoinVersions(t *testing.T) {
	for version := int16(0); version <= 9; version++ {
		st := newStand(t)
		req := joinRequest("g", "", nil)
		out := send[*kmsg.JoinGroupResponse](st, version, req)
		if version >= 4 {
			wantCode(t, "first join", out.ErrorCode, kerr.MemberIDRequired)
			if !strings.HasPrefix(out.MemberID, "client-") || out.Generation != -1 {
				t.Errorf("version %d: member %q, generation %d", version, out.MemberID, out.Generation)
			}
			out = send[*kmsg.JoinGroupResponse](st, version, joinRequest("g", out.MemberID, nil))
		}
		wantCode(t, "join", out.ErrorCode, nil)
		if out.Generation != 1 || out.LeaderID != out.MemberID || textOf(out.Protocol) != "range" || len(out.Members) != 1 || len(out.Members[0].ProtocolMetadata) != 13 {
			t.Errorf("version %d: %+v", version, out)
		}
		if version >= 7 && textOf(out.ProtocolType) != "consumer" {
			t.Errorf("version %d: protocol type %q", version, textOf(out.ProtocolType))
		}
		// Without a rebalance time-out of its own, the session's counts.
		send[*kmsg.JoinGroupResponse](st, version, joinRequest("other", "nobody", nil))
	}
}

func TestJoinErrors(t *testing.T) {
	st := newStand(t)
	st.join("g")
	for _, tc := range []struct {
		change func(*kmsg.JoinGroupRequest)
		err    *kerr.Error
	}{
		{func(r *kmsg.JoinGroupRequest) { r.Group = "" }, kerr.InvalidGroupID},
		{func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 }, kerr.InvalidSessionTimeout},
		{func(r *kmsg.JoinGroupRequest) { r.MemberID = "nobody" }, kerr.UnknownMemberID},
		{func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" }, kerr.InconsistentGroupProtocol},
		{func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }, kerr.InconsistentGroupProtocol},
	} {
		for _, version := range []int16{0, 5, 9} {
			req := joinRequest("g", "", nil)
			tc.change(req)
			out := send[*kmsg.JoinGroupResponse](st, version, req)
			wantCode(t, "join", out.ErrorCode, tc.err)
			if out.Generation != -1 || out.LeaderID != "" {
				t.Errorf("%+v", out)
			}
		}
	}
}

func TestStaticMember(t *testing.T) {
	st := newStand(t)
	instance := kmsg.StringPtr("i")
	out := send[*kmsg.JoinGroupResponse](st, 9, joinRequest("g", "", instance))
	wantCode(t, "join", out.ErrorCode, nil)
	if !strings.HasPrefix(out.MemberID, "i-") || textOf(out.Members[0].InstanceID) != "i" || out.SkipAssignment {
		t.Errorf("%+v", out)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.InstanceID, sync.Generation = "g", out.MemberID, instance, 1
	wantCode(t, "sync without protocol", send[*kmsg.SyncGroupResponse](st, 5, sync).ErrorCode, kerr.InconsistentGroupProtocol)
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	answer := send[*kmsg.SyncGroupResponse](st, 5, sync)
	wantCode(t, "sync", answer.ErrorCode, nil)
	if textOf(answer.ProtocolType) != "consumer" || textOf(answer.Protocol) != "range" {
		t.Errorf("%+v", answer)
	}
	again := send[*kmsg.JoinGroupResponse](st, 9, joinRequest("g", "", instance))
	if again.ErrorCode != 0 || !again.SkipAssignment || again.Generation != 1 {
		t.Errorf("%+v", again)
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.InstanceID, beat.Generation = "g", out.MemberID, instance, 1
	wantCode(t, "heartbeat of the old self", send[*kmsg.HeartbeatResponse](st, 4, beat).ErrorCode, kerr.FencedInstanceID)

	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = "g"
	leave.Members = []kmsg.LeaveGroupRequestMember{{InstanceID: instance}, {MemberID: "nobody"}, {InstanceID: kmsg.StringPtr("j")}}
	left := send[*kmsg.LeaveGroupResponse](st, 5, leave)
	wantCode(t, "leave", left.ErrorCode, nil)
	for i, want := range []*kerr.Error{nil, kerr.UnknownMemberID, kerr.UnknownMemberID} {
		wantCode(t, fmt.Sprint("member ", i), left.Members[i].ErrorCode, want)
	}
	if textOf(left.Members[0].InstanceID) != "i" || left.Members[1].InstanceID != nil {
		t.Errorf("%+v", left.Members)
	}
}

func TestHeartbeatAndLeave(t *testing.T) {
	st := newStand(t)
	member := st.join("g")
	for version := int16(0); version <= 4; version++ {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = "g", member, 1
		wantCode(t, "heartbeat", send[*kmsg.HeartbeatResponse](st, version, req).ErrorCode, nil)
		req.Generation = 2
		wantCode(t, "heartbeat", send[*kmsg.HeartbeatResponse](st, version, req).ErrorCode, kerr.IllegalGeneration)
		req.Group = ""
		wantCode(t, "heartbeat", send[*kmsg.HeartbeatResponse](st, version, req).ErrorCode, kerr.InvalidGroupID)
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = "g", "nobody"
	wantCode(t, "leave", send[*kmsg.LeaveGroupResponse](st, 2, leave).ErrorCode, kerr.UnknownMemberID)
	leave.MemberID = member
	wantCode(t, "leave", send[*kmsg.LeaveGroupResponse](st, 2, leave).ErrorCode, nil)
	leave.Group = ""
	wantCode(t, "leave", send[*kmsg.LeaveGroupResponse](st, 3, leave).ErrorCode, kerr.InvalidGroupID)
}

// TestRebalance has two clients: the one who waits is answered when the other one joins again, or goes away.
func TestRebalance(t *testing.T) {
	st := newStand(t)
	first := st.join("g")
	st.client = "second"
	joined := make(chan *kmsg.JoinGroupResponse)
	go func() {
		out, err := sendContext[*kmsg.JoinGroupResponse](context.Background(), st, 3, joinRequest("g", "", nil))
		if err != nil {
			t.Error(err)
		}
		joined <- out
	}()
	st.awaitState("g", "PreparingRebalance")
	out := send[*kmsg.JoinGroupResponse](st, 3, joinRequest("g", first, nil))
	other := <-joined
	if out.Generation != 2 || other.Generation != 2 || len(out.Members) != 2 || len(other.Members) != 0 || other.LeaderID != first {
		t.Errorf("%+v\n%+v", out, other)
	}
	// The client goes away while it waits for its assignment: the leader is not held up.
	ctx, cancel := context.WithCancel(context.Background())
	waiting := make(chan *kmsg.SyncGroupResponse)
	go func() {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.Generation = "g", other.MemberID, 2
		out, err := sendContext[*kmsg.SyncGroupResponse](ctx, st, 3, req)
		if err != nil {
			t.Error(err)
		}
		waiting <- out
	}()
	cancel()
	<-waiting
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = "g", first, 2
	wantCode(t, "sync", send[*kmsg.SyncGroupResponse](st, 3, req).ErrorCode, nil)
	st.n.tick(time.Minute)
	if d := st.describe("g"); d.State != "Empty" {
		t.Errorf("state %s after all sessions ended", d.State)
	}
}

// awaitState polls until the group is in the state.
func (st *stand) awaitState(group, state string) {
	st.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for st.describe(group).State != state {
		select {
		case <-tick.C:
		case <-ctx.Done():
			st.t.Fatalf("group %s does not become %s", group, state)
		}
	}
}

func (st *stand) describe(group string) kmsg.DescribeGroupsResponseGroup {
	st.t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
	return send[*kmsg.DescribeGroupsResponse](st, 6, req).Groups[0]
}

func TestDescribeAndListGroups(t *testing.T) {
	st := newStand(t)
	member := st.join("g")
	st.topic("t", 1, nil)
	st.commit(8, "simple", "", -1, "t", 0, 1)
	for version := int16(0); version <= 6; version++ {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups, req.IncludeAuthorizedOperations = []string{"g", "none", "simple"}, version >= 3
		out := send[*kmsg.DescribeGroupsResponse](st, version, req).Groups
		if len(out) != 3 {
			t.Fatalf("%+v", out)
		}
		g := out[0]
		if g.ErrorCode != 0 || g.State != "Stable" || g.ProtocolType != "consumer" || g.Protocol != "range" || len(g.Members) != 1 {
			t.Errorf("version %d: %+v", version, g)
		}
		m := g.Members[0]
		if m.MemberID != member || m.ClientID != "client" || m.ClientHost != "/10.0.0.9" || string(m.MemberAssignment) != "part" || len(m.ProtocolMetadata) != 13 || m.InstanceID != nil {
			t.Errorf("version %d: %+v", version, m)
		}
		if version >= 3 && (g.AuthorizedOperations != operationsGroup || out[1].AuthorizedOperations != operationsUnknown) {
			t.Errorf("version %d: operations %d and %d", version, g.AuthorizedOperations, out[1].AuthorizedOperations)
		}
		if out[1].State != "Dead" || out[2].State != "Empty" || out[2].ErrorCode != 0 {
			t.Errorf("version %d: %+v", version, out)
		}
		if version < 6 {
			wantCode(t, "none", out[1].ErrorCode, nil)
		} else {
			wantCode(t, "none", out[1].ErrorCode, kerr.GroupIDNotFound)
		}
	}
	list := func(version int16, states, types []string) (names []string) {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = states, types
		for _, g := range send[*kmsg.ListGroupsResponse](st, version, req).Groups {
			names = append(names, strings.TrimSpace(g.Group+" "+g.ProtocolType+" "+g.GroupState+" "+g.GroupType))
		}
		return names
	}
	for _, tc := range []struct{ got, want []string }{
		{list(0, nil, nil), []string{"g consumer", "simple"}},
		{list(4, nil, nil), []string{"g consumer Stable", "simple  Empty"}},
		{list(5, nil, nil), []string{"g consumer Stable classic", "simple  Empty classic"}},
		{list(5, []string{"stable"}, nil), []string{"g consumer Stable classic"}},
		{list(5, nil, []string{"consumer"}), nil},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("listed %q, want %q", tc.got, tc.want)
		}
	}
}

// commit sends one offset and returns the code of its partition.
func (st *stand) commit(version int16, group, member string, generation int32, topic string, partition int32, offset int64) int16 {
	st.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	r := kmsg.NewOffsetCommitRequestTopic()
	r.Topic = topic
	if s, ok := st.n.Meta().Stream(base.DefaultNamespace, topic); ok {
		r.TopicID = s.ID
	}
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 3, kmsg.StringPtr("note")
	r.Partitions = append(r.Partitions, p)
	req.Topics = append(req.Topics, r)
	return send[*kmsg.OffsetCommitResponse](st, version, req).Topics[0].Partitions[0].ErrorCode
}

func TestOffsetCommit(t *testing.T) {
	st := newStand(t)
	st.topic("t", 2, nil)
	member := st.join("g")
	for version := int16(2); version <= 10; version++ {
		unknownTopic, unknownGroup := kerr.UnknownTopicOrPartition, kerr.IllegalGeneration
		if version >= 9 {
			unknownGroup = kerr.GroupIDNotFound
		}
		if version >= 10 {
			unknownTopic = kerr.UnknownTopicID
		}
		for _, tc := range []struct {
			group, member string
			generation    int32
			topic         string
			partition     int32
			err           *kerr.Error
		}{
			{"g", member, 1, "t", 0, nil},
			{"g", member, 1, "none", 0, unknownTopic},
			{"g", member, 1, "t", 2, kerr.UnknownTopicOrPartition},
			{"g", member, 1, "t", -1, kerr.UnknownTopicOrPartition},
			{"g", member, 2, "t", 0, kerr.IllegalGeneration},
			{"g", "nobody", 1, "t", 0, kerr.UnknownMemberID},
			{"g", "", -1, "t", 0, kerr.UnknownMemberID},
			{"none", "nobody", 1, "t", 0, unknownGroup},
			{"simple", "", -1, "t", 0, nil},
			{"", "", -1, "t", 0, kerr.InvalidGroupID},
		} {
			wantCode(t, fmt.Sprintf("version %d %+v", version, tc), st.commit(version, tc.group, tc.member, tc.generation, tc.topic, tc.partition, 5), tc.err)
		}
	}
	// One bad partition does not spoil the others.
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = "mixed", -1
	r := kmsg.NewOffsetCommitRequestTopic()
	r.Topic = "t"
	long := strings.Repeat("x", 5000)
	r.Partitions = []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 1, Metadata: &long}, {Partition: 9}, {Partition: 1, Offset: 2}}
	req.Topics = append(req.Topics, r)
	out := send[*kmsg.OffsetCommitResponse](st, 8, req).Topics[0].Partitions
	wantCode(t, "long metadata", out[0].ErrorCode, kerr.OffsetMetadataTooLarge)
	wantCode(t, "no partition", out[1].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "good", out[2].ErrorCode, nil)
}

func TestOffsetFetch(t *testing.T) {
	st := newStand(t)
	topic := st.topic("t", 3, nil)
	st.topic("u", 1, nil)
	st.commit(8, "g", "", -1, "t", 0, 10)
	st.commit(8, "g", "", -1, "t", 1, 11)
	st.commit(8, "g", "", -1, "u", 0, 12)
	for version := int16(1); version <= 10; version++ {
		for _, tc := range []struct {
			group, topic string
			partition    int32
			want         int64
			metadata     string
			err          *kerr.Error
		}{
			{"g", "t", 1, 11, "note", nil},
			{"g", "t", 2, -1, "", nil},
			{"g", "t", 99, -1, "", nil},
			{"none", "t", 0, -1, "", nil},
			{"g", "none", 0, -1, "", map[bool]*kerr.Error{true: kerr.UnknownTopicID}[version >= 10]},
		} {
			p, code := st.fetchOne(version, tc.group, tc.topic, tc.partition)
			wantCode(t, fmt.Sprintf("version %d %+v", version, tc), code, nil)
			wantCode(t, fmt.Sprintf("version %d %+v", version, tc), p.ErrorCode, tc.err)
			if p.Partition != tc.partition || p.Offset != tc.want || textOf(p.Metadata) != tc.metadata || p.Metadata == nil {
				t.Errorf("version %d %+v: %+v", version, tc, p)
			}
			if epoch := map[bool]int32{true: 3, false: -1}[tc.want >= 0]; version >= 5 && p.LeaderEpoch != epoch {
				t.Errorf("version %d %+v: epoch %d", version, tc, p.LeaderEpoch)
			}
		}
	}
	for version := int16(2); version <= 10; version++ {
		if got := st.fetchAll(version, "g"); !slices.Equal(got, []string{"t/0 10", "t/1 11", "u/0 12"}) {
			t.Errorf("version %d: all is %q", version, got)
		}
		if got := st.fetchAll(version, "none"); got != nil {
			t.Errorf("version %d: all of nothing is %q", version, got)
		}
	}
	if err := st.n.DeleteStream(context.Background(), topic.ID); err != nil {
		t.Fatal(err)
	}
	if got := st.fetchAll(10, "g"); !slices.Equal(got, []string{"u/0 12"}) {
		t.Errorf("without a deleted topic: %q", got)
	}
	// A coordinator that fails.
	st.n.down = base.Errorf(base.CodeNotReady, "starting")
	for version := int16(1); version <= 10; version++ {
		p, code := st.fetchOne(version, "g", "u", 0)
		if version < 2 {
			code = p.ErrorCode
		}
		wantCode(t, fmt.Sprint("version ", version), code, kerr.CoordinatorLoadInProgress)
	}
}

// fetchOne asks for one partition and gives the answer the form of version 8.
func (st *stand) fetchOne(version int16, group, topic string, partition int32) (p kmsg.OffsetFetchResponseGroupTopicPartition, code int16) {
	st.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	if version >= 8 {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = group
		r := kmsg.OffsetFetchRequestGroupTopic{Topic: topic, TopicID: [16]byte{99}, Partitions: []int32{partition}}
		if s, ok := st.n.Meta().Stream(base.DefaultNamespace, topic); ok {
			r.TopicID = s.ID
		}
		g.Topics = append(g.Topics, r)
		req.Groups = append(req.Groups, g)
		out := send[*kmsg.OffsetFetchResponse](st, version, req).Groups[0]
		if len(out.Topics) > 0 {
			p = out.Topics[0].Partitions[0]
		}
		return p, out.ErrorCode
	}
	req.Group = group
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	out := send[*kmsg.OffsetFetchResponse](st, version, req)
	if len(out.Topics) > 0 {
		q := out.Topics[0].Partitions[0]
		p = kmsg.OffsetFetchResponseGroupTopicPartition{Partition: q.Partition, Offset: q.Offset, LeaderEpoch: q.LeaderEpoch, Metadata: q.Metadata, ErrorCode: q.ErrorCode}
	}
	return p, out.ErrorCode
}

// fetchAll asks for all offsets of a group.
func (st *stand) fetchAll(version int16, group string) (all []string) {
	st.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group}}
	out := send[*kmsg.OffsetFetchResponse](st, version, req)
	for _, t := range out.Topics {
		for _, p := range t.Partitions {
			all = append(all, fmt.Sprintf("%s/%d %d", t.Topic, p.Partition, p.Offset))
		}
	}
	for _, g := range out.Groups {
		for _, t := range g.Topics {
			if s, ok := st.n.Meta().StreamByID(t.TopicID); ok {
				t.Topic = s.Name
			}
			for _, p := range t.Partitions {
				all = append(all, fmt.Sprintf("%s/%d %d", t.Topic, p.Partition, p.Offset))
			}
		}
	}
	return all
}

func TestOffsetDelete(t *testing.T) {
	st := newStand(t)
	st.topic("t", 2, nil)
	st.topic("u", 1, nil)
	member := st.join("g")
	st.commit(8, "g", member, 1, "t", 0, 10)
	st.commit(8, "g", member, 1, "u", 0, 11)
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	for topic, ps := range map[string][]int32{"t": {0}, "u": {0, 5}, "none": {0}} {
		r := kmsg.NewOffsetDeleteRequestTopic()
		r.Topic = topic
		for _, p := range ps {
			r.Partitions = append(r.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
		}
		req.Topics = append(req.Topics, r)
	}
	out := send[*kmsg.OffsetDeleteResponse](st, 0, req)
	wantCode(t, "delete", out.ErrorCode, nil)
	want := map[string]*kerr.Error{"t/0": kerr.GroupSubscribedToTopic, "u/0": nil, "u/5": kerr.UnknownTopicOrPartition, "none/0": kerr.UnknownTopicOrPartition}
	for _, r := range out.Topics {
		for _, p := range r.Partitions {
			key := fmt.Sprintf("%s/%d", r.Topic, p.Partition)
			wantCode(t, key, p.ErrorCode, want[key])
		}
	}
	if got := st.fetchAll(8, "g"); !slices.Equal(got, []string{"t/0 10"}) {
		t.Errorf("left is %q", got)
	}
	req.Group = "none"
	wantCode(t, "delete", send[*kmsg.OffsetDeleteResponse](st, 0, req).ErrorCode, kerr.GroupIDNotFound)
}

func TestDeleteGroups(t *testing.T) {
	st := newStand(t)
	st.topic("t", 1, nil)
	st.join("busy")
	st.commit(8, "idle", "", -1, "t", 0, 10)
	for version := int16(0); version <= 3; version++ {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"busy", "none"}
		out := send[*kmsg.DeleteGroupsResponse](st, version, req).Groups
		wantCode(t, "busy", out[0].ErrorCode, kerr.NonEmptyGroup)
		wantCode(t, "none", out[1].ErrorCode, kerr.GroupIDNotFound)
		if version >= 3 && (textOf(out[0].ErrorMessage) == "" || textOf(out[1].ErrorMessage) == "") {
			t.Errorf("no messages: %+v", out)
		}
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{"idle"}
	wantCode(t, "idle", send[*kmsg.DeleteGroupsResponse](st, 3, req).Groups[0].ErrorCode, nil)
	if got := st.fetchAll(8, "idle"); got != nil {
		t.Errorf("left is %q", got)
	}
}

func TestFindCoordinator(t *testing.T) {
	st := newStand(t)
	for version := int16(0); version <= 6; version++ {
		for _, tc := range []struct {
			kind int8
			err  *kerr.Error
		}{{0, nil}, {1, nil}, {2, kerr.InvalidRequest}, {3, kerr.InvalidRequest}} {
			if version < 1 && tc.kind > 0 {
				continue
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = tc.kind, "g", []string{"g", "h"}
			out := send[*kmsg.FindCoordinatorResponse](st, version, req)
			found := out.Coordinators
			if version < 4 {
				found = []kmsg.FindCoordinatorResponseCoordinator{{Key: "g", NodeID: out.NodeID, Host: out.Host, Port: out.Port, ErrorCode: out.ErrorCode, ErrorMessage: out.ErrorMessage}}
			} else if len(found) != 2 || found[1].Key != "h" {
				t.Fatalf("version %d: %+v", version, out)
			}
			c := found[0]
			wantCode(t, fmt.Sprintf("version %d type %d", version, tc.kind), c.ErrorCode, tc.err)
			if tc.err == nil && (c.NodeID != testNode || c.Host != "127.0.0.1" || c.Port != 9999) {
				t.Errorf("version %d: %+v", version, c)
			}
			if tc.err != nil && (c.NodeID != -1 || version >= 1 && textOf(c.ErrorMessage) == "") {
				t.Errorf("version %d: %+v", version, c)
			}
			if tc.err != nil && tc.err.Retriable {
				t.Errorf("type %d: the error invites to try again", tc.kind)
			}
		}
	}
}
