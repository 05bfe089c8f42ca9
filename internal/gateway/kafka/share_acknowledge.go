package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/share"
	"godwit/internal/gateway/kafka/sharesession"
	"godwit/internal/groupconf"
	"godwit/internal/meta"
	"godwit/internal/queue"
)

// ShareAcknowledge (79), versions 1 and 2: a member of a share group says what became of records that it acquired (KIP-932).
// What it says of a partition counts whole or not at all.
//
//   - 2: renewals of locks (KIP-1222)
func (s *Server) shareAcknowledge(ctx context.Context, rc *request, req *kmsg.ShareAcknowledgeRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ShareAcknowledgeResponse)
	member, err := rc.shareMember(req.GroupID, req.MemberID)
	if err == nil {
		err = s.shareSessions.Acknowledge(member, req.ShareSessionEpoch)
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = rc.failGroup(err), message(err)
		return resp, nil
	}
	settings, view := s.backend.ShareSettings(member.Key), s.backend.Meta()
	resp.AcquisitionLockTimeoutMillis = int32(settings.LockDuration)
	var acks []shareAcks
	for i := range req.Topics {
		t := &req.Topics[i]
		for k := range t.Partitions {
			p := &t.Partitions[k]
			batches := make([]sharesession.Ack, len(p.AcknowledgementBatches))
			for j, b := range p.AcknowledgementBatches {
				batches[j] = sharesession.Ack{First: b.FirstOffset, Last: b.LastOffset, Types: b.AcknowledgeTypes}
			}
			acks = append(acks, shareAcks{share.Partition{Stream: t.TopicID, Index: p.Partition}, batches})
		}
	}
	answers := s.settle(ctx, rc, &shareSettling{member: member, view: view, settings: settings, renews: req.IsRenewAck, acks: acks})
	if req.ShareSessionEpoch == sharesession.EpochLast {
		s.endShareSession(ctx, member)
	}
	for i := range req.Topics {
		t := kmsg.NewShareAcknowledgeResponseTopic()
		t.TopicID = req.Topics[i].TopicID
		for k := range req.Topics[i].Partitions {
			a := answers[0]
			answers = answers[1:]
			if a.code == 0 && len(req.Topics[i].Partitions[k].AcknowledgementBatches) == 0 {
				continue // nothing was acknowledged: Kafka leaves it out, too
			}
			p := kmsg.NewShareAcknowledgeResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = a.Index, a.code, a.message
			if a.code == kerr.NotLeaderForPartition.Code {
				s.tellShareLeader(rc, view, a.Partition, &p, resp)
			}
			t.Partitions = append(t.Partitions, p)
		}
		if len(t.Partitions) > 0 {
			resp.Topics = append(resp.Topics, t)
		}
	}
	return resp, nil
}

// tellShareLeader names the leader of a partition: this node.
func (s *Server) tellShareLeader(rc *request, view *meta.View, at share.Partition, p *kmsg.ShareAcknowledgeResponseTopicPartition, resp *kmsg.ShareAcknowledgeResponse) {
	p.CurrentLeader.LeaderID = s.backend.NodeID()
	if st, ok := view.StreamByID(at.Stream); ok {
		p.CurrentLeader.LeaderEpoch = s.backend.LeaderEpoch(st.Partitions[at.Index])
	}
	if len(resp.NodeEndpoints) == 0 {
		n := kmsg.NewShareAcknowledgeResponseNodeEndpoint()
		n.NodeID = s.backend.NodeID()
		n.Host, n.Port = rc.host()
		resp.NodeEndpoints = append(resp.NodeEndpoints, n)
	}
}

// shareAcks is what a request acknowledges of one partition.
type shareAcks struct {
	share.Partition
	batches []sharesession.Ack
}

// shareAnswer is what became of the acknowledgements of one partition.
type shareAnswer struct {
	share.Partition
	code    int16
	message *string
}

// shareSettling is a request's acknowledgements while they are settled.
type shareSettling struct {
	member   sharesession.Member
	view     *meta.View
	settings groupconf.Share
	renews   bool // the request says that it renews
	acks     []shareAcks

	room int // for ranges
}

// maxAckRanges is how many ranges of records one request may acknowledge. A range takes some 40 bytes, and the types of
// records come in one byte each, so a large request would otherwise take a multiple of its size.
const maxAckRanges = 1 << 18

// settle settles acknowledgements. The result has one entry for each partition, in their order.
func (s *Server) settle(ctx context.Context, rc *request, st *shareSettling) []shareAnswer {
	if len(st.acks) == 0 {
		return nil
	}
	st.room = maxAckRanges
	out := make([]shareAnswer, len(st.acks))
	var valid []broker.ShareAcks
	var places []int // of the valid ones
	for i := range st.acks {
		a := &st.acks[i]
		out[i].Partition = a.Partition
		if e, err := st.check(rc, a); e != nil {
			out[i].code, out[i].message = rc.reject(e), message(err)
		} else if len(a.batches) > 0 {
			valid = append(valid, broker.ShareAcks{
				ShareQueue: broker.ShareQueue{Key: st.member.Key, Stream: a.Stream, Index: a.Index},
				Member:     st.member.ID, Ranges: st.ranges(a.batches),
			})
			places = append(places, i)
		}
	}
	if len(valid) == 0 {
		return out
	}
	for k, err := range s.backend.ShareAcknowledge(ctx, valid) {
		out[places[k]].code, out[places[k]].message = rc.fail(err), message(err)
	}
	return out
}

// check says what is wrong with acknowledgements before the queue looks at them; err has the details, or is nil.
func (st *shareSettling) check(rc *request, a *shareAcks) (e *kerr.Error, err error) {
	if e = locateShare(st.view, rc, a.Partition); e == kerr.UnknownTopicID {
		return e, nil
	}
	if err = sharesession.CheckAcks(a.batches, rc.version, st.renews); err != nil {
		return kerr.InvalidRequest, err
	}
	if e != nil {
		return e, nil
	}
	for _, b := range a.batches {
		if !st.settings.Renew && slices.Contains(b.Types, sharesession.AckRenew) {
			return kerr.InvalidRecordState, base.Errorf(base.CodeInvalidRecordState, "Renewing acquisition locks is not enabled for the group.")
		}
		if st.room -= runsOf(b.Types); st.room < 0 {
			return kerr.InvalidRequest, base.Errorf(base.CodeInvalidRequest, "more than %d ranges of records in one request: acknowledge in several", maxAckRanges)
		}
	}
	return nil, nil
}

// runsOf counts the runs of equal types.
func runsOf(types []int8) int {
	n := 1
	for i := 1; i < len(types); i++ {
		if types[i] != types[i-1] {
			n++
		}
	}
	return n
}

// ranges turns checked batches into what queues take. The first types have the numbers of the protocol.
func (st *shareSettling) ranges(batches []sharesession.Ack) (out []broker.AckRange) {
	for _, b := range batches {
		if len(b.Types) == 1 {
			out = append(out, broker.AckRange{Span: broker.Span{First: b.First, Last: b.Last}, Type: queue.AckType(b.Types[0])})
			continue
		}
		for i := 0; i < len(b.Types); {
			n := 1
			for i+n < len(b.Types) && b.Types[i+n] == b.Types[i] {
				n++
			}
			first := b.First + int64(i)
			out = append(out, broker.AckRange{Span: broker.Span{First: first, Last: first + int64(n) - 1}, Type: queue.AckType(b.Types[i])})
			i += n
		}
	}
	return out
}

// endShareSession ends a member's session and releases what it holds. It returns when that is committed, or failed: then the
// locks end by time.
func (s *Server) endShareSession(ctx context.Context, m sharesession.Member) {
	s.releaseShare(ctx, m, queuesOf(m, s.shareSessions.End(m)))
}

// queuesOf are the group's queues in partitions.
func queuesOf(m sharesession.Member, parts []share.Partition) []broker.ShareQueue {
	out := make([]broker.ShareQueue, len(parts))
	for i, p := range parts {
		out[i] = broker.ShareQueue{Key: m.Key, Stream: p.Stream, Index: p.Index}
	}
	return out
}

// releaseShareWait is how long releasing what a member holds may take.
const releaseShareWait = 10 * time.Second

// releaseShare releases what a member holds in queues, also if the request or its connection has ended.
func (s *Server) releaseShare(ctx context.Context, m sharesession.Member, queues []broker.ShareQueue) {
	if len(queues) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseShareWait)
	defer cancel()
	if err := s.backend.ShareRelease(ctx, m.ID, queues); err != nil {
		s.complain.warn(s.log, "what a member of a share group holds was not released; its locks end by time", "group", m.Group, "member", m.ID, "error", err)
	}
}

// leaveShares ends the sessions that began on a connection.
func (s *Server) leaveShares(c *conn) {
	for _, ended := range s.shareSessions.Leave(c) {
		s.releaseShare(c.ctx, ended.Member, queuesOf(ended.Member, ended.Parts))
	}
}
