package sharesession

import (
	"math"
	"slices"
	"sync"

	"godwit/internal/base"
	"godwit/internal/coord/share"
)

// Member names who has a share session: a member has one at each broker.
type Member struct {
	share.Key
	ID string
}

// session is what a member of a share group fetches, so that its requests need only name what changed (KIP-932). It
// also is what the member may have acquired: when it ends, those records are released.
//
// Guarantees:
//
//  1. parts holds each partition once, the one to be served next first.
//  2. The epoch rises by one with each request that was accepted.
type session struct {
	member Member
	epoch  int32 // that the next request has to carry
	parts  []share.Partition
	owner  any // what it began on; it ends with it
}

// maxParts is how many partitions one session may have: what a client names without end shall not fill the memory.
const maxParts = 1 << 17

var errParts = base.Errorf(base.CodeInvalidRequest, "a share session may have %d partitions: fetch from fewer", maxParts)

// Sessions are the share sessions of a broker. As in Kafka, none makes room for another, and none ends by time: only by its
// member or with the connection.
type Sessions struct {
	mu       sync.Mutex
	byMember map[Member]*session
	max      int
}

// New makes room for limit sessions (group.share.max.share.sessions).
func New(limit int) *Sessions { return &Sessions{byMember: map[Member]*session{}, max: limit} }

// Count is how many sessions there are.
func (c *Sessions) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byMember)
}

// Epochs with a meaning of their own.
const (
	EpochFirst int32 = 0  // begins a session
	EpochLast  int32 = -1 // ends it
)

// nextEpoch counts from 1 and wraps to 1.
func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// Turn is one request of a session.
type Turn struct {
	Epoch int32 // that the request carries
	Add   []share.Partition
	Drop  []share.Partition
	Acks  bool // brings acknowledgements
	Owner any  // the connection of the request; compared with ==
}

// Fetch takes a ShareFetch request and returns what is to be fetched, the partition to be served next first; nothing if the session ends
// with the request. The error is CodeShareSessionNotFound, CodeInvalidShareSession, CodeShareSessionLimit, or CodeInvalidRequest
// for acknowledgements that begin a session. After the acknowledgements of a request that ends its session, the caller calls End.
func (c *Sessions) Fetch(m Member, t Turn) ([]share.Partition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Epoch == EpochFirst {
		return c.begin(m, t)
	}
	s, err := c.turn(m, t.Epoch)
	if err != nil || t.Epoch == EpochLast {
		return nil, err
	}
	if len(s.parts)+len(t.Add) > maxParts {
		return nil, errParts
	}
	s.update(t.Add, t.Drop)
	return slices.Clone(s.parts), nil
}

// Acknowledge takes a ShareAcknowledge request. The errors are those of Fetch; no acknowledgement begins a session.
func (c *Sessions) Acknowledge(m Member, epoch int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch == EpochFirst {
		return base.Errorf(base.CodeInvalidShareSession, "a share session cannot begin with an acknowledgement: fetch first")
	}
	_, err := c.turn(m, epoch)
	return err
}

// begin makes a session in place of the one that the member may have.
func (c *Sessions) begin(m Member, t Turn) ([]share.Partition, error) {
	if t.Acks {
		return nil, base.Errorf(base.CodeInvalidRequest, "a share session cannot begin with acknowledgements: fetch first")
	}
	if len(t.Add) > maxParts {
		return nil, errParts
	}
	delete(c.byMember, m)
	if len(c.byMember) >= c.max {
		return nil, base.Errorf(base.CodeShareSessionLimit, "there are %d share sessions already: try again later", c.max)
	}
	s := &session{member: m, epoch: 1, owner: t.Owner}
	s.update(t.Add, nil)
	c.byMember[m] = s
	return slices.Clone(s.parts), nil
}

// turn finds the session of a request that is not its first, and counts the request.
func (c *Sessions) turn(m Member, epoch int32) (*session, error) {
	s := c.byMember[m]
	switch {
	case s == nil:
		return nil, base.Errorf(base.CodeShareSessionNotFound, "member %q of group %q has no share session: begin one with epoch 0", m.ID, m.Group)
	case epoch == EpochLast:
	case epoch != s.epoch:
		return nil, base.Errorf(base.CodeInvalidShareSession, "share session epoch %d where %d is next: begin a session with epoch 0", epoch, s.epoch)
	default:
		s.epoch = nextEpoch(epoch)
	}
	return s, nil
}

// update adds partitions, last in order, and takes others out.
func (s *session) update(add, drop []share.Partition) {
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

// Served moves partitions that had records to the end of the order, so that the next request begins with others. It reports
// whether the session is still there.
func (c *Sessions) Served(m Member, parts []share.Partition) bool {
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

// End ends a session, if there is one, and returns its partitions: the caller releases what the member has acquired in them.
func (c *Sessions) End(m Member) []share.Partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byMember[m]
	if s == nil {
		return nil
	}
	delete(c.byMember, m)
	return s.parts
}

// Ended is a session that ended with its connection.
type Ended struct {
	Member Member
	Parts  []share.Partition
}

// Leave ends the sessions that began on a connection: the caller releases what their members have acquired.
func (c *Sessions) Leave(owner any) (ended []Ended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for m, s := range c.byMember {
		if s.owner == owner {
			delete(c.byMember, m)
			ended = append(ended, Ended{m, s.parts})
		}
	}
	return ended
}
