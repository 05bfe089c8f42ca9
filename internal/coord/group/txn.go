package group

import (
	"maps"
	"math"
	"slices"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// TxnCommitOffsets keeps positions aside until the producer's transaction ends. Those that an older epoch of the
// producer left are forgotten; under an older epoch than theirs it changes nothing.
type TxnCommitOffsets struct {
	Key
	ProducerID int64
	Epoch      int16
	Time       int64 // shard time, Unix ms
	Offsets    []CommitOffset
}

// EndTxnOffsets ends a producer's transaction in a group: what it kept aside counts, where nothing that was committed later counts already,
// or is forgotten. Where nothing is kept aside, or only by a later transaction, it changes nothing.
type EndTxnOffsets struct {
	Key
	ProducerID int64
	Epoch      int16
	// Version is that of the transaction (transaction.version): from 2 on the epoch was raised for the end (KIP-890), so what is kept
	// aside under the same epoch is of a later transaction.
	Version int16
	Commit  bool
}

// pendingTxns is what open transactions keep aside of a group's positions.
type pendingTxns struct {
	byProducer map[int64]*pendingTxn
	at         map[Partition][]*pendingOffset // the same, each list by order
}

// pendingTxn is one producer's part. It is not empty.
type pendingTxn struct {
	epoch   int16
	offsets map[Partition]*pendingOffset
}

// pendingOffset is one position that is kept aside.
type pendingOffset struct {
	producer int64
	order    uint64 // rises with each that is kept aside in the shard
	outdated bool   // a later commit of the partition counts already
	position
}

// len is the number of producers.
func (t *pendingTxns) len() int { return len(t.byProducer) }

func (t *pendingTxns) unstable(p Partition) bool { return len(t.at[p]) > 0 }

// add enters a position that the producer has not kept aside yet.
func (t *pendingTxns) add(p Partition, epoch int16, e *pendingOffset) {
	if t.byProducer == nil {
		t.byProducer, t.at = map[int64]*pendingTxn{}, map[Partition][]*pendingOffset{}
	}
	of := t.byProducer[e.producer]
	if of == nil {
		of = &pendingTxn{offsets: map[Partition]*pendingOffset{}}
		t.byProducer[e.producer] = of
	}
	of.epoch, of.offsets[p] = epoch, e
	i, _ := slices.BinarySearchFunc(t.at[p], e.order, func(e *pendingOffset, order uint64) int {
		if e.order < order {
			return -1
		}
		return 1
	})
	t.at[p] = slices.Insert(t.at[p], i, e)
}

// remove forgets one position.
func (t *pendingTxns) remove(p Partition, e *pendingOffset) {
	i := slices.Index(t.at[p], e)
	invariants.Check(i >= 0, "pending offset of producer %d in %v is not in the index", e.producer, p)
	if t.at[p] = slices.Delete(t.at[p], i, i+1); len(t.at[p]) == 0 {
		delete(t.at, p)
	}
	of := t.byProducer[e.producer]
	if delete(of.offsets, p); len(of.offsets) == 0 {
		delete(t.byProducer, e.producer)
	}
}

func (o *Offsets) applyTxnCommit(c *TxnCommitOffsets) {
	if len(c.Offsets) == 0 {
		return
	}
	h := o.hold(c.Key)
	if of := h.pending.byProducer[c.ProducerID]; of != nil {
		switch {
		case of.epoch > c.Epoch:
			return
		case of.epoch < c.Epoch:
			o.forgetTxn(h, c.ProducerID, of)
		}
	}
	for _, at := range c.Offsets {
		if of := h.pending.byProducer[c.ProducerID]; of != nil && of.offsets[at.Partition] != nil {
			h.pending.remove(at.Partition, of.offsets[at.Partition])
		}
		o.arrivals++
		h.pending.add(at.Partition, c.Epoch, &pendingOffset{
			producer: c.ProducerID, order: o.arrivals,
			position: position{offset: at.Offset, epoch: at.Epoch, time: c.Time, metadata: at.Metadata},
		})
		o.dirty[pendingKey(c.Key, at.Partition, c.ProducerID)] = struct{}{}
	}
}

func (o *Offsets) applyTxnEnd(c *EndTxnOffsets) {
	h := o.groups[c.Key]
	if h == nil {
		return
	}
	of := h.pending.byProducer[c.ProducerID]
	if of == nil || of.epoch > c.Epoch || of.epoch == c.Epoch && c.Version >= 2 {
		return
	}
	for p, e := range of.offsets {
		if c.Commit && !e.outdated {
			o.put(c.Key, p, e.position)
			o.dirty[dirtyKey{Key: c.Key, Partition: p}] = struct{}{}
			o.outdate(h, p, e.order)
		}
	}
	o.forgetTxn(h, c.ProducerID, of)
	o.forgetUnused(h)
}

// outdate marks what was kept aside in a partition before the given order: a position that came later counts now. As in Kafka the
// order is that of the log, not that in which transactions end.
func (o *Offsets) outdate(h *holding, p Partition, before uint64) {
	for _, e := range h.pending.at[p] {
		if e.order < before && !e.outdated {
			e.outdated = true
			o.dirty[pendingKey(h.key, p, e.producer)] = struct{}{}
		}
	}
}

// outdateAll is outdate for a position that counts at once.
func (o *Offsets) outdateAll(h *holding, p Partition) { o.outdate(h, p, math.MaxUint64) }

// forgetTxn drops what a producer keeps aside. The group may be left with nothing.
func (o *Offsets) forgetTxn(h *holding, producer int64, of *pendingTxn) {
	for p, e := range maps.Clone(of.offsets) {
		h.pending.remove(p, e)
		o.dirty[pendingKey(h.key, p, producer)] = struct{}{}
	}
}

// forgetPending drops what is kept aside in a partition. The group may be left with nothing.
func (o *Offsets) forgetPending(h *holding, p Partition) {
	for _, e := range slices.Clone(h.pending.at[p]) {
		h.pending.remove(p, e)
		o.dirty[pendingKey(h.key, p, e.producer)] = struct{}{}
	}
}

// forgetAllPending drops all that is kept aside of a group, which may be left with nothing.
func (o *Offsets) forgetAllPending(h *holding) {
	for producer, of := range maps.Clone(h.pending.byProducer) {
		o.forgetTxn(h, producer, of)
	}
}

// forgetPendingOf drops what is kept aside in a stream.
func (o *Offsets) forgetPendingOf(stream base.StreamID) {
	for _, h := range o.groups {
		if h.pending.len() == 0 {
			continue
		}
		for p := range maps.Clone(h.pending.at) {
			if p.Stream == stream {
				o.forgetPending(h, p)
			}
		}
		o.forgetUnused(h)
	}
}

// check verifies that both maps hold the same, in order.
func (t *pendingTxns) check(k Key) {
	seen := 0
	for producer, of := range t.byProducer {
		invariants.Check(len(of.offsets) > 0, "group %v: producer %d is kept for nothing", k, producer)
		for p, e := range of.offsets {
			invariants.Check(e.producer == producer, "group %v: pending offset of producer %d is filed under %d", k, e.producer, producer)
			invariants.Check(slices.Contains(t.at[p], e), "group %v: pending offset of producer %d in %v is not in the index", k, producer, p)
			seen++
		}
	}
	for p, list := range t.at {
		invariants.Check(len(list) > 0, "group %v: %v is indexed without pending offsets", k, p)
		for i, e := range list {
			invariants.Check(i == 0 || list[i-1].order < e.order, "group %v: pending offsets of %v are out of order", k, p)
		}
		seen -= len(list)
	}
	invariants.Check(seen == 0, "group %v: the index has %d pending offsets too few", k, seen)
}
