package segment

import (
	"godwit/internal/base"
	"godwit/internal/vfs"
)

// MaxRunExtent bounds the extents of merged files, bytes: what a read in the middle of one has to walk over.
const MaxRunExtent = 256 << 10

// Merged writes one merged file: log after log, batch after batch in the order of offsets.
type Merged struct {
	store   *Store
	file    *File
	pos     int64 // where buf will go
	buf     []byte
	logs    []LogFooter
	extents []Extent
}

const mergedBuffer = 1 << 20

// NewMerged begins the next merged file. It has one caller at a time.
func (s *Store) NewMerged(term uint64, now int64) (*Merged, error) {
	var number uint32
	for _, f := range s.Files() {
		if f.Kind == KindMerged {
			number = max(number, f.Number)
		}
	}
	number = max(number, s.lastMerged) + 1
	f, err := Create(s.FS, s.Dir, Header{Kind: KindMerged, Number: number, Term: term, Created: now}, 0)
	if err != nil {
		return nil, err
	}
	s.lastMerged = number
	return &Merged{store: s, file: f, pos: DataStart}, nil
}

// Begin starts the piece of a log that stands for the offsets base to last, whether or not there
// are batches for all of them. clean says that compaction has seen all of it.
func (m *Merged) Begin(log base.LogID, base, last int64, clean bool) {
	l := LogFooter{Log: log, Base: base, Last: last, MaxTimestamp: -1, First: uint32(len(m.extents)), Clean: clean}
	m.logs = append(m.logs, l)
}

// Batch appends one batch of the log last begun.
func (m *Merged) Batch(b []byte, base, last, maxTimestamp int64) error {
	l := &m.logs[len(m.logs)-1]
	at := m.Size()
	n := uint32(len(b))
	if k := len(m.extents) - 1; k >= int(l.First) && m.extents[k].Len+n <= MaxRunExtent {
		e := &m.extents[k]
		e.Last, e.Len, e.MaxTimestamp = last, e.Len+n, max(e.MaxTimestamp, maxTimestamp)
	} else {
		m.extents = append(m.extents, Extent{Base: base, Last: last, MaxTimestamp: maxTimestamp, Pos: uint32(at), Len: n})
		l.Count++
	}
	l.Bytes += uint64(n)
	l.MaxTimestamp = max(l.MaxTimestamp, maxTimestamp)
	m.buf = append(m.buf, b...)
	if len(m.buf) >= mergedBuffer {
		return m.flush()
	}
	return nil
}

// Size is where the next batch will stand: header and data so far, in bytes.
func (m *Merged) Size() int64 { return m.pos + int64(len(m.buf)) }

func (m *Merged) flush() error {
	if len(m.buf) == 0 {
		return nil
	}
	if err := vfs.Writev(m.file.f, m.pos, [][]byte{m.buf}); err != nil {
		return err
	}
	m.pos += int64(len(m.buf))
	m.buf = m.buf[:0]
	return nil
}

// Finish makes the file durable, gives it its name, and puts its pieces in place of those they were made from. A
// log that was trimmed or dropped meanwhile keeps what it has.
func (m *Merged) Finish() error {
	err := m.flush()
	if err == nil {
		err = m.file.WriteSeal(uint32(m.pos), m.logs, m.extents)
	}
	if err != nil {
		m.file.Abandon()
		return err
	}
	if err := m.file.Publish(); err != nil {
		return err
	}
	m.file.pieces.Add(1) // not dead while its pieces are coming
	defer m.file.pieces.Add(-1)
	m.store.Register(m.file)
	for i := range m.logs {
		m.store.replace(m.file, &m.logs[i])
	}
	return nil
}

// Abandon removes what was written.
func (m *Merged) Abandon() { m.file.Abandon() }
