package difftest

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// streamsPlays are the cases about streams groups (KIP-1071). kfake does not know them.
func streamsPlays() []play {
	return []play{
		{kmsg.StreamsGroupHeartbeat, "streams members", streamsMembers},
		{kmsg.StreamsGroupHeartbeat, "streams refused", streamsRefused},
		{kmsg.StreamsGroupHeartbeat, "streams topology", streamsTopology},
		{kmsg.StreamsGroupDescribe, "streams members", streamsMembers},
	}
}

// streamsBeat is a heartbeat that says of the member what a first one must.
func streamsBeat(group, member string, epoch int32, topics ...string) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group, member, epoch
	if epoch != 0 {
		return req
	}
	req.RebalanceTimeoutMillis, req.ProcessID = 30_000, kmsg.StringPtr("process of "+member)
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
	sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	sub.SubtopologyID, sub.SourceTopics = "0", topics
	topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	topology.Subtopologies = append(topology.Subtopologies, sub)
	req.Topology = &topology
	return req
}

// task is a partition's task of the first subtopology.
func task(partitions ...int32) []kmsg.TaskIDs {
	return []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: partitions}}
}

func (x *exchange) describeStreams(label string, groups ...string) {
	x.t.Helper()
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = groups
	x.same("describe "+label, req)
}

// streamsEpochs are the epochs that each side has told a member.
func streamsEpochs(told []kmsg.Response) (epochs [2]int32) {
	for i, r := range told {
		if r, ok := r.(*kmsg.StreamsGroupHeartbeatResponse); ok {
			epochs[i] = r.MemberEpoch
		}
	}
	return epochs
}

func streamsMembers(x *exchange) {
	t, g := x.topic("t", 2, nil), x.name("g")
	goes := func(label, member string, epochs [2]int32, active ...int32) [2]int32 {
		x.t.Helper()
		return streamsEpochs(x.each(label, func(i int, _ *side) kmsg.Request {
			req := streamsBeat(g, member, epochs[i])
			if active != nil {
				req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = task(active...), []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
			}
			return req
		}))
	}
	a := streamsEpochs(x.same("join", streamsBeat(g, "m", 0, t)))
	a = goes("go on", "m", a)
	a = goes("has its tasks", "m", a, 0, 1)
	x.describeStreams("one", g)
	x.same("join again", streamsBeat(g, "m", 0, t))
	b := streamsEpochs(x.same("second", streamsBeat(g, "n", 0, t)))
	a = goes("first gives up", "m", a, 0, 1)
	x.describeStreams("two", g)
	a = goes("first gave up", "m", a, 0)
	b = goes("second gets", "n", b)
	goes("second has", "n", b, 1)
	goes("first goes on", "m", a, 0)
	x.describeStreams("settled", g)
	x.same("leave", streamsBeat(g, "m", -1))
	x.same("leave again", streamsBeat(g, "m", -1))
	x.same("second leaves", streamsBeat(g, "n", -1))
	x.describeStreams("empty", g)
	x.describeStreams("unknown", x.name("unknown"))
	x.describeStreams("no name", "")
}

func streamsRefused(x *exchange) {
	t, g := x.topic("t", 1, nil), x.name("g")
	x.same("unknown group", streamsBeat(x.name("unknown"), "m", 1))
	x.same("leave unknown group", streamsBeat(x.name("unknown"), "m", -1))
	x.same("join", streamsBeat(g, "m", 0, t))
	x.same("no member", streamsBeat(g, "", 0, t))
	x.same("no group", streamsBeat("", "m", 0, t))
	x.same("epoch -2 of a dynamic member", streamsBeat(g, "m", -2))
	x.same("epoch -3", streamsBeat(g, "m", -3))
	x.same("epoch too high", streamsBeat(g, "m", 9))
	x.same("unknown member", streamsBeat(g, "n", 1))
	x.same("unknown member leaves", streamsBeat(g, "n", -1))
	ask := func(label string, epoch int32, edit func(*kmsg.StreamsGroupHeartbeatRequest)) {
		x.t.Helper()
		req := streamsBeat(g, "n", epoch, t)
		edit(req)
		x.same(label, req)
	}
	ask("no rebalance time-out", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 })
	ask("no process", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ProcessID = nil })
	ask("no topology", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology = nil })
	ask("no tasks said", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks = nil })
	ask("joins with a task", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks = task(0) })
	ask("topology later", 1, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology = streamsBeat(g, "n", 0, t).Topology })
	ask("some tasks only", 1, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks = task(0) })
	ask("empty instance", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.InstanceID = kmsg.StringPtr("") })
	ask("odd expression", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.Topology.Subtopologies[0].SourceTopicRegex = []string{"("}
	})
	classic := x.name("classic")
	x.commit("commit", classic, t, nil)
	x.same("classic group", streamsBeat(classic, "m", 0, t))
}

// streamsTopology has topologies that cannot run as they are.
func streamsTopology(x *exchange) {
	two, three := x.topic("two", 2, nil), x.topic("three", 3, nil)
	ask := func(label string, edit func(*kmsg.StreamsGroupHeartbeatRequestTopologySubtopology), topics ...string) (group string, epochs [2]int32) {
		x.t.Helper()
		g := x.name(label)
		req := streamsBeat(g, "m", 0, topics...)
		if edit != nil {
			edit(&req.Topology.Subtopologies[0])
		}
		return g, streamsEpochs(x.same(label, req))
	}
	g, _ := ask("unknown topic", nil, x.name("nothing"))
	x.describeStreams("without its topic", g)
	ask("copartitioned", func(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
		c := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
		c.SourceTopics = []int16{0, 1}
		s.CopartitionGroups = append(s.CopartitionGroups, c)
	}, two, three)
	internal := kmsg.NewTopicInfo()
	internal.Topic = x.name("changes")
	g, epochs := ask("changelog", func(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
		s.StateChangelogTopics = append(s.StateChangelogTopics, internal)
	}, two)
	for i := range x.sides {
		x.running(i, g, "m", epochs[i])
	}
	x.describeStreams("with a changelog", g)
	x.same("another topology epoch", func() kmsg.Request {
		req := streamsBeat(g, "n", 0, two)
		req.Topology.Epoch = 3
		return req
	}())
}

// running awaits that one side has made the topics that a group needs, and has told a member so.
func (x *exchange) running(i int, group, member string, epoch int32) {
	x.t.Helper()
	for end := time.Now().Add(patience); ; {
		r := x.quietly(i, streamsBeat(group, member, epoch)).(*kmsg.StreamsGroupHeartbeatResponse)
		if len(r.Status) == 0 && len(r.ActiveTasks) > 0 {
			return
		}
		if r.ErrorCode != 0 || time.Now().After(end) {
			x.t.Fatalf("%s: %s does not run: error %d, %v", x.sides[i].name, group, r.ErrorCode, r.Status)
		}
		epoch = r.MemberEpoch
	}
}
