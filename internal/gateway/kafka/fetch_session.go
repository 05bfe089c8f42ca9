package kafka

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// sessionRest is for how long a session is safe from a new one that wants its place, and after which
// it has none if it was not used (KIP-227; min.incremental.fetch.session.eviction.ms).
const sessionRest = 2 * time.Minute

// Session epochs with a meaning of their own (KIP-227).
const (
	epochInitial int32 = 0  // a full fetch that asks for a session
	epochFinal   int32 = -1 // a full fetch without one
)

// partKey tells the partitions of a fetch apart: by the topic's ID from version 13 on, else by its name.
type partKey struct {
	topic string
	id    base.StreamID
	index int32
}

// session is an incremental fetch session: what a client fetches, so that its requests need only name what
// changed, and the responses only what has news.
//
// A partition that is not hot needs no look: its reader is at its end, it has no error, the client knows
// its offsets, and the watch tells when that ends. So a poll costs what has changed, not what is fetched.
//
// Guarantees:
//
//  1. Only the request that took the session touches parts, hot, watch and what they refer to.
//  2. A partition is in hot once if its hot field is set, and not at all otherwise.
//  3. A partition that is not hot has its log in the watch, if there is a watch; without one, all are hot.
type session struct {
	id     int32
	space  string // namespace of the names
	byID   bool   // partitions are named by topic ID
	parts  map[partKey]*fetchPart
	byLog  map[base.LogID]*fetchPart
	hot    []*fetchPart
	watch  Watch
	serial uint64 // of the partition that is last in order

	committed bool // isolation level of the last request
	// Under the cache's lock:
	epoch   int32 // that the next request has to carry
	busy    bool  // a request has taken it
	removed bool  // not in the cache any more
	owner   *conn // whose requests use it
	created time.Time
	used    time.Time
	size    int // partitions
}

// sessions is the cache of sessions.
type sessions struct {
	mu      sync.Mutex
	byID    map[int32]*session
	max     int
	evicted prometheus.Counter
}

func newSessions(limit int, reg prometheus.Registerer) *sessions {
	c := &sessions{byID: map[int32]*session{}, max: limit, evicted: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "godwit_kafka_fetch_sessions_evicted_total", Help: "Fetch sessions that made room for others."})}
	if reg != nil {
		reg.MustRegister(c.evicted, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "godwit_kafka_fetch_sessions", Help: "Incremental fetch sessions."}, func() float64 { return float64(c.count()) }))
	}
	return c
}

func (c *sessions) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
}

// take gives an incremental request its session, which it has to give back, or says why not.
func (c *sessions) take(rc *request, id, epoch int32, byID bool) (*session, *kerr.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byID[id]
	switch {
	case s == nil || s.space != rc.namespace:
		return nil, kerr.FetchSessionIDNotFound
	case s.busy || s.epoch != epoch:
		return nil, kerr.InvalidFetchSessionEpoch
	case s.byID != byID:
		return nil, kerr.FetchSessionTopicIDError
	}
	s.busy, s.owner, s.used = true, rc.conn, time.Now()
	s.epoch = nextEpoch(epoch)
	return s, nil
}

// nextEpoch counts from 1 and wraps to 1.
func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// give takes a session back.
func (c *sessions) give(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.busy, s.size = false, len(s.parts)
	if s.removed {
		s.rest()
	}
}

// remove ends a session, if the namespace has one of that ID.
func (c *sessions) remove(space string, id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byID[id]; s != nil && s.space == space {
		c.drop(s)
	}
}

func (c *sessions) drop(s *session) {
	delete(c.byID, s.id)
	s.removed = true
	if !s.busy {
		s.rest()
	}
}

// create makes a session for the partitions of a full fetch; 0 if there is no place for it.
func (c *sessions) create(rc *request, byID bool, parts []*fetchPart) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if len(c.byID) >= c.max && !c.evict(len(parts), now) {
		return 0
	}
	s := &session{space: rc.namespace, byID: byID, parts: make(map[partKey]*fetchPart, len(parts)), byLog: map[base.LogID]*fetchPart{},
		epoch: 1, owner: rc.conn, created: now, used: now}
	for s.id == 0 || c.byID[s.id] != nil {
		s.id = rand.Int32()
	}
	for _, p := range parts {
		if s.parts[p.key] == nil {
			s.add(p)
		}
	}
	s.size = len(s.parts)
	c.byID[s.id] = s
	return s.id
}

// evict makes room for a session of so many partitions: it drops the one that was not used for longest, if
// that is long ago, else the smallest of the old ones if it is smaller.
func (c *sessions) evict(size int, now time.Time) bool {
	var stale, small *session
	for _, s := range c.byID {
		if stale == nil || s.used.Before(stale.used) {
			stale = s
		}
		if now.Sub(s.created) > sessionRest && (small == nil || s.size < small.size) {
			small = s
		}
	}
	victim := small
	switch {
	case stale != nil && now.Sub(stale.used) > sessionRest:
		victim = stale
	case small == nil || size < small.size:
		return false
	}
	c.drop(victim)
	c.evicted.Inc()
	return true
}

// leave lets the sessions that a connection used rest: most clients begin anew after a reconnect, and a
// watch that nobody waits for is a burden to every append.
func (c *sessions) leave(owner *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.byID {
		if s.owner == owner && !s.busy {
			s.rest()
		}
	}
}

// rest gives up the watch. The caller has the session to itself.
func (s *session) rest() {
	if s.watch != nil {
		s.watch.Close()
		s.watch = nil
		clear(s.byLog)
	}
	for _, p := range s.parts {
		p.log = 0
		s.heat(p)
	}
}

// add enters a partition, last in order and hot.
func (s *session) add(p *fetchPart) {
	s.parts[p.key] = p
	s.last(p)
	s.heat(p)
}

// isolate takes over the isolation level of a request. A partition at the end of what one level shows may have more for the other.
func (s *session) isolate(committed bool) {
	if s.committed == committed {
		return
	}
	s.committed = committed
	for _, p := range s.parts {
		s.heat(p)
	}
}

// last moves a partition to the end of the order in which they are served.
func (s *session) last(p *fetchPart) {
	s.serial++
	p.serial = s.serial
}

func (s *session) heat(p *fetchPart) {
	if !p.hot {
		p.hot = true
		s.hot = append(s.hot, p)
	}
}

// update enters what an incremental request says, and forgets what it says to forget.
func (s *session) update(parts []*fetchPart, forgotten []kmsg.FetchRequestForgottenTopic) {
	for _, p := range parts {
		old := s.parts[p.key]
		if old == nil {
			s.add(p)
			continue
		}
		old.asked = p.asked
		s.heat(old)
	}
	for i := range forgotten {
		t := &forgotten[i]
		for _, index := range t.Partitions {
			s.forget(partKey{t.Topic, t.TopicID, index})
		}
	}
}

func (s *session) forget(k partKey) {
	p := s.parts[k]
	if p == nil {
		return
	}
	delete(s.parts, k)
	s.follow(p, 0)
	if p.hot {
		p.hot = false
		s.hot = slices.DeleteFunc(s.hot, func(o *fetchPart) bool { return o == p })
	}
}

// follow makes the watch look at the log that a partition has now; 0 for none.
func (s *session) follow(p *fetchPart, log base.LogID) {
	if p.log == log || s.watch == nil {
		return
	}
	if p.log != 0 && s.byLog[p.log] == p {
		s.watch.Remove(p.log)
		delete(s.byLog, p.log)
	}
	if p.log = log; log != 0 {
		s.watch.Add(log)
		s.byLog[log] = p
	}
}

// changed makes the partition hot whose log has changed; nil if none has it.
func (s *session) changed(log base.LogID) *fetchPart {
	p := s.byLog[log]
	if p != nil {
		s.heat(p)
	}
	return p
}

// agenda lists the hot partitions in order.
func (s *session) agenda() []*fetchPart {
	slices.SortFunc(s.hot, func(a, b *fetchPart) int { return cmp.Compare(a.serial, b.serial) })
	if invariants.Expensive {
		s.check()
	}
	return s.hot
}

// check verifies the guarantees that can be seen from inside.
func (s *session) check() {
	hot := map[*fetchPart]bool{}
	for _, p := range s.hot {
		invariants.Check(p.hot && !hot[p], "session %d: partition %v is listed as hot twice, or is not", s.id, p.key)
		invariants.Check(s.parts[p.key] == p, "session %d: hot partition %v is not fetched", s.id, p.key)
		hot[p] = true
	}
	for k, p := range s.parts {
		invariants.Check(p.hot == hot[p], "session %d: partition %v is hot and not listed", s.id, k)
		invariants.Check(p.hot || s.watch != nil && s.byLog[p.log] == p, "session %d: partition %v is neither hot nor watched", s.id, k)
	}
}
