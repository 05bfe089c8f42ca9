package kafka

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"godwit/internal/broker"
	"godwit/internal/coord/share"
)

// shareFetchReply is a ShareFetch response. Like that of Fetch it is encoded here.
//
// Guarantee: the partitions of a topic are together.
type shareFetchReply struct {
	rc      *request
	code    int16
	message *string
	lock    int32 // ms for which the members of the group hold records
	leader  int32 // this node, to be told with NOT_LEADER_OR_FOLLOWER
	parts   []shareResult
}

// shareResult is one partition of a response.
type shareResult struct {
	share.Partition
	code       int16 // of the fetch
	message    *string
	ackCode    int16 // of the acknowledgements
	ackMessage *string
	epoch      int32 // of the leader, to be told with NOT_LEADER_OR_FOLLOWER
	ranges     []broker.TakenRange
	records    Records // nil if there are none
}

func (r *shareFetchReply) flexible() bool { return true }

func (r *shareFetchReply) bytes() (n int) {
	for i := range r.parts {
		if r.parts[i].records != nil {
			n += r.parts[i].records.Len()
		}
	}
	return n
}

func (r *shareFetchReply) release() {
	for i := range r.parts {
		if r.parts[i].records != nil {
			r.parts[i].records.Release()
			r.parts[i].records = nil
		}
	}
}

// runOf is how many partitions from i on belong to the same topic.
func (r *shareFetchReply) runOf(i int) int {
	n := 1
	for i+n < len(r.parts) && r.parts[i+n].Stream == r.parts[i].Stream {
		n++
	}
	return n
}

func (r *shareFetchReply) encode(dst []byte) ([]byte, []cut) {
	e := encoder{dst, true}
	var cuts []cut
	e.int32(0) // throttle time
	e.int16(r.code)
	e.nullable(r.message)
	e.int32(r.lock)
	topics := 0
	for i := 0; i < len(r.parts); i += r.runOf(i) {
		topics++
	}
	e.count(topics)
	for i := 0; i < len(r.parts); {
		e.dst = append(e.dst, r.parts[i].Stream[:]...)
		n := r.runOf(i)
		e.count(n)
		for ; n > 0; n-- {
			p := &r.parts[i]
			p.begin(&e, r.leader)
			if p.records != nil {
				cuts = append(cuts, cut{len(e.dst), p.records})
			}
			p.acquired(&e)
			i++
		}
		e.noTags()
	}
	r.endpoints(&e)
	e.noTags()
	return e.dst, cuts
}

// begin writes all of a partition that comes before its records.
func (p *shareResult) begin(e *encoder, leader int32) {
	e.int32(p.Index)
	e.int16(p.code)
	e.nullable(p.message)
	e.int16(p.ackCode)
	e.nullable(p.ackMessage)
	if p.tellsLeader() {
		e.int32(leader)
		e.int32(p.epoch)
	} else {
		e.int32(0)
		e.int32(0)
	}
	e.noTags()
	if p.records != nil {
		e.count(p.records.Len())
	} else {
		e.count(0)
	}
}

// acquired writes all of a partition that comes behind its records.
func (p *shareResult) acquired(e *encoder) {
	e.count(len(p.ranges))
	for _, t := range p.ranges {
		e.int64(t.First)
		e.int64(t.Last)
		e.int16(int16(min(t.Deliveries, math.MaxInt16)))
		e.noTags()
	}
	e.noTags()
}

// tellsLeader reports whether a partition's error is one with which the current leader is told.
func (p *shareResult) tellsLeader() bool { return p.code == kerr.NotLeaderForPartition.Code }

// endpoints writes where the leaders listen that are told.
func (r *shareFetchReply) endpoints(e *encoder) {
	for i := range r.parts {
		if r.parts[i].tellsLeader() {
			host, port := r.rc.host()
			e.count(1)
			e.int32(r.leader)
			e.string(host)
			e.int32(port)
			e.nullable(nil) // rack
			e.noTags()
			return
		}
	}
	e.count(0)
}
