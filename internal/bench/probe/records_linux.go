package probe

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Kinds of records.
const (
	recordCall = iota // a system call begins or ends
	recordFork        // a process begins
	recordLost        // a ring was full
)

// record is what is needed of an entry in a ring.
type record struct {
	kind     uint8
	point    uint16 // of a call: the kernel's number of its tracepoint
	pid, tid int32  // who makes the call, or who was born
	parent   int32  // of who was born
	at       int64  // the kernel's monotonic time, ns
	value    int64  // of a call that begins: its first argument; of one that ends: what it returns; of lost records: how many
	path     string // of a call that begins: the file, if that was looked for
}

// decodeRecords takes apart what a ring held: entries of a header (type, two bytes of flags, size) and a body that
// depends on the type, in the byte order of the machine. It returns what it has understood before an error.
func decodeRecords(b []byte) (rs []record, err error) {
	u := binary.NativeEndian
	for len(b) > 0 {
		if len(b) < 8 {
			return rs, fmt.Errorf("a record of %d bytes in the ring, want at least 8", len(b))
		}
		kind, size := u.Uint32(b), int(u.Uint16(b[6:]))
		if size < 8 || size > len(b) {
			return rs, fmt.Errorf("a record of %d bytes in the ring, want 8 to %d", size, len(b))
		}
		body := b[8:size]
		b = b[size:]
		switch {
		case kind == unix.PERF_RECORD_LOST && len(body) >= 16: // id, count
			rs = append(rs, record{kind: recordLost, value: int64(u.Uint64(body[8:]))})
		case kind == unix.PERF_RECORD_FORK && len(body) >= 24: // pid, ppid, tid, ptid, time
			r := record{kind: recordFork, pid: int32(u.Uint32(body)), parent: int32(u.Uint32(body[4:])), tid: int32(u.Uint32(body[8:])), at: int64(u.Uint64(body[16:]))}
			if r.pid != r.parent { // else a thread
				rs = append(rs, r)
			}
		// pid, tid, time, length and bytes of the tracepoint: its number, flags, pid (8 in all), the call's number, from 16 on
		// its arguments, or its result, of 8 bytes each.
		case kind == unix.PERF_RECORD_SAMPLE && len(body) >= 20+16:
			r := record{kind: recordCall, pid: int32(u.Uint32(body)), tid: int32(u.Uint32(body[4:])), at: int64(u.Uint64(body[8:])), point: u.Uint16(body[20:])}
			if len(body) >= 20+24 {
				r.value = int64(u.Uint64(body[20+16:]))
			}
			rs = append(rs, r)
		case kind == unix.PERF_RECORD_LOST || kind == unix.PERF_RECORD_FORK || kind == unix.PERF_RECORD_SAMPLE:
			return rs, fmt.Errorf("a record of kind %d has a body of only %d bytes", kind, len(body))
		}
	}
	return rs, nil
}
