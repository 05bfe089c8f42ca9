package kafka

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"godwit/internal/base"
	"godwit/internal/coord/share"
)

// shareMember names who has a share session: a member has one at each broker.
type shareMember struct {
	share.Key
	member string
}

// shareSession is what a member of a share group fetches, so that its requests need only name what changed (KIP-932). It
// also is what the member may have acquired: when it ends, those records are released.
//
// Guarantees:
//
//  1. parts holds each partition once, the one to be served next first.
//  2. The epoch rises by one with each request that was accepted.
type shareSession struct {
	member shareMember
	epoch  int32 // that the next request has to carry
	parts  []share.Partition
	owner  *conn // on which it began; it ends with it
}

// maxSessionParts is how many partitions one session may have: what a client names without end shall not fill the memory.
const maxSessionParts = 1 << 17

var errSessionParts = base.Errorf(base.CodeInvalidRequest, "a share session may have %d partitions: fetch from fewer", maxSessionParts)

// shareSessions are the share sessions of a broker. As in Kafka, none makes room for another, and none ends by time: only by its
// member or with the connection.
type shareSessions struct {
	mu       sync.Mutex
	byMember map[shareMember]*shareSession
	max      int
}

// newShareSessions makes room for limit sessions (group.share.max.share.sessions).
func newShareSessions(limit int, reg prometheus.Registerer) *shareSessions {
	c := &shareSessions{byMember: map[shareMember]*shareSession{}, max: limit}
	if reg != nil {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "godwit_kafka_share_sessions", Help: "Sessions of members of share groups."}, func() float64 { return float64(c.count()) }))
	}
	return c
}

func (c *shareSessions) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byMember)
}

// shareTurn is one request of a session.
type shareTurn struct {
	epoch int32 // that the request carries
	add   []share.Partition
	drop  []share.Partition
	acks  bool  // brings acknowledgements
	owner *conn // of the request
}

// fetch takes a ShareFetch request and returns what is to be fetched, the partition to be served next first; nothing if the session ends
// with the request. The error is CodeShareSessionNotFound, CodeInvalidShareSession, CodeShareSessionLimit, or CodeInvalidRequest
// for acknowledgements that begin a session. After the acknowledgements of a request that ends its session, the caller calls end.
func (c *shareSessions) fetch(m shareMember, t shareTurn) ([]share.Partition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.epoch == epochInitial {
		return c.begin(m, t)
	}
	s, err := c.turn(m, t.epoch)
	if err != nil || t.epoch == epochFinal {
		return nil, err
	}
	if len(s.parts)+len(t.add) > maxSessionParts {
		return nil, errSessionParts
	}
	s.update(t.add, t.drop)
	return slices.Clone(s.parts), nil
}

// acknowledge takes a ShareAcknowledge request. The errors are those of fetch; no acknowledgement begins a session.
func (c *shareSessions) acknowledge(m shareMember, epoch int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch == epochInitial {
		return base.Errorf(base.CodeInvalidShareSession, "a share session cannot begin with an acknowledgement: fetch first")
	}
	_, err := c.turn(m, epoch)
	return err
}

// begin makes a session in place of the one that the member may have.
func (c *shareSessions) begin(m shareMember, t shareTurn) ([]share.Partition, error) {
	if t.acks {
		return nil, base.Errorf(base.CodeInvalidRequest, "a share session cannot begin with acknowledgements: fetch first")
	}
	if len(t.add) > maxSessionParts {
		return nil, errSessionParts
	}
	delete(c.byMember, m)
	if len(c.byMember) >= c.max {
		return nil, base.Errorf(base.CodeShareSessionLimit, "there are %d share sessions already: try again later", c.max)
	}
	s := &shareSession{member: m, epoch: 1, owner: t.owner}
	s.update(t.add, nil)
	c.byMember[m] = s
	return slices.Clone(s.parts), nil
}

// turn finds the session of a request that is not its first, and counts the request.
func (c *shareSessions) turn(m shareMember, epoch int32) (*shareSession, error) {
	s := c.byMember[m]
	switch {
	case s == nil:
		return nil, base.Errorf(base.CodeShareSessionNotFound, "member %q of group %q has no share session: begin one with epoch 0", m.member, m.Group)
	case epoch == epochFinal:
	case epoch != s.epoch:
		return nil, base.Errorf(base.CodeInvalidShareSession, "share session epoch %d where %d is next: begin a session with epoch 0", epoch, s.epoch)
	default:
		s.epoch = nextEpoch(epoch)
	}
	return s, nil
}

// update adds partitions, last in order, and takes others out.
func (s *shareSession) update(add, drop []share.Partition) {
	known := make(map[share.Partition]struct{}, len(s.parts)+len(add))
	for _, p := range s.parts {
		known[p] = struct{}{}
	}
	for _, p := range add {
		if _, ok := known[p]; !ok {
			known[p] = struct{}{}
			s.parts = append(s.parts, p)
		}
	}
	if len(drop) == 0 {
		return
	}
	gone := make(map[share.Partition]struct{}, len(drop))
	for _, p := range drop {
		gone[p] = struct{}{}
	}
	s.parts = slices.DeleteFunc(s.parts, func(p share.Partition) bool { _, ok := gone[p]; return ok })
}

// served moves partitions that had records to the end of the order, so that the next request begins with others. It reports
// whether the session is still there.
func (c *shareSessions) served(m shareMember, parts []share.Partition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byMember[m]
	if s == nil || len(parts) == 0 {
		return s != nil
	}
	had := make(map[share.Partition]struct{}, len(parts))
	for _, p := range parts {
		had[p] = struct{}{}
	}
	rest := make([]share.Partition, 0, len(s.parts))
	var last []share.Partition
	for _, p := range s.parts {
		if _, ok := had[p]; ok {
			last = append(last, p)
		} else {
			rest = append(rest, p)
		}
	}
	s.parts = append(rest, last...)
	return true
}

// end ends a session, if there is one, and returns its partitions: the caller releases what the member has acquired in them.
func (c *shareSessions) end(m shareMember) []share.Partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byMember[m]
	if s == nil {
		return nil
	}
	delete(c.byMember, m)
	return s.parts
}

// endedSession is a session that ended with its connection.
type endedSession struct {
	member shareMember
	parts  []share.Partition
}

// leave ends the sessions that began on a connection: the caller releases what their members have acquired.
func (c *shareSessions) leave(owner *conn) (ended []endedSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for m, s := range c.byMember {
		if s.owner == owner {
			delete(c.byMember, m)
			ended = append(ended, endedSession{m, s.parts})
		}
	}
	return ended
}

// The types of acknowledgements, as in ShareFetch and ShareAcknowledge.
const (
	ackGap     int8 = 0 // there is no record at the offset
	ackAccept  int8 = 1
	ackRelease int8 = 2
	ackReject  int8 = 3
	ackRenew   int8 = 4 // from version 2 on (KIP-1222)
)

// shareAck is one batch of acknowledgements of a partition.
type shareAck struct {
	first, last int64  // offsets, last included
	types       []int8 // one for all offsets, or one for each
}

// checkShareAcks checks the batches of one partition before any of them is looked at. The error is CodeInvalidRequest. renews is what the
// request says of itself; version is the request's.
func checkShareAcks(batches []shareAck, version int16, renews bool) error {
	highest := ackReject
	if version >= 2 {
		highest = ackRenew
	}
	bad := func(format string, args ...any) error { return base.Errorf(base.CodeInvalidRequest, format, args...) }
	end := int64(-1)
	for _, b := range batches {
		switch {
		case b.first > b.last:
			return bad("acknowledged offsets %d to %d: the last is before the first", b.first, b.last)
		case b.first < end:
			return bad("acknowledged offsets %d to %d come after offset %d: they are to be in order", b.first, b.last, end)
		case len(b.types) == 0:
			return bad("offsets %d to %d are acknowledged without a type", b.first, b.last)
		case len(b.types) > 1 && b.last-b.first != int64(len(b.types)-1):
			return bad("offsets %d to %d are acknowledged with %d types: give one for all, or one for each", b.first, b.last, len(b.types))
		case slices.ContainsFunc(b.types, func(t int8) bool { return t < ackGap || t > highest }):
			return bad("offsets %d to %d are acknowledged with types %v: 0 to %d are known in version %d", b.first, b.last, b.types, highest, version)
		case !renews && slices.Contains(b.types, ackRenew):
			return bad("offsets %d to %d are renewed in a request that does not say that it renews", b.first, b.last)
		}
		end = b.last
	}
	return nil
}
