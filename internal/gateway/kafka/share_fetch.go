package kafka

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/share"
	"godwit/internal/gateway/kafka/sharesession"
	"godwit/internal/groupconf"
	"godwit/internal/meta"
)

// ShareFetch (78), versions 1 and 2: a member of a share group acquires records, and acknowledges what it acquired before
// (KIP-932).
//
// Acknowledgements come first, so what they release may be acquired at once. A fetch that acquires nothing waits on a watch of
// its queues, up to max_wait_ms; nothing polls. It answers as soon as it has acquired anything, also less than min_bytes: what
// a member holds, no other gets. The first batch is sent whatever the byte limits (KIP-74). Batches go out whole, as stored,
// by sendfile: they may have records that the member did not acquire, which it finds out from the acquired ranges.
//
//   - 1: limits in records (max_records, batch_size)
//   - 2: renewals of locks (KIP-1222), after which nothing is fetched; acquire mode record_limit (KIP-1206)
func (s *Server) shareFetch(ctx context.Context, rc *request, body []byte) (any, error) {
	req := kmsg.NewPtrShareFetchRequest()
	req.SetVersion(rc.version)
	if err := req.ReadFrom(body); err != nil {
		return nil, malformedf("ShareFetch version %d cannot be decoded: %v", rc.version, err)
	}
	member, err := rc.shareMember(req.GroupID, req.MemberID)
	if err == nil {
		err = checkShareFetch(req)
	}
	if err != nil {
		return rc.refuseShareFetch(err), nil
	}
	f := &shareFetching{s: s, rc: rc, req: req, member: member, view: s.backend.Meta(), settings: s.backend.ShareSettings(member.Key),
		deadline: rc.received.Add(time.Duration(req.MaxWaitMillis) * time.Millisecond)}
	asked, acks := f.asked()
	fetch, err := s.shareSessions.Fetch(member, sharesession.Turn{
		Epoch: req.ShareSessionEpoch, Add: asked, Drop: f.forgotten(), Acks: len(acks) > 0, Owner: rc.conn,
	})
	if err != nil {
		if base.CodeOf(err) == base.CodeShareSessionLimit {
			f.rest(ctx)
		}
		return rc.refuseShareFetch(err), nil
	}
	answers := s.settle(ctx, rc, &shareSettling{member: member, view: f.view, settings: f.settings, renews: req.IsRenewAck, acks: acks})
	switch {
	case req.ShareSessionEpoch == sharesession.EpochLast:
		s.endShareSession(ctx, member)
	case !req.IsRenewAck:
		f.acquire(ctx, fetch)
	}
	return f.reply(answers), nil
}

// shareMember is who sends a request for a share group.
func (rc *request) shareMember(group, member *string) (sharesession.Member, error) {
	switch {
	case group == nil:
		return sharesession.Member{}, base.Errorf(base.CodeInvalidRequest, "Invalid group id in the request.")
	case member == nil || *member == "" || len(*member) > maxMemberID:
		return sharesession.Member{}, base.Errorf(base.CodeInvalidRequest, "Invalid member id in the request.")
	}
	key := rc.groupKey(*group)
	if err := key.Check(); err != nil {
		return sharesession.Member{}, err
	}
	return sharesession.Member{Key: key, ID: *member}, nil
}

// checkShareFetch checks the acquire mode, and that a request with renewals asks for no records, in Kafka's words.
func checkShareFetch(req *kmsg.ShareFetchRequest) error {
	if m := req.ShareAcquireMode; m != acquireBatches && m != acquireRecordLimit {
		return base.Errorf(base.CodeInvalidRequest, "share acquire mode %d is not known: %d or %d", m, acquireBatches, acquireRecordLimit)
	}
	if !req.IsRenewAck {
		return nil
	}
	var bad strings.Builder
	for _, limit := range []struct {
		name  string
		value int32
	}{{"maxBytes", req.MaxBytes}, {"minBytes", req.MinBytes}, {"maxRecords", req.MaxRecords}, {"maxWaitMs", req.MaxWaitMillis}} {
		if limit.value != 0 {
			bad.WriteString(limit.name + " must be set to 0, ")
		}
	}
	if bad.Len() == 0 {
		return nil
	}
	return base.Errorf(base.CodeInvalidRequest, "%sif isRenewAck is true.", bad.String())
}

// refuseShareFetch answers a request of which nothing was done.
func (rc *request) refuseShareFetch(err error) *shareFetchReply {
	return &shareFetchReply{rc: rc, code: rc.failGroup(err), message: message(err)}
}

// shareFetching is one ShareFetch request while it is answered.
type shareFetching struct {
	s        *Server
	rc       *request
	req      *kmsg.ShareFetchRequest
	member   sharesession.Member
	view     *meta.View
	settings groupconf.Share
	deadline time.Time

	queues []broker.ShareQueue       // that can be asked, the one to be served next first
	places map[broker.ShareQueue]int // in queues
	got    []shareAcquired           // what each of the queues gave
	lost   []shareResult             // partitions that are not there
}

// asked lists the partitions that the request names, and those of them for which it has acknowledgements.
func (f *shareFetching) asked() (asked []share.Partition, acks []shareAcks) {
	for i := range f.req.Topics {
		t := &f.req.Topics[i]
		for k := range t.Partitions {
			p := &t.Partitions[k]
			at := share.Partition{Stream: t.TopicID, Index: p.Partition}
			asked = append(asked, at)
			if len(p.AcknowledgementBatches) == 0 {
				continue
			}
			batches := make([]sharesession.Ack, len(p.AcknowledgementBatches))
			for j, b := range p.AcknowledgementBatches {
				batches[j] = sharesession.Ack{First: b.FirstOffset, Last: b.LastOffset, Types: b.AcknowledgeTypes}
			}
			acks = append(acks, shareAcks{at, batches})
		}
	}
	return asked, acks
}

// forgotten lists the partitions that the session shall forget.
func (f *shareFetching) forgotten() (out []share.Partition) {
	for i := range f.req.ForgottenTopicsData {
		t := &f.req.ForgottenTopicsData[i]
		for _, index := range t.Partitions {
			out = append(out, share.Partition{Stream: t.TopicID, Index: index})
		}
	}
	return out
}

// acquire acquires records of partitions, and waits for some if there are none.
func (f *shareFetching) acquire(ctx context.Context, parts []share.Partition) {
	f.locate(parts)
	if len(f.queues) == 0 || f.req.MaxRecords <= 0 || f.req.MaxBytes <= 0 {
		return
	}
	f.got = make([]shareAcquired, len(f.queues))
	f.ask(ctx, f.queues)
	if !f.done() && ctx.Err() == nil {
		f.wait(ctx)
	}
	var had []share.Partition
	for i := range f.got {
		if len(f.got[i].Ranges) > 0 {
			had = append(had, share.Partition{Stream: f.queues[i].Stream, Index: f.queues[i].Index})
		}
	}
	if !f.s.shareSessions.Served(f.member, had) {
		// The session ended meanwhile, on another connection: nobody would release what was acquired since.
		f.giveBack(ctx)
	}
}

// locate finds the queues of partitions, or the errors that there are none.
func (f *shareFetching) locate(parts []share.Partition) {
	for _, p := range parts {
		if e := locateShare(f.view, f.rc, p); e != nil {
			f.lost = append(f.lost, f.fault(p, e, nil))
			continue
		}
		f.queues = append(f.queues, broker.ShareQueue{Key: f.member.Key, Stream: p.Stream, Index: p.Index})
	}
	f.places = make(map[broker.ShareQueue]int, len(f.queues))
	for i, q := range f.queues {
		f.places[q] = i
	}
}

// locateShare says why a partition is not there, or not yet.
func locateShare(view *meta.View, rc *request, p share.Partition) *kerr.Error {
	st, ok := view.StreamByID(p.Stream)
	switch {
	case !ok || st.Namespace != rc.namespace:
		return kerr.UnknownTopicID
	case p.Index < 0 || int(p.Index) >= len(st.Partitions):
		return kerr.UnknownTopicOrPartition
	case int(p.Index) >= st.Ready:
		return kerr.NotLeaderForPartition
	}
	return nil
}

// ask asks queues for records. None of them has given any yet.
func (f *shareFetching) ask(ctx context.Context, queues []broker.ShareQueue) {
	got := f.s.backend.ShareAcquire(ctx, &broker.ShareAcquire{
		Member: f.member.ID, Queues: queues, Records: int(f.req.MaxRecords), Batch: int(max(f.req.BatchSize, 0)),
		Strict: f.req.ShareAcquireMode == acquireRecordLimit, Bytes: min(int(f.req.MaxBytes), f.s.opts.FetchMaxBytes),
	})
	for i, q := range queues {
		f.got[f.places[q]] = got[i]
	}
}

// The acquire modes (KIP-1206).
const (
	acquireBatches     int8 = 0 // the last batch is taken whole
	acquireRecordLimit int8 = 1 // never more than max_records
)

// wait waits until a queue gives something.
func (f *shareFetching) wait(ctx context.Context) {
	w := f.s.backend.NewShareWatch()
	defer w.Close()
	for _, q := range f.queues {
		w.Add(q)
	}
	f.ask(ctx, f.queues) // sees what came before the watch did
	timer := time.NewTimer(time.Until(f.deadline))
	defer timer.Stop()
	for !f.done() {
		select {
		case <-w.C():
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
		if changed := f.inOrder(w.Take()); len(changed) > 0 {
			f.ask(ctx, changed)
		}
	}
}

// inOrder lists queues in the order in which they are to be served.
func (f *shareFetching) inOrder(changed []broker.ShareQueue) []broker.ShareQueue {
	if len(changed) < 2 {
		return changed
	}
	is := make(map[broker.ShareQueue]struct{}, len(changed))
	for _, q := range changed {
		is[q] = struct{}{}
	}
	out := make([]broker.ShareQueue, 0, len(changed))
	for _, q := range f.queues {
		if _, ok := is[q]; ok {
			out = append(out, q)
		}
	}
	return out
}

// done reports whether there is something to tell: records, or only errors. With errors of some partitions the others are waited
// for, as in Kafka, so that a client does not ask again and again.
func (f *shareFetching) done() bool {
	if f.req.MinBytes <= 0 || !time.Now().Before(f.deadline) {
		return true
	}
	failed := 0
	for i := range f.got {
		if len(f.got[i].Ranges) > 0 {
			return true
		}
		if f.got[i].Err != nil {
			failed++
		}
	}
	return failed == len(f.got)
}

// giveBack releases what was acquired for a session that is no more.
func (f *shareFetching) giveBack(ctx context.Context) {
	var held []broker.ShareQueue
	for i := range f.got {
		if len(f.got[i].Ranges) > 0 {
			held = append(held, f.queues[i])
			f.got[i].Records.Release()
			f.got[i] = shareAcquired{}
		}
	}
	f.s.releaseShare(ctx, f.member, held)
}

// rest waits as long as the request says, so that a client without a session does not ask again at once.
func (f *shareFetching) rest(ctx context.Context) {
	timer := time.NewTimer(time.Until(f.deadline))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// fault is the result of a partition that has an error.
func (f *shareFetching) fault(p share.Partition, e *kerr.Error, text *string) shareResult {
	r := shareResult{Partition: p, code: f.rc.reject(e), message: text}
	if st, ok := f.view.StreamByID(p.Stream); ok && r.tellsLeader() {
		r.epoch = f.s.backend.LeaderEpoch(st.Partitions[p.Index])
	}
	return r
}

// reply makes the response: partitions with records or errors, and those that were acknowledged.
func (f *shareFetching) reply(answers []shareAnswer) *shareFetchReply {
	r := &shareFetchReply{rc: f.rc, lock: int32(f.settings.LockDuration), leader: f.s.backend.NodeID(), parts: f.lost}
	for i := range f.got {
		q, g := &f.queues[i], &f.got[i]
		p := share.Partition{Stream: q.Stream, Index: q.Index}
		switch {
		case len(g.Ranges) > 0:
			r.parts = append(r.parts, shareResult{Partition: p, ranges: g.Ranges, records: g.Records})
		case g.Err != nil && !stopped(g.Err):
			r.parts = append(r.parts, f.fault(p, codesOf(g.Err).data, message(g.Err)))
		}
	}
	r.answer(answers)
	r.group()
	return r
}

// stopped reports whether an error only says that the request came to its end before it had anything.
func stopped(err error) bool {
	c := base.CodeOf(err)
	return c == base.CodeTimeout || c == base.CodeShutdown
}

// answer enters what became of acknowledgements.
func (r *shareFetchReply) answer(answers []shareAnswer) {
	if len(answers) == 0 {
		return
	}
	places := make(map[share.Partition]int, len(r.parts)+len(answers))
	for i := range r.parts {
		places[r.parts[i].Partition] = i
	}
	for _, a := range answers {
		i, ok := places[a.Partition]
		if !ok {
			i = len(r.parts)
			places[a.Partition] = i
			r.parts = append(r.parts, shareResult{Partition: a.Partition})
		}
		if p := &r.parts[i]; p.ackCode == 0 {
			p.ackCode, p.ackMessage = a.code, a.message
		}
	}
}

// group brings the partitions of a topic together, in the order of their first ones.
func (r *shareFetchReply) group() {
	rank := make(map[base.StreamID]int)
	sorted := true
	for i := range r.parts {
		s := r.parts[i].Stream
		if _, ok := rank[s]; !ok {
			rank[s] = i
		} else if r.parts[i-1].Stream != s {
			sorted = false
		}
	}
	if !sorted {
		slices.SortStableFunc(r.parts, func(a, b shareResult) int { return cmp.Compare(rank[a.Stream], rank[b.Stream]) })
	}
}
