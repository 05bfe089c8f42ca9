package engine

import (
	"godwit/internal/base"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
)

// Marker ends a producer's transaction in one log.
type Marker struct {
	Log   base.LogID
	Shard base.ShardID
	partlog.Marker
}

// WriteMarkers ends transactions in logs of any shards. done is called once, when each marker has its result, from a goroutine of the engine; it
// must not block, and may be called before WriteMarkers returns. An error stands at its marker's index, nil where the transaction
// has ended durably, by this marker or by an earlier one that said the same. Markers for one log are written in their order.
//
// The codes: CodeFencedProducer and CodeFencedCoordinator mean that the marker is out of date; CodeUnknownPartition that the log
// is gone, with all its transactions; others that it has to be sent again.
func (e *Engine) WriteMarkers(markers []Marker, done func([]error)) {
	a := &Append{Items: make([]AppendItem, len(markers))}
	for i := range markers {
		m := &markers[i]
		a.Items[i] = AppendItem{Log: m.Log, Shard: m.Shard, marker: &m.Marker}
	}
	a.Done = func(a *Append) {
		errs := make([]error, len(a.Items))
		for i := range a.Items {
			errs[i] = a.Items[i].Err
		}
		done(errs)
	}
	e.Append(a)
}

// acceptMarker is accept for a marker.
func (l *loop) acceptMarker(req *Append, i int32, it *AppendItem, log *partlog.Log, now int64) error {
	b := partlog.Batch{Epoch: int32(l.term), MaxTimestamp: now}
	verdict, err := log.ProposeMarker(&b, it.marker, now, l.e.opts.ProducerExpiry.Milliseconds())
	switch {
	case err != nil:
		return err
	case verdict == partlog.Duplicate:
		return l.attach(req, i, it, log.Settled())
	}
	m := recordbatch.Marker{ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, CoordinatorEpoch: b.CoordinatorEpoch,
		Type: recordbatch.ControlAbort, Timestamp: now}
	if b.Control == partlog.Commit {
		m.Type = recordbatch.ControlCommit
	}
	it.BaseOffset = b.Base
	it.Data = m.AppendTo(nil)
	recordbatch.SetBaseOffset(it.Data, b.Base)
	recordbatch.SetLeaderEpoch(it.Data, b.Epoch)
	l.add(it, it.Data, b)
	l.open.parts = append(l.open.parts, delivery{req, i})
	return nil
}
