package shard

import (
	"encoding/binary"
	"encoding/json"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
	"godwit/internal/coord/txn"
	"godwit/internal/partlog"
	"godwit/internal/varint"
)

// Cause says why records went away.
type Cause string

// The causes of removal.
const (
	CauseRetention     Cause = "retention"      // retention.ms or retention.bytes
	CauseCompaction    Cause = "compaction"     // superseded by a later record with the same key, or an expired tombstone
	CauseDeleteRecords Cause = "delete-records" // an administrator's request
	CauseDeadLetter    Cause = "dead-letter"    // given up by a share group whose dead-letter topic does not take them
)

// Loss says what a group will never see: one entry of the loss ledger.
type Loss struct {
	Namespace string        `json:"namespace"`
	Group     string        `json:"group"`
	Stream    base.StreamID `json:"stream"`
	Name      string        `json:"topic"` // of the stream, as it was then
	Partition int32         `json:"partition"`
	From      int64         `json:"from"`  // first offset that went unseen
	To        int64         `json:"to"`    // offset behind the last
	Count     int64         `json:"count"` // records removed within [From, To)
	Cause     Cause         `json:"cause"`
	Time      int64         `json:"time"` // Unix milliseconds, shard time
}

// Trim raises the start of one log.
type Trim struct {
	Log    base.LogID
	Start  int64
	Losses []Loss `json:",omitempty"`
}

// Purged names aborted transactions, by the ascending offsets of their markers, of whose records compaction left none.
type Purged struct {
	Log  base.LogID
	Last []int64
}

// Appended is one batch of an append entry.
type Appended struct {
	Log base.LogID
	partlog.Batch
}

// Command is one decision of the shard's leader. Exactly one kind of content is set. Appends and commands of
// groups and queues are in binary, all other kinds in JSON: they are rare, and a person can read them in a dump.
type Command struct {
	Append  []Appended        `json:"-"`
	Groups  []group.Command   `json:"-"`
	Shares  []share.Command   `json:"-"`
	Streams []streams.Command `json:"-"`
	Txns    []txn.Command     `json:"-"`
	Queues  []QueueCommand    `json:"-"`

	Create []base.LogID    `json:"create,omitempty"` // logs that begin to exist
	Drop   []base.LogID    `json:"drop,omitempty"`   // logs that cease to
	Forget *base.StreamID  `json:"forget,omitempty"` // group offsets of a stream that was deleted
	Trim   []Trim          `json:"trim,omitempty"`   // see Trim
	Losses []Loss          `json:"losses,omitempty"` // found by the compactor
	Expire int64           `json:"expire,omitempty"` // producers last seen before this time are forgotten
	Purged []Purged        `json:"purged,omitempty"` // see Purged
	Meta   json.RawMessage `json:"meta,omitempty"`   // a meta.Command; shard 0 only
}

// appendedSize is the least that one batch of an append command takes, bytes.
const appendedSize = 6

// The formats of commands. Each is read for ever.
const (
	formatAppendV1 = 1 // without transactions; not written any more
	formatJSON     = 2
	formatGroups   = 3
	formatAppend   = 4
	formatTxns     = 5
	formatShares   = 6
	formatQueues   = 7
	formatStreams  = 8
)

// Flags of a batch in an append command.
const (
	flagTransactional = 1 << iota
	flagMarker
	flagCommit // the marker's kind; abort without it
	flagsKnown = 1<<iota - 1
)

// Encode writes the command behind dst.
func (c *Command) Encode(dst []byte) []byte {
	switch {
	case c.Groups != nil:
		return appendEach(append(dst, formatGroups), c.Groups, group.AppendCommand)
	case c.Shares != nil:
		return appendEach(append(dst, formatShares), c.Shares, share.AppendCommand)
	case c.Txns != nil:
		return appendEach(append(dst, formatTxns), c.Txns, txn.AppendCommand)
	case c.Queues != nil:
		return appendEach(append(dst, formatQueues), c.Queues, func(dst []byte, q QueueCommand) []byte { return q.appendTo(dst) })
	case c.Streams != nil:
		return appendEach(append(dst, formatStreams), c.Streams, streams.AppendCommand)
	case c.Append == nil:
		b, err := json.Marshal(c)
		if err != nil {
			panic(err) // only plain values
		}
		return append(append(dst, formatJSON), b...)
	}
	dst = append(dst, formatAppend)
	dst = binary.AppendUvarint(dst, uint64(len(c.Append)))
	for i := range c.Append {
		a := &c.Append[i]
		dst = binary.AppendUvarint(dst, uint64(a.Log))
		dst = binary.AppendUvarint(dst, uint64(a.Base))
		dst = binary.AppendUvarint(dst, uint64(a.Records))
		dst = binary.AppendUvarint(dst, uint64(a.Epoch))
		dst = binary.AppendVarint(dst, a.MaxTimestamp)
		dst = binary.AppendVarint(dst, a.ProducerID)
		if a.ProducerID >= 0 {
			dst = binary.AppendUvarint(dst, uint64(a.ProducerEpoch))
			dst = appendTxn(dst, &a.Batch)
		}
	}
	return dst
}

// appendEach writes commands behind their lengths.
func appendEach[T any](dst []byte, list []T, encode func([]byte, T) []byte) []byte {
	for _, c := range list {
		b := encode(nil, c)
		dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...)
	}
	return dst
}

// appendTxn writes what a producer's batch is in its transaction: flags, and then the coordinator epoch of a marker or the
// first sequence of records.
func appendTxn(dst []byte, b *partlog.Batch) []byte {
	flags := uint64(0)
	if b.Transactional {
		flags |= flagTransactional
	}
	if b.Control == partlog.NotControl {
		return binary.AppendUvarint(binary.AppendUvarint(dst, flags), uint64(b.FirstSequence))
	}
	if flags |= flagMarker; b.Control == partlog.Commit {
		flags |= flagCommit
	}
	return binary.AppendVarint(binary.AppendUvarint(dst, flags), int64(b.CoordinatorEpoch))
}

// Decode reads what Encode wrote; anything else is a CodeCorruption error.
func Decode(b []byte) (*Command, error) {
	c := &Command{}
	if len(b) == 0 {
		return nil, base.Errorf(base.CodeCorruption, "empty shard command")
	}
	switch b[0] {
	case formatJSON:
		if err := json.Unmarshal(b[1:], c); err != nil {
			return nil, base.Errorf(base.CodeCorruption, "shard command: %v", err)
		}
		return c, nil
	case formatAppend, formatAppendV1:
		r := &varint.Reader{B: b[1:]}
		c.Append = make([]Appended, r.Count(appendedSize))
		for i := range c.Append {
			readAppended(r, &c.Append[i], b[0])
		}
		if !r.Whole() {
			return nil, base.Errorf(base.CodeCorruption, "damaged append command of %d bytes", len(b))
		}
		return c, nil
	case formatGroups:
		return c, decodeEach(b[1:], group.DecodeCommand, &c.Groups)
	case formatShares:
		return c, decodeEach(b[1:], share.DecodeCommand, &c.Shares)
	case formatStreams:
		return c, decodeEach(b[1:], streams.DecodeCommand, &c.Streams)
	case formatTxns:
		return c, decodeEach(b[1:], txn.DecodeCommand, &c.Txns)
	case formatQueues:
		return c, decodeEach(b[1:], decodeQueueCommand, &c.Queues)
	}
	return nil, base.Errorf(base.CodeCorruption, "unknown shard command format %d", b[0])
}

// decodeEach reads commands that stand behind their lengths.
func decodeEach[T any](b []byte, decode func([]byte) (T, error), out *[]T) error {
	for len(b) > 0 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return base.Errorf(base.CodeCorruption, "damaged group command of %d bytes", len(b))
		}
		c, err := decode(b[k : k+int(n)])
		if err != nil {
			return err
		}
		*out = append(*out, c)
		b = b[k+int(n):]
	}
	return nil
}

// readAppended reads one batch of an append command.
func readAppended(r *varint.Reader, a *Appended, format byte) {
	a.Log = base.LogID(r.Uint())
	a.Base, a.Records, a.Epoch = int64(r.Uint()), int32(r.Uint()), int32(r.Uint())
	a.MaxTimestamp, a.ProducerID = r.Int(), r.Int()
	a.ProducerEpoch, a.FirstSequence = -1, -1
	if a.ProducerID >= 0 {
		a.ProducerEpoch = int16(r.Uint())
		flags := uint64(0)
		if format != formatAppendV1 {
			flags = r.Uint()
		}
		readTxn(r, &a.Batch, flags)
	}
	if a.Base < 0 || a.Records < 1 || a.Control != partlog.NotControl && a.Records != 1 {
		r.Fail()
	}
}

// readTxn reads what appendTxn wrote behind the flags.
func readTxn(r *varint.Reader, b *partlog.Batch, flags uint64) {
	b.Transactional = flags&flagTransactional != 0
	switch {
	case flags > flagsKnown, flags&flagCommit != 0 && flags&flagMarker == 0, flags&flagMarker != 0 && !b.Transactional:
		r.Fail()
		return
	case flags&flagMarker == 0:
		b.FirstSequence = int32(r.Uint())
		return
	case flags&flagCommit != 0:
		b.Control = partlog.Commit
	default:
		b.Control = partlog.Abort
	}
	b.CoordinatorEpoch = int32(r.Int())
}
