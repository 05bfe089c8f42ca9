package group

import (
	"encoding/binary"
	"slices"

	"godwit/internal/varint"
)

func (c *TxnCommitOffsets) appendTo(dst []byte) []byte {
	dst = appendProducer(append(dst, kindTxnCommitOffsets), c.Key, c.ProducerID, c.Epoch)
	return appendOffsets(binary.AppendVarint(dst, c.Time), c.Offsets)
}

func (c *EndTxnOffsets) appendTo(dst []byte) []byte {
	dst = appendProducer(append(dst, kindEndTxnOffsets), c.Key, c.ProducerID, c.Epoch)
	return varint.AppendBool(binary.AppendVarint(dst, int64(c.Version)), c.Commit)
}

func appendProducer(dst []byte, k Key, id int64, epoch int16) []byte {
	return binary.AppendVarint(binary.AppendVarint(appendKey(dst, k), id), int64(epoch))
}

func (r *reader) txnCommitOffsets() *TxnCommitOffsets {
	return &TxnCommitOffsets{Key: r.key(), ProducerID: r.Int(), Epoch: r.int16(), Time: r.Int(), Offsets: r.offsets()}
}

func (r *reader) endTxnOffsets() *EndTxnOffsets {
	return &EndTxnOffsets{Key: r.key(), ProducerID: r.Int(), Epoch: r.int16(), Version: r.int16(), Commit: r.Bool()}
}

func (r *reader) int16() int16 {
	v := r.Int()
	if v != int64(int16(v)) {
		r.Fail()
	}
	return int16(v)
}

// pendingKey names a position that a producer keeps aside.
func pendingKey(k Key, p Partition, producer int64) dirtyKey {
	return dirtyKey{Key: k, Partition: p, pending: true, producer: producer}
}

// encodePending is encode for such a position: behind the group the producer ID, the stream and the partition, integers
// big-endian.
func (d *dirtyKey) encodePending(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(appendKey(append(dst, keyPending), d.Key), uint64(d.producer))
	return binary.BigEndian.AppendUint32(append(dst, d.Stream[:]...), uint32(d.Index))
}

// value encodes what a producer keeps aside in a partition; nil if nothing.
func (t *pendingTxns) value(producer int64, p Partition) []byte {
	of := t.byProducer[producer]
	if of == nil || of.offsets[p] == nil {
		return nil
	}
	e := of.offsets[p]
	dst := binary.AppendVarint([]byte{valueVersion}, int64(of.epoch))
	dst = varint.AppendBool(binary.AppendUvarint(dst, e.order), e.outdated)
	for _, v := range []int64{e.offset, int64(e.epoch), e.time} {
		dst = binary.AppendVarint(dst, v)
	}
	return varint.AppendText(dst, e.metadata)
}

// restorePending enters what Checkpoint handed out of one position that is kept aside; false if it is damaged.
func (o *Offsets) restorePending(name Key, k, v *reader) bool {
	id, p := k.Take(8), Partition{Stream: k.stream()}
	index := k.Take(4)
	epoch := v.int16()
	e := &pendingOffset{order: v.Uint(), outdated: v.Bool()}
	e.offset, e.position.epoch, e.time, e.metadata = v.Int(), v.Int32(), v.Int(), v.Text()
	if !k.Whole() || !v.Whole() || id == nil || index == nil {
		return false
	}
	e.producer, p.Index = int64(binary.BigEndian.Uint64(id)), int32(binary.BigEndian.Uint32(index))
	h := o.hold(name)
	if of := h.pending.byProducer[e.producer]; of != nil && (of.epoch != epoch || of.offsets[p] != nil) {
		return false
	}
	if slices.ContainsFunc(h.pending.at[p], func(o *pendingOffset) bool { return o.order == e.order }) {
		return false
	}
	h.pending.add(p, epoch, e)
	o.arrivals = max(o.arrivals, e.order)
	return true
}
