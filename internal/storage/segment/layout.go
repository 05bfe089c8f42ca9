package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"godwit/internal/base"
)

// Version is the format of data files written by this release. A reader refuses newer ones.
const Version = 1

// Layout of every data file, in bytes.
const (
	HeaderSize   = 64
	sealOffset   = 512
	sealSize     = 64
	DataStart    = 4096
	frameAlign   = 8
	FrameHeader  = 72
	ExtentHeader = 40 // one entry of a frame's extent table
)

// Kind tells the two kinds of data file apart.
type Kind uint8

// The kinds of data file.
const (
	KindWAL    Kind = 1
	KindMerged Kind = 2
)

// Frame kinds.
const (
	FrameEntry uint8 = 1 // one shard's entry
	FrameMark  uint8 = 2 // records a synced position, nothing else
)

const magic = "GODWITSG"

// Castagnoli is the polynomial of all our checksums (CRC32C), in hardware on amd64 and arm64.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header opens a data file. PrevFile and PrevEnd say where the preceding WAL file ends: frames of
// it at or behind PrevEnd are void, whatever their checksums say.
type Header struct {
	Kind     Kind
	Number   uint32
	Salt     uint32 // seeds the checksums of this file's frames
	PrevFile uint32 // 0: none
	PrevEnd  uint32
	Term     uint64 // of the node when the file was begun
	Created  int64  // Unix milliseconds
}

// Encode writes the 64 bytes of the header.
func (h *Header) Encode() []byte {
	b := make([]byte, HeaderSize)
	copy(b, magic)
	binary.LittleEndian.PutUint16(b[8:], Version)
	b[10] = byte(h.Kind)
	binary.LittleEndian.PutUint32(b[12:], h.Number)
	binary.LittleEndian.PutUint32(b[16:], h.Salt)
	binary.LittleEndian.PutUint32(b[20:], h.PrevFile)
	binary.LittleEndian.PutUint32(b[24:], h.PrevEnd)
	binary.LittleEndian.PutUint64(b[32:], h.Term)
	binary.LittleEndian.PutUint64(b[40:], uint64(h.Created))
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], Castagnoli))
	return b
}

// DecodeHeader reads a header. The error tells a damaged header (CodeCorruption) from a newer format.
func DecodeHeader(b []byte) (Header, error) {
	var h Header
	if len(b) < HeaderSize || string(b[:8]) != magic {
		return h, base.Errorf(base.CodeCorruption, "not a data file: magic missing")
	}
	if crc32.Checksum(b[:60], Castagnoli) != binary.LittleEndian.Uint32(b[60:]) {
		return h, base.Errorf(base.CodeCorruption, "header checksum does not hold")
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v > Version {
		return h, fmt.Errorf("data file format %d is newer than %d: start the release that wrote it, or a later one", v, Version)
	}
	h.Kind = Kind(b[10])
	h.Number = binary.LittleEndian.Uint32(b[12:])
	h.Salt = binary.LittleEndian.Uint32(b[16:])
	h.PrevFile = binary.LittleEndian.Uint32(b[20:])
	h.PrevEnd = binary.LittleEndian.Uint32(b[24:])
	h.Term = binary.LittleEndian.Uint64(b[32:])
	h.Created = int64(binary.LittleEndian.Uint64(b[40:]))
	if h.Kind != KindWAL && h.Kind != KindMerged {
		return h, base.Errorf(base.CodeCorruption, "unknown file kind %d", h.Kind)
	}
	return h, nil
}

// seal says that a file is complete and where its footer lies.
type seal struct {
	dataEnd   uint32 // end of the last frame or batch
	footerPos uint32
	footerLen uint32
	logs      uint32 // log entries in the footer
	footerCRC uint32
}

func (s *seal) encode(salt uint32) []byte {
	b := make([]byte, sealSize)
	copy(b, "GWSEAL01")
	binary.LittleEndian.PutUint32(b[8:], s.dataEnd)
	binary.LittleEndian.PutUint32(b[12:], s.footerPos)
	binary.LittleEndian.PutUint32(b[16:], s.footerLen)
	binary.LittleEndian.PutUint32(b[20:], s.logs)
	binary.LittleEndian.PutUint32(b[24:], s.footerCRC)
	binary.LittleEndian.PutUint32(b[28:], salt)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], Castagnoli))
	return b
}

// decodeSeal reports ok = false where there is no (whole) seal record of this file.
func decodeSeal(b []byte, salt uint32) (s seal, ok bool) {
	if len(b) < sealSize || string(b[:8]) != "GWSEAL01" ||
		crc32.Checksum(b[:60], Castagnoli) != binary.LittleEndian.Uint32(b[60:]) ||
		binary.LittleEndian.Uint32(b[28:]) != salt {
		return s, false
	}
	s.dataEnd = binary.LittleEndian.Uint32(b[8:])
	s.footerPos = binary.LittleEndian.Uint32(b[12:])
	s.footerLen = binary.LittleEndian.Uint32(b[16:])
	s.logs = binary.LittleEndian.Uint32(b[20:])
	s.footerCRC = binary.LittleEndian.Uint32(b[24:])
	return s, true
}
