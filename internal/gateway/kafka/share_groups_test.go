package kafka

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/groupconf"
	"godwit/internal/meta"
)

// shareNode is the part of a node that has share groups. What is to be done for their queues is done at once.
type shareNode struct {
	state *share.State
	coord *share.Coordinator
}

// viewTopics is the metadata as the coordinator of share groups wants it.
type viewTopics struct{ *meta.View }

func (v viewTopics) ByName(namespace, name string) (share.Topic, bool) {
	return viewTopic(v.Stream(namespace, name))
}

func (v viewTopics) ByID(id base.StreamID) (share.Topic, bool) { return viewTopic(v.StreamByID(id)) }

func viewTopic(st *meta.Stream, ok bool) (share.Topic, bool) {
	if !ok {
		return share.Topic{}, false
	}
	return share.Topic{ID: st.ID, Name: st.Name, Partitions: len(st.Partitions)}, true
}

// shareCall runs fn in the coordinator; it fails if the node's groups do.
func (n *node) shareCall(fn func(c *share.Coordinator)) *base.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down != nil {
		return n.down
	}
	h := &n.shares
	if h.coord == nil {
		h.state = share.NewState()
		h.coord = share.NewCoordinator(share.Options{MaxSize: 2}, h.state, viewTopics{n.meta.View}, n.now)
	}
	h.coord.SetTopics(viewTopics{n.meta.View})
	fn(h.coord)
	for _, k := range h.coord.Live().Outstanding() {
		var done []share.QueueVersion
		for _, e := range h.coord.Live().Effects(k) {
			done = append(done, share.QueueVersion{Partition: e.Partition, Version: e.Version})
		}
		h.coord.Confirm(k, done)
	}
	for _, c := range h.coord.Changes() {
		h.state.Apply(c)
	}
	return nil
}

// taken reports whether a group of another type has the name.
func (n *node) taken(k share.Key) bool { return n.coord.Describe(k).Err == nil }

func (n *node) ShareHeartbeat(_ context.Context, req share.HeartbeatRequest) (out share.HeartbeatResponse) {
	err := n.shareCall(func(c *share.Coordinator) {
		if n.taken(req.Key) {
			out.Err = base.Errorf(base.CodeUnknownGroup, "Group %s is not a share group.", req.Group)
			return
		}
		out = c.Heartbeat(n.now, &req)
	})
	if err != nil {
		out.Err = err
	}
	return out
}

func (n *node) DescribeShareGroups(_ context.Context, namespace string, groups []string) (out []share.Description) {
	for _, name := range groups {
		k := share.Key{Namespace: namespace, Group: name}
		d := share.Description{Group: name, State: share.Dead}
		if err := n.shareCall(func(c *share.Coordinator) { d = c.Describe(k) }); err != nil {
			d.Err = err
		}
		out = append(out, d)
	}
	return out
}

func (n *node) ListShareGroups(_ context.Context, namespace string, states []string) (out []share.Listing, err error) {
	if err := n.shareCall(func(c *share.Coordinator) { out = c.List(namespace, states) }); err != nil {
		return nil, err
	}
	return out, nil
}

func (n *node) DeleteShareGroup(_ context.Context, k share.Key) error {
	var refused *base.Error
	if err := n.shareCall(func(c *share.Coordinator) { refused = c.Delete(n.now, k) }); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	return nil
}

func (n *node) AlterShareOffsets(_ context.Context, k share.Key, topics []share.SetTopicOffsets) (out []share.TopicResult, err error) {
	var refused *base.Error
	if err := n.shareCall(func(c *share.Coordinator) { out, refused = c.AlterOffsets(n.now, k, topics) }); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	return out, nil
}

func (n *node) DeleteShareOffsets(_ context.Context, k share.Key, topics []string) (out []share.TopicResult, err error) {
	var refused *base.Error
	if err := n.shareCall(func(c *share.Coordinator) { out, refused = c.DeleteOffsets(n.now, k, topics) }); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	return out, nil
}

func (n *node) GroupConfig(k share.Key) (out map[string]string) {
	n.shareCall(func(c *share.Coordinator) { out = c.Live().Config(k) })
	return out
}

func (n *node) ConfiguredGroups(namespace string) (out []string) {
	n.shareCall(func(c *share.Coordinator) {
		c.Live().Configured(func(k share.Key, _ map[string]string) {
			if k.Namespace == namespace {
				out = append(out, k.Group)
			}
		})
	})
	return out
}

func (n *node) SetGroupConfig(_ context.Context, k share.Key, values map[string]*string, replace, dry bool) (err error) {
	n.shareCall(func(c *share.Coordinator) {
		next := map[string]string{}
		if !replace {
			maps.Copy(next, c.Live().Config(k))
		}
		for name, v := range values {
			if delete(next, name); v != nil {
				next[name] = *v
			}
		}
		if err = groupconf.Validate(next); err == nil && !dry {
			c.SetConfig(k, next)
		}
	})
	return err
}

// shareBeat sends a heartbeat of a share group's member.
func shareBeat(st *stand, group, member string, epoch int32, topics ...string) *kmsg.ShareGroupHeartbeatResponse {
	st.t.Helper()
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = group, member, epoch, topics
	return send[*kmsg.ShareGroupHeartbeatResponse](st, 1, req)
}

func describeShare(st *stand, groups ...string) []kmsg.ShareGroupDescribeResponseGroup {
	st.t.Helper()
	req := kmsg.NewPtrShareGroupDescribeRequest()
	req.GroupIDs, req.IncludeAuthorizedOperations = groups, true
	return send[*kmsg.ShareGroupDescribeResponse](st, 1, req).Groups
}

func TestShareGroups(t *testing.T) {
	st := newStand(t)
	topic := st.topic("t", 3, nil)
	out := shareBeat(st, "g", "m", 0, "t")
	wantCode(t, "join", out.ErrorCode, nil)
	if *out.MemberID != "m" || out.MemberEpoch != 2 || out.HeartbeatIntervalMillis != 5_000 || out.Assignment == nil || len(out.Assignment.TopicPartitions) != 0 {
		t.Errorf("joined: %+v", out)
	}
	st.n.now += 2_000
	out = shareBeat(st, "g", "m", 2)
	if a := out.Assignment; out.MemberEpoch != 3 || a == nil || len(a.TopicPartitions) != 1 || a.TopicPartitions[0].TopicID != topic.ID ||
		!slices.Equal(a.TopicPartitions[0].Partitions, []int32{0, 1, 2}) {
		t.Errorf("assigned: %+v", out)
	}
	if out = shareBeat(st, "g", "m", 3); out.Assignment != nil || out.MemberEpoch != 3 {
		t.Errorf("nothing is new, and told %+v", out)
	}
	groups := describeShare(st, "g", "none", "")
	wantCode(t, "describe none", groups[1].ErrorCode, kerr.GroupIDNotFound)
	wantCode(t, "describe without a name", groups[2].ErrorCode, kerr.InvalidGroupID)
	g := groups[0]
	if g.GroupState != "Stable" || g.GroupEpoch != 3 || g.AssignmentEpoch != 3 || g.Assignor != "simple" || g.AuthorizedOperations != operationsGroup || len(g.Members) != 1 {
		t.Fatalf("described: %+v", g)
	}
	m := g.Members[0]
	if m.MemberID != "m" || m.RackID != nil || m.MemberEpoch != 3 || m.ClientID != "client" || m.ClientHost != "/10.0.0.9" || !slices.Equal(m.SubscribedTopicNames, []string{"t"}) ||
		len(m.Assignment.TopicPartitions) != 1 || m.Assignment.TopicPartitions[0].Topic != "t" {
		t.Errorf("described: %+v", m)
	}
	if out = shareBeat(st, "g", "m", -1); out.ErrorCode != 0 || out.MemberEpoch != -1 || out.Assignment != nil {
		t.Errorf("left: %+v", out)
	}
	if g := describeShare(st, "g")[0]; g.GroupState != "Empty" || len(g.Members) != 0 {
		t.Errorf("described: %+v", g)
	}
}

func TestShareGroupErrors(t *testing.T) {
	st := newStand(t)
	st.topic("t", 1, nil)
	st.join("classic")
	wantCode(t, "join", shareBeat(st, "g", "m", 0, "t").ErrorCode, nil)
	for _, tc := range []struct {
		group, member string
		epoch         int32
		topics        []string
		err           *kerr.Error
		text          string
	}{
		{"g", "", 0, []string{"t"}, kerr.InvalidRequest, ""},
		{"g", strings.Repeat("m", 37), 0, []string{"t"}, kerr.InvalidRequest, ""},
		{"", "n", 0, []string{"t"}, kerr.InvalidRequest, "GroupId"},
		{"g", "n", 0, nil, kerr.InvalidRequest, "SubscribedTopicNames"},
		{"g", "n", 0, []string{}, kerr.InvalidRequest, "SubscribedTopicNames"},
		{"g", "n", -2, nil, kerr.InvalidRequest, "MemberEpoch"},
		{"g", "n", 1, nil, kerr.UnknownMemberID, "is not a member"},
		{"g", "n", -1, nil, kerr.UnknownMemberID, "is not a member"},
		{"g", "m", 3, nil, kerr.FencedMemberEpoch, "greater member epoch"},
		{"g", "m", 1, nil, kerr.FencedMemberEpoch, "smaller member epoch"},
		{"none", "m", 1, nil, kerr.GroupIDNotFound, "not found"},
		{"classic", "m", 0, []string{"t"}, kerr.GroupIDNotFound, "not a share group"},
	} {
		out := shareBeat(st, tc.group, tc.member, tc.epoch, tc.topics...)
		wantCode(t, tc.text, out.ErrorCode, tc.err)
		if !strings.Contains(textOf(out.ErrorMessage), tc.text) || out.MemberID != nil {
			t.Errorf("%+v: told %q and %+v", tc, textOf(out.ErrorMessage), out)
		}
	}
	wantCode(t, "second", shareBeat(st, "g", "n", 0, "t").ErrorCode, nil)
	wantCode(t, "third", shareBeat(st, "g", "o", 0, "t").ErrorCode, kerr.GroupMaxSizeReached)
	st.n.down = base.Errorf(base.CodeNotReady, "loading")
	wantCode(t, "while loading", shareBeat(st, "g", "m", 2).ErrorCode, kerr.CoordinatorLoadInProgress)
	wantCode(t, "while loading", describeShare(st, "g")[0].ErrorCode, kerr.CoordinatorLoadInProgress)
}

func TestShareGroupsAreListedAndDeleted(t *testing.T) {
	st := newStand(t)
	st.topic("t", 1, nil)
	st.join("classic")
	shareBeat(st, "share", "m", 0, "t")
	list := func(states, types []string) (names []string) {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = states, types
		for _, g := range send[*kmsg.ListGroupsResponse](st, 5, req).Groups {
			names = append(names, g.Group+" "+g.ProtocolType+" "+g.GroupState+" "+g.GroupType)
		}
		return names
	}
	classic, shared := "classic consumer Stable classic", "share share Stable share"
	for _, tc := range []struct{ states, types, want []string }{
		{nil, nil, []string{classic, shared}},
		{[]string{"stable"}, nil, []string{classic, shared}},
		{[]string{"Empty"}, nil, nil},
		{nil, []string{"Share"}, []string{shared}},
		{nil, []string{"classic"}, []string{classic}},
		{nil, []string{"consumer", "share"}, []string{shared}},
	} {
		if got := list(tc.states, tc.types); !slices.Equal(got, tc.want) {
			t.Errorf("states %q, types %q: listed %q, want %q", tc.states, tc.types, got, tc.want)
		}
	}
	remove := func(name string) int16 {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{name}
		return send[*kmsg.DeleteGroupsResponse](st, 3, req).Groups[0].ErrorCode
	}
	wantCode(t, "delete a group with members", remove("share"), kerr.NonEmptyGroup)
	shareBeat(st, "share", "m", -1)
	wantCode(t, "delete", remove("share"), nil)
	wantCode(t, "delete again", remove("share"), kerr.GroupIDNotFound)
	wantCode(t, "delete a classic group with members", remove("classic"), kerr.NonEmptyGroup)
}

func TestShareGroupOffsets(t *testing.T) {
	st := newStand(t)
	topic := st.topic("t", 2, nil)
	alter := func(group string) *kmsg.AlterShareGroupOffsetsResponse {
		req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
		req.GroupID = group
		for _, name := range []string{"t", "none"} {
			rt := kmsg.NewAlterShareGroupOffsetsRequestTopic()
			rt.Topic = name
			rt.Partitions = []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{Partition: 0, StartOffset: 7}, {Partition: 5}}
			req.Topics = append(req.Topics, rt)
		}
		return send[*kmsg.AlterShareGroupOffsetsResponse](st, 0, req)
	}
	forget := func(group string) *kmsg.DeleteShareGroupOffsetsResponse {
		req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
		req.GroupID = group
		req.Topics = []kmsg.DeleteShareGroupOffsetsRequestTopic{{Topic: "t"}, {Topic: "none"}}
		return send[*kmsg.DeleteShareGroupOffsetsResponse](st, 0, req)
	}
	wantCode(t, "alter without a name", alter("").ErrorCode, kerr.InvalidGroupID)
	wantCode(t, "delete without a name", forget("").ErrorCode, kerr.InvalidGroupID)
	wantCode(t, "delete of no group", forget("g").ErrorCode, kerr.GroupIDNotFound)
	out := alter("g")
	wantCode(t, "alter", out.ErrorCode, nil)
	wantCode(t, "alter t/0", out.Topics[0].Partitions[0].ErrorCode, nil)
	wantCode(t, "alter t/5", out.Topics[0].Partitions[1].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "alter none/0", out.Topics[1].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	if out.Topics[0].TopicID != topic.ID || out.Topics[0].Partitions[1].Partition != 5 {
		t.Errorf("altered %+v", out)
	}
	gone := forget("g")
	wantCode(t, "delete", gone.ErrorCode, nil)
	wantCode(t, "delete t", gone.Topics[0].ErrorCode, nil)
	wantCode(t, "delete none", gone.Topics[1].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "delete t again", forget("g").Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
	shareBeat(st, "g", "m", 0, "t")
	wantCode(t, "alter with members", alter("g").ErrorCode, kerr.NonEmptyGroup)
	wantCode(t, "delete with members", forget("g").ErrorCode, kerr.NonEmptyGroup)
}

func TestGroupConfigs(t *testing.T) {
	st := newStand(t)
	set := func(name string, dry bool, ops ...kmsg.IncrementalAlterConfigsRequestResourceConfig) int16 {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.Configs = kmsg.ConfigResourceTypeGroupConfig, name, ops
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources, req.ValidateOnly = append(req.Resources, r), dry
		return send[*kmsg.IncrementalAlterConfigsResponse](st, 1, req).Resources[0].ErrorCode
	}
	op := func(kind kmsg.IncrementalAlterConfigOp, name, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		if c.Name, c.Op = name, kind; kind != kmsg.IncrementalAlterConfigOpDelete {
			c.Value = &value
		}
		return c
	}
	const session, tags = "share.session.timeout.ms", "streams.rack.aware.assignment.tags"
	wantCode(t, "set", set("g", false, op(kmsg.IncrementalAlterConfigOpSet, session, "50000")), nil)
	wantCode(t, "append", set("g", false, op(kmsg.IncrementalAlterConfigOpAppend, tags, "zone")), nil)
	wantCode(t, "append again", set("g", false, op(kmsg.IncrementalAlterConfigOpAppend, tags, "rack")), nil)
	wantCode(t, "only validate", set("g", true, op(kmsg.IncrementalAlterConfigOpDelete, session, "")), nil)
	wantCode(t, "out of range", set("g", false, op(kmsg.IncrementalAlterConfigOpSet, session, "1")), kerr.InvalidConfig)
	wantCode(t, "unknown", set("g", false, op(kmsg.IncrementalAlterConfigOpSet, "retention.ms", "1")), kerr.InvalidConfig)
	wantCode(t, "unknown list", set("g", false, op(kmsg.IncrementalAlterConfigOpAppend, "retention.ms", "1")), kerr.InvalidConfig)
	wantCode(t, "no list", set("g", false, op(kmsg.IncrementalAlterConfigOpAppend, session, "1")), kerr.InvalidConfig)
	wantCode(t, "no name", set("", false, op(kmsg.IncrementalAlterConfigOpSet, session, "50000")), kerr.InvalidRequest)

	told := map[string]string{}
	for _, c := range describe(st, 4, kmsg.ConfigResourceTypeGroupConfig, "g").Configs {
		told[c.Name] = textOf(c.Value)
		own := c.Name == session || c.Name == tags
		if own != (c.Source == kmsg.ConfigSourceGroupConfig) || c.ReadOnly {
			t.Errorf("%s is from %v", c.Name, c.Source)
		}
	}
	if told[session] != "50000" || told[tags] != "zone,rack" || told["share.auto.offset.reset"] != "latest" || told["streams.assignor.name"] != "sticky" {
		t.Errorf("told %v", told)
	}
	if _, internal := told["share.assignor.offload.enable"]; internal || len(told) != 21 {
		t.Errorf("told %d configurations: %v", len(told), told)
	}
	wantCode(t, "describe without a name", describe(st, 4, kmsg.ConfigResourceTypeGroupConfig, "").ErrorCode, kerr.InvalidRequest)

	list := kmsg.NewPtrListConfigResourcesRequest()
	list.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeGroupConfig)}
	if out := send[*kmsg.ListConfigResourcesResponse](st, 1, list); len(out.ConfigResources) != 1 || out.ConfigResources[0].Name != "g" {
		t.Errorf("listed %+v", out)
	}

	// The old way of changing replaces all.
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "g"
	value := "read_committed"
	r.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "share.isolation.level", Value: &value}}
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	wantCode(t, "replace", send[*kmsg.AlterConfigsResponse](st, 2, req).Resources[0].ErrorCode, nil)
	if got := st.n.GroupConfig(share.Key{Namespace: base.DefaultNamespace, Group: "g"}); !maps.Equal(got, map[string]string{"share.isolation.level": value}) {
		t.Errorf("configured %v", got)
	}
}
