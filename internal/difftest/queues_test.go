package difftest

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// queuePlays are the cases about the records of share groups (KIP-932).
func queuePlays() []play {
	return []play{
		{kmsg.ShareFetch, "queue", queueFetch},
		{kmsg.ShareFetch, "queue refused", queueRefused},
		{kmsg.ShareAcknowledge, "queue acks", queueAcks},
		{kmsg.DescribeShareGroupOffsets, "queue acks", queueAcks},
	}
}

// sharer is a member of a share group at both sides, with its share session.
type sharer struct {
	x             *exchange
	group, member string
	topic         string
	epoch         int32 // of the session
}

// sharer makes a group that begins at offset 0 of a topic's partitions, with a member that has them all.
func (x *exchange) sharer(topic string, partitions int32) *sharer {
	x.t.Helper()
	m := &sharer{x: x, group: x.name("g"), member: "member", topic: topic}
	alter := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	rt := kmsg.NewAlterShareGroupOffsetsRequestTopic()
	rt.Topic = topic
	for p := range partitions {
		rt.Partitions = append(rt.Partitions, kmsg.AlterShareGroupOffsetsRequestTopicPartition{Partition: p})
	}
	alter.GroupID, alter.Topics = m.group, append(alter.Topics, rt)
	for i := range x.sides {
		x.quietly(i, alter)
		m.join(i, int(partitions))
	}
	return m
}

// join awaits that one side assigns the member so many partitions.
func (m *sharer) join(i, partitions int) {
	m.x.t.Helper()
	epoch := int32(0)
	for end := time.Now().Add(patience); ; {
		req := kmsg.NewPtrShareGroupHeartbeatRequest()
		req.GroupID, req.MemberID, req.MemberEpoch = m.group, m.member, epoch
		if epoch == 0 {
			req.SubscribedTopicNames = []string{m.topic}
		}
		resp := m.x.quietly(i, req).(*kmsg.ShareGroupHeartbeatResponse)
		if a := resp.Assignment; resp.ErrorCode == 0 && a != nil && len(a.TopicPartitions) == 1 && len(a.TopicPartitions[0].Partitions) == partitions {
			return
		}
		if resp.ErrorCode != 0 || time.Now().After(end) {
			m.x.t.Fatalf("%s assigns nothing: error %d", m.x.sides[i].name, resp.ErrorCode)
		}
		epoch = resp.MemberEpoch
	}
}

// told is an acknowledgement of offsets, with one type for all or one for each.
type told struct {
	first, last int64
	types       []int8
}

func tell(first, last int64, types ...int8) told { return told{first, last, types} }

// How offsets are acknowledged.
const (
	gap int8 = iota
	accept
	release
	reject
	renew
)

// part is a partition in a request, with acknowledgements.
type part struct {
	partition int32
	acks      []told
}

func of(partition int32, acks ...told) part { return part{partition, acks} }

// fetchRequest asks for up to 100 records in the next epoch of the session.
func (m *sharer) fetchRequest(s *side, parts ...part) *kmsg.ShareFetchRequest {
	req := kmsg.NewPtrShareFetchRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &m.group, &m.member, m.epoch
	req.MinBytes, req.MaxBytes, req.MaxRecords, req.BatchSize = 1, 1<<20, 100, 100
	rt := kmsg.NewShareFetchRequestTopic()
	rt.TopicID = s.id(m.topic)
	for _, p := range parts {
		rp := kmsg.NewShareFetchRequestTopicPartition()
		rp.Partition = p.partition
		for _, a := range p.acks {
			rp.AcknowledgementBatches = append(rp.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{
				FirstOffset: a.first, LastOffset: a.last, AcknowledgeTypes: a.types,
			})
		}
		rt.Partitions = append(rt.Partitions, rp)
	}
	if parts != nil {
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// step fetches, with changes to the request. It awaits records for a while where there are some to be expected.
func (m *sharer) step(label string, records bool, edit func(*kmsg.ShareFetchRequest, *side), parts ...part) []kmsg.Response {
	m.x.t.Helper()
	out := m.x.each(label, func(_ int, s *side) kmsg.Request {
		req := m.fetchRequest(s, parts...)
		if records {
			req.MaxWaitMillis = 4000
		}
		if edit != nil {
			edit(req, s)
		}
		return req
	})
	if r, ok := out[0].(*kmsg.ShareFetchResponse); ok && r.ErrorCode == 0 {
		m.epoch++
	}
	return out
}

// acknowledge acknowledges without fetching.
func (m *sharer) acknowledge(label string, edit func(*kmsg.ShareAcknowledgeRequest), parts ...part) {
	m.x.t.Helper()
	out := m.x.each(label, func(_ int, s *side) kmsg.Request {
		req := kmsg.NewPtrShareAcknowledgeRequest()
		req.GroupID, req.MemberID, req.ShareSessionEpoch = &m.group, &m.member, m.epoch
		rt := kmsg.NewShareAcknowledgeRequestTopic()
		rt.TopicID = s.id(m.topic)
		for _, p := range parts {
			rp := kmsg.NewShareAcknowledgeRequestTopicPartition()
			rp.Partition = p.partition
			for _, a := range p.acks {
				rp.AcknowledgementBatches = append(rp.AcknowledgementBatches, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{
					FirstOffset: a.first, LastOffset: a.last, AcknowledgeTypes: a.types,
				})
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		if edit != nil {
			edit(req)
		}
		return req
	})
	if r, ok := out[0].(*kmsg.ShareAcknowledgeResponse); ok && r.ErrorCode == 0 && m.epoch >= 0 {
		m.epoch++
	}
}

// offsets asks where the group stands.
func (m *sharer) offsets(label, group string, topics ...string) {
	m.x.t.Helper()
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	rg := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	rg.GroupID = group
	for _, t := range topics {
		rg.Topics = append(rg.Topics, kmsg.DescribeShareGroupOffsetsRequestGroupTopic{Topic: t, Partitions: []int32{0, 1}})
	}
	req.Groups = append(req.Groups, rg)
	m.x.same("offsets "+label, req)
}

// queueFetch asks for a partition only while there are records in it: whether Kafka lists one that it found empty depends on how long it looks.
func queueFetch(x *exchange) {
	t := x.filled("t", 2)
	m := x.sharer(t, 2)
	m.step("begin", true, nil, of(0))
	m.step("nothing left", false, nil)
	m.step("acknowledge and release", true, nil, of(0, tell(0, 1, accept), tell(2, 3, release)))
	m.step("reject", false, nil, of(0, tell(2, 2, reject), tell(3, 3, gap)))
	m.step("acknowledge what is done", false, nil, of(0, tell(0, 0, accept)))
	m.step("acknowledge what is not there", false, nil, of(0, tell(50, 60, accept)))
	m.step("no records wanted", false, func(r *kmsg.ShareFetchRequest, _ *side) { r.MaxRecords = 0 })
	m.step("no bytes wanted", false, func(r *kmsg.ShareFetchRequest, _ *side) { r.MaxBytes = 0 })
	for k, s := range x.sides {
		x.quietly(k, x.produce(s, t, 1, x.plain("a", "b", "c", "d").encode()))
	}
	m.step("new records", true, nil, of(1))
	m.step("some released", true, func(r *kmsg.ShareFetchRequest, _ *side) { r.ShareAcquireMode, r.MaxRecords = 1, 1 }, of(1, tell(0, 3, release, accept, release, reject)))
	m.step("forget", false, func(r *kmsg.ShareFetchRequest, s *side) {
		ft := kmsg.NewShareFetchRequestForgottenTopicsData()
		ft.TopicID, ft.Partitions = s.id(t), []int32{1}
		r.ForgottenTopicsData = append(r.ForgottenTopicsData, ft)
	})
	if x.version >= 2 {
		m.renewals()
	}
	m.step("close", false, func(r *kmsg.ShareFetchRequest, _ *side) { r.ShareSessionEpoch = -1 }, of(0, tell(4, 4, accept)))
	m.step("after the close", false, nil)
	m.epoch = 0
	m.step("begin again", true, nil, of(0))
	m.offsets("at the end", m.group, t)
}

// renewals keeps records for longer (KIP-1222).
func (m *sharer) renewals() {
	nothing := func(r *kmsg.ShareFetchRequest, _ *side) {
		r.IsRenewAck, r.MinBytes, r.MaxBytes, r.MaxRecords = true, 0, 0, 0
	}
	m.step("renew", false, nothing, of(0, tell(4, 5, renew)))
	m.step("renew without saying so", false, nil, of(0, tell(4, 5, renew)))
	m.step("renew and fetch", false, func(r *kmsg.ShareFetchRequest, _ *side) { r.IsRenewAck = true }, of(0, tell(4, 5, renew)))
	m.step("renew what is done", false, nothing, of(0, tell(0, 0, renew)))
}

func queueRefused(x *exchange) {
	t := x.filled("t", 1)
	m := x.sharer(t, 1)
	edit := func(label string, edit func(r *kmsg.ShareFetchRequest), parts ...part) {
		x.t.Helper()
		m.epoch = 0
		m.step(label, false, func(r *kmsg.ShareFetchRequest, _ *side) { edit(r) }, parts...)
	}
	edit("no group", func(r *kmsg.ShareFetchRequest) { r.GroupID = nil }, of(0))
	edit("empty group", func(r *kmsg.ShareFetchRequest) { r.GroupID = kmsg.StringPtr("") }, of(0))
	edit("no member", func(r *kmsg.ShareFetchRequest) { r.MemberID = nil }, of(0))
	edit("empty member", func(r *kmsg.ShareFetchRequest) { r.MemberID = kmsg.StringPtr("") }, of(0))
	edit("long member", func(r *kmsg.ShareFetchRequest) { r.MemberID = kmsg.StringPtr(fmt.Sprintf("%037d", 0)) }, of(0))
	edit("no session", func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = 1 }, of(0))
	edit("no session to close", func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = -1 }, of(0))
	edit("acknowledges at the beginning", func(*kmsg.ShareFetchRequest) {}, of(0, tell(0, 0, accept)))
	edit("unknown partition", func(*kmsg.ShareFetchRequest) {}, of(7))
	edit("unknown topic", func(r *kmsg.ShareFetchRequest) { r.Topics[0].TopicID = [16]byte{1, 2, 3, 4} }, of(0))
	edit("wrong epoch", func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = 5 }, of(0))
	edit("close", func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = -1 })
}

func queueAcks(x *exchange) {
	t := x.filled("t", 2)
	m := x.sharer(t, 2)
	m.offsets("at the beginning", m.group, t)
	m.acknowledge("before the session", func(r *kmsg.ShareAcknowledgeRequest) { r.ShareSessionEpoch = 0 }, of(0, tell(0, 0, accept)))
	m.acknowledge("without a session", func(r *kmsg.ShareAcknowledgeRequest) { r.ShareSessionEpoch = 1 }, of(0, tell(0, 0, accept)))
	m.step("begin", true, nil, of(0))
	m.acknowledge("accept", nil, of(0, tell(0, 0, accept)))
	m.offsets("after one", m.group, t)
	m.acknowledge("again", nil, of(0, tell(0, 0, accept)))
	m.acknowledge("each its own", nil, of(0, tell(1, 3, accept, reject, gap)))
	m.offsets("after four", m.group, t)
	m.acknowledge("beyond", nil, of(0, tell(4, 90, accept)))
	m.acknowledge("far beyond", nil, of(0, tell(80, 90, accept)))
	m.acknowledge("backwards", nil, of(0, tell(5, 4, accept)))
	m.acknowledge("out of order", nil, of(0, tell(5, 5, accept), tell(4, 4, accept)))
	m.acknowledge("twice", nil, of(0, tell(4, 5, accept), tell(5, 5, accept)))
	m.acknowledge("too many types", nil, of(0, tell(4, 5, accept, accept, accept)))
	m.acknowledge("no types", nil, of(0, tell(4, 5)))
	m.acknowledge("unknown type", nil, of(0, tell(4, 5, 9)))
	m.acknowledge("nothing", nil, of(0))
	m.acknowledge("renew without saying so", nil, of(0, tell(4, 5, renew)))
	m.acknowledge("unknown partition", nil, of(0, tell(4, 4, accept)), of(9, tell(0, 0, accept)))
	m.acknowledge("wrong epoch", func(r *kmsg.ShareAcknowledgeRequest) { r.ShareSessionEpoch += 7 }, of(0, tell(5, 5, accept)))
	m.acknowledge("another member", func(r *kmsg.ShareAcknowledgeRequest) { r.MemberID = kmsg.StringPtr("other") }, of(0, tell(5, 5, accept)))
	m.acknowledge("no member", func(r *kmsg.ShareAcknowledgeRequest) { r.MemberID = nil }, of(0, tell(5, 5, accept)))
	m.acknowledge("close", func(r *kmsg.ShareAcknowledgeRequest) { r.ShareSessionEpoch = -1 }, of(0, tell(5, 5, accept)))
	m.offsets("of all", m.group)
	m.offsets("of two topics", m.group, t, x.name("nothing"))
	m.offsets("unknown group", x.name("nothing"), t)
	m.offsets("no name", "", t)
}
