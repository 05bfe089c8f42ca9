package crashtest

import (
	"fmt"
	"hash/crc32"
	"slices"

	"godwit/internal/base"
	"godwit/internal/engine"
	"godwit/internal/partlog"
	"godwit/internal/recordbatch"
)

// txnProducer writes transactions to one log, one thing at a time.
type txnProducer struct {
	log    *logModel
	id     int64
	epoch  int16
	next   int32 // sequence
	busy   bool  // something is under way
	open   bool  // a batch of the transaction was acknowledged
	broken bool  // the fate of something is unknown: only a marker helps
	ending int16 // epoch of a marker whose fate is unknown; 0: none
}

// outcome is a marker that was sent.
type outcome struct {
	commit, acked bool
}

// markerKey tells markers of a log apart: a producer's epoch rises with each.
type markerKey struct {
	id    int64
	epoch int16
}

const txnProducers = 2 // of one log

// txnProducerOf finds one of the producers of a log that is not compacted.
func (w *world) txnProducerOf(a, b int) *txnProducer {
	logs := slices.DeleteFunc(w.logs(), func(m *logModel) bool { return m.compacted })
	if len(logs) == 0 {
		return nil
	}
	m := logs[a%len(logs)]
	for len(m.txns) < txnProducers {
		w.next++
		m.txns = append(m.txns, &txnProducer{log: m, id: int64(1_000_000 + w.next)})
	}
	return m.txns[b%txnProducers]
}

// transact writes a batch in a producer's transaction. Where the log wants the transaction verified the answer is yes: the producer
// knows itself that it has not ended it.
func (w *world) transact(a, b int) {
	p := w.txnProducerOf(a, b)
	if p == nil || p.busy || p.broken {
		return
	}
	s, _ := w.batch(int32(1+b>>2%4), b>>4%2000, &producer{id: p.id, next: p.next})
	s.data[22] |= 0x10
	s.data[52] = byte(p.epoch)
	reseal(s.data)
	info, err := recordbatch.ParseHeader(s.data)
	if err != nil {
		panic(err)
	}
	p.log.batches = append(p.log.batches, s)
	p.busy = true
	w.sendInTxn(p, s, info, 0)
}

// reseal writes the checksum of a batch anew.
func reseal(b []byte) {
	sum := crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli))
	b[17], b[18], b[19], b[20] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
}

func (w *world) sendInTxn(p *txnProducer, s *sent, info recordbatch.Info, guard partlog.Guard) {
	req := &engine.Append{BumpsEpoch: true, Items: []engine.AppendItem{{Log: p.log.id, Shard: p.log.shard, Data: slices.Clone(s.data),
		Batches: []recordbatch.Info{info}, Guard: guard}}}
	req.Done = func(r *engine.Append) {
		if w.dead.Load() {
			return
		}
		it := &r.Items[0]
		if it.Err != nil && base.CodeOf(it.Err) == base.CodeUnverifiedTxn && guard == 0 {
			w.sendInTxn(p, s, info, it.Guard)
			return
		}
		p.busy = false
		switch {
		case it.Err == nil:
			s.acked, s.base = true, it.BaseOffset
			p.open = true
			p.next += s.records
		case !base.CodeOf(it.Err).Retriable():
			s.refused = true
			p.broken = true
		default:
			p.broken = true
		}
	}
	w.e.Append(req)
}

// end ends a producer's transaction, or tries again to.
func (w *world) end(a, b int) {
	p := w.txnProducerOf(a, b)
	if p == nil || p.busy || !p.open && !p.broken {
		return
	}
	if p.ending == 0 {
		p.ending = p.epoch + 1
		if p.log.markers == nil {
			p.log.markers = map[markerKey]*outcome{}
		}
		p.log.markers[markerKey{p.id, p.ending}] = &outcome{commit: b>>1%2 == 0}
	}
	o := p.log.markers[markerKey{p.id, p.ending}]
	p.busy = true
	m := engine.Marker{Log: p.log.id, Shard: p.log.shard, Marker: partlog.Marker{ProducerID: p.id, Epoch: p.ending, Commit: o.commit, Version: 2}}
	w.e.WriteMarkers([]engine.Marker{m}, func(errs []error) {
		if w.dead.Load() {
			return
		}
		p.busy = false
		if errs[0] == nil {
			o.acked = true
			*p = txnProducer{log: p.log, id: p.id, epoch: p.ending}
		}
	})
}

// settleTxns is called after a start: the fate of what was under way is unknown to its producer.
func (m *logModel) settleTxns() {
	for _, p := range m.txns {
		p.broken = p.broken || p.busy || p.open
		p.busy = false
	}
}

// recordsOnly leaves out markers.
func recordsOnly(got []found) (out []found, err error) {
	for _, f := range got {
		info, err := recordbatch.ParseHeader(f.data)
		if err != nil {
			return nil, err
		}
		if !info.IsControl() {
			out = append(out, f)
		}
	}
	return out, nil
}

// checkTxns works out from the batches alone what is open and what was aborted, and compares it with what the engine says and what
// producers were told. What is below the start cannot be seen.
func (m *logModel) checkTxns(st engine.LogState, aborted []partlog.Aborted, got []found) error {
	open := map[int64]recordbatch.Info{} // first batch of each open transaction
	listed := map[int64]partlog.Aborted{}
	for _, a := range aborted {
		listed[a.Last] = a
	}
	seen := map[markerKey]bool{}
	for _, f := range got {
		info, err := recordbatch.ParseHeader(f.data)
		if err != nil {
			return err
		}
		info.BaseOffset = f.base
		switch _, is := open[info.ProducerID]; {
		case info.IsControl():
			if err := m.checkMarker(&info, f.data, seen, listed, open); err != nil {
				return err
			}
			delete(open, info.ProducerID)
		case info.IsTransactional() && !is:
			open[info.ProducerID] = info
		}
	}
	if len(listed) > 0 {
		return fmt.Errorf("log %d: aborted transactions are listed whose markers are not there: %v", m.id, listed)
	}
	stable := st.HighWatermark
	for id, first := range open {
		stable = min(stable, max(first.BaseOffset, st.Start))
		for k, o := range m.markers {
			if o.acked && k.id == id && k.epoch > first.ProducerEpoch {
				return fmt.Errorf("log %d: the end of producer %d's transaction at %d was acknowledged, and it is open", m.id, id, first.BaseOffset)
			}
		}
	}
	if st.LastStable != stable && (st.LastStable != st.Start || stable < st.Start) {
		return fmt.Errorf("log %d: last stable offset %d, by the batches it is %d", m.id, st.LastStable, stable)
	}
	return nil
}

// checkMarker checks one marker, and strikes its transaction off the list if it was aborted.
func (m *logModel) checkMarker(info *recordbatch.Info, data []byte, seen map[markerKey]bool, listed map[int64]partlog.Aborted, open map[int64]recordbatch.Info) error {
	key := markerKey{info.ProducerID, info.ProducerEpoch}
	o := m.markers[key]
	if o == nil || seen[key] {
		return fmt.Errorf("log %d: the marker of producer %d at %d was never sent, or is there twice", m.id, info.ProducerID, info.BaseOffset)
	}
	seen[key] = true
	var rd recordbatch.Reader
	defer rd.Close()
	if err := rd.Reset(data, 1<<10); err != nil || !rd.Next() {
		return fmt.Errorf("log %d: the marker at %d has no record: %v", m.id, info.BaseOffset, err)
	}
	kind, err := recordbatch.ParseControl(rd.Record.Key)
	if err != nil || (kind == recordbatch.ControlCommit) != o.commit {
		return fmt.Errorf("log %d: the marker at %d says %v (%v), that is not what was sent", m.id, info.BaseOffset, kind, err)
	}
	a, is := listed[info.BaseOffset]
	first, has := open[info.ProducerID]
	switch {
	case is && (o.commit || a.ProducerID != info.ProducerID || has && a.First > first.BaseOffset):
		return fmt.Errorf("log %d: the transaction that ends at %d is listed as aborted: %+v", m.id, info.BaseOffset, a)
	case !is && has && !o.commit:
		return fmt.Errorf("log %d: the transaction that ends at %d was aborted and is not listed", m.id, info.BaseOffset)
	}
	delete(listed, info.BaseOffset)
	return nil
}
