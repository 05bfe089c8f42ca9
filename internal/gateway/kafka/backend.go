package kafka

import (
	"context"
	"net"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
	"godwit/internal/coord/txn"
	"godwit/internal/groupconf"
	"godwit/internal/meta"
	"godwit/internal/partlog"
)

// Backend is what this gateway needs of the broker.
type Backend interface {
	metadata
	logs
	producers
	txns
	groups
	shares
	shareQueues
	streamsGroups
	groupConfigs
	admin
}

type metadata interface {
	Meta() *meta.View
	NodeID() int32
	LeaderEpoch(p meta.Partition) int32
}

type logs interface {
	Append(a *broker.Append)
	Read(log base.LogID, offset int64, maxBytes int, minOne bool) (Records, error)
	ReadCommitted(log base.LogID, offset int64, maxBytes int, minOne bool) (Records, error)
	State(log base.LogID) (broker.LogState, bool)
	NewWatch() Watch
	OffsetForTime(ctx context.Context, p meta.Partition, ts int64) (offset, at int64, epoch int32, err error)
	MaxTimestamp(ctx context.Context, p meta.Partition) (offset, at int64, epoch int32, err error)
	EpochEnd(log base.LogID, epoch int32) (found int32, end int64)
}

type producers interface {
	AllocateProducerID(ctx context.Context) (int64, error)
	Producers(ctx context.Context, p meta.Partition) ([]partlog.ProducerState, error)

	// VerifyTxn asks the transaction coordinator before a log lets a producer open a transaction (KIP-890): an error or nil for each
	// partition. It waits for the coordinator, so it is called beside the connection's worker, for as long as the produce request has.
	VerifyTxn(ctx context.Context, c *broker.TxnCheck) []error
}

type txns interface {
	InitTransactional(ctx context.Context, r broker.InitTxn) (id int64, epoch int16, err error)
	AddTxnPartitions(ctx context.Context, p broker.TxnProducer, partitions []group.Partition) error
	AddTxnOffsets(ctx context.Context, p broker.TxnProducer, k group.Key) error
	EndTxn(ctx context.Context, r broker.EndTxn) (id int64, epoch int16, err error)
	CommitTxnOffsets(ctx context.Context, r broker.TxnOffsets) group.CommitResponse
	DescribeTxn(ctx context.Context, k txn.Key) txn.Description
	ListTxns(ctx context.Context, namespace string, f txn.Filter) txn.List
	WriteTxnMarkers(ctx context.Context, markers []broker.Marker) []error
}

type groups interface {
	JoinGroup(ctx context.Context, req group.JoinRequest) group.JoinResponse
	SyncGroup(ctx context.Context, req group.SyncRequest) group.SyncResponse
	HeartbeatGroup(ctx context.Context, req group.HeartbeatRequest) group.HeartbeatResponse
	LeaveGroup(ctx context.Context, req group.LeaveRequest) group.LeaveResponse
	CommitOffsets(ctx context.Context, req group.CommitRequest) group.CommitResponse
	FetchOffsets(ctx context.Context, req group.FetchOffsetsRequest) group.FetchOffsetsResponse
	ListGroups(ctx context.Context, req group.ListRequest) group.ListResponse
	DescribeGroups(ctx context.Context, req group.DescribeRequest) group.DescribeResponse
	DeleteGroups(ctx context.Context, req group.DeleteGroupsRequest) group.DeleteGroupsResponse
	DeleteOffsets(ctx context.Context, req group.DeleteOffsetsRequest) group.DeleteOffsetsResponse
	ConsumerHeartbeat(ctx context.Context, req group.ConsumerHeartbeatRequest) group.ConsumerHeartbeatResponse
	DescribeConsumerGroups(ctx context.Context, req group.DescribeRequest) []group.ConsumerDescription
}

type shares interface {
	ShareHeartbeat(ctx context.Context, req share.HeartbeatRequest) share.HeartbeatResponse
	DescribeShareGroups(ctx context.Context, namespace string, groups []string) []share.Description
	ListShareGroups(ctx context.Context, namespace string, states []string) ([]share.Listing, error)
	DeleteShareGroup(ctx context.Context, k share.Key) error
	AlterShareOffsets(ctx context.Context, k share.Key, topics []share.SetTopicOffsets) ([]share.TopicResult, error)
	DeleteShareOffsets(ctx context.Context, k share.Key, topics []string) ([]share.TopicResult, error)
}

// shareQueues are what share groups consume from.
type shareQueues interface {
	ShareSettings(k share.Key) groupconf.Share
	ShareAcquire(ctx context.Context, req *broker.ShareAcquire) []shareAcquired
	ShareAcknowledge(ctx context.Context, acks []broker.ShareAcks) []error
	ShareRelease(ctx context.Context, member string, queues []broker.ShareQueue) error
	ShareOffsets(ctx context.Context, k share.Key, partitions []share.Partition) ([]broker.ShareOffset, error)
	NewShareWatch() ShareWatch
}

// shareAcquired is what one queue gives; see engine.ShareAcquired.
type shareAcquired struct {
	Ranges  []broker.TakenRange
	Records Records // nil without ranges; to be released
	Err     error
}

// ShareWatch tells one waiting fetch that queues may have something; see engine.ShareWatch.
type ShareWatch interface {
	Add(q broker.ShareQueue)
	C() <-chan struct{}
	Take() []broker.ShareQueue
	Close()
}

type streamsGroups interface {
	StreamsHeartbeat(ctx context.Context, req streams.HeartbeatRequest) streams.HeartbeatResponse
	DescribeStreamsGroups(ctx context.Context, namespace string, groups []string) []streams.Description
	ListStreamsGroups(ctx context.Context, namespace string, states []string) ([]streams.Listing, error)
	DeleteStreamsGroup(ctx context.Context, k streams.Key) error
}

// groupConfigs belong to a group's name, whatever its type.
type groupConfigs interface {
	GroupConfig(k share.Key) map[string]string
	ConfiguredGroups(namespace string) []string
	SetGroupConfig(ctx context.Context, k share.Key, values map[string]*string, replace, dryRun bool) error
}

type admin interface {
	CreateStream(ctx context.Context, r meta.CreateStream) (*meta.Stream, error)
	DeleteStream(ctx context.Context, id base.StreamID) error
	AddPartitions(ctx context.Context, id base.StreamID, total int, dryRun bool) error
	SetConfig(ctx context.Context, id base.StreamID, values map[string]*string, replace, dryRun bool) error
	DeleteRecords(ctx context.Context, s *meta.Stream, partition int32, before int64) (int64, error)
	Disk() broker.DiskInfo
}

// Records is a run of whole batches as stored; see engine.Records.
type Records interface {
	State() broker.LogState     // as of the read
	Aborted() []partlog.Aborted // transactions that the records may be part of, by first offset; of committed reads only
	Len() int                   // bytes; 0 if there is nothing at the offset yet
	Pieces() int                // runs of bytes that are together on disk
	Piece(i int) int            // length of one in bytes
	SendPiece(i int, c net.Conn) error
	AppendPiece(i int, dst []byte) ([]byte, error)
	Release()
}

// Watch tells one waiting fetch that logs have changed; see engine.Watch.
type Watch interface {
	Add(id base.LogID)
	Remove(id base.LogID)
	C() <-chan struct{}
	Take() []base.LogID
	Close()
}

// Broker is the backend that a broker is.
func Broker(b *broker.Broker) Backend { return concrete{b} }

// concrete turns the broker's own types into the interfaces declared here.
type concrete struct{ *broker.Broker }

func (c concrete) Read(log base.LogID, offset int64, maxBytes int, minOne bool) (Records, error) {
	r, err := c.Broker.Read(log, offset, maxBytes, minOne)
	if r == nil {
		return nil, err
	}
	return r, err
}

func (c concrete) ReadCommitted(log base.LogID, offset int64, maxBytes int, minOne bool) (Records, error) {
	r, err := c.Broker.ReadCommitted(log, offset, maxBytes, minOne)
	if r == nil {
		return nil, err
	}
	return r, err
}

func (c concrete) NewWatch() Watch { return c.Broker.NewWatch() }

func (c concrete) NewShareWatch() ShareWatch { return c.Broker.NewShareWatch() }

func (c concrete) ShareAcquire(ctx context.Context, req *broker.ShareAcquire) []shareAcquired {
	got := c.Broker.ShareAcquire(ctx, req)
	out := make([]shareAcquired, len(got))
	for i, g := range got {
		if out[i].Ranges, out[i].Err = g.Ranges, g.Err; g.Records != nil {
			out[i].Records = g.Records
		}
	}
	return out
}
