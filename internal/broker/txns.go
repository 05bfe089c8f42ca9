package broker

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/txn"
	"godwit/internal/engine"
)

// Marker ends a producer's transaction in one log; see engine.Marker.
type Marker = engine.Marker

// TxnProducer is who asks the coordinator of a transactional ID.
type TxnProducer struct {
	Namespace     string
	Transactional string // transactional ID, never empty
	ProducerID    int64
	Epoch         int16
}

func (p *TxnProducer) key() txn.Key { return txn.Key{Namespace: p.Namespace, ID: p.Transactional} }

// InitTxn asks for a producer ID and epoch under which no producer of the same transactional ID has written. ProducerID and
// Epoch are -1, or what the producer has had, which must be current (KIP-360).
type InitTxn struct {
	TxnProducer
	Timeout int64 // ms that a transaction may be open
}

// EndTxn commits or aborts the open transaction.
type EndTxn struct {
	TxnProducer
	Commit bool

	// Bump raises the epoch with the end (transaction version 2, KIP-890); without it the producer goes on under its epoch.
	Bump bool
}

// TxnOffsets commits positions of a group with the transaction.
type TxnOffsets struct {
	TxnProducer
	Implicit bool // adds the group to the transaction, which begins if none is open (transaction version 2)
	Commit   group.CommitRequest
}

// patience bounds how long a request waits for the end of the transaction before it, so that the client need not come again.
const patience = time.Second

// decideTxn runs fn in the coordinator of a transactional ID. If the transaction before is still ending it waits a little, and runs
// fn again.
func (b *Broker) decideTxn(ctx context.Context, k txn.Key, fn func(c *txn.Coordinator, now int64) *base.Error) error {
	var refused *base.Error
	ask := func() error {
		return b.engine.TxnDecide(ctx, k, func(c *txn.Coordinator, now int64) { refused = fn(c, now) })
	}
	if err := ask(); err != nil || refused == nil || refused.Code != base.CodeConcurrentTxn {
		return either(err, refused)
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if b.engine.TxnEnded(wait, k) != nil {
		return refused
	}
	err := ask()
	return either(err, refused)
}

// InitTransactional answers InitTxn: an open transaction of the transactional ID is aborted first; CodeConcurrentTxn says that this takes
// long, and asks to come again. CodeInvalidTxnTimeout, CodeProducerFenced and CodeUnknownMapping are final.
func (b *Broker) InitTransactional(ctx context.Context, r InitTxn) (id int64, epoch int16, err error) {
	req := txn.InitRequest{Key: r.key(), TimeoutMs: int32(min(r.Timeout, math.MaxInt32)), ProducerID: r.ProducerID, Epoch: r.Epoch}
	var out txn.InitResult
	err = b.withFreshID(ctx, &req.Fresh, &out.NeedsID, func() error {
		return b.decideTxn(ctx, req.Key, func(c *txn.Coordinator, now int64) *base.Error {
			out = c.InitProducerID(now, &req)
			return out.Err
		})
	})
	if err != nil {
		return -1, -1, err
	}
	return out.ProducerID, out.Epoch, nil
}

// withFreshID runs fn, and once more with a fresh producer ID if it turns out to need one.
func (b *Broker) withFreshID(ctx context.Context, fresh **int64, needed *bool, fn func() error) error {
	if err := fn(); err != nil || !*needed {
		return err
	}
	id, err := b.AllocateProducerID(ctx)
	if err != nil {
		return err
	}
	*fresh = &id
	return fn()
}

// AddTxnPartitions adds partitions to the transaction, which begins if none is open. It does all or nothing.
func (b *Broker) AddTxnPartitions(ctx context.Context, p TxnProducer, partitions []group.Partition) error {
	errs := b.joinTxn(ctx, p, partitions, txn.Add)
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// joinTxn has partitions join a transaction, and answers for each.
func (b *Broker) joinTxn(ctx context.Context, p TxnProducer, partitions []group.Partition, how txn.Joining) []error {
	req := txn.AddPartitionsRequest{Key: p.key(), ProducerID: p.ProducerID, Epoch: p.Epoch, Joining: how, Partitions: partitions}
	var out []error
	err := b.decideTxn(ctx, req.Key, func(c *txn.Coordinator, now int64) *base.Error {
		out = c.AddPartitions(now, &req)
		i := slices.IndexFunc(out, func(err error) bool { return err != nil && base.CodeOf(err) == base.CodeConcurrentTxn })
		if i < 0 {
			return nil
		}
		return asError(out[i])
	})
	if err != nil && base.CodeOf(err) != base.CodeConcurrentTxn {
		out = make([]error, len(partitions))
		for i := range out {
			out[i] = err
		}
	}
	return out
}

// TxnCheck asks a transaction's coordinator whether a producer may write to partitions (KIP-890).
type TxnCheck struct {
	TxnProducer
	Partitions []group.Partition

	// Implicit adds the partitions to the transaction, which begins if none is open; without it they must have been
	// added before.
	Implicit bool
}

// VerifyTxn answers a check: nil for each partition that is in the open transaction of this producer and epoch, an error
// for each other one. Of the codes, CodeTxnAbortable says that there is no such transaction, CodeConcurrentTxn that the one
// before is still ending, CodeProducerFenced and CodeUnknownMapping that the producer is another; what says nothing about the transaction,
// such as CodeNotReady, has the producer try again.
func (b *Broker) VerifyTxn(ctx context.Context, c *TxnCheck) []error {
	return b.joinTxn(ctx, c.TxnProducer, c.Partitions, joining(c.Implicit))
}

func joining(implicit bool) txn.Joining {
	if implicit {
		return txn.Implicit
	}
	return txn.Verify
}

// AddTxnOffsets adds a group to the transaction, so that its positions can be committed with it.
func (b *Broker) AddTxnOffsets(ctx context.Context, p TxnProducer, k group.Key) error {
	return b.joinTxnGroup(ctx, p, k.Group, txn.Add)
}

func (b *Broker) joinTxnGroup(ctx context.Context, p TxnProducer, name string, how txn.Joining) error {
	req := txn.AddOffsetsRequest{Key: p.key(), ProducerID: p.ProducerID, Epoch: p.Epoch, Group: name, Joining: how}
	return b.decideTxn(ctx, req.Key, func(c *txn.Coordinator, now int64) *base.Error { return c.AddOffsets(now, &req) })
}

// EndTxn returns when the decision is durable; the logs and groups hear of it afterwards. It answers with the producer ID and epoch to go
// on with.
func (b *Broker) EndTxn(ctx context.Context, r EndTxn) (id int64, epoch int16, err error) {
	req := txn.EndRequest{Key: r.key(), ProducerID: r.ProducerID, Epoch: r.Epoch, Commit: r.Commit, Version: txn.Version1}
	if r.Bump {
		req.Version = txn.Version2
	}
	var out txn.EndResult
	err = b.withFreshID(ctx, &req.Fresh, &out.NeedsID, func() error {
		return b.decideTxn(ctx, req.Key, func(c *txn.Coordinator, now int64) *base.Error {
			out = c.End(now, &req)
			return out.Err
		})
	})
	if err != nil {
		return -1, -1, err
	}
	return out.ProducerID, out.Epoch, nil
}

// maxVerifications bounds how often a commit asks the transaction's coordinator. More than once is needed only if the group's
// coordinator changed meanwhile, or the transaction ended.
const maxVerifications = 3

// CommitTxnOffsets records positions that count when the transaction is committed.
func (b *Broker) CommitTxnOffsets(ctx context.Context, r TxnOffsets) (out group.CommitResponse) {
	for range maxVerifications {
		out = b.commitTxnOffsets(ctx, &r)
		if out.Err == nil || out.Err.Code != base.CodeNotReady {
			break
		}
	}
	return out
}

// commitTxnOffsets takes the group's guard before it asks the transaction's coordinator, so that an end of the transaction that comes in between
// is noticed.
func (b *Broker) commitTxnOffsets(ctx context.Context, r *TxnOffsets) (out group.CommitResponse) {
	req := group.TxnCommitRequest{CommitRequest: r.Commit, ProducerID: r.ProducerID, Epoch: r.Epoch}
	if err := req.Key.Check(); err != nil {
		return group.CommitResponse{Err: err}
	}
	var verified bool
	var refused *base.Error
	err := b.engine.GroupDecide(ctx, req.Key, func(c *group.Coordinator, now int64) []group.Command {
		req.Guard, verified, refused = c.TxnGuard(now, req.Key, req.ProducerID, req.Epoch)
		return nil
	})
	if err = either(err, refused); err == nil && !verified {
		if err = b.joinTxnGroup(ctx, r.TxnProducer, req.Group, joining(r.Implicit)); err != nil {
			_ = b.engine.GroupDecide(ctx, req.Key, func(c *group.Coordinator, _ int64) []group.Command {
				c.DropGuard(req.Key, req.ProducerID, req.Guard)
				return nil
			}) // if it cannot be had, the guard expires
		}
	}
	if err != nil {
		return group.CommitResponse{Err: asError(err)}
	}
	err = b.engine.GroupDecide(ctx, req.Key, func(c *group.Coordinator, now int64) []group.Command {
		var cmd *group.TxnCommitOffsets
		if cmd, out = c.CommitTxn(now, &req); cmd == nil {
			return nil
		}
		return []group.Command{cmd}
	})
	if err != nil {
		return group.CommitResponse{Err: asError(err)}
	}
	return out
}

// DescribeTxn shows a transactional ID.
func (b *Broker) DescribeTxn(ctx context.Context, k txn.Key) (out txn.Description) {
	err := b.engine.TxnDecide(ctx, k, func(c *txn.Coordinator, _ int64) { out = c.Describe(k) })
	if err != nil {
		return txn.Description{Key: k, Status: txn.Dead, Err: asError(err)}
	}
	return out
}

// ListTxns lists the transactional IDs of a namespace that a filter lets through, ordered by ID.
func (b *Broker) ListTxns(ctx context.Context, namespace string, f txn.Filter) (out txn.List) {
	err := b.engine.EachTxnShard(ctx, func(c *txn.Coordinator, now int64) {
		l := c.List(now, namespace, f)
		if out.Err == nil {
			out.Err = l.Err
		}
		out.Unknown = l.Unknown
		out.Txns = append(out.Txns, l.Txns...)
	})
	if err != nil {
		return txn.List{Err: asError(err)}
	}
	slices.SortFunc(out.Txns, func(a, b txn.Listing) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// WriteTxnMarkers ends transactions in single logs, past their coordinator: for an operator who aborts one that hangs. The
// errors are those of engine.Engine.WriteMarkers, one for each marker.
func (b *Broker) WriteTxnMarkers(ctx context.Context, markers []Marker) []error {
	done := make(chan []error, 1)
	b.engine.WriteMarkers(markers, func(errs []error) { done <- errs })
	select {
	case errs := <-done:
		return errs
	case <-ctx.Done():
		errs := make([]error, len(markers))
		for i := range errs {
			errs[i] = base.Errorf(base.CodeTimeout, "the marker was not written in time: %v", ctx.Err())
		}
		return errs
	}
}
