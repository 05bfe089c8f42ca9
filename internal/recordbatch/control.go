package recordbatch

import (
	"encoding/binary"
	"fmt"

	"godwit/internal/base"
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
