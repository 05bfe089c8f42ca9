package group

import (
	"encoding/binary"

	"godwit/internal/base"
	"godwit/internal/varint"
)

// commandVersion is the format of commands; the byte stands first.
const commandVersion = 1

// The kinds of commands, the byte behind the version.
const (
	kindCommitOffsets = 1 + iota
	kindDeleteOffsets
	kindDeleteGroup
	kindStreamDeleted
	kindSaveGroup
	kindSaveConsumers
	kindDropConsumers
	kindTxnCommitOffsets
	kindEndTxnOffsets
)

// AppendCommand writes a command behind dst: version, kind, then the fields in the order of
// the struct. Integers are zig-zag varints, lengths and counts unsigned varints, strings and byte slices follow
// their length, stream IDs are 16 bytes.
func AppendCommand(dst []byte, c Command) []byte {
	return c.appendTo(append(dst, commandVersion))
}

func (c *CommitOffsets) appendTo(dst []byte) []byte {
	dst = appendKey(append(dst, kindCommitOffsets), c.Key)
	dst = binary.AppendVarint(dst, c.Time)
	return appendOffsets(binary.AppendVarint(dst, c.Expires), c.Offsets)
}

func appendOffsets(dst []byte, offsets []CommitOffset) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(offsets)))
	for _, at := range offsets {
		dst = appendPartition(dst, at.Partition)
		dst = binary.AppendVarint(dst, at.Offset)
		dst = binary.AppendVarint(dst, int64(at.Epoch))
		dst = varint.AppendText(dst, at.Metadata)
	}
	return dst
}

func (c *DeleteOffsets) appendTo(dst []byte) []byte {
	dst = appendKey(append(dst, kindDeleteOffsets), c.Key)
	dst = binary.AppendVarint(dst, c.Before)
	dst = binary.AppendUvarint(dst, uint64(len(c.Partitions)))
	for _, p := range c.Partitions {
		dst = appendPartition(dst, p)
	}
	return dst
}

func (c *DeleteGroup) appendTo(dst []byte) []byte {
	return varint.AppendBool(appendKey(append(dst, kindDeleteGroup), c.Key), c.IfUnused)
}

func (c *StreamDeleted) appendTo(dst []byte) []byte {
	return append(append(dst, kindStreamDeleted), c.Stream[:]...)
}

func (c *SaveGroup) appendTo(dst []byte) []byte {
	return c.Record.appendTo(appendKey(append(dst, kindSaveGroup), c.Key))
}

func (r *Record) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(dst, r.Time)
	dst = binary.AppendVarint(dst, int64(r.Generation))
	for _, s := range []string{r.ProtocolType, r.Protocol, r.Leader} {
		dst = varint.AppendText(dst, s)
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Members)))
	for _, m := range r.Members {
		for _, s := range []string{m.MemberID, m.InstanceID, m.ClientID, m.ClientHost} {
			dst = varint.AppendText(dst, s)
		}
		dst = binary.AppendVarint(dst, m.SessionTimeout)
		dst = binary.AppendVarint(dst, m.RebalanceTimeout)
		dst = varint.AppendText(appendProtocols(dst, m.Protocols), m.Assignment)
	}
	return dst
}

func appendKey(dst []byte, k Key) []byte {
	return varint.AppendText(varint.AppendText(dst, k.Namespace), k.Group)
}

func appendPartition(dst []byte, p Partition) []byte {
	return binary.AppendVarint(append(dst, p.Stream[:]...), int64(p.Index))
}

// DecodeCommand reads what AppendCommand wrote. Anything else is a CodeCorruption error. The result
// shares no memory with b.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) < 2 || b[0] != commandVersion {
		return nil, base.Errorf(base.CodeCorruption, "group command of %d bytes has an unknown version", len(b))
	}
	r := newReader(b[2:])
	var c Command
	switch b[1] {
	case kindCommitOffsets:
		c = r.commitOffsets()
	case kindDeleteOffsets:
		d := &DeleteOffsets{Key: r.key(), Before: r.Int()}
		for range r.Count(17) {
			d.Partitions = append(d.Partitions, r.partition())
		}
		c = d
	case kindDeleteGroup:
		c = &DeleteGroup{Key: r.key(), IfUnused: r.Bool()}
	case kindStreamDeleted:
		c = &StreamDeleted{Stream: r.stream()}
	case kindSaveGroup:
		c = &SaveGroup{Key: r.key(), Record: r.record()}
	case kindSaveConsumers:
		c = r.saveConsumers()
	case kindDropConsumers:
		c = &DropConsumers{Key: r.key()}
	case kindTxnCommitOffsets:
		c = r.txnCommitOffsets()
	case kindEndTxnOffsets:
		c = r.endTxnOffsets()
	default:
		return nil, base.Errorf(base.CodeCorruption, "group command has unknown kind %d", b[1])
	}
	if !r.Whole() {
		return nil, base.Errorf(base.CodeCorruption, "damaged group command of kind %d, %d bytes", b[1], len(b))
	}
	return c, nil
}

func (r *reader) commitOffsets() *CommitOffsets {
	return &CommitOffsets{Key: r.key(), Time: r.Int(), Expires: r.Int(), Offsets: r.offsets()}
}

func (r *reader) offsets() (out []CommitOffset) {
	for range r.Count(20) {
		out = append(out, CommitOffset{Partition: r.partition(), Offset: r.Int(), Epoch: r.Int32(), Metadata: r.Text()})
	}
	return out
}

func (r *reader) record() Record {
	out := Record{Time: r.Int(), Generation: r.Int32(), ProtocolType: r.Text(), Protocol: r.Text(), Leader: r.Text()}
	for range r.Count(8) {
		m := MemberRecord{MemberID: r.Text(), InstanceID: r.Text(), ClientID: r.Text(), ClientHost: r.Text()}
		m.SessionTimeout, m.RebalanceTimeout = r.Int(), r.Int()
		m.Protocols, m.Assignment = r.protocols(), r.bytes()
		out.Members = append(out.Members, m)
	}
	return out
}

// reader takes fields off a slice; see varint.Reader for what damage does.
type reader struct{ varint.Reader }

func newReader(b []byte) *reader { return &reader{varint.Reader{B: b}} }

func (r *reader) bytes() []byte { return append([]byte(nil), r.Take(r.Count(1))...) }

func (r *reader) stream() (id base.StreamID) {
	copy(id[:], r.Take(len(id)))
	return id
}

func (r *reader) partition() Partition { return Partition{Stream: r.stream(), Index: r.Int32()} }

func (r *reader) key() Key { return Key{Namespace: r.Text(), Group: r.Text()} }
