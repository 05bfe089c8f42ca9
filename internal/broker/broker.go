package broker

import (
	"context"
	"sync"

	"godwit/internal/base"
	"godwit/internal/engine"
	"godwit/internal/meta"
	"godwit/internal/partlog"
	"godwit/internal/shard"
)

// The engine's types that gateways handle.
type (
	Append     = engine.Append
	AppendItem = engine.AppendItem
	LogState   = engine.LogState
	Records    = engine.Records
	Watch      = engine.Watch
	Loss       = shard.Loss
)

// Options of a broker.
type Options struct {
	Node   int32 // this broker's ID
	Limits meta.Limits
}

// Broker is the API of one node. It is safe for concurrent use.
type Broker struct {
	engine *engine.Engine
	opts   Options

	producers producerIDs
}

// New makes a broker over a started engine.
func New(e *engine.Engine, o Options) *Broker { return &Broker{engine: e, opts: o} }

// Meta is an immutable snapshot of the metadata.
func (b *Broker) Meta() *meta.View { return b.engine.View() }

// NodeID is this broker's ID.
func (b *Broker) NodeID() int32 { return b.opts.Node }

// LeaderEpoch is the epoch in which this node leads a partition. It rises with every start and never falls.
func (b *Broker) LeaderEpoch(meta.Partition) int32 { return int32(b.engine.Term()) }

// CreateStream makes a stream and waits until its logs can be written. With DryRun it only says what it would make.
func (b *Broker) CreateStream(ctx context.Context, r meta.CreateStream) (*meta.Stream, error) {
	id := b.engine.NewID()
	var dry *meta.Stream
	_, err := b.engine.DecideMeta(ctx, func(s *meta.State, now int64) (*meta.Command, error) {
		c, err := s.DecideCreate(&r, id, now, b.opts.Limits)
		if err != nil || !r.DryRun {
			return c, err
		}
		dry = s.Resolved(c.Create)
		return nil, nil
	})
	if err != nil || r.DryRun {
		return dry, err
	}
	return b.awaitReady(ctx, id)
}

// awaitReady waits until all partitions of a stream have their logs.
func (b *Broker) awaitReady(ctx context.Context, id base.StreamID) (out *meta.Stream, err error) {
	err = b.engine.AwaitView(ctx, func(v *meta.View) bool {
		s, ok := v.StreamByID(id)
		if ok {
			out = s
		}
		return !ok || s.Ready == len(s.Partitions)
	})
	if err == nil && out == nil {
		err = base.Errorf(base.CodeUnknownStream, "the topic was deleted while it was being made")
	}
	return out, err
}

// DeleteStream deletes a stream with its data and its groups' offsets. The name is free when it returns; space
// returns soon after.
func (b *Broker) DeleteStream(ctx context.Context, id base.StreamID) error {
	_, err := b.engine.DecideMeta(ctx, func(s *meta.State, _ int64) (*meta.Command, error) { return s.DecideDelete(id) })
	return err
}

// AddPartitions brings a stream to total partitions. With dryRun it only validates.
func (b *Broker) AddPartitions(ctx context.Context, id base.StreamID, total int, dryRun bool) error {
	_, err := b.engine.DecideMeta(ctx, func(s *meta.State, _ int64) (*meta.Command, error) {
		c, err := s.DecideGrow(id, total, b.opts.Limits)
		if dryRun {
			return nil, err
		}
		return c, err
	})
	if err != nil || dryRun {
		return err
	}
	_, err = b.awaitReady(ctx, id)
	return err
}

// SetConfig changes a stream's explicit configuration: values to set, nil to delete. With replace, what is not named
// goes. With dryRun it only validates.
func (b *Broker) SetConfig(ctx context.Context, id base.StreamID, values map[string]*string, replace, dryRun bool) error {
	_, err := b.engine.DecideMeta(ctx, func(s *meta.State, _ int64) (*meta.Command, error) {
		c, err := s.DecideConfig(id, values, replace)
		if dryRun {
			return nil, err
		}
		return c, err
	})
	return err
}

// Append writes batches; see the type.
func (b *Broker) Append(a *Append) { b.engine.Append(a) }

// Read finds batches; see engine.Engine.Read.
func (b *Broker) Read(log base.LogID, offset int64, maxBytes int, minOne bool) (*Records, error) {
	return b.engine.Read(log, offset, maxBytes, minOne)
}

// ReadCommitted finds batches below the last stable offset; see engine.Engine.ReadCommitted.
func (b *Broker) ReadCommitted(log base.LogID, offset int64, maxBytes int, minOne bool) (*Records, error) {
	return b.engine.ReadCommitted(log, offset, maxBytes, minOne)
}

// State is the readable state of a log; false if this node has no such log.
func (b *Broker) State(log base.LogID) (LogState, bool) { return b.engine.State(log) }

// NewWatch makes a watch over no log.
func (b *Broker) NewWatch() *Watch { return b.engine.NewWatch() }

// EpochEnd answers OffsetForLeaderEpoch: the largest epoch not above the wanted one and where it ends; -1, -1
// if the wanted epoch is above the current.
func (b *Broker) EpochEnd(log base.LogID, epoch int32) (int32, int64) {
	st, ok := b.engine.State(log)
	if !ok {
		return -1, -1
	}
	return partlog.EpochEnd(b.engine.Epochs(log), st.Start, st.HighWatermark, int32(b.engine.Term()), epoch)
}

// OffsetForTime finds the first record with a timestamp of at least ts, Unix ms; see engine.Engine.OffsetForTime.
func (b *Broker) OffsetForTime(ctx context.Context, p meta.Partition, ts int64) (offset, at int64, epoch int32, err error) {
	return b.engine.OffsetForTime(ctx, p.Log, ts)
}

// MaxTimestamp finds the record with the largest timestamp; see engine.Engine.MaxTimestamp.
func (b *Broker) MaxTimestamp(ctx context.Context, p meta.Partition) (offset, at int64, epoch int32, err error) {
	return b.engine.MaxTimestamp(ctx, p.Log)
}

// DeleteRecords raises a partition's start to before (-1: the high watermark) and returns the new start.
func (b *Broker) DeleteRecords(ctx context.Context, s *meta.Stream, partition int32, before int64) (int64, error) {
	return b.engine.DeleteRecords(ctx, s, partition, before)
}

// Producers lists the idempotent producers that a log remembers.
func (b *Broker) Producers(ctx context.Context, p meta.Partition) (out []partlog.ProducerState, err error) {
	err = b.engine.Call(ctx, p.Shard, func(m *shard.Machine) {
		if l, ok := m.Log(p.Log); ok {
			out = l.ProducerStates()
		}
	})
	return out, err
}

// Losses is the loss ledger.
func (b *Broker) Losses(ctx context.Context) ([]Loss, error) { return b.engine.Losses(ctx) }

// DiskInfo is the space of the file system that holds the data directory, in bytes.
type DiskInfo struct{ Total, Usable int64 }

// Disk tells the space of the data directory's file system; zeros if it cannot be told.
func (b *Broker) Disk() DiskInfo {
	s := b.engine.Store()
	du, err := s.FS.GetDiskUsage(s.Dir)
	if err != nil {
		return DiskInfo{}
	}
	return DiskInfo{Total: int64(du.TotalBytes), Usable: int64(du.AvailBytes)}
}

// producerIDs hands out producer IDs from blocks that the metadata reserves.
type producerIDs struct {
	mu         sync.Mutex
	next, end  int64
	refreshing chan struct{}
}

// idBlock is how many producer IDs one entry reserves; those unused at a stop are lost, which costs nothing.
const idBlock = 1000

// AllocateProducerID hands out an ID that was never handed out before.
func (b *Broker) AllocateProducerID(ctx context.Context) (int64, error) {
	p := &b.producers
	for {
		p.mu.Lock()
		if p.next < p.end {
			id := p.next
			p.next++
			p.mu.Unlock()
			return id, nil
		}
		if c := p.refreshing; c != nil {
			p.mu.Unlock()
			select {
			case <-c:
				continue
			case <-ctx.Done():
				return 0, base.Errorf(base.CodeTimeout, "no producer ID in time: %v", ctx.Err())
			}
		}
		p.refreshing = make(chan struct{})
		p.mu.Unlock()
		first, err := b.reserveIDs(ctx)
		p.mu.Lock()
		if err == nil {
			p.next, p.end = first, first+idBlock
		}
		close(p.refreshing)
		p.refreshing = nil
		p.mu.Unlock()
		if err != nil {
			return 0, err
		}
	}
}

func (b *Broker) reserveIDs(ctx context.Context) (first int64, err error) {
	_, err = b.engine.DecideMeta(ctx, func(s *meta.State, _ int64) (*meta.Command, error) {
		first = s.NextProducer
		return &meta.Command{Producers: &meta.ProducerBlock{Next: first + idBlock}}, nil
	})
	return first, err
}
