package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
)

var app = streams.Key{Namespace: base.DefaultNamespace, Group: "app"}

// counting reads topic words by way of a repartition topic, and counts in a changelog.
func counting(configs ...streams.Pair) *streams.Topology {
	return &streams.Topology{Subtopologies: []streams.Subtopology{
		{ID: "0", Sources: []string{"words"}, Sinks: []string{"app-repartition"}},
		{ID: "1", Repartitions: []streams.TopicInfo{{Name: "app-repartition"}}, Changelogs: []streams.TopicInfo{{Name: "app-changelog", Configs: configs}}},
	}}
}

func (r *rig) joinApp(member string, t *streams.Topology) streams.HeartbeatResponse {
	r.t.Helper()
	process := "p-" + member
	return r.StreamsHeartbeat(r.t.Context(), streams.HeartbeatRequest{Key: app, MemberID: member, Rebalance: 60_000, Topology: t, Process: &process, Owned: &streams.Owned{}})
}

func (r *rig) beatApp(member string, epoch int32) streams.HeartbeatResponse {
	r.t.Helper()
	return r.StreamsHeartbeat(r.t.Context(), streams.HeartbeatRequest{Key: app, MemberID: member, Epoch: epoch, Rebalance: -1})
}

// startApp has a member run all tasks, and tells its epoch.
func (r *rig) startApp(member string) int32 {
	r.t.Helper()
	out := r.joinApp(member, counting(streams.Pair{Key: "cleanup.policy", Value: "compact"}))
	for range 3 {
		r.clock.Advance(3 * time.Second)
		out = r.beatApp(member, out.Epoch)
	}
	if out.Err != nil || len(out.Statuses) > 0 {
		r.t.Fatalf("%s does not run: %+v", member, out)
	}
	return out.Epoch
}

func (r *rig) commitApp(member string, epoch int32, partition group.Partition) *base.Error {
	r.t.Helper()
	out := r.CommitOffsets(r.t.Context(), group.CommitRequest{Key: app, MemberID: member, Generation: epoch, Retention: -1,
		Offsets: []group.CommitOffset{{Partition: partition, Offset: 5, Epoch: -1}}})
	return out.Err
}

func wantErr(t *testing.T, name string, err *base.Error, want base.Code) {
	t.Helper()
	if err == nil || err.Code != want {
		t.Errorf("%s: %v, want code %d", name, err, want)
	}
}

func TestStreamsGroupMakesInternalTopics(t *testing.T) {
	r := newRig(t)
	r.create("words", 3)
	out := r.joinApp("m", counting(streams.Pair{Key: "cleanup.policy", Value: "compact"}))
	if out.Err != nil || len(out.Create) != 2 {
		t.Fatalf("joined: %+v", out)
	}
	for name, compacted := range map[string]bool{"app-repartition": false, "app-changelog": true} {
		s, ok := r.Meta().Stream(base.DefaultNamespace, name)
		if !ok || len(s.Partitions) != 3 || s.Overrides["cleanup.policy"] == "compact" != compacted {
			t.Errorf("%s: %v, %+v", name, ok, s)
		}
	}
	r.clock.Advance(3 * time.Second)
	if out = r.beatApp("m", out.Epoch); len(out.Tasks.Active) != 6 || len(out.Create) > 0 {
		t.Errorf("assigned: %+v", out)
	}
}

func TestStreamsGroupIsToldWhatCannotBeMade(t *testing.T) {
	r := newRig(t)
	r.create("words", 1)
	out := r.joinApp("m", counting(streams.Pair{Key: "cleanup.policy", Value: "shred"}))
	i := slices.IndexFunc(out.Statuses, func(s streams.MemberStatus) bool { return s.Code == streams.MissingInternalTopics })
	if i < 0 || !strings.Contains(out.Statuses[i].Detail, "Creation failed: app-changelog (") {
		t.Errorf("told: %+v", out)
	}
}

func TestOffsetsOfStreamsGroup(t *testing.T) {
	r := newRig(t)
	words := r.create("words", 1)
	p := group.Partition{Stream: words.ID}
	epoch := r.startApp("m")
	if err := r.commitApp("m", epoch, p); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "unknown member", r.commitApp("n", epoch, p), base.CodeUnknownMember)
	wantErr(t, "epoch to come", r.commitApp("m", epoch+1, p), base.CodeStaleMember)
	wantErr(t, "nobody", r.commitApp("", -1, p), base.CodeUnknownMember)
	member := "m"
	fetch := func(epoch int32) *base.Error {
		return r.FetchOffsets(t.Context(), group.FetchOffsetsRequest{Key: app, MemberID: &member, Epoch: epoch, All: true}).Err
	}
	if err := fetch(epoch); err != nil {
		t.Error(err)
	}
	wantErr(t, "fetch", fetch(epoch-1), base.CodeStaleMember)
	forget := group.DeleteOffsetsRequest{Key: app, Partitions: []group.NamedPartition{{Partition: p, Name: "words"}}}
	wantErr(t, "forget what is read", r.DeleteOffsets(t.Context(), forget).Errs[0], base.CodeGroupSubscribed)
	if err := r.DeleteStreamsGroup(t.Context(), app); base.CodeOf(err) != base.CodeNonEmptyGroup {
		t.Errorf("deleted with a member: %v", err)
	}
	lag, err := r.lags.Group(t.Context(), app.Namespace, app.Group, false)
	if err != nil || lag.Type != "streams" || lag.State != "Stable" || len(lag.Members) != 1 || len(lag.Partitions) != 2 || lag.Partitions[1].Member != "m" || lag.Partitions[1].Committed != 5 {
		t.Errorf("lag: %+v, %v", lag, err)
	}

	// The group is kept for its offsets, and these for as long as somebody reads the topic or the retention says.
	r.clock.Advance(8 * 24 * time.Hour)
	r.must(r.e.StreamsDecide(t.Context(), app, func(c *streams.Coordinator, now int64, _ bool) { c.Tick(now) })) // ends the session
	r.must(r.e.Expire(t.Context()))
	r.must(r.e.Expire(t.Context()))
	if groups, err := r.ListStreamsGroups(t.Context(), app.Namespace, nil); err != nil || len(groups) != 0 {
		t.Errorf("expired, and there are %+v, %v", groups, err)
	}
	epoch = r.startApp("m")
	if err := r.commitApp("m", epoch, p); err != nil {
		t.Fatal(err)
	}
	r.beatApp("m", streams.EpochLeave)
	r.must(r.e.Expire(t.Context()))
	if groups, err := r.ListStreamsGroups(t.Context(), app.Namespace, []string{"Empty"}); err != nil || len(groups) != 1 {
		t.Errorf("there are %+v, %v", groups, err)
	}
	r.must(r.DeleteStreamsGroup(t.Context(), app))
	if out := r.FetchOffsets(t.Context(), group.FetchOffsetsRequest{Key: app, Epoch: -1, All: true}); len(out.Offsets) != 0 {
		t.Errorf("deleted, and offsets are %+v", out.Offsets)
	}
}

// TestNamesOfStreamsGroups has groups of several types want the same name.
func TestNamesOfStreamsGroups(t *testing.T) {
	r := newRig(t)
	words := r.create("words", 1)
	p := group.Partition{Stream: words.ID}
	// Offsets without members are an empty classic group, which gives up its name.
	if err := r.commitApp("", -1, p); err != nil {
		t.Fatal(err)
	}
	r.startApp("m")
	if out := r.FetchOffsets(t.Context(), group.FetchOffsetsRequest{Key: app, Epoch: -1, All: true}); len(out.Offsets) != 1 {
		t.Errorf("offsets: %+v", out.Offsets)
	}
	list := r.ListGroups(t.Context(), group.ListRequest{Namespace: app.Namespace})
	if len(list.Groups) != 0 {
		t.Errorf("listed: %+v", list.Groups)
	}
	shared := r.ShareHeartbeat(t.Context(), share.HeartbeatRequest{Key: app, MemberID: "s", Subscribed: true, Topics: []string{"words"}})
	wantErr(t, "share member", shared.Err, base.CodeUnknownGroup)
	consumer := r.ConsumerHeartbeat(t.Context(), group.ConsumerHeartbeatRequest{Key: app, MemberID: "c", Topics: []string{"words"}, OwnedSaid: true, RebalanceTimeout: 5_000})
	wantErr(t, "consumer", consumer.Err, base.CodeUnknownGroup)
	join := group.JoinRequest{Key: app, MemberID: "", ProtocolType: "consumer", Protocols: []group.Protocol{{Name: "range"}}, SessionTimeout: 10_000, RebalanceTimeout: 10_000, RequireKnownID: true}
	wantErr(t, "classic member", r.JoinGroup(t.Context(), join).Err, base.CodeInconsistentProtocol)
	r.beatApp("m", streams.EpochLeave)
	// Without members, it gives up its name in turn.
	wantErr(t, "classic member", r.JoinGroup(t.Context(), join).Err, base.CodeMemberIDRequired)
	if groups, err := r.ListStreamsGroups(t.Context(), app.Namespace, nil); err != nil || len(groups) != 0 {
		t.Errorf("there are %+v, %v", groups, err)
	}
	// A group that is shared is not for streams.
	app2 := streams.Key{Namespace: app.Namespace, Group: "shared"}
	r.ShareHeartbeat(t.Context(), share.HeartbeatRequest{Key: app2, MemberID: "s", Subscribed: true, Topics: []string{"words"}})
	out := r.StreamsHeartbeat(t.Context(), streams.HeartbeatRequest{Key: app2, MemberID: "m", Rebalance: 1, Topology: counting()})
	wantErr(t, "streams member", out.Err, base.CodeUnknownGroup)
	if d := r.DescribeStreamsGroups(t.Context(), app2.Namespace, []string{"shared"}); d[0].Err == nil || !strings.Contains(d[0].Err.Msg, "not a streams group") {
		t.Errorf("described: %+v", d)
	}
}
