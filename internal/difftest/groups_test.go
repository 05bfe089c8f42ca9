package difftest

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupPlays are the cases about groups. Those of the membership go through all of its requests, so that each
// API's versions are played with the highest versions of the others.
func groupPlays() []play {
	return []play{
		{kmsg.FindCoordinator, "find", findCoordinator},
		{kmsg.JoinGroup, "one member", oneMember},
		{kmsg.SyncGroup, "one member", oneMember},
		{kmsg.Heartbeat, "one member", oneMember},
		{kmsg.LeaveGroup, "one member", oneMember},
		{kmsg.JoinGroup, "two members", twoMembers},
		{kmsg.SyncGroup, "two members", twoMembers},
		{kmsg.JoinGroup, "refused", joinRefused},
		{kmsg.SyncGroup, "refused", syncRefused},
		{kmsg.Heartbeat, "refused", heartbeatRefused},
		{kmsg.LeaveGroup, "refused", leaveRefused},
		{kmsg.OffsetCommit, "offsets", offsets},
		{kmsg.OffsetFetch, "offsets", offsets},
		{kmsg.OffsetDelete, "offsets", offsetDelete},
		{kmsg.ListGroups, "groups", seeGroups},
		{kmsg.DescribeGroups, "groups", seeGroups},
		{kmsg.DeleteGroups, "groups", seeGroups},
	}
}

func findCoordinator(x *exchange) {
	g := x.name("g")
	ask := func(label string, kind int8, keys ...string) {
		x.t.Helper()
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType = kind
		if x.version < 4 {
			req.CoordinatorKey = keys[0]
		} else {
			req.CoordinatorKeys = keys
		}
		x.same(label, req)
	}
	ask("group", 0, g)
	ask("empty", 0, "")
	if x.version >= 1 {
		ask("transaction", 1, g)
		ask("unknown kind", 9, g)
	}
	if x.version >= 4 {
		ask("two", 0, g, x.name("h"))
	}
}

// member is a member of a group at both sides.
type member struct {
	x          *exchange
	group      string
	ids        []string
	conns      []*conn
	generation int32

	instance  *string
	protocols []string // range and sticky by default
	metadata  []byte   // of all protocols, where it has to mean something
}

func (x *exchange) member(group string) *member {
	m := &member{x: x, group: group, ids: make([]string, len(x.sides))}
	for _, s := range x.sides {
		c := dial(x.t, s)
		x.t.Cleanup(c.close)
		m.conns = append(m.conns, c)
	}
	return m
}

func (x *exchange) joinRequest(group, id string, protocols ...string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = group, id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	for _, p := range protocols {
		rp := kmsg.NewJoinGroupRequestProtocol()
		rp.Name, rp.Metadata = p, []byte("metadata of "+p)
		req.Protocols = append(req.Protocols, rp)
	}
	return req
}

// beginJoin sends a join; the function that it returns waits for the answers.
func (m *member) beginJoin(label string) func() {
	wait := m.x.begin(label, m.conns, func(i int, _ *side) kmsg.Request {
		protocols := m.protocols
		if protocols == nil {
			protocols = []string{"range", "sticky"}
		}
		req := m.x.joinRequest(m.group, m.ids[i], protocols...)
		req.InstanceID = m.instance
		for i := range req.Protocols {
			if m.metadata != nil {
				req.Protocols[i].Metadata = m.metadata
			}
		}
		return req
	})
	return func() {
		m.x.t.Helper()
		for i, r := range wait() {
			jr, ok := r.(*kmsg.JoinGroupResponse)
			if !ok {
				continue // it was not answered
			}
			m.ids[i] = jr.MemberID
			if jr.ErrorCode == 0 {
				m.generation = jr.Generation
			}
		}
	}
}

// join joins, twice if the broker first gives an ID (KIP-394).
func (m *member) join(label string) {
	m.x.t.Helper()
	m.identify(label)
	m.beginJoin(label)()
}

// identify gets the member its ID, where the version gives it apart.
func (m *member) identify(label string) {
	m.x.t.Helper()
	req := m.x.joinRequest("", "")
	if m.x.at(req); req.Version >= 4 && m.ids[0] == "" && m.instance == nil {
		m.beginJoin(label + ", for an ID")()
	}
}

// assignment is what the leader gives a member.
type assignment struct {
	of   *member
	text string
}

func (m *member) beginSync(label string, generation int32, plan ...assignment) func() []kmsg.Response {
	return m.x.begin(label, m.conns, func(i int, _ *side) kmsg.Request {
		req := kmsg.NewPtrSyncGroupRequest()
		kind, protocol := "consumer", "range"
		if m.protocols != nil {
			protocol = m.protocols[len(m.protocols)-1]
		}
		req.Group, req.Generation, req.MemberID, req.ProtocolType, req.Protocol = m.group, generation, m.ids[i], &kind, &protocol
		req.InstanceID = m.instance
		for _, a := range plan {
			ra := kmsg.NewSyncGroupRequestGroupAssignment()
			ra.MemberID, ra.MemberAssignment = a.of.ids[i], []byte(a.text)
			req.GroupAssignment = append(req.GroupAssignment, ra)
		}
		return req
	})
}

func (m *member) heartbeat(label string, generation int32) {
	m.x.t.Helper()
	m.x.on(label, m.conns, func(i int, _ *side) kmsg.Request {
		return m.heartbeatRequest(i, generation)
	})
}

func (m *member) heartbeatRequest(i int, generation int32) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = m.group, generation, m.ids[i], m.instance
	return req
}

func (m *member) leave(label string) {
	m.x.t.Helper()
	m.x.on(label, m.conns, func(i int, _ *side) kmsg.Request { return m.x.leaveRequest(m.group, m.ids[i]) })
}

func (x *exchange) leaveRequest(group, id string) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, id
	rm := kmsg.NewLeaveGroupRequestMember()
	rm.MemberID = id
	req.Members = append(req.Members, rm)
	return req
}

// stable makes a group with one member, the leader.
func (x *exchange) stable(group string) *member {
	x.t.Helper()
	m := x.member(group)
	m.join("join")
	m.beginSync("sync", m.generation, assignment{m, "everything"})()
	return m
}

func oneMember(x *exchange) {
	g := x.name("g")
	m := x.stable(g)
	m.heartbeat("heartbeat", m.generation)
	x.describe("stable", g)
	m.heartbeat("heartbeat of an older generation", m.generation-1)
	m.beginSync("sync again", m.generation)()
	m.beginSync("sync of an older generation", m.generation-1)()
	m.join("join again")
	m.heartbeat("heartbeat before the sync", m.generation)
	x.describe("before the sync", g)
	m.beginSync("second sync", m.generation, assignment{m, "all"})()
	m.leave("leave")
	m.heartbeat("heartbeat after leaving", m.generation)
	m.leave("leave again")
	x.describe("empty", g)
}

func twoMembers(x *exchange) {
	g := x.name("g")
	a, b := x.stable(g), x.member(g)
	b.identify("second")
	joined := b.beginJoin("second")
	a.awaitRebalance()
	a.heartbeat("heartbeat in a rebalance", a.generation)
	a.beginSync("sync in a rebalance", a.generation)()
	x.describe("in a rebalance", g)
	again := a.beginJoin("first again")
	joined()
	again()
	follower := b.beginSync("sync of the follower", b.generation)
	a.beginSync("sync of the leader", a.generation, assignment{a, "one"}, assignment{b, "two"})()
	follower()
	x.describe("two", g)
	b.leave("follower leaves")
	a.heartbeat("heartbeat after the follower left", a.generation)
	a.leave("leader leaves")
}

// awaitRebalance waits until another member's join has reached the group.
func (m *member) awaitRebalance() {
	x := m.x
	x.t.Helper()
	for i := range x.sides {
		for {
			req := m.heartbeatRequest(i, m.generation)
			x.at(req)
			resp, err := m.conns[i].call(req)
			if err != nil {
				x.t.Fatal(err)
			}
			if code := resp.(*kmsg.HeartbeatResponse).ErrorCode; code == kerr.RebalanceInProgress.Code {
				break
			} else if code != 0 {
				x.t.Fatalf("%s: a heartbeat during a join: %v", x.sides[i].name, kerr.ErrorForCode(code))
			}
		}
	}
}

func joinRefused(x *exchange) {
	g := x.name("g")
	x.stable(g)
	ask := func(label string, edit func(req *kmsg.JoinGroupRequest)) {
		x.t.Helper()
		x.each(label, func(int, *side) kmsg.Request {
			req := x.joinRequest(g, "", "range")
			edit(req)
			return req
		})
	}
	ask("no group", func(r *kmsg.JoinGroupRequest) { r.Group = "" })
	ask("short session", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 100 })
	ask("long session", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 << 30 })
	ask("no protocols", func(r *kmsg.JoinGroupRequest) { r.Protocols = nil })
	ask("no protocol type", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" })
	ask("another protocol type", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
	ask("another protocol", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "other" })
	ask("unknown member", func(r *kmsg.JoinGroupRequest) { r.MemberID = "nobody" })
	ask("unknown member of an unknown group", func(r *kmsg.JoinGroupRequest) { r.Group, r.MemberID = x.name("nothing"), "nobody" })
}

func syncRefused(x *exchange) {
	g := x.name("g")
	m := x.stable(g)
	ask := func(label string, edit func(req *kmsg.SyncGroupRequest)) {
		x.t.Helper()
		x.each(label, func(i int, _ *side) kmsg.Request {
			req := kmsg.NewPtrSyncGroupRequest()
			kind, protocol := "consumer", "range"
			req.Group, req.Generation, req.MemberID, req.ProtocolType, req.Protocol = g, m.generation, m.ids[i], &kind, &protocol
			edit(req)
			return req
		})
	}
	other := "other"
	ask("no group", func(r *kmsg.SyncGroupRequest) { r.Group = "" })
	ask("unknown group", func(r *kmsg.SyncGroupRequest) { r.Group = x.name("nothing") })
	ask("unknown member", func(r *kmsg.SyncGroupRequest) { r.MemberID = "nobody" })
	ask("newer generation", func(r *kmsg.SyncGroupRequest) { r.Generation++ })
	ask("another protocol type", func(r *kmsg.SyncGroupRequest) { r.ProtocolType = &other })
	ask("another protocol", func(r *kmsg.SyncGroupRequest) { r.Protocol = &other })
}

func heartbeatRefused(x *exchange) {
	g := x.name("g")
	m := x.stable(g)
	ask := func(label string, edit func(req *kmsg.HeartbeatRequest)) {
		x.t.Helper()
		x.each(label, func(i int, _ *side) kmsg.Request {
			req := m.heartbeatRequest(i, m.generation)
			edit(req)
			return req
		})
	}
	ask("no group", func(r *kmsg.HeartbeatRequest) { r.Group = "" })
	ask("unknown group", func(r *kmsg.HeartbeatRequest) { r.Group = x.name("nothing") })
	ask("unknown member", func(r *kmsg.HeartbeatRequest) { r.MemberID = "nobody" })
	ask("newer generation", func(r *kmsg.HeartbeatRequest) { r.Generation++ })
}

func leaveRefused(x *exchange) {
	g := x.name("g")
	x.stable(g)
	x.same("no group", x.leaveRequest("", "nobody"))
	x.same("unknown group", x.leaveRequest(x.name("nothing"), "nobody"))
	x.same("unknown member", x.leaveRequest(g, "nobody"))
}

func (x *exchange) commit(label, group, topic string, edit func(*kmsg.OffsetCommitRequest, int)) {
	x.t.Helper()
	x.each(label, func(i int, s *side) kmsg.Request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = group, -1
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		meta := "meta"
		rp.Offset, rp.LeaderEpoch, rp.Metadata = 5, -1, &meta
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID, rt.Partitions = topic, s.id(topic), append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		if edit != nil {
			edit(req, i)
		}
		return req
	})
}

// committed asks for a group's offsets of a topic; of all topics if it is "".
func (x *exchange) committed(label, group, topic string, partitions ...int32) {
	x.t.Helper()
	x.each(label, func(_ int, s *side) kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		rg := kmsg.NewOffsetFetchRequestGroup()
		req.Group, rg.Group = group, group
		if topic != "" {
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = topic, partitions
			req.Topics = append(req.Topics, rt)
			gt := kmsg.NewOffsetFetchRequestGroupTopic()
			gt.Topic, gt.TopicID, gt.Partitions = topic, s.id(topic), partitions
			rg.Topics = append(rg.Topics, gt)
		}
		req.Groups = append(req.Groups, rg)
		return req
	})
}

func offsets(x *exchange) {
	t := x.topic("t", 3, nil)
	g := x.name("g")
	x.committed("before", g, t, 0)
	x.commit("simple", g, t, nil)
	x.committed("after", g, t, 0, 1)
	x.committed("partition", g, t, 9)
	x.committed("topic", g, x.name("nothing"), 0)
	if v := kmsg.OffsetFetch; x.play.api != v || x.version >= 2 {
		x.committed("all", g, "")
	}
	x.commit("epoch", g, t, func(r *kmsg.OffsetCommitRequest, _ int) { r.Topics[0].Partitions[0].LeaderEpoch = 3 })
	x.commit("null metadata", g, t, func(r *kmsg.OffsetCommitRequest, _ int) { r.Topics[0].Partitions[0].Metadata = nil })
	long := make([]byte, 5000)
	for i := range long {
		long[i] = 'm'
	}
	text := string(long)
	x.commit("long metadata", g, t, func(r *kmsg.OffsetCommitRequest, _ int) { r.Topics[0].Partitions[0].Metadata = &text })
	x.commit("negative", g, t, func(r *kmsg.OffsetCommitRequest, _ int) { r.Topics[0].Partitions[0].Offset = -3 })
	x.commit("commit to an unknown topic", g, x.name("nothing"), nil)
	x.commit("commit to an unknown partition", g, t, func(r *kmsg.OffsetCommitRequest, _ int) { r.Topics[0].Partitions[0].Partition = 9 })
	x.commit("no group", "", t, nil)
	x.commit("generation of an unknown group", x.name("nothing"), t, func(r *kmsg.OffsetCommitRequest, _ int) { r.Generation, r.MemberID = 1, "nobody" })
	x.committed("at the end", g, t, 0, 1, 2)

	m := x.stable(x.name("members"))
	as := func(generation int32, id string) func(*kmsg.OffsetCommitRequest, int) {
		return func(r *kmsg.OffsetCommitRequest, i int) {
			if r.Generation, r.MemberID = generation, id; id == "" {
				r.MemberID = m.ids[i]
			}
		}
	}
	x.commit("of a member", m.group, t, as(m.generation, ""))
	x.commit("of an older generation", m.group, t, as(m.generation-1, ""))
	x.commit("of an unknown member", m.group, t, as(m.generation, "nobody"))
	x.commit("of nobody to a group with members", m.group, t, nil)
	x.committed("of the group with members", m.group, t, 0)
}

func offsetDelete(x *exchange) {
	t := x.topic("t", 2, nil)
	g := x.name("g")
	x.commit("commit", g, t, nil)
	ask := func(label, group, topic string, partition int32) {
		x.t.Helper()
		req := kmsg.NewPtrOffsetDeleteRequest()
		rp := kmsg.NewOffsetDeleteRequestTopicPartition()
		rp.Partition = partition
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
		req.Group, req.Topics = group, append(req.Topics, rt)
		x.same(label, req)
	}
	ask("one", g, t, 0)
	x.committed("after", g, t, 0)
	ask("again", g, t, 0)
	ask("partition", g, t, 9)
	ask("topic", g, x.name("nothing"), 0)
	ask("unknown group", x.name("nothing"), t, 0)
	ask("no group", "", t, 0)
}

func (x *exchange) describe(label string, groups ...string) {
	x.t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = groups
	x.same("describe "+label, req)
}

func seeGroups(x *exchange) {
	t := x.topic("t", 1, nil)
	g, simple := x.name("g"), x.name("simple")
	x.commit("commit", simple, t, nil)
	m := x.stable(g)
	list := func(label string, states, types []string) {
		x.t.Helper()
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = states, types
		x.same("list "+label, req)
	}
	remove := func(label string, groups ...string) {
		x.t.Helper()
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = groups
		x.same("delete "+label, req)
	}
	list("all", nil, nil)
	list("stable", []string{"Stable"}, nil)
	list("unknown state", []string{"Odd"}, nil)
	list("classic", nil, []string{"classic"})
	list("unknown type", nil, []string{"odd"})
	x.describe("both", g, simple)
	x.describe("unknown", x.name("nothing"))
	x.describe("no name", "")
	x.describe("twice", g, g)
	remove("with members", g)
	remove("unknown", x.name("nothing"))
	remove("no name", "")
	m.leave("leave")
	remove("both", g, simple)
	x.describe("deleted", g, simple)
	x.committed("of the deleted group", simple, t, 0)
}
