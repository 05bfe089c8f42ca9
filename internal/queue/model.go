package queue

import "godwit/internal/base"

// State is what has become of a record in the window.
type State uint8

// The states; see the package comment.
const (
	Available State = iota
	Acquired
	Waiting
	Done
	states = 4
)

var stateNames = [states]string{"available", "acquired", "waiting", "done"}

func (s State) String() string { return stateNames[s&3] }

// Cause says why a record left the queue without being acknowledged.
type Cause uint8

// The causes.
const (
	CauseGap       Cause = iota // no record is there: compacted away, a control record, an aborted transaction
	CauseRejected               // by its consumer
	CauseLimit                  // delivered as often as is allowed
	CauseExpired                // its time to live is over
	CauseOverflow               // the queue was too long
	CauseRetention              // the log's start passed it
	causes         = 6
)

var causeNames = [causes]string{"gap", "rejected", "delivery-limit", "expired", "overflow", "retention"}

func (c Cause) String() string {
	if c >= causes {
		return "unknown"
	}
	return causeNames[c]
}

// Span is a range of offsets, both ends included.
type Span struct{ First, Last int64 }

// Len is the number of offsets in the span.
func (s Span) Len() int64 { return s.Last - s.First + 1 }

// Meta is what is special about one record. Plain records have none.
type Meta struct {
	Offset    int64
	Lane      string // message group; empty: none
	Priority  uint8  // higher goes first; plain records have 0
	NotBefore int64  // Unix ms; 0: at once
	Expires   int64  // Unix ms; 0: never
}

// Read is what the caller found in the log: the offsets in [From, To) that may be delivered. What lies in it and
// in no batch is taken for a gap. Batches are in order.
type Read struct {
	From, To int64
	Batches  []Span
}

// Want is a consumer's request for records.
type Want struct {
	Consumer string
	Records  int  // at most so many are acquired; unless Strict, the last batch is taken whole
	Batch    int  // fresh records are answered in ranges of about so many, cut where batches begin; 0: no cut
	Strict   bool // KIP-1206, share.acquire.mode=record_limit: never more than Records
	// Read confines the answer to what was read, in the order of offsets. nil: anything in the window, highest priority
	// first; the caller reads what it is given.
	Read *Read
}

// Taken is a range of records that a consumer now holds.
type Taken struct {
	Span
	Deliveries int32 // this one included
}

// AckType is what a consumer says about a record.
type AckType uint8

// The first five have the numbers of KIP-932 and KIP-1222.
const (
	AckGap     AckType = iota // there is no such record
	AckAccept                 // processed
	AckRelease                // deliver again; archived if it was delivered as often as is allowed
	AckReject                 // never deliver again
	AckRenew                  // still at it: the lock's time starts anew
	AckReturn                 // never looked at: deliver again, and this delivery does not count
)

// Ack is what a consumer says about a range of records.
type Ack struct {
	Span
	Type AckType
	// Delay, ms: of AckRelease and AckReturn, until the next delivery; of AckRenew, the lock's time if not
	// Options.Lock.
	Delay int64
}

// AcksOf makes ranges out of one type per record, the first being at offset first.
func AcksOf(first int64, types []AckType) []Ack {
	var out []Ack
	for i, t := range types {
		at := first + int64(i)
		if n := len(out); n > 0 && out[n-1].Type == t {
			out[n-1].Last = at
			continue
		}
		out = append(out, Ack{Span: Span{at, at}, Type: t})
	}
	return out
}

// Effect is a range of records that left the queue unacknowledged, for a dead-letter append or the loss
// ledger.
type Effect struct {
	ID uint64 // rises; unique in the queue
	Span
	Cause      Cause
	Deliveries int32 // of each record; 0 for records that waited outside memory
	Time       int64 // Unix ms
}

// Totals are counts of records since the queue was made. They survive everything.
type Totals struct {
	Deliveries int64
	Acked      int64
	Archived   [causes]int64 // by Cause
}

// Description is the state of a queue as its administrators see it.
type Description struct {
	Start, End int64 // window
	Available  int64 // records in the window that no consumer holds, those of them that are delayed included
	InFlight   int64 // held by consumers
	Waiting    int64 // delayed beyond the horizon
	Done       int64 // settled within the window: Kafka's delivery complete count
	Lag        int64 // offsets up to the log's end that are not settled
	Effects    int   // outstanding
	Totals     Totals
}

// Run is a range of alike records, as an administrator sees it.
type Run struct {
	Span
	State      State
	Deliveries int32
	Consumer   string // Acquired
	Until      int64  // Acquired: the lock's deadline; Available: not before; Unix ms, 0: none
	Meta       Meta   // of each record; without Offset and NotBefore
}

// Overflow says what a queue does that is too long.
type Overflow uint8

// The ways to deal with overflow.
const (
	DropHead Overflow = iota
	RejectNew
)

// Options are the rules by which a leader decides. A zero limit is no limit.
type Options struct {
	Lock          int64 // ms that a consumer may hold a record; 0: until it leaves
	MaxWindow     int64 // offsets between start and end: group.share.partition.max.record.locks
	MaxInFlight   int64 // records held by all consumers
	MaxDeliveries int32 // of a record: group.share.delivery.count.limit
	// Isolate delivers records apart that were delivered often already, so that one bad record does not take its
	// neighbours along (Kafka 4.3).
	Isolate bool

	MaxLength int64 // see Length
	Overflow  Overflow
	// SingleActive gives records to one consumer at a time, the first that joined among those of highest priority.
	SingleActive bool
	// FairSpread confines each consumer to its part of MaxInFlight.
	FairSpread bool

	Horizon int64 // ms: what is delayed further waits outside memory
	MaxRuns int   // while so many runs in memory are not plain, delayed records wait outside; twice as many are the limit
	// Silent lists the causes, as bits 1<<Cause, that make no Effect. Gaps never do.
	Silent uint8
}

// DefaultOptions are Kafka 4.4's rules for share groups.
func DefaultOptions() Options {
	return Options{Lock: 30_000, MaxWindow: 2000, MaxDeliveries: 5, Isolate: true, Horizon: 60_000, MaxRuns: 100_000}
}

func (o *Options) reports(c Cause) bool { return c != CauseGap && o.Silent&(1<<c) == 0 }

func errState(consumer string, s Span, now State) *base.Error {
	if now == Acquired {
		return base.Errorf(base.CodeInvalidRecordState, "records %d to %d are acquired by another consumer than %q: fetch again", s.First, s.Last, consumer)
	}
	return base.Errorf(base.CodeInvalidRecordState, "records %d to %d are not acquired by %q but %s: the lock has expired or they are settled; fetch again", s.First, s.Last, consumer, now)
}
