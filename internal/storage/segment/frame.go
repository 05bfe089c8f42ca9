package segment

import (
	"encoding/binary"
	"hash/crc32"

	"godwit/internal/base"
)

// LogExtent is a run of whole batches of one log within a frame's payload.
type LogExtent struct {
	Log          base.LogID
	Base, Last   int64 // first and last offset
	MaxTimestamp int64 // Unix milliseconds; -1 if unknown
	Len          uint32
}

// Frame is one entry of one shard as it stands in a WAL file: header, extent table, command, payload.
// The payload is the extents' batches in the order of the table.
type Frame struct {
	Kind    uint8
	Shard   base.ShardID
	Index   uint64
	Term    uint64
	Commit  uint64        // Raft hard state
	Vote    uint32        // Raft hard state: node voted for in Term
	Synced  base.Position // known to be on disk when the frame was written
	Time    int64         // the shard's time, Unix milliseconds
	Extents []LogExtent
	Command []byte
	Payload []byte // decoded frames only; a writer passes its buffers apart
	Size    uint32 // whole frame without padding; decoded frames only
}

// HeadSize is the number of bytes before the payload.
func (f *Frame) HeadSize() int {
	return FrameHeader + len(f.Extents)*ExtentHeader + len(f.Command)
}

// Padded rounds a frame's size up to where the next frame begins.
func Padded(size int) int { return (size + frameAlign - 1) &^ (frameAlign - 1) }

// AppendHead appends all that stands before the payload to dst, for a frame that begins at offset of a file
// with the given salt. payload is only read, for size and checksum.
func (f *Frame) AppendHead(dst []byte, salt, offset uint32, payload [][]byte) []byte {
	at := len(dst)
	size := f.HeadSize()
	for _, p := range payload {
		size += len(p)
	}
	dst = append(dst, make([]byte, FrameHeader)...)
	for i := range f.Extents {
		e := &f.Extents[i]
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Log))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Base))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Last))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.MaxTimestamp))
		dst = binary.LittleEndian.AppendUint32(dst, e.Len)
		dst = binary.LittleEndian.AppendUint32(dst, 0)
	}
	dst = append(dst, f.Command...)
	b := dst[at:]
	binary.LittleEndian.PutUint32(b[4:], uint32(size))
	binary.LittleEndian.PutUint32(b[8:], offset)
	b[12] = f.Kind
	b[13] = Version
	binary.LittleEndian.PutUint16(b[14:], uint16(f.Vote))
	binary.LittleEndian.PutUint32(b[16:], uint32(f.Shard))
	binary.LittleEndian.PutUint32(b[20:], uint32(len(f.Extents)))
	binary.LittleEndian.PutUint64(b[24:], f.Index)
	binary.LittleEndian.PutUint64(b[32:], f.Term)
	binary.LittleEndian.PutUint64(b[40:], f.Commit)
	binary.LittleEndian.PutUint64(b[48:], uint64(f.Synced))
	binary.LittleEndian.PutUint64(b[56:], uint64(f.Time))
	binary.LittleEndian.PutUint32(b[64:], uint32(len(f.Command)))
	crc := crc32.Update(salt, Castagnoli, b[4:])
	for _, p := range payload {
		crc = crc32.Update(crc, Castagnoli, p)
	}
	binary.LittleEndian.PutUint32(b, crc)
	return dst
}

// DecodeFrame reads the frame that begins at offset; b starts there and reaches to the end of the
// readable file. ok = false means that no whole, undamaged frame of this file begins here. The frame
// aliases b.
func DecodeFrame(b []byte, salt, offset uint32) (f Frame, ok bool) {
	size, extents, command, plausible := frameShape(b, offset)
	if !plausible || crc32.Update(salt, Castagnoli, b[4:size]) != binary.LittleEndian.Uint32(b) {
		return f, false
	}
	f = Frame{
		Kind:   b[12],
		Vote:   uint32(binary.LittleEndian.Uint16(b[14:])),
		Shard:  base.ShardID(binary.LittleEndian.Uint32(b[16:])),
		Index:  binary.LittleEndian.Uint64(b[24:]),
		Term:   binary.LittleEndian.Uint64(b[32:]),
		Commit: binary.LittleEndian.Uint64(b[40:]),
		Synced: base.Position(binary.LittleEndian.Uint64(b[48:])),
		Time:   int64(binary.LittleEndian.Uint64(b[56:])),
		Size:   uint32(size),
	}
	rest := b[FrameHeader:size]
	left := size - FrameHeader - extents*ExtentHeader - command
	f.Extents = make([]LogExtent, extents)
	for i := range f.Extents {
		e := &f.Extents[i]
		e.Log = base.LogID(binary.LittleEndian.Uint64(rest))
		e.Base = int64(binary.LittleEndian.Uint64(rest[8:]))
		e.Last = int64(binary.LittleEndian.Uint64(rest[16:]))
		e.MaxTimestamp = int64(binary.LittleEndian.Uint64(rest[24:]))
		e.Len = binary.LittleEndian.Uint32(rest[32:])
		if int(e.Len) > left {
			return f, false
		}
		left -= int(e.Len)
		rest = rest[ExtentHeader:]
	}
	if left != 0 {
		return f, false
	}
	f.Command, f.Payload = rest[:command:command], rest[command:]
	return f, true
}

// frameShape reads the sizes and checks them against each other and against b, before anything is
// allocated or summed up.
func frameShape(b []byte, offset uint32) (size, extents, command int, ok bool) {
	if len(b) < FrameHeader {
		return 0, 0, 0, false
	}
	size = int(binary.LittleEndian.Uint32(b[4:]))
	extents = int(binary.LittleEndian.Uint32(b[20:]))
	command = int(binary.LittleEndian.Uint32(b[64:]))
	ok = size >= FrameHeader && size <= len(b) &&
		binary.LittleEndian.Uint32(b[8:]) == offset &&
		(b[12] == FrameEntry || b[12] == FrameMark) && b[13] <= Version && b[13] > 0 &&
		extents <= (size-FrameHeader)/ExtentHeader &&
		command <= size-FrameHeader-extents*ExtentHeader
	return size, extents, command, ok
}
