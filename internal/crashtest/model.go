package crashtest

import (
	"bytes"
	"fmt"

	"godwit/internal/base"
)

// sent is one batch on its way into a log.
type sent struct {
	data    []byte // as handed in; offset and epoch zeroed
	records int32
	acked   bool
	refused bool
	base    int64   // once acknowledged
	keyed   []keyed // of a compacted log
}

// logModel is what must hold of one log.
type logModel struct {
	id        base.LogID
	shard     base.ShardID
	batches   []*sent
	watermark int64 // highest seen
	start     int64 // highest start seen
	trimmed   int64 // highest start that was asked for
	compacted bool

	txns    []*txnProducer
	markers map[markerKey]*outcome // that were sent
}

// stream is one stream of the model.
type stream struct {
	name    string
	id      base.StreamID
	logs    []*logModel
	created bool // acknowledged
	deleted bool // acknowledged
	doomed  bool // deletion asked for

	compacted bool
}

// found is one batch read back.
type found struct {
	base    int64
	records int32
	data    []byte
}

// check compares what a log holds with what was sent to it.
func (m *logModel) check(start, watermark int64, got []found) error {
	if watermark < m.watermark {
		return fmt.Errorf("log %d: high watermark %d, %d was seen before", m.id, watermark, m.watermark)
	}
	if start < m.start || start > max(m.trimmed, m.start) {
		return fmt.Errorf("log %d: starts at %d; %d was seen, %d asked for", m.id, start, m.start, m.trimmed)
	}
	if m.compacted {
		return m.checkCompacted(start, watermark, got)
	}
	if err := m.checkDense(start, watermark, got); err != nil {
		return err
	}
	got, err := recordsOnly(got)
	if err != nil {
		return err
	}
	at := map[int64]*found{}
	for i := range got {
		at[got[i].base] = &got[i]
	}
	used := map[int64]bool{}
	for i, s := range m.batches {
		if !s.acked {
			continue
		}
		f := at[s.base]
		if s.base+int64(s.records) <= start {
			continue
		}
		if f == nil || !bytes.Equal(f.data, s.data) {
			return fmt.Errorf("log %d: batch %d was acknowledged at %d and is not there as sent", m.id, i, s.base)
		}
		used[s.base] = true
	}
	return m.checkUntold(got, used)
}

// checkDense walks the offsets.
func (m *logModel) checkDense(start, watermark int64, got []found) error {
	next := start
	for i, f := range got {
		if i == 0 && f.base <= start {
			next = f.base // the start may lie within a batch
		}
		if f.base != next {
			return fmt.Errorf("log %d: batch at %d, expected %d", m.id, f.base, next)
		}
		next = f.base + int64(f.records)
	}
	if next != watermark {
		return fmt.Errorf("log %d: data ends at %d, the high watermark is %d", m.id, next, watermark)
	}
	return nil
}

// checkUntold matches what was not acknowledged with what was sent and not answered, each once.
func (m *logModel) checkUntold(got []found, used map[int64]bool) error {
	for i := range got {
		f := &got[i]
		if used[f.base] {
			continue
		}
		ok := false
		for _, s := range m.batches {
			if !s.acked && !s.refused && bytes.Equal(s.data, f.data) {
				// Its fate is known now.
				s.acked, s.base, ok = true, f.base, true
				break
			}
		}
		if !ok {
			return fmt.Errorf("log %d: batch at %d was never sent, or was refused, or is there twice", m.id, f.base)
		}
	}
	return nil
}

// settle forgets what did not survive: it can never come back.
func (m *logModel) settle(start, watermark int64) {
	m.watermark, m.start = watermark, start
	m.trimmed = max(m.trimmed, start)
	kept := m.batches[:0]
	for _, s := range m.batches {
		if s.acked {
			kept = append(kept, s)
		}
	}
	m.batches = kept
}
