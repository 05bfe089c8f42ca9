package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/meta"
	"godwit/internal/partlog"
)

// fetchPart is one partition of a fetch. A session keeps it between requests.
type fetchPart struct {
	key   partKey
	name  string // of the topic, once known
	asked asked
	at    meta.Partition // as located by the last pass; zero if it was not found
	size  int64          // of the log when it was last looked at, bytes
	end   int64          // of what the client may read, as it was then

	// In a session:
	told   told
	serial uint64 // place in the order in which partitions are served
	hot    bool   // it is in session.hot
	log    base.LogID

	res partResult // of the last pass
}

// asked is what a client wants of a partition.
type asked struct {
	offset    int64
	maxBytes  int32
	epoch     int32 // leader epoch that the client knows; -1: none
	lastEpoch int32 // of the last record that it has; -1: none
}

func askedOf(p *kmsg.FetchRequestTopicPartition) asked {
	return asked{p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch}
}

// told is what a client knows of a partition from the responses of a session.
type told struct{ hw, start, stable int64 }

// partResult is what a look at a partition found.
type partResult struct {
	code      int16
	absent    bool  // there is no such partition
	hw, start int64 // -1 with an error
	stable    int64 // last stable offset; -1 with an error
	epoch     int32 // of the leader, to be told with an error about it
	diverged  bool
	divergent epochEnd
	aborted   []partlog.Aborted // of a committed read
	records   Records           // nil if there are none
	len       int               // of records, bytes
	more      bool              // records stayed behind, because the response was full
}

type epochEnd struct {
	epoch int32
	end   int64
}

// news reports whether the client has to learn of the result, given what it was told before.
func (r *partResult) news(before told) bool {
	return r.code != 0 || r.diverged || r.len > 0 || before != r.told()
}

// told is what the client knows once it has the result. After an error that is nothing, so that the
// partition is told again when the error is over.
func (r *partResult) told() told { return told{r.hw, r.start, r.stable} }

func (r *partResult) release() {
	if r.records != nil {
		r.records.Release()
		r.records = nil
	}
}

// begin begins a pass over partitions.
func (f *fetching) begin() {
	f.view = f.s.backend.Meta()
	f.bytes, f.waiting, f.grown, f.urgent = 0, 0, 0, false
}

// pass looks at all partitions.
func (f *fetching) pass(parts []*fetchPart) {
	f.begin()
	for _, p := range parts {
		f.locate(p)
		f.examine(p)
	}
}

// locate finds the log of a partition, or the error that it has none.
func (f *fetching) locate(p *fetchPart) {
	p.res.release()
	p.res = partResult{hw: -1, start: -1, stable: -1, epoch: -1}
	p.at = meta.Partition{}
	s, e := f.stream(p)
	switch {
	case e != nil:
	case p.key.index < 0 || int(p.key.index) >= len(s.Partitions):
		e = kerr.UnknownTopicOrPartition
	case int(p.key.index) >= s.Ready:
		e = kerr.NotLeaderForPartition
	default:
		p.at = s.Partitions[p.key.index]
		return
	}
	p.res.code, p.res.absent = f.rc.reject(e), true
}

// stream finds the topic of a partition. A session that knew the ID's name gets the errors about names: where it
// belongs to another topic now, the client's metadata is behind.
func (f *fetching) stream(p *fetchPart) (*meta.Stream, *kerr.Error) {
	if f.rc.version < 13 {
		if s, ok := f.view.Stream(f.rc.namespace, p.key.topic); ok {
			return s, nil
		}
		return nil, kerr.UnknownTopicOrPartition
	}
	if s, ok := f.view.StreamByID(p.key.id); ok && s.Namespace == f.rc.namespace {
		p.name = s.Name
		return s, nil
	}
	if p.name == "" {
		return nil, kerr.UnknownTopicID
	}
	if _, ok := f.view.Stream(f.rc.namespace, p.name); ok {
		return nil, kerr.InconsistentTopicID
	}
	return nil, kerr.UnknownTopicOrPartition
}

// examine reads what a located partition has for the client, within what the response has room for.
func (f *fetching) examine(p *fetchPart) {
	if p.at.Log == 0 {
		return
	}
	f.waiting++
	if f.req.ReplicaID >= 0 || f.req.ReplicaState.ID >= 0 {
		f.refuse(p, kerr.NotLeaderForPartition) // nobody else is a replica
		return
	}
	if e := f.checkEpoch(p); e != nil {
		f.refuse(p, e)
		return
	}
	if p.asked.lastEpoch >= 0 {
		if e := f.diverge(p); e != nil {
			f.refuse(p, e)
			return
		}
		if p.res.diverged {
			f.urgent = true
			return
		}
	}
	room := f.limit - f.bytes
	if room <= 0 && f.bytes > 0 {
		f.passBy(p)
		return
	}
	read := f.s.backend.Read
	if f.committed() {
		read = f.s.backend.ReadCommitted
	}
	r, err := read(p.at.Log, p.asked.offset, min(max(room, 0), max(int(p.asked.maxBytes), 0)), f.bytes == 0)
	if err != nil {
		if r != nil {
			r.Release()
		}
		f.refuseErr(p, err)
		return
	}
	f.note(p, r.State())
	if p.res.len = r.Len(); p.res.len == 0 {
		p.res.more = p.asked.offset < p.end
		r.Release()
		return
	}
	p.res.records, p.res.aborted = r, r.Aborted()
	f.bytes += p.res.len
}

// passBy tells the offsets of a partition for whose records the response has no room.
func (f *fetching) passBy(p *fetchPart) {
	st, ok := f.s.backend.State(p.at.Log)
	switch {
	case !ok:
		f.refuse(p, kerr.UnknownTopicOrPartition)
	case p.asked.offset < st.Start || p.asked.offset > st.HighWatermark:
		f.refuse(p, kerr.OffsetOutOfRange)
	default:
		f.note(p, st)
		p.res.more = p.asked.offset < p.end
	}
}

// note takes over the state of a partition's log.
func (f *fetching) note(p *fetchPart, st broker.LogState) {
	p.res.hw, p.res.start, p.res.stable, p.size = st.HighWatermark, st.Start, st.LastStable, st.Size
	p.end = f.endOf(&st)
}

// committed reports whether the client wants records of committed transactions only (isolation level read_committed).
func (f *fetching) committed() bool { return f.req.IsolationLevel == 1 }

// endOf is the offset up to which the client may read.
func (f *fetching) endOf(st *broker.LogState) int64 {
	if f.committed() {
		return st.LastStable
	}
	return st.HighWatermark
}

// checkEpoch holds the leader epoch that the client knows against the one there is (KIP-320).
func (f *fetching) checkEpoch(p *fetchPart) *kerr.Error {
	e := checkLeaderEpoch(p.asked.epoch, f.s.backend.LeaderEpoch(p.at))
	if e == kerr.FencedLeaderEpoch {
		p.res.epoch = f.s.backend.LeaderEpoch(p.at)
	}
	return e
}

// checkLeaderEpoch compares a client's leader epoch, -1 for none, with the leader's own (KIP-320).
func checkLeaderEpoch(client, leader int32) *kerr.Error {
	switch {
	case client < 0 || client == leader:
		return nil
	case client < leader:
		return kerr.FencedLeaderEpoch
	}
	return kerr.UnknownLeaderEpoch
}

// diverge looks whether the client's last record is in this log (KIP-595).
func (f *fetching) diverge(p *fetchPart) *kerr.Error {
	epoch, end := f.s.backend.EpochEnd(p.at.Log, p.asked.lastEpoch)
	if epoch < 0 || end < 0 {
		return kerr.OffsetOutOfRange
	}
	st, ok := f.s.backend.State(p.at.Log)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	if p.asked.offset < st.Start {
		return kerr.OffsetOutOfRange
	}
	if epoch < p.asked.lastEpoch || end < p.asked.offset {
		p.res.diverged, p.res.divergent = true, epochEnd{epoch, end}
		f.note(p, st)
	}
	return nil
}

func (f *fetching) refuse(p *fetchPart, e *kerr.Error) { f.refused(p, f.rc.reject(e)) }

func (f *fetching) refuseErr(p *fetchPart, err error) {
	// Clients of version 5 and below do not know KAFKA_STORAGE_ERROR.
	if e := codesOf(err).data; e == kerr.KafkaStorageError && f.rc.version <= 5 {
		f.refused(p, f.rc.reject(kerr.NotLeaderForPartition))
		return
	}
	f.refused(p, f.rc.fail(err))
}

func (f *fetching) refused(p *fetchPart, code int16) {
	p.res.code, p.res.hw, p.res.start, p.res.stable = code, -1, -1, -1
	f.urgent = true
}
