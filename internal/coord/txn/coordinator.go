package txn

import (
	"time"

	"godwit/internal/base"
)

// Options are the broker's settings of transactions.
type Options struct {
	MaxTimeout      time.Duration // longest time-out that a producer may ask for, transaction.max.timeout.ms
	Expiry          time.Duration // after which an ID without a transaction is forgotten, transactional.id.expiration.ms
	MaxParticipants int           // partitions and groups of one transaction
}

// DefaultOptions are Kafka's, and a limit of our own.
func DefaultOptions() Options {
	return Options{MaxTimeout: 15 * time.Minute, Expiry: 7 * 24 * time.Hour, MaxParticipants: 100_000}
}

// Coordinator runs the transactions of one shard, for its leader. It has one owner.
type Coordinator struct {
	opts    Options
	now     int64 // largest time seen, Unix ms
	live    *State
	changes []Command
}

// NewCoordinator takes over the transactional IDs of a state. Time-outs go on as they were.
func NewCoordinator(opts Options, s *State, now int64) *Coordinator { panic("todo") }

// Live is the state with what is in flight; not to be changed, nor kept over the next call.
func (c *Coordinator) Live() *State { return c.live }

// Exists reports whether there is such a transactional ID, or is about to be.
func (c *Coordinator) Exists(k Key) bool { panic("todo") }

// Changes hands out the commands that came up since the last call, in order.
func (c *Coordinator) Changes() []Command { panic("todo") }

// InitProducerID gives the transactional ID to the sender.
func (c *Coordinator) InitProducerID(now int64, req *InitRequest) InitResult { panic("todo") }

// AddPartitions answers with one error for each partition, nil where it is in the transaction.
func (c *Coordinator) AddPartitions(now int64, req *AddPartitionsRequest) []error { panic("todo") }

// AddOffsets answers with nil if the group is in the transaction.
func (c *Coordinator) AddOffsets(now int64, req *AddOffsetsRequest) *base.Error { panic("todo") }

// End decides on the outcome of the open transaction.
func (c *Coordinator) End(now int64, req *EndRequest) EndResult { panic("todo") }

// Abort aborts the open transaction as a time-out would: its producer is fenced.
func (c *Coordinator) Abort(now int64, k Key) *base.Error { panic("todo") }

// Confirm notes what has been done for the ending of that serial number, see [State.Ending].
func (c *Coordinator) Confirm(now int64, k Key, serial int64, partitions []Partition, groups []string) {
	panic("todo")
}

// StreamDeleted notes that the stream is gone and the state knows it: the command is in the journal already.
func (c *Coordinator) StreamDeleted(id base.StreamID) { panic("todo") }

// NextDeadline is the Unix ms at which Tick may have something to do; math.MaxInt64 for never.
func (c *Coordinator) NextDeadline() int64 { panic("todo") }

// Tick aborts the transactions that are open for too long, and forgets the IDs that nobody has used.
func (c *Coordinator) Tick(now int64) { panic("todo") }

// Describe shows one transactional ID.
func (c *Coordinator) Describe(k Key) Description { panic("todo") }

// List lists the transactional IDs of a namespace.
func (c *Coordinator) List(now int64, namespace string, f Filter) List { panic("todo") }
