package kafka

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
)

// fetchReply is a Fetch response. It is encoded here and not by kmsg, because the records go from the
// file to the socket without passing through this process.
type fetchReply struct {
	rc        *request
	code      int16
	session   int32
	committed bool  // isolation level read_committed: aborted transactions are a list, not null
	leader    int32 // this node, to be told with FENCED_LEADER_EPOCH
	parts     []fetchResult
}

// fetchResult is one partition of a response.
type fetchResult struct {
	key partKey
	partResult
}

// fetchEncoder encodes a response.
type fetchEncoder struct {
	encoder
	version int16
	reply   *fetchReply
}

// runOf is how many partitions from i on belong to the same topic: they share a topic's entry.
func (e *fetchEncoder) runOf(i int) int {
	parts := e.reply.parts
	n := 1
	for i+n < len(parts) && parts[i+n].key.topic == parts[i].key.topic && parts[i+n].key.id == parts[i].key.id {
		n++
	}
	return n
}

// begin writes all before the first topic.
func (e *fetchEncoder) begin() {
	e.int32(0) // throttle time
	if e.version >= 7 {
		e.int16(e.reply.code)
		e.int32(e.reply.session)
	}
	topics := 0
	for i := 0; i < len(e.reply.parts); i += e.runOf(i) {
		topics++
	}
	e.count(topics)
}

// topic begins the topic that partition i is the first of, and returns how many partitions it has.
func (e *fetchEncoder) topic(i int) int {
	k := &e.reply.parts[i].key
	if e.version >= 13 {
		e.dst = append(e.dst, k.id[:]...)
	} else {
		e.string(k.topic)
	}
	n := e.runOf(i)
	e.count(n)
	return n
}

// partition writes all of a partition that comes before its records.
func (e *fetchEncoder) partition(r *fetchResult) {
	e.int32(r.key.index)
	e.int16(r.code)
	e.int64(r.hw)
	e.int64(r.stable)
	if e.version >= 5 {
		e.int64(r.start)
	}
	if e.reply.committed || r.absent {
		e.count(len(r.aborted))
		for i := range r.aborted {
			e.int64(r.aborted[i].ProducerID)
			e.int64(r.aborted[i].First)
			e.noTags()
		}
	} else {
		e.null()
	}
	if e.version >= 11 {
		e.int32(-1) // preferred read replica
	}
	e.count(r.len) // records are encoded like an array of bytes
}

// afterRecords writes all of a partition that comes behind its records: the tagged fields.
func (e *fetchEncoder) afterRecords(r *fetchResult) {
	if !e.compact {
		return
	}
	leader := e.tellsLeader(r)
	n := 0
	if r.diverged {
		n++
	}
	if leader {
		n++
	}
	e.dst = append(e.dst, byte(n))
	if r.diverged {
		e.dst = append(e.dst, 0, 4+8+1) // tag, size
		e.int32(r.divergent.epoch)
		e.int64(r.divergent.end)
		e.noTags()
	}
	if leader {
		e.dst = append(e.dst, 1, 4+4+1)
		e.int32(e.reply.leader)
		e.int32(r.epoch)
		e.noTags()
	}
}

// tellsLeader reports whether a partition's error is one with which the current leader is told.
func (e *fetchEncoder) tellsLeader(r *fetchResult) bool {
	return e.version >= 16 && r.code == kerr.FencedLeaderEpoch.Code
}

// end writes all behind the last topic.
func (e *fetchEncoder) end() {
	if !e.compact {
		return
	}
	for i := range e.reply.parts {
		if e.tellsLeader(&e.reply.parts[i]) {
			e.endpoints()
			return
		}
	}
	e.noTags()
}

// endpoints writes the tag that says where the leader listens.
func (e *fetchEncoder) endpoints() {
	host, port := e.reply.rc.host()
	body := encoder{compact: true}
	body.count(1)
	body.int32(e.reply.leader)
	body.string(host)
	body.int32(port)
	body.nullable(nil) // rack
	body.noTags()
	e.dst = append(e.dst, 1, 0)
	e.dst = kbin.AppendUvarint(e.dst, uint32(len(body.dst)))
	e.dst = append(e.dst, body.dst...)
}

func (r *fetchReply) flexible() bool { return r.rc.version >= 12 }

// encode writes the response without its records behind dst, and says where they go.
func (r *fetchReply) encode(dst []byte) ([]byte, []cut) {
	e := fetchEncoder{encoder{dst, r.flexible()}, r.rc.version, r}
	var cuts []cut
	e.begin()
	for i := 0; i < len(r.parts); {
		for n := e.topic(i); n > 0; n-- {
			e.partition(&r.parts[i])
			if r.parts[i].len > 0 {
				cuts = append(cuts, cut{len(e.dst), r.parts[i].records})
			}
			e.afterRecords(&r.parts[i])
			i++
		}
		e.noTags()
	}
	e.end()
	return e.dst, cuts
}

// bytes is the size of all records.
func (r *fetchReply) bytes() (n int) {
	for i := range r.parts {
		n += r.parts[i].len
	}
	return n
}

// release gives back all records.
func (r *fetchReply) release() {
	for i := range r.parts {
		r.parts[i].release()
	}
}
