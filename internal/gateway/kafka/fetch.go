package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
)

// Fetch: versions 4 to 18.
//
// A fetch that finds less than min_bytes waits on a watch of its logs, up to max_wait_ms; nothing polls.
// The first partition that has records sends at least one batch whatever the limits (KIP-74). Batches
// go out whole, as stored, by sendfile. Committed reads (KIP-98) end at the last stable offset, and come with a list of the
// aborted transactions among them.
//
//   - 5: log start offset
//   - 7: incremental sessions (KIP-227)
//   - 9: leader epoch checks (KIP-320)
//   - 10: the client knows zstd (KIP-110); as in Kafka 4, it gets it anyway
//   - 11: preferred read replica (KIP-392); there is none
//   - 12: flexible; divergence is told by the last fetched epoch (KIP-595)
//   - 13: topic IDs (KIP-516)
//   - 15: replica state in a tag (KIP-903); there are no followers, and who says it is one is refused
//   - 16: the current leader and its endpoint with FENCED_LEADER_EPOCH (KIP-951)
//   - 17, 18: fields of followers (KIP-853, KIP-1166), not looked at
func (s *Server) fetch(ctx context.Context, rc *request, body []byte) (any, error) {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(rc.version)
	if err := req.ReadFrom(body); err != nil {
		return nil, malformedf("Fetch version %d cannot be decoded: %v", rc.version, err)
	}
	f := &fetching{s: s, rc: rc, req: req, limit: s.opts.FetchMaxBytes,
		deadline: rc.received.Add(time.Duration(req.MaxWaitMillis) * time.Millisecond)}
	if req.MaxBytes < int32(min(f.limit, 1<<31-1)) {
		f.limit = int(max(req.MaxBytes, 0))
	}
	f.enough = min(int(req.MinBytes), f.limit)
	asked := f.asked()
	if req.SessionEpoch == epochInitial || req.SessionEpoch == epochFinal {
		return f.full(ctx, asked), nil
	}
	return f.incremental(ctx, asked), nil
}

// fetching is one fetch request while it is answered.
type fetching struct {
	s        *Server
	rc       *request
	req      *kmsg.FetchRequest
	limit    int // most bytes of records
	enough   int // so many bytes are worth a response
	deadline time.Time
	view     *meta.View // of this pass

	// What the last pass found:
	bytes   int  // of records
	urgent  bool // an error or a divergence that the client shall learn at once
	waiting int  // partitions that could get records
	grown   int  // bytes that came since, by a guess
}

// asked lists the partitions that the request names.
func (f *fetching) asked() []*fetchPart {
	n := 0
	for i := range f.req.Topics {
		n += len(f.req.Topics[i].Partitions)
	}
	all := make([]fetchPart, 0, n)
	parts := make([]*fetchPart, 0, n)
	for i := range f.req.Topics {
		t := &f.req.Topics[i]
		for k := range t.Partitions {
			p := &t.Partitions[k]
			all = append(all, fetchPart{key: partKey{t.Topic, t.TopicID, p.Partition}, name: t.Topic, asked: askedOf(p)})
			parts = append(parts, &all[len(all)-1])
		}
	}
	return parts
}

// full answers a request that names everything it wants.
func (f *fetching) full(ctx context.Context, parts []*fetchPart) *fetchReply {
	if f.req.SessionID != 0 {
		f.s.sessions.remove(f.rc.namespace, f.req.SessionID)
	}
	f.pass(parts)
	if !f.done() && ctx.Err() == nil {
		f.wait(ctx, parts)
	}
	for _, p := range parts {
		p.told = p.res.told()
	}
	reply := f.reply(parts)
	if f.req.SessionEpoch == epochInitial && f.rc.version >= 7 {
		reply.session = f.s.sessions.create(f.rc, f.rc.version >= 13, parts)
	}
	return reply
}

// wait waits for a full fetch to have enough.
func (f *fetching) wait(ctx context.Context, parts []*fetchPart) {
	w := f.s.backend.NewWatch()
	defer w.Close()
	byLog := make(map[base.LogID]*fetchPart, len(parts))
	for _, p := range parts {
		if p.at.Log != 0 {
			w.Add(p.at.Log)
			byLog[p.at.Log] = p
		}
	}
	f.pass(parts) // sees what came before the watch did
	for !f.done() && f.sleep(ctx, w, func(log base.LogID) *fetchPart { return byLog[log] }) {
		f.pass(parts)
	}
}

// sleep waits until there is likely enough, and says false when it is time to answer with what there is. changed
// is called for each log that changed.
func (f *fetching) sleep(ctx context.Context, w Watch, changed func(base.LogID) *fetchPart) bool {
	timer := time.NewTimer(time.Until(f.deadline))
	defer timer.Stop()
	for {
		select {
		case <-w.C():
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
		look := false
		for _, log := range w.Take() {
			if p := changed(log); p != nil && f.worthLook(p) {
				look = true
			}
		}
		if look || f.bytes+f.grown >= f.enough {
			return true
		}
	}
}

// worthLook adds what a log grew by, and reports whether something else happened to it. It spares a fetch
// that waits for many bytes from looking for them again at every append.
func (f *fetching) worthLook(p *fetchPart) bool {
	st, ok := f.s.backend.State(p.at.Log)
	if !ok || st.Start > p.asked.offset {
		return true
	}
	if end := f.endOf(&st); end == p.end {
		return false // what came is of transactions that are open, or behind such
	} else if end != st.HighWatermark {
		return true // how much became stable is not to be seen
	}
	f.grown += int(max(0, st.Size-p.size))
	p.size = st.Size
	return false
}

// incremental answers a request of a session.
func (f *fetching) incremental(ctx context.Context, asked []*fetchPart) *fetchReply {
	sess, bad := f.s.sessions.take(f.rc, f.req.SessionID, f.req.SessionEpoch, f.rc.version >= 13)
	if bad != nil {
		return &fetchReply{rc: f.rc, code: f.rc.reject(bad)}
	}
	defer f.s.sessions.give(sess)
	sess.update(asked, f.req.ForgottenTopics)
	sess.isolate(f.committed())
	if len(sess.parts) == 0 {
		f.s.sessions.remove(sess.space, sess.id)
		return f.full(ctx, nil)
	}
	if sess.watch == nil {
		sess.watch = f.s.backend.NewWatch()
	}
	for _, log := range sess.watch.Take() {
		sess.changed(log)
	}
	f.passSession(sess)
	for !f.done() && f.sleep(ctx, sess.watch, sess.changed) {
		f.passSession(sess)
	}
	return f.newsOf(sess)
}

// passSession looks at the hot partitions of a session, and lets those cool that have nothing to tell.
func (f *fetching) passSession(sess *session) {
	hot := sess.agenda()
	f.begin()
	f.waiting = len(sess.parts) - len(hot)
	for _, p := range hot {
		// It is watched before it is looked at: what comes in between is signalled.
		f.locate(p)
		sess.follow(p, p.at.Log)
		f.examine(p)
	}
	sess.hot = slices.DeleteFunc(hot, func(p *fetchPart) bool {
		p.hot = p.res.news(p.told) || p.res.more
		return !p.hot
	})
}

// newsOf makes the response of a session: what has records, an error, or other offsets than the client was told.
func (f *fetching) newsOf(sess *session) *fetchReply {
	news := make([]*fetchPart, 0, len(sess.hot))
	for _, p := range sess.hot {
		if p.res.news(p.told) {
			news = append(news, p)
		}
		if p.res.len > 0 {
			sess.last(p)
		}
		p.told = p.res.told()
	}
	// All stay hot: the next request tells whether the client got on.
	reply := f.reply(news)
	reply.session = sess.id
	return reply
}

// done reports whether the pass found what is worth a response.
func (f *fetching) done() bool {
	return f.urgent || f.waiting == 0 || f.bytes >= f.enough || !time.Now().Before(f.deadline)
}

// reply takes the results of partitions over into a response.
func (f *fetching) reply(parts []*fetchPart) *fetchReply {
	r := &fetchReply{rc: f.rc, parts: make([]fetchResult, len(parts)), committed: f.committed(), leader: f.s.backend.NodeID()}
	for i, p := range parts {
		r.parts[i] = fetchResult{p.key, p.res}
		p.res = partResult{}
	}
	return r
}
