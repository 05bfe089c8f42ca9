package difftest

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// deepPlays are the cases that are played beside Kafka only: kfake differs in too much of them to tell anything.
func deepPlays() []play { return slices.Concat(txnRecordPlays(), memberPlays()) }

// memberPlays are the cases about what members of groups are besides their IDs: instances, subscriptions, protocols of either kind.
func memberPlays() []play {
	return []play{
		{kmsg.JoinGroup, "static members", staticMembers},
		{kmsg.LeaveGroup, "static members", staticMembers},
		{kmsg.JoinGroup, "vote", protocolVote},
		{kmsg.ConsumerGroupHeartbeat, "consumer share", consumerShare},
		{kmsg.ConsumerGroupDescribe, "consumer share", consumerShare},
		{kmsg.ConsumerGroupHeartbeat, "consumer static", consumerStatic},
		{kmsg.ConsumerGroupHeartbeat, "consumer commits", consumerCommits},
		{kmsg.OffsetCommit, "consumer commits", consumerCommits},
		{kmsg.OffsetFetch, "consumer commits", consumerCommits},
		{kmsg.ConsumerGroupHeartbeat, "consumer subscriptions", consumerSubscriptions},
		{kmsg.ConsumerGroupHeartbeat, "migration", migration},
		{kmsg.OffsetDelete, "subscribed", subscribed},
		{kmsg.IncrementalAlterConfigs, "group configs", groupConfigs},
		{kmsg.DescribeConfigs, "group configs", groupConfigs},
		{kmsg.ShareGroupHeartbeat, "share of many", shareOfMany},
		{kmsg.AlterShareGroupOffsets, "share refused offsets", shareOffsetsRefused},
		{kmsg.ShareFetch, "share reset", shareReset},
	}
}

// static says whether the version of the case has instances.
func (x *exchange) static() bool {
	return x.play.api == kmsg.JoinGroup && x.version >= 5 || x.play.api == kmsg.LeaveGroup && x.version >= 3
}

func staticMembers(x *exchange) {
	if !x.static() {
		return
	}
	t, g := x.topic("t", 1, nil), x.name("g")
	a := x.member(g)
	a.instance = kmsg.StringPtr("i")
	a.join("join")
	a.beginSync("sync", a.generation, assignment{a, "everything"})()
	a.heartbeat("heartbeat", a.generation)
	x.describe("static", g)
	old := *a
	old.ids = slices.Clone(a.ids)
	a.ids = make([]string, len(x.sides))
	a.join("comes again")
	a.beginSync("sync again", a.generation, assignment{a, "everything"})()
	a.heartbeat("heartbeat of the new one", a.generation)
	old.heartbeat("heartbeat of the old one", old.generation)
	old.beginSync("sync of the old one", old.generation)()
	as := func(m *member, instance *string) func(*kmsg.OffsetCommitRequest, int) {
		return func(r *kmsg.OffsetCommitRequest, i int) {
			r.Generation, r.MemberID, r.InstanceID = m.generation, m.ids[i], instance
		}
	}
	x.commit("commit of the new one", g, t, as(a, a.instance))
	x.commit("commit of the old one", g, t, as(&old, a.instance))
	x.commit("commit of the old one without its instance", g, t, as(&old, nil))
	old.join("join of the old one")
	stranger := *a
	stranger.instance, stranger.ids = kmsg.StringPtr("j"), []string{"nobody", "nobody"}
	stranger.heartbeat("heartbeat of an unknown instance", a.generation)
	a.protocols = []string{"sticky"}
	a.join("comes with another protocol")
	x.describe("after another protocol", g)
	a.beginSync("sync of another protocol", a.generation, assignment{a, "all"})()
	leave := func(label, id, instance string) {
		x.t.Helper()
		req := x.leaveRequest(g, id)
		req.Members[0].InstanceID = &instance
		x.same(label, req)
	}
	leave("leave of an unknown instance", "", "k")
	leave("leave with another ID", "nobody", "i")
	leave("leave", "", "i")
	leave("leave again", "", "i")
	x.describe("empty", g)
}

// protocolVote has two members with one protocol in common, and one with none.
func protocolVote(x *exchange) {
	g := x.name("g")
	a, b, c := x.member(g), x.member(g), x.member(g)
	a.protocols, b.protocols, c.protocols = []string{"range", "sticky"}, []string{"other", "sticky"}, []string{"another"}
	a.join("first")
	a.beginSync("sync of a protocol that was not chosen", a.generation)()
	a.protocols = []string{"sticky", "range"}
	a.join("first again")
	a.beginSync("sync", a.generation, assignment{a, "all"})()
	b.identify("second")
	joined := b.beginJoin("second")
	a.awaitRebalance()
	a.protocols = []string{"range", "sticky"}
	again := a.beginJoin("first with both")
	joined()
	again()
	follower := b.beginSync("sync of the follower", b.generation)
	a.beginSync("sync of the leader", a.generation, assignment{a, "one"}, assignment{b, "two"})()
	follower()
	x.describe("two", g)
	c.identify("third")
	c.beginJoin("nothing in common")()
	b.leave("second leaves")
	a.leave("first leaves")
}

// consumerOwns is a heartbeat of a member that has these partitions of a topic.
func (x *exchange) consumerOwns(label, group, member, topic string, epochs [2]int32, partitions ...int32) [2]int32 {
	x.t.Helper()
	return consumerEpochs(x.each(label, func(i int, s *side) kmsg.Request {
		req := consumerBeat(group, member, epochs[i])
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(partitions) > 0 {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: s.id(topic), Partitions: partitions})
		}
		return req
	}))
}

// consumerEpochs are the epochs that each side has told a member.
func consumerEpochs(told []kmsg.Response) (epochs [2]int32) {
	for i, r := range told {
		if r, ok := r.(*kmsg.ConsumerGroupHeartbeatResponse); ok {
			epochs[i] = r.MemberEpoch
		}
	}
	return epochs
}

// consumerShare has members share partitions, with either assignor.
func consumerShare(x *exchange) {
	t := x.topic("t", 4, nil)
	for _, assignor := range []string{"uniform", "range"} {
		g := x.name("g-" + assignor)
		join := func(label, member string) [2]int32 {
			x.t.Helper()
			req := consumerBeat(g, member, 0, t)
			req.ServerAssignor = &assignor
			return consumerEpochs(x.same(assignor+", "+label, req))
		}
		own := func(label, member string, epochs [2]int32, partitions ...int32) [2]int32 {
			x.t.Helper()
			return x.consumerOwns(assignor+", "+label, g, member, t, epochs, partitions...)
		}
		a := join("first", "m")
		a = own("first has", "m", a, 0, 1, 2, 3)
		b := join("second", "n")
		b = own("second waits", "n", b)
		x.describeConsumer(assignor+", waiting", g)
		a = own("first is told to give up", "m", a, 0, 1, 2, 3)
		x.describeConsumer(assignor+", giving up", g)
		a = own("first gave up", "m", a, 0, 1)
		b = own("second gets", "n", b)
		b = own("second has", "n", b, 2, 3)
		x.describeConsumer(assignor+", shared", g)
		c := join("third", "o")
		own("first with three", "m", a, 0, 1)
		b = own("second with three", "n", b, 2, 3)
		own("third with three", "o", c)
		x.describeConsumer(assignor+", three", g)
		own("of an older epoch", "n", [2]int32{b[0] - 1, b[1] - 1}, 2, 3)
		x.same(assignor+", first leaves", consumerBeat(g, "m", -1))
		own("second after it", "n", b, 2)
		x.describeConsumer(assignor+", at the end", g)
	}
	list := kmsg.NewPtrListGroupsRequest()
	list.TypesFilter = []string{"Consumer"}
	x.same("list", list)
	g := x.name("g-range")
	x.describe("as a classic group", g)
	m := x.member(g)
	m.join("of a classic member without a subscription")
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{g}
	x.same("delete with members", remove)
	for _, member := range []string{"n", "o"} {
		x.same("leave of "+member, consumerBeat(g, member, -1))
	}
	x.same("delete", remove)
}

func consumerStatic(x *exchange) {
	t, g := x.topic("t", 2, nil), x.name("g")
	beat := func(label, member string, epoch int32, instance string) {
		x.t.Helper()
		req := consumerBeat(g, member, epoch, t)
		req.InstanceID = &instance
		x.same(label, req)
	}
	beat("join", "m", 0, "i")
	beat("another with the instance", "n", 0, "i")
	beat("leave of a stranger", "n", -2, "i")
	x.describeConsumer("static", g)
	beat("leave for a while", "m", -2, "i")
	x.describeConsumer("left for a while", g)
	beat("comes again", "n", 0, "i")
	x.describeConsumer("came again", g)
	beat("the old one", "m", 2, "i")
	beat("unknown instance", "m", -2, "j")
	beat("empty instance", "m", 0, "")
	beat("leave", "n", -1, "i")
	x.describeConsumer("empty", g)
}

func consumerCommits(x *exchange) {
	t, g := x.topic("t", 2, nil), x.name("g")
	epochs := consumerEpochs(x.same("join", consumerBeat(g, "m", 0, t)))
	as := func(member string, off int32) func(*kmsg.OffsetCommitRequest, int) {
		return func(r *kmsg.OffsetCommitRequest, i int) { r.MemberID, r.Generation = member, epochs[i]+off }
	}
	x.commit("of a member", g, t, as("m", 0))
	x.commit("of an older epoch", g, t, as("m", -1))
	x.commit("of a newer epoch", g, t, as("m", 1))
	x.commit("of an unknown member", g, t, as("n", 0))
	x.commit("of nobody", g, t, nil)
	look := func(label string, member *string, off int32) {
		x.t.Helper()
		x.each(label, func(i int, s *side) kmsg.Request {
			req := kmsg.NewPtrOffsetFetchRequest()
			rg, gt, rt := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic(), kmsg.NewOffsetFetchRequestTopic()
			gt.Topic, gt.TopicID, gt.Partitions = t, s.id(t), []int32{0, 1}
			rt.Topic, rt.Partitions = t, gt.Partitions
			rg.Group, rg.Topics, rg.MemberID, rg.MemberEpoch = g, append(rg.Topics, gt), member, -1
			if member != nil {
				rg.MemberEpoch = epochs[i] + off
			}
			req.Group, req.Topics, req.Groups = g, append(req.Topics, rt), append(req.Groups, rg)
			return req
		})
	}
	look("fetch of nobody", nil, 0)
	look("fetch of a member", kmsg.StringPtr("m"), 0)
	look("fetch of an older epoch", kmsg.StringPtr("m"), -1)
	look("fetch of a newer epoch", kmsg.StringPtr("m"), 1)
	look("fetch of an unknown member", kmsg.StringPtr("n"), 0)
	x.same("leave", consumerBeat(g, "m", -1))
	x.commit("of who has left", g, t, as("m", 0))
	x.commit("of nobody to the empty group", g, t, nil)
}

// consumerSubscriptions changes what a member reads; a topic that matches an expression is awaited.
func consumerSubscriptions(x *exchange) {
	a, b, g := x.topic("a", 1, nil), x.topic("b", 2, nil), x.name("g")
	epochs := consumerEpochs(x.same("one topic", consumerBeat(g, "m", 0, a)))
	change := func(label string, topics ...string) {
		x.t.Helper()
		epochs = consumerEpochs(x.each(label, func(i int, _ *side) kmsg.Request {
			req := consumerBeat(g, "m", epochs[i])
			req.SubscribedTopicNames = topics
			return req
		}))
	}
	change("both", a, b)
	change("the other", b)
	change("one that is not there", b, x.name("nothing"))
	change("none", []string{}...)
	x.describeConsumer("none", g)
	if x.version == 0 {
		return
	}
	for _, expression := range []string{"^" + x.name("[ab]$"), x.name("nothing"), "["} {
		x.each(fmt.Sprintf("expression %s", expression[len(expression)-1:]), func(i int, _ *side) kmsg.Request {
			req := consumerBeat(x.name("regex"+fmt.Sprint(len(expression))), "m", 0)
			req.SubscribedTopicNames, req.SubscribedTopicRegex = []string{}, &expression
			return req
		})
	}
}

// subscription is the metadata of a classic consumer.
func subscription(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, topics
	return m.AppendTo(nil)
}

// migration takes a group from one protocol to the other and back.
func migration(x *exchange) {
	t, g := x.topic("t", 2, nil), x.name("g")
	a := x.member(g)
	a.protocols, a.metadata = []string{"range"}, subscription(t)
	a.join("classic")
	plan := kmsg.NewConsumerMemberAssignment()
	plan.Topics = append(plan.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t, Partitions: []int32{0, 1}})
	a.beginSync("sync", a.generation, assignment{a, string(plan.AppendTo(nil))})()
	told := consumerEpochs(x.same("consumer", consumerBeat(g, "m", 0, t)))
	x.describeConsumer("upgraded", g)
	x.describe("upgraded", g)
	a.heartbeat("heartbeat after the upgrade", a.generation)
	a.join("classic again")
	a.beginSync("sync again", a.generation)()
	a.heartbeat("heartbeat", a.generation)
	told = x.consumerOwns("consumer goes on", g, "m", t, told)
	x.describeConsumer("both", g)
	x.consumerOwns("consumer has", g, "m", t, told, 1)
	x.same("consumer leaves", consumerBeat(g, "m", -1))
	x.describe("downgraded", g)
	x.describeConsumer("downgraded", g)
	a.heartbeat("heartbeat after the downgrade", a.generation)
	a.join("classic for the third time")
	a.beginSync("third sync", a.generation, assignment{a, string(plan.AppendTo(nil))})()
	a.leave("leave")
	x.same("consumer joins the empty group", consumerBeat(g, "m", 0, t))
	x.describeConsumer("at the end", g)
}

// subscribed deletes offsets of topics that members read, which is refused.
func subscribed(x *exchange) {
	t, other := x.topic("t", 1, nil), x.topic("other", 1, nil)
	classic, modern := x.name("classic"), x.name("modern")
	m := x.member(classic)
	m.metadata = subscription(t)
	m.join("join")
	m.beginSync("sync", m.generation, assignment{m, "everything"})()
	epochs := consumerEpochs(x.same("join", consumerBeat(modern, "m", 0, t)))
	for _, g := range []string{classic, modern} {
		for _, topic := range []string{t, other} {
			x.commit("commit", g, topic, func(r *kmsg.OffsetCommitRequest, i int) {
				if r.MemberID, r.Generation = "m", epochs[i]; g == classic {
					r.MemberID, r.Generation = m.ids[i], m.generation
				}
			})
			req := kmsg.NewPtrOffsetDeleteRequest()
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic, rt.Partitions = topic, append(rt.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
			req.Group, req.Topics = g, append(req.Topics, rt)
			x.same("delete", req)
		}
	}
}

// setGroup changes a configuration of a group; without a value it is deleted.
func (x *exchange) setGroup(label, group, name, value string) {
	x.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value, rc.Op = name, &value, kmsg.IncrementalAlterConfigOpSet
	if value == "" {
		rc.Value, rc.Op = nil, kmsg.IncrementalAlterConfigOpDelete
	}
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName, rr.Configs = kmsg.ConfigResourceTypeGroupConfig, group, append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	x.same(label, req)
}

func groupConfigs(x *exchange) {
	g := x.name("g")
	x.inHaste(func() { x.setMany(g) })
	x.resource("all", kmsg.ConfigResourceTypeGroupConfig, fixedName(g))
	x.resource("some", kmsg.ConfigResourceTypeGroupConfig, fixedName(g), "share.auto.offset.reset")
	x.resource("unknown group", kmsg.ConfigResourceTypeGroupConfig, fixedName(x.name("nothing")))
	x.resource("no group", kmsg.ConfigResourceTypeGroupConfig, fixedName(""))
}

// inHaste awaits only at the end that all changes are applied.
func (x *exchange) inHaste(change func()) {
	peer := x.sides[1]
	lags := peer.lags
	peer.lags = false
	change()
	if peer.lags = lags; lags {
		x.conns[1].settle()
	}
}

func (x *exchange) setMany(g string) {
	for _, c := range []struct{ name, value string }{
		{"consumer.session.timeout.ms", "50000"}, {"consumer.heartbeat.interval.ms", "6000"},
		{"share.session.timeout.ms", "50000"}, {"share.record.lock.duration.ms", "20000"}, {"share.auto.offset.reset", "earliest"},
		{"share.delivery.count.limit", "7"}, {"share.isolation.level", "read_committed"}, {"streams.num.standby.replicas", "1"},
		{"share.auto.offset.reset", "by_duration:PT1H"}, {"share.renew.acknowledge.enable", "false"},
		{"consumer.session.timeout.ms", "5"}, {"consumer.heartbeat.interval.ms", "50000"}, {"share.auto.offset.reset", "never"},
		{"share.delivery.count.limit", "1"}, {"share.delivery.count.limit", "100"}, {"share.record.lock.duration.ms", "1"},
		{"share.isolation.level", "odd"}, {"streams.num.standby.replicas", "9"}, {"streams.session.timeout.ms", "x"}, {"no.such.config", "1"},
		{"share.partition.max.record.locks", "300"}, {"consumer.session.timeout.ms", ""},
	} {
		x.setGroup(c.name+" "+c.value, g, c.name, c.value)
	}
	x.setGroup("no name", "", "share.session.timeout.ms", "50000")
}

// shareOfMany has three members of a share group on one partition.
func shareOfMany(x *exchange) {
	t, g := x.topic("t", 1, nil), x.name("g")
	x.sharer(t, 1)
	var epochs [2][2]int32
	x.shareBeats("second", g, "n", &epochs[0], t)
	x.shareBeats("third", g, "o", &epochs[1], t)
	x.shareBeats("second goes on", g, "n", &epochs[0])
	x.describeShare("three", g)
	x.shareBeat("leave", g, "member", -1)
	list := kmsg.NewPtrListGroupsRequest()
	list.TypesFilter = []string{"share"}
	x.same("list", list)
	x.describe("as a classic group", g)
	x.same("as a consumer group", consumerBeat(g, "c", 0, t))
	m := x.member(g)
	m.join("as a classic member")
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{g}
	x.same("delete with members", remove)
	x.shareBeat("second leaves", g, "n", -1)
	x.shareBeat("third leaves", g, "o", -1)
	x.same("delete", remove)
	x.describeShare("deleted", g)
}

func shareOffsetsRefused(x *exchange) {
	t, consumers := x.topic("t", 1, nil), x.name("consumers")
	x.same("join", consumerBeat(consumers, "m", 0, t))
	for _, g := range []string{consumers, ""} {
		req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
		rt := kmsg.NewAlterShareGroupOffsetsRequestTopic()
		rt.Topic, rt.Partitions = t, []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{StartOffset: 3}}
		req.GroupID, req.Topics = g, append(req.Topics, rt)
		x.same("alter", req)
		remove := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
		remove.GroupID, remove.Topics = g, []kmsg.DeleteShareGroupOffsetsRequestTopic{{Topic: t}}
		x.same("remove", remove)
	}
}

// shareReset has groups that begin where their configuration says.
func shareReset(x *exchange) {
	t := x.filled("t", 1)
	for k, reset := range []string{"earliest", "by_duration:PT1H"} {
		m := &sharer{x: x, group: x.name(fmt.Sprint("g", k)), member: "member", topic: t}
		x.setGroup("set "+reset, m.group, "share.auto.offset.reset", reset)
		for i := range x.sides {
			m.join(i, 1)
		}
		m.step("from "+reset, true, nil, of(0))
		m.step("acknowledge", false, nil, of(0, tell(0, 5, accept)))
		m.acknowledge("close", func(r *kmsg.ShareAcknowledgeRequest) { r.ShareSessionEpoch = -1 })
	}
}
