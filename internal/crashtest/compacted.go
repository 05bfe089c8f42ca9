package crashtest

import (
	"fmt"

	"godwit/internal/recordbatch"
)

// keyed is one record of a compacted log.
type keyed struct {
	offset     int64
	key, value string
}

// keyedBatch makes a batch of records with few keys and values unlike any other.
func (w *world) keyedBatch(records int32) (*sent, recordbatch.Info) {
	var b recordbatch.Builder
	b.Begin(recordbatch.Info{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, 0, 0)
	s := &sent{records: records}
	for i := range records {
		w.next++
		k := keyed{key: fmt.Sprintf("k%d", w.rng.IntN(5)), value: fmt.Sprintf("v%d", w.next)}
		s.keyed = append(s.keyed, k)
		b.Add(&recordbatch.Record{OffsetDelta: i, Timestamp: w.clock.Now().UnixMilli(), Key: []byte(k.key), Value: []byte(k.value)})
	}
	data, err := b.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	info, err := recordbatch.ParseHeader(data)
	if err != nil {
		panic(err)
	}
	s.data = data
	return s, info
}

// recordsOf takes read batches apart.
func recordsOf(got []found, start int64) (out []keyed, err error) {
	var rd recordbatch.Reader
	defer rd.Close()
	for _, f := range got {
		if err := rd.Reset(f.data, 1<<20); err != nil {
			return nil, err
		}
		for rd.Next() {
			if at := f.base + int64(rd.Record.OffsetDelta); at >= start {
				out = append(out, keyed{at, string(rd.Record.Key), string(rd.Record.Value)})
			}
		}
		if rd.Err() != nil {
			return nil, rd.Err()
		}
	}
	return out, nil
}

// checkCompacted is check for a log that is compacted by key: an acknowledged record may be missing if a later one with its
// key is there.
func (m *logModel) checkCompacted(start, watermark int64, got []found) error {
	records, err := recordsOf(got, start)
	if err != nil {
		return fmt.Errorf("log %d: %w", m.id, err)
	}
	at, last := map[int64]keyed{}, map[string]int64{}
	next := start
	for _, r := range records {
		if r.offset < next || r.offset >= watermark {
			return fmt.Errorf("log %d: record at %d, expected from %d to below %d", m.id, r.offset, next, watermark)
		}
		next = r.offset + 1
		at[r.offset], last[r.key] = r, r.offset
	}
	m.adoptUntold(at)
	known := map[string]bool{}
	for i, s := range m.batches {
		for k, r := range s.keyed {
			offset := s.base + int64(k)
			if s.acked && offset >= start && at[offset].value != r.value && last[r.key] <= offset {
				return fmt.Errorf("log %d: batch %d: %s=%s was acknowledged at %d; it is not there, nor is a later %s", m.id, i, r.key, r.value, offset, r.key)
			}
			known[fmt.Sprint(offset, r.value)] = s.acked
		}
	}
	for _, r := range records {
		if !known[fmt.Sprint(r.offset, r.value)] {
			return fmt.Errorf("log %d: record %s=%s at %d was never sent there", m.id, r.key, r.value, r.offset)
		}
	}
	return nil
}

// adoptUntold finds batches whose fate was not told among what is there: their place is known now. Of a batch that compaction
// took away whole nothing can be known, nor need it.
func (m *logModel) adoptUntold(at map[int64]keyed) {
	for _, s := range m.batches {
		if s.acked || s.refused {
			continue
		}
		for offset, r := range at {
			for k, mine := range s.keyed {
				if mine.value == r.value {
					s.acked, s.base = true, offset-int64(k)
				}
			}
		}
	}
}
