package difftest

import "github.com/twmb/franz-go/pkg/kmsg"

// sharePlays are the cases about share groups (KIP-932). Assignments depend on time and are left to the tests of the coordinator.
func sharePlays() []play {
	return []play{
		{kmsg.ShareGroupHeartbeat, "share members", shareMembers},
		{kmsg.ShareGroupHeartbeat, "share refused", shareRefused},
		{kmsg.ShareGroupDescribe, "share members", shareMembers},
		{kmsg.AlterShareGroupOffsets, "share offsets", shareOffsets},
		{kmsg.DeleteShareGroupOffsets, "share offsets", shareOffsets},
	}
}

// shareBeat sends a heartbeat of a member of a share group.
func (x *exchange) shareBeat(label, group, member string, epoch int32, topics ...string) {
	x.t.Helper()
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = group, member, epoch, topics
	x.same(label, req)
}

// shareBeats is shareBeat with the epochs that the sides have told, which it keeps up to date.
func (x *exchange) shareBeats(label, group, member string, epochs *[2]int32, topics ...string) {
	x.t.Helper()
	answers := x.each(label, func(i int, _ *side) kmsg.Request {
		req := kmsg.NewPtrShareGroupHeartbeatRequest()
		req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = group, member, epochs[i], topics
		return req
	})
	for i, r := range answers {
		if r, ok := r.(*kmsg.ShareGroupHeartbeatResponse); ok && r.ErrorCode == 0 {
			epochs[i] = r.MemberEpoch
		}
	}
}

func (x *exchange) describeShare(label string, groups ...string) {
	x.t.Helper()
	req := kmsg.NewPtrShareGroupDescribeRequest()
	req.GroupIDs = groups
	x.same("describe "+label, req)
}

func shareMembers(x *exchange) {
	g, epochs := x.name("g"), [2]int32{}
	// Without a topic of the name there is nothing to assign, now or later.
	x.shareBeats("join", g, "m", &epochs, x.name("nothing"))
	x.shareBeats("go on", g, "m", &epochs)
	x.shareBeats("say all again", g, "m", &epochs, x.name("nothing"))
	x.describeShare("one", g)
	x.shareBeat("second", g, "n", 0, x.name("nothing"))
	x.shareBeat("leave", g, "m", -1)
	x.shareBeat("leave again", g, "m", -1)
	x.shareBeat("second leaves", g, "n", -1)
	x.describeShare("unknown", x.name("unknown"))
	x.describeShare("no name", "")
}

func shareRefused(x *exchange) {
	t, g := x.topic("t", 1, nil), x.name("g")
	x.shareBeat("unknown group", x.name("unknown"), "m", 1)
	x.shareBeat("leave unknown group", x.name("unknown"), "m", -1)
	x.shareBeat("join", g, "m", 0, t)
	x.shareBeat("no member", g, "", 0, t)
	x.shareBeat("long member", g, "a member whose name is longer than that", 0, t)
	x.shareBeat("no group", "", "m", 0, t)
	x.shareBeat("no topics", g, "n", 0)
	x.shareBeat("epoch -2", g, "m", -2)
	x.shareBeat("epoch too high", g, "m", 9)
	x.shareBeat("unknown member", g, "n", 1)
	x.shareBeat("unknown member leaves", g, "n", -1)
	x.commit("commit", x.name("classic"), t, nil)
	x.shareBeat("classic group", x.name("classic"), "m", 0, t)
}

func shareOffsets(x *exchange) {
	t, g := x.topic("t", 2, nil), x.name("g")
	alter := func(label, group, topic string, partitions ...int32) {
		x.t.Helper()
		req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
		req.GroupID = group
		rt := kmsg.NewAlterShareGroupOffsetsRequestTopic()
		rt.Topic = topic
		for _, p := range partitions {
			rt.Partitions = append(rt.Partitions, kmsg.AlterShareGroupOffsetsRequestTopicPartition{Partition: p})
		}
		req.Topics = append(req.Topics, rt)
		x.same("alter "+label, req)
	}
	forget := func(label, group string, topics ...string) {
		x.t.Helper()
		req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
		req.GroupID = group
		for _, name := range topics {
			req.Topics = append(req.Topics, kmsg.DeleteShareGroupOffsetsRequestTopic{Topic: name})
		}
		x.same("delete "+label, req)
	}
	forget("of no group", g, t)
	forget("without a name", "", t)
	alter("new group", g, t, 0, 1)
	alter("unknown partition", g, t, 0, 7)
	alter("unknown topic", g, x.name("unknown"), 0)
	forget("some", g, t, x.name("unknown"))
	forget("again", g, t)
	alter("again", g, t, 0)
	x.shareBeat("join", g, "m", 0, x.name("unknown"))
	alter("with members", g, t, 0)
	forget("with members", g, t)
}
