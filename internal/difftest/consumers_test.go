package difftest

import "github.com/twmb/franz-go/pkg/kmsg"

// consumerPlays are the cases about groups of the consumer protocol (KIP-848) that do not depend on time.
func consumerPlays() []play {
	return []play{
		{kmsg.ConsumerGroupHeartbeat, "consumer members", consumerMembers},
		{kmsg.ConsumerGroupHeartbeat, "consumer refused", consumerRefused},
		{kmsg.ConsumerGroupDescribe, "consumer members", consumerMembers},
	}
}

// consumerBeat is a heartbeat that says of the member what a first one must.
func consumerBeat(group, member string, epoch int32, topics ...string) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group, member, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 30_000, topics
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return req
}

func (x *exchange) describeConsumer(label string, groups ...string) {
	x.t.Helper()
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = groups
	x.same("describe "+label, req)
}

// consumerGoesOn is a heartbeat of a member in the epoch that each side has told it.
func (x *exchange) consumerGoesOn(label, group, member string, told []kmsg.Response) {
	x.t.Helper()
	x.each(label, func(i int, _ *side) kmsg.Request {
		return consumerBeat(group, member, told[i].(*kmsg.ConsumerGroupHeartbeatResponse).MemberEpoch)
	})
}

func consumerMembers(x *exchange) {
	t, g := x.topic("t", 3, nil), x.name("g")
	told := x.same("join", consumerBeat(g, "m", 0, t))
	x.consumerGoesOn("go on", g, "m", told)
	x.describeConsumer("one", g)
	x.same("join again", consumerBeat(g, "m", 0, t))
	x.same("leave", consumerBeat(g, "m", -1))
	x.same("leave again", consumerBeat(g, "m", -1))
	x.describeConsumer("empty", g)
	x.describeConsumer("unknown", x.name("unknown"))
	x.describeConsumer("no name", "")
}

func consumerRefused(x *exchange) {
	t, g := x.topic("t", 1, nil), x.name("g")
	x.same("unknown group", consumerBeat(x.name("unknown"), "m", 1))
	x.same("leave unknown group", consumerBeat(x.name("unknown"), "m", -1))
	x.same("join", consumerBeat(g, "m", 0, t))
	x.same("no member", consumerBeat(g, "", 0, t))
	x.same("no group", consumerBeat("", "m", 0, t))
	x.same("no topics", consumerBeat(g, "n", 0))
	x.same("epoch -2 of a dynamic member", consumerBeat(g, "m", -2))
	x.same("epoch -3", consumerBeat(g, "m", -3))
	x.same("epoch too high", consumerBeat(g, "m", 9))
	x.same("unknown member", consumerBeat(g, "n", 1))
	x.same("unknown member leaves", consumerBeat(g, "n", -1))
	assignor := consumerBeat(g, "n", 0, t)
	assignor.ServerAssignor = kmsg.StringPtr("best")
	x.same("unknown assignor", assignor)
	regex := consumerBeat(g, "n", 0)
	regex.SubscribedTopicNames, regex.SubscribedTopicRegex = []string{}, kmsg.StringPtr("(")
	x.same("bad expression", regex)
	late := consumerBeat(g, "n", 0, t)
	late.RebalanceTimeoutMillis = -1
	x.same("no rebalance time-out", late)
}
