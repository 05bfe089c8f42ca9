package segment

import (
	"encoding/binary"

	"godwit/internal/base"
)

// Extent is a run of whole batches of one log in one file. Runs of a log in a file are sorted by offset.
type Extent struct {
	Base, Last   int64
	MaxTimestamp int64 // Unix milliseconds
	Pos, Len     uint32
}

const (
	extentSize    = 32
	footerLogSize = 56
)

// LogFooter is what a footer says of one log: the piece of it that the file holds.
type LogFooter struct {
	Log          base.LogID
	Base, Last   int64
	MaxTimestamp int64
	Bytes        uint64 // sum of the extents' lengths
	First, Count uint32 // its extents, as indices into the footer's extent table
	Clean        bool   // compaction has seen all of it
}

// flagClean marks a clean piece in the flags of a footer's log entry.
const flagClean = 1

// encodeFooter writes the log table and behind it the extent table.
func encodeFooter(logs []LogFooter, extents []Extent) []byte {
	b := make([]byte, 0, len(logs)*footerLogSize+len(extents)*extentSize)
	for i := range logs {
		l := &logs[i]
		b = binary.LittleEndian.AppendUint64(b, uint64(l.Log))
		b = binary.LittleEndian.AppendUint64(b, uint64(l.Base))
		b = binary.LittleEndian.AppendUint64(b, uint64(l.Last))
		b = binary.LittleEndian.AppendUint64(b, uint64(l.MaxTimestamp))
		b = binary.LittleEndian.AppendUint64(b, l.Bytes)
		b = binary.LittleEndian.AppendUint32(b, l.First)
		b = binary.LittleEndian.AppendUint32(b, l.Count)
		flags := uint64(0)
		if l.Clean {
			flags |= flagClean
		}
		b = binary.LittleEndian.AppendUint64(b, flags)
	}
	for i := range extents {
		e := &extents[i]
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Base))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.MaxTimestamp))
		b = binary.LittleEndian.AppendUint32(b, e.Pos)
		b = binary.LittleEndian.AppendUint32(b, e.Len)
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Last))
	}
	return b
}

// decodeLogs reads the log table of a footer and checks that every entry stays within the footer.
func decodeLogs(b []byte, count uint32) ([]LogFooter, error) {
	if uint64(len(b)) < uint64(count)*footerLogSize {
		return nil, base.Errorf(base.CodeCorruption, "footer of %d bytes cannot hold %d logs", len(b), count)
	}
	extents := (uint64(len(b)) - uint64(count)*footerLogSize) / extentSize
	logs := make([]LogFooter, count)
	for i := range logs {
		l := &logs[i]
		l.Log = base.LogID(binary.LittleEndian.Uint64(b))
		l.Base = int64(binary.LittleEndian.Uint64(b[8:]))
		l.Last = int64(binary.LittleEndian.Uint64(b[16:]))
		l.MaxTimestamp = int64(binary.LittleEndian.Uint64(b[24:]))
		l.Bytes = binary.LittleEndian.Uint64(b[32:])
		l.First = binary.LittleEndian.Uint32(b[40:])
		l.Count = binary.LittleEndian.Uint32(b[44:])
		l.Clean = binary.LittleEndian.Uint64(b[48:])&flagClean != 0
		if uint64(l.First)+uint64(l.Count) > extents || l.Last < l.Base {
			return nil, base.Errorf(base.CodeCorruption, "footer entry of log %d is out of bounds", l.Log)
		}
		b = b[footerLogSize:]
	}
	return logs, nil
}

func decodeExtent(b []byte) Extent {
	return Extent{
		Base:         int64(binary.LittleEndian.Uint64(b)),
		MaxTimestamp: int64(binary.LittleEndian.Uint64(b[8:])),
		Pos:          binary.LittleEndian.Uint32(b[16:]),
		Len:          binary.LittleEndian.Uint32(b[20:]),
		Last:         int64(binary.LittleEndian.Uint64(b[24:])),
	}
}
