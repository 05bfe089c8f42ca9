package engine

import (
	"net"
	"slices"

	"godwit/internal/base"
	"godwit/internal/partlog"
	"godwit/internal/storage/segment"
	"godwit/internal/vfs"
)

// Records is a run of whole batches as stored. It pins the files it refers to until Release.
type Records struct {
	state   LogState
	spans   []segment.Span
	n       int
	aborted []partlog.Aborted
}

// State is the log's state as of the read.
func (r *Records) State() LogState { return r.state }

// Aborted lists the aborted transactions that the records may be part of, by their first offset. Read leaves it empty.
func (r *Records) Aborted() []partlog.Aborted { return r.aborted }

// Len is the number of bytes; 0 if there is nothing at the offset yet.
func (r *Records) Len() int { return r.n }

// Pieces is the number of runs of bytes that are together on disk.
func (r *Records) Pieces() int { return len(r.spans) }

// Piece is the length of one run in bytes.
func (r *Records) Piece(i int) int { return int(r.spans[i].Len) }

// SendPiece writes one run to the connection, by sendfile where the system has it.
func (r *Records) SendPiece(i int, c net.Conn) error {
	s := r.spans[i]
	_, err := vfs.SendFile(c, s.File.Handle(), s.Pos, s.Len)
	return err
}

// AppendPiece reads one run behind dst.
func (r *Records) AppendPiece(i int, dst []byte) ([]byte, error) {
	s, at := r.spans[i], len(dst)
	dst = slices.Grow(dst, int(s.Len))[:at+int(s.Len)]
	if err := s.File.ReadAt(dst[at:], s.Pos); err != nil {
		return dst[:at], err
	}
	return dst, nil
}

// AppendTo reads all bytes behind dst.
func (r *Records) AppendTo(dst []byte) (_ []byte, err error) {
	for i := range r.spans {
		if dst, err = r.AppendPiece(i, dst); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// Release unpins the files. The records must not be used any more.
func (r *Records) Release() {
	segment.ReleaseAll(r.spans)
	r.spans = nil
}

// Read finds the batches from the one that holds offset on, of at most maxBytes together; if minOne,
// at least one batch whatever its size. An offset equal to the high watermark reads nothing; one outside
// [start, high watermark] is CodeOffsetOutOfRange, and the records still carry the state.
func (e *Engine) Read(log base.LogID, offset int64, maxBytes int, minOne bool) (*Records, error) {
	return e.read(log, offset, maxBytes, minOne, false)
}

// ReadCommitted is Read up to the last stable offset, with the aborted transactions among what it finds. An offset between the last
// stable offset and the high watermark reads nothing.
func (e *Engine) ReadCommitted(log base.LogID, offset int64, maxBytes int, minOne bool) (*Records, error) {
	return e.read(log, offset, maxBytes, minOne, true)
}

func (e *Engine) read(log base.LogID, offset int64, maxBytes int, minOne, committed bool) (*Records, error) {
	st, ok := e.State(log)
	if !ok {
		return nil, base.Errorf(base.CodeUnknownPartition, "this server does not host this topic-partition")
	}
	r := &Records{state: st}
	if offset < st.Start || offset > st.HighWatermark {
		return r, base.Errorf(base.CodeOffsetOutOfRange, "offset %d is outside [%d, %d]", offset, st.Start, st.HighWatermark)
	}
	limit := st.HighWatermark
	var aborted []partlog.Aborted
	if committed {
		// The list comes before the files: a transaction leaves it only when no file has its records.
		limit, aborted = st.LastStable, e.Aborted(log)
	}
	spans, err := e.store.Find(log, offset, limit, maxBytes, minOne)
	if err != nil {
		return r, err
	}
	r.spans = spans
	for _, s := range spans {
		r.n += int(s.Len)
	}
	if committed && len(spans) > 0 {
		r.aborted = partlog.AbortedWithin(aborted, offset, spans[len(spans)-1].Last+1)
	}
	return r, nil
}
