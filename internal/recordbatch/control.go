package recordbatch

import (
	"encoding/binary"
	"fmt"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// ControlType says what a control record is (KIP-98). Types that are not listed here exist and are to be ignored.
type ControlType int16

// The types of control records that partitions of clients' topics have.
const (
	ControlAbort  ControlType = 0 // end of an aborted transaction
	ControlCommit ControlType = 1 // end of a committed transaction
)

func (t ControlType) String() string {
	switch t {
	case ControlAbort:
		return "abort"
	case ControlCommit:
		return "commit"
	}
	return fmt.Sprintf("control type %d", int16(t))
}

// ParseControl reads the key of a control record: version i16, type i16, and whatever later versions add.
func ParseControl(key []byte) (ControlType, error) {
	if len(key) < 4 {
		return 0, base.Errorf(base.CodeInvalidRecord, "the key of a control record has %d bytes; it takes at least 4", len(key))
	}
	if v := int16(binary.BigEndian.Uint16(key)); v < 0 {
		return 0, base.Errorf(base.CodeInvalidRecord, "version %d of a control record's key is negative", v)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// Marker is the end of a transaction, as a control batch with one record says it (KIP-98).
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32 // of the transaction coordinator
	Type             ControlType
	Timestamp        int64 // Unix ms
}

// controlVersion is that of the keys and values of control records.
const controlVersion = 0

// AppendTo encodes the marker as a batch behind dst, with base offset 0 and leader epoch -1.
func (m *Marker) AppendTo(dst []byte) []byte {
	key := binary.BigEndian.AppendUint16(make([]byte, 0, 4), controlVersion)
	key = binary.BigEndian.AppendUint16(key, uint16(m.Type))
	value := binary.BigEndian.AppendUint16(make([]byte, 0, 6), controlVersion)
	value = binary.BigEndian.AppendUint32(value, uint32(m.CoordinatorEpoch))
	var b Builder
	b.Begin(Info{LeaderEpoch: -1, Attributes: attrTransactional | attrControl,
		ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, BaseSequence: -1}, compress.None, 0)
	b.Add(&Record{Timestamp: m.Timestamp, Key: key, Value: value})
	dst, err := b.AppendTo(dst)
	if err != nil {
		panic(err) // nothing of it is large or compressed
	}
	return dst
}
