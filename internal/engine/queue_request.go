package engine

import (
	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/queue"
)

// ShareQueue names the queue of a share group in a partition.
type ShareQueue struct {
	Key    share.Key
	Stream base.StreamID
	Index  int32
}

// ShareAcquire asks for records of queues on behalf of one member. The queues are looked at in their order, and what
// one gives counts against the limits of those behind it.
type ShareAcquire struct {
	Member  string
	Queues  []ShareQueue
	Records int  // at most so many are acquired of all queues together; unless Strict, the last batch is taken whole
	Batch   int  // fresh records are answered in ranges of about so many, cut where batches begin; 0: no cut
	Strict  bool // never more than Records (KIP-1206, acquire mode record_limit)
	Bytes   int  // of all queues together; the first batch is taken whatever its size
}

// ShareAcquired is what one queue gives. The zero value is a queue that has nothing now.
type ShareAcquired struct {
	Ranges  []queue.Taken // what the member holds now, in the order of offsets
	Records *Records      // whole batches with all records of the ranges, and maybe others; nil without ranges; to be released
	Lock    int64         // ms for which the member holds them
	Err     error         // a *base.Error
}

// ShareAcks is what a member says about records of one queue. All of it counts or nothing.
type ShareAcks struct {
	ShareQueue
	Member string
	Ranges []queue.Ack
}

// ShareOffset is how one queue stands.
type ShareOffset struct {
	share.Partition
	queue.Description
	Epoch int32 // the partition's leader epoch
	Err   error // a *base.Error: the partition or the queue is not there, or cannot be asked now
}
