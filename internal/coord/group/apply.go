package group

import (
	"fmt"
	"maps"
	"slices"
)

// Apply enters a committed command. It cannot fail: what a command refers to and is not there
// has been deleted by an earlier one.
func (o *Offsets) Apply(c Command) {
	switch c := c.(type) {
	case *CommitOffsets:
		o.applyCommit(c)
	case *DeleteOffsets:
		o.applyDelete(c)
	case *DeleteGroup:
		o.applyDeleteGroup(c)
	case *StreamDeleted:
		for _, i := range slices.Sorted(maps.Keys(o.byPartition[c.Stream])) {
			for _, e := range slices.Clone(o.byPartition[c.Stream][i]) {
				o.forget(e)
			}
		}
		o.forgetPendingOf(c.Stream)
	case *TxnCommitOffsets:
		o.applyTxnCommit(c)
	case *EndTxnOffsets:
		o.applyTxnEnd(c)
	case *SaveGroup:
		h := o.hold(c.Key)
		record := c.Record
		h.record = &record
		o.dirty[dirtyKey{Key: c.Key, record: true}] = struct{}{}
	case *SaveConsumers:
		o.applyConsumers(c)
	case *DropConsumers:
		if h := o.groups[c.Key]; h != nil {
			o.dropConsumers(h)
			o.forgetUnused(h)
		}
	default:
		panic(fmt.Sprintf("group: command %T is not known", c))
	}
}

func (o *Offsets) applyCommit(c *CommitOffsets) {
	for _, at := range c.Offsets {
		o.put(c.Key, at.Partition, position{
			offset: at.Offset, epoch: at.Epoch, time: c.Time, expires: c.Expires, metadata: at.Metadata,
		})
		o.dirty[dirtyKey{Key: c.Key, Partition: at.Partition}] = struct{}{}
		o.outdateAll(o.groups[c.Key], at.Partition)
	}
}

func (o *Offsets) applyDelete(c *DeleteOffsets) {
	h := o.groups[c.Key]
	if h == nil {
		return
	}
	for _, p := range c.Partitions {
		if c.Before != 0 && h.pending.unstable(p) {
			continue // as an expiry that was decided now would
		}
		if e := h.offsets[p]; e != nil && (c.Before == 0 || e.time < c.Before) {
			o.forget(e)
		}
		o.forgetPending(h, p)
	}
	o.forgetUnused(h)
}

func (o *Offsets) applyDeleteGroup(c *DeleteGroup) {
	h := o.groups[c.Key]
	if h == nil {
		return
	}
	if c.IfUnused && (len(h.offsets) > 0 || h.pending.len() > 0 || h.hasMembers()) {
		return
	}
	o.dropConsumers(h)
	if h.record != nil {
		h.record = nil
		o.dirty[dirtyKey{Key: c.Key, record: true}] = struct{}{}
	}
	o.forgetAllPending(h)
	for _, p := range h.partitions() {
		o.forget(h.offsets[p])
	}
	o.forgetUnused(h)
}

// forget drops a position and remembers to delete it from the store.
func (o *Offsets) forget(e *entry) {
	o.dirty[dirtyKey{Key: e.owner.key, Partition: e.partition}] = struct{}{}
	o.drop(e)
}
