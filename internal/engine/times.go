package engine

import (
	"context"

	"godwit/internal/base"
	"godwit/internal/recordbatch"
	"godwit/internal/storage/segment"
)

// maxRecordBytes bounds what the records of one stored batch may take when decompressed to look into them.
const maxRecordBytes = 256 << 20

// OffsetForTime finds the first record with a timestamp of at least ts, in Unix ms: its offset, timestamp and leader epoch. The
// offset is -1 if there is none.
func (e *Engine) OffsetForTime(ctx context.Context, log base.LogID, ts int64) (offset, at int64, epoch int32, err error) {
	st, ok := e.State(log)
	if !ok {
		return -1, -1, -1, base.Errorf(base.CodeUnknownPartition, "this server does not host this topic-partition")
	}
	return e.firstAt(ctx, log, st.Start, st.HighWatermark, ts)
}

// firstAt searches [from, to).
func (e *Engine) firstAt(ctx context.Context, log base.LogID, from, to, ts int64) (offset, at int64, epoch int32, err error) {
	offset, at, epoch = -1, -1, -1
	rd := new(recordbatch.Reader)
	defer rd.Close()
	var buf []byte
	scan := e.store.Batches(log, from, to,
		func(x *segment.Extent) bool { return x.MaxTimestamp >= ts },
		func(ref segment.BatchRef) bool {
			if ref.MaxTimestamp < ts {
				return true
			}
			if err = ctx.Err(); err != nil {
				return false
			}
			if buf, err = readBatch(buf, &ref); err != nil {
				return false
			}
			if err = rd.Reset(buf, maxRecordBytes); err != nil {
				return false
			}
			for rd.Next() {
				r := &rd.Record
				if r.Timestamp >= ts && r.Offset >= from {
					offset, at, epoch = r.Offset, r.Timestamp, ref.Epoch
					return false
				}
			}
			err = rd.Err()
			return err == nil
		})
	if err == nil {
		err = scan
	}
	return offset, at, epoch, err
}

func readBatch(buf []byte, ref *segment.BatchRef) ([]byte, error) {
	if int64(cap(buf)) < ref.Size {
		buf = make([]byte, ref.Size)
	}
	buf = buf[:ref.Size]
	return buf, ref.File.ReadAt(buf, ref.Pos)
}

// MaxTimestamp finds the record with the largest timestamp, the first if there are several (KIP-734). The offset is -1 for
// an empty log.
func (e *Engine) MaxTimestamp(ctx context.Context, log base.LogID) (offset, at int64, epoch int32, err error) {
	st, ok := e.State(log)
	if !ok {
		return -1, -1, -1, base.Errorf(base.CodeUnknownPartition, "this server does not host this topic-partition")
	}
	ts, _, ok := e.store.MaxTimestamp(log, st.Start)
	if !ok {
		return -1, -1, -1, nil
	}
	for ts >= 0 {
		if offset, at, epoch, err = e.firstAt(ctx, log, st.Start, st.HighWatermark, ts); err != nil || offset >= 0 {
			return offset, at, epoch, err
		}
		// The newest record of the index may be trimmed or removed: look for the next smaller one.
		ts = e.largestBelow(log, st, ts)
	}
	return -1, -1, -1, nil
}

// largestBelow is the largest batch timestamp below ts; -1 if there is none.
func (e *Engine) largestBelow(log base.LogID, st LogState, ts int64) int64 {
	out := int64(-1)
	e.store.Batches(log, st.Start, st.HighWatermark, nil, func(ref segment.BatchRef) bool {
		if ref.MaxTimestamp < ts {
			out = max(out, ref.MaxTimestamp)
		}
		return true
	})
	return out
}
