package broker

import (
	"context"

	"godwit/internal/coord/share"
	"godwit/internal/engine"
	"godwit/internal/groupconf"
	"godwit/internal/queue"
)

// The engine's and the queues' types that gateways handle.
type (
	ShareQueue    = engine.ShareQueue
	ShareAcquire  = engine.ShareAcquire
	ShareAcquired = engine.ShareAcquired
	ShareAcks     = engine.ShareAcks
	ShareOffset   = engine.ShareOffset
	ShareWatch    = engine.ShareWatch
	TakenRange    = queue.Taken
	AckRange      = queue.Ack
	Span          = queue.Span
)

// ShareAcquire gives a member records of queues. It does not wait for records to come (see ShareWatch), only for what it
// decides to be committed. The result has one entry for each queue, in the order asked for. The codes:
// CodeUnknownPartition means that the partition is not there, or the group has no queue in it (yet).
func (b *Broker) ShareAcquire(ctx context.Context, req *ShareAcquire) []ShareAcquired {
	return b.engine.ShareAcquire(ctx, req)
}

// ShareAcknowledge settles what members say about records they hold. The result has one error for each entry, nil
// where all of it is committed, else a *base.Error and nothing of the entry counts: CodeInvalidRecordState if the member does not
// hold a record, CodeInvalidRequest for a range that cannot be, CodeUnknownPartition as ShareAcquire.
func (b *Broker) ShareAcknowledge(ctx context.Context, acks []ShareAcks) []error {
	return b.engine.ShareAcknowledge(ctx, acks)
}

// ShareRelease gives back at once what a member holds in queues, as when its session ends. These deliveries count.
func (b *Broker) ShareRelease(ctx context.Context, member string, queues []ShareQueue) error {
	return b.engine.ShareRelease(ctx, member, queues)
}

// NewShareWatch makes a watch over no queue. It tells that a queue may have something that it had not before: by new records
// below the high watermark or last stable offset, by records that were released or whose lock expired or delay is over, by a
// change of the group's configuration, or since the queue was made or is gone.
func (b *Broker) NewShareWatch() *ShareWatch { return b.engine.NewShareWatch() }

// ShareOffsets tells how a share group's queues stand in partitions, one entry each in the order asked for; nil partitions: in
// all in which it has a queue.
func (b *Broker) ShareOffsets(ctx context.Context, k share.Key, partitions []share.Partition) ([]ShareOffset, error) {
	if partitions == nil {
		all, err := b.ShareQueues(ctx, k)
		if err != nil {
			return nil, err
		}
		partitions = all
	}
	return b.engine.ShareOffsets(ctx, k, partitions), nil
}

// ShareSettings are the settings of a share group as they are now.
func (b *Broker) ShareSettings(k share.Key) groupconf.Share { return b.engine.ShareSettings(k) }
