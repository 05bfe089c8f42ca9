package kafka

import (
	"encoding/binary"
	"sync"
)

// copyBelow is the length of a run of records, in bytes, below which reading it into a buffer with its neighbours costs
// less than a sendfile of its own and the packets around it. A log that partitions share is made of short
// runs.
const copyBelow = 64 << 10

// gatherSize is how much of a response is gathered for one write, in bytes: enough for what the write costs to be
// little, and no more than what slow consumers may keep from everybody.
const gatherSize = 128 << 10

var gathers = sync.Pool{New: func() any { b := make([]byte, 0, gatherSize); return &b }}

// recordsReply is a response with records. It is encoded without them, because they go from the file to the socket without
// passing through this process.
type recordsReply interface {
	encode(dst []byte) ([]byte, []cut) // writes the response without its records behind dst, and says where they go
	bytes() int                        // of all records
	flexible() bool
	release() // gives back all records
}

// cut is a place in an encoded response at which records go.
type cut struct {
	at      int // bytes of the encoding before it
	records Records
}

// sendRecords writes a response with records: long runs of them straight from the file, what is short gathered.
func (c *conn) sendRecords(rc *request, r recordsReply) {
	defer r.release()
	frame := appendHeader(c.out, rc, r.flexible())
	frame, cuts := r.encode(frame)
	records := r.bytes()
	binary.BigEndian.PutUint32(frame, uint32(len(frame)+records-4))
	c.allow(len(frame) + records)
	c.out = frame
	if len(cuts) > 0 {
		c.out = frame[:0]
		c.sendPieces(frame, cuts, rc)
	}
	c.unsent = append(c.unsent, rc)
	c.flush()
}

// sendPieces writes a response with the records that belong into its cuts.
func (c *conn) sendPieces(frame []byte, cuts []cut, rc *request) {
	pool := gathers.Get().(*[]byte)
	defer gathers.Put(pool)
	buf, at := (*pool)[:0], 0
	for _, k := range cuts {
		buf = c.gather(buf, frame[at:k.at])
		at = k.at
		for i := range k.records.Pieces() {
			if buf = c.sendPiece(buf, k.records, i, rc); c.broken != nil {
				return
			}
		}
	}
	c.write(c.gather(buf, frame[at:]))
	*pool = buf[:0]
}

// sendPiece writes a run of records, or adds it to what is gathered.
func (c *conn) sendPiece(buf []byte, records Records, i int, rc *request) []byte {
	n := records.Piece(i)
	if n >= copyBelow {
		if buf = c.write(buf); c.broken == nil {
			// The system says too little about a failed sendfile to tell whose fault it is.
			err := records.SendPiece(i, c.nc)
			c.s.metrics.sent.Add(float64(n))
			c.wrote(err)
		}
		return buf
	}
	if len(buf)+n > gatherSize {
		if buf = c.write(buf); c.broken != nil {
			return buf
		}
	}
	buf, err := records.AppendPiece(i, buf)
	if err != nil {
		c.unreadable(rc, err)
	}
	return buf
}

// gather adds b to what is gathered, and writes it when it is much.
func (c *conn) gather(buf, b []byte) []byte {
	if len(buf)+len(b) > gatherSize {
		buf = c.write(buf)
		if len(b) > gatherSize {
			c.write(b)
			return buf
		}
	}
	return append(buf, b...)
}

// write writes b and returns it empty.
func (c *conn) write(b []byte) []byte {
	if len(b) > 0 && c.broken == nil {
		n, err := c.nc.Write(b)
		c.s.metrics.sent.Add(float64(n))
		c.wrote(err)
	}
	return b[:0]
}

// unreadable ends a connection in the middle of a response: the records cannot be read, and the length is
// told already.
func (c *conn) unreadable(rc *request, err error) {
	c.s.log.Error("stored records cannot be read; the connection is closed", "client", rc.clientID, "remote", rc.remote, "error", err)
	c.abort(endedUnreadable, err)
}
