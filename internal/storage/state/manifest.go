package state

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"

	"godwit/internal/base"
	"godwit/internal/vfs"
)

// Pebble's manifest is a file of chunks in blocks of 32 KiB. A chunk has a header of 7 bytes: CRC-32C of all that
// follows, masked (4), length (2), type (1); numbers are little-endian. A record is one full chunk, or a first, any number of
// middle and a last one.
const (
	manifestBlock  = 32 << 10
	manifestHeader = 7
	manifestMax    = 256 << 20 // far above what Pebble lets it grow to

	chunkFull  = 1
	chunkFirst = 2
	chunkLast  = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkManifest reads the current manifest before Pebble does. Pebble takes the first damaged record for the end of
// the file, which is right if it is the last: each is synced before the next is begun. Where more records follow, something
// was damaged later; Pebble would go back to an older state and remove the tables of the newer ones.
func checkManifest(fsys vfs.FS, dir string, names []string) error {
	marker := "" // the one with the highest number is valid; the numbers have leading zeros
	for _, name := range names {
		if strings.HasPrefix(name, markerPrefix+"manifest.") {
			marker = max(marker, name)
		}
	}
	at := strings.Index(marker, manifestPrefix)
	if at < 0 {
		return nil
	}
	path := fsys.PathJoin(dir, marker[at:])
	b, err := vfs.ReadFile(fsys, path, manifestMax)
	if err != nil {
		return err
	}
	if pos := damagedAt(b); pos >= 0 {
		return base.Errorf(base.CodeCorruption, "%s is damaged at byte %d, and more records follow", path, pos)
	}
	return nil
}

// damagedAt is the position of the first damaged chunk of a manifest, -1 if there is none, or if nothing but the rest of
// its record follows.
func damagedAt(b []byte) int {
	pos := 0
	for pos < len(b) {
		if left := manifestBlock - pos%manifestBlock; left < manifestHeader {
			pos += left
			continue
		}
		n, _ := chunk(b, pos)
		if n == 0 {
			break
		}
		pos += n
	}
	for next := pos + 1; next < len(b); next++ {
		if _, kind := chunk(b, next); kind == chunkFull || kind == chunkFirst {
			return pos
		}
	}
	return -1
}

// chunk is the length, with the header, and the type of an undamaged chunk at pos; zeros if there is none.
func chunk(b []byte, pos int) (n int, kind byte) {
	left := min(len(b), pos-pos%manifestBlock+manifestBlock) - pos
	if left < manifestHeader {
		return 0, 0
	}
	h := b[pos : pos+manifestHeader]
	n, kind = manifestHeader+int(binary.LittleEndian.Uint16(h[4:])), h[6]
	if kind < chunkFull || kind > chunkLast || n > left {
		return 0, 0
	}
	sum := crc32.Checksum(b[pos+6:pos+n], castagnoli)
	if sum = (sum>>15 | sum<<17) + 0xa282ead8; sum != binary.LittleEndian.Uint32(h) {
		return 0, 0
	}
	return n, kind
}

// prepare looks at the directory before Pebble does.
//
// It removes Pebble's own logs. Pebble begins one whenever it is opened, and nothing gets into it; but it would flush once
// for every one it finds, in Open, where a failure would be tried again without end. And it refuses what Pebble
// would pass over in silence: a damaged manifest, and tables without a marker, in whose place a new store would begin.
func prepare(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	is := func(prefix, suffix string) func(string) bool {
		return func(name string) bool { return strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) }
	}
	if i := slices.IndexFunc(names, is("", tableSuffix)); i >= 0 && !slices.ContainsFunc(names, is(markerPrefix+"manifest.", "")) {
		return base.Errorf(base.CodeCorruption, "there is %s but no file %smanifest.*: one was removed", names[i], markerPrefix)
	}
	if err := checkManifest(fsys, dir, names); err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			if err := fsys.Remove(fsys.PathJoin(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
