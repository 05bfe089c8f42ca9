package wal

import (
	"encoding/binary"
	"fmt"

	"godwit/internal/base"
	"godwit/internal/storage/segment"
	"godwit/internal/vfs"
)

// Replayed is what recovery found.
type Replayed struct {
	Term   uint64        // the highest term of any file or frame
	Last   uint32        // number of the last WAL file; 0 if there is none
	End    base.Position // end of the log: the last undamaged frame
	Frames int           // frames handed to apply
	Bytes  int64         // bytes of them
	Cut    int64         // bytes behind End that hold the rest of an unsynced group
}

// Replay reads the WAL files that hold frames at or behind from, in order, and calls apply for every entry, with the
// position of its payload. The frame is only valid during the call. Entries in front of
// from are passed for files that are not sealed, whose extents nobody else knows.
//
// Below a recorded synced position, and in all files but the last, a damaged frame is corruption and ends the replay
// with an error that names file and position. Above it the log ends at the first damaged frame. What lies above
// the synced position is written again and synced, since so far it may be in the page cache only.
func Replay(store *segment.Store, from base.Position, apply func(at Placement, fr *segment.Frame) error) (*Replayed, error) {
	return replay(store, from, true, apply)
}

// Inspect is Replay without writing anything: what it finds above the synced position may not be on disk.
func Inspect(store *segment.Store, from base.Position, apply func(at Placement, fr *segment.Frame) error) (*Replayed, error) {
	return replay(store, from, false, apply)
}

func replay(store *segment.Store, from base.Position, rewrite bool, apply func(at Placement, fr *segment.Frame) error) (*Replayed, error) {
	out := &Replayed{}
	var files []*segment.File
	for _, f := range store.Files() {
		if f.Kind == segment.KindWAL {
			files = append(files, f)
		}
	}
	for i, f := range files {
		out.Term = max(out.Term, f.Term)
		out.Last = f.Number
		out.End = base.At(f.Number, max(f.DataEnd(), segment.DataStart))
		if f.Sealed() && f.Number < from.File() {
			continue
		}
		end := f.DataEnd()
		if end == 0 && i+1 < len(files) && files[i+1].PrevFile == f.Number {
			end = files[i+1].PrevEnd
		}
		if err := replayFile(f, end, rewrite, out, apply); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// replayFile passes the frames of one file. end = 0 means that the file is the last and its end
// is to be found.
func replayFile(f *segment.File, end uint32, rewrite bool, out *Replayed, apply func(Placement, *segment.Frame) error) error {
	sc, err := NewScanner(f, end)
	if err != nil {
		return err
	}
	synced := base.At(f.Number, segment.DataStart)
	for sc.Next() {
		out.Term = max(out.Term, sc.Frame.Term)
		synced = max(synced, sc.Frame.Synced)
		if sc.Frame.Kind != segment.FrameEntry {
			continue
		}
		out.Frames++
		out.Bytes += int64(sc.Frame.Size)
		if err := apply(Placement{f, sc.Payload()}, &sc.Frame); err != nil {
			return fmt.Errorf("%s: entry at %d: %w", f.Path, sc.at, err)
		}
	}
	if sc.Err() != nil {
		return sc.Err()
	}
	out.End = base.At(f.Number, sc.At())
	if end != 0 {
		if sc.At() != end {
			return base.Errorf(base.CodeCorruption, "%s: damaged frame at %d, below the file's end at %d: restore the file, or run `godwit fsck`", f.Path, sc.At(), end)
		}
		return nil
	}
	return finishTail(f, sc, synced, rewrite, out)
}

// finishTail checks where the last file ends and makes what stays durable.
func finishTail(f *segment.File, sc *Scanner, synced base.Position, rewrite bool, out *Replayed) error {
	later, rest, err := sc.Beyond()
	if err != nil {
		return err
	}
	out.Cut = rest
	if known := max(synced, later); out.End < known {
		return base.Errorf(base.CodeCorruption, "%s: damaged frame at %d, below position %v that was on disk: restore the file, or run `godwit fsck`", f.Path, sc.At(), known)
	}
	if !rewrite {
		return nil
	}
	var start uint32 = segment.DataStart
	if synced.File() == f.Number {
		start = max(start, synced.Offset())
	}
	buf := make([]byte, 1<<20)
	for at := start; at < sc.At(); {
		b := buf[:min(uint32(len(buf)), sc.At()-at)]
		if err := f.ReadAt(b, int64(at)); err != nil {
			return err
		}
		if err := vfs.Writev(f.Handle(), int64(at), [][]byte{b}); err != nil {
			return err
		}
		at += uint32(len(b))
	}
	return f.Handle().Sync()
}

// Scanner reads the frames of one WAL file in order.
type Scanner struct {
	Frame segment.Frame // aliases the scanner's buffer

	f    *segment.File
	at   uint32 // of Frame
	next uint32
	size uint32 // readable bytes of the file
	end  bool   // size is where the frames must end
	buf  []byte
	from uint32 // file offset of buf
	err  error
}

// NewScanner reads f up to end, or as far as undamaged frames go if end is 0.
func NewScanner(f *segment.File, end uint32) (*Scanner, error) {
	st, err := f.Handle().Stat()
	if err != nil {
		return nil, err
	}
	size := uint32(min(st.Size(), int64(^uint32(0))))
	if end != 0 {
		size = min(size, end)
	}
	return &Scanner{f: f, next: segment.DataStart, size: size, end: end != 0}, nil
}

// Next goes to the next frame; false at the end or at a damaged frame.
func (s *Scanner) Next() bool {
	b, ok := s.window(s.next, segment.FrameHeader)
	if !ok {
		return false
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n > s.size-s.next {
		return false
	}
	if b, ok = s.window(s.next, n); !ok {
		return false
	}
	s.Frame, ok = segment.DecodeFrame(b, s.f.Salt, s.next)
	if !ok {
		return false
	}
	s.at = s.next
	s.next += uint32(segment.Padded(int(n)))
	return true
}

// At is where the next frame would begin.
func (s *Scanner) At() uint32 { return s.next }

// Payload is the file offset of the current frame's payload.
func (s *Scanner) Payload() uint32 { return s.at + uint32(s.Frame.HeadSize()) }

// Err is a failure to read, as against damage.
func (s *Scanner) Err() error { return s.err }

const scanChunk = 1 << 20

// window returns at least n bytes of the file from at, if the file has them.
func (s *Scanner) window(at, n uint32) ([]byte, bool) {
	if s.err != nil || at > s.size || n > s.size-at {
		return nil, false
	}
	if at < s.from || uint64(at)+uint64(n) > uint64(s.from)+uint64(len(s.buf)) {
		want := min(max(n, scanChunk), s.size-at)
		if uint32(cap(s.buf)) < want {
			s.buf = make([]byte, want)
		}
		s.buf, s.from = s.buf[:want], at
		if s.err = s.f.ReadAt(s.buf, int64(at)); s.err != nil {
			s.buf = s.buf[:0]
			return nil, false
		}
	}
	return s.buf[at-s.from:], true
}

// Beyond looks behind the damaged frame for frames that are whole, and returns the highest synced position
// that any of them records, and how many bytes behind the end are not zero.
func (s *Scanner) Beyond() (synced base.Position, rest int64, err error) {
	const align = 8
	last := s.next
	for at := s.next; s.size-at >= segment.FrameHeader && at < s.size; at += align {
		b, ok := s.window(at, segment.FrameHeader)
		if !ok {
			break
		}
		if binary.LittleEndian.Uint64(b) != 0 {
			last = at + align
		}
		n := binary.LittleEndian.Uint32(b[4:])
		if binary.LittleEndian.Uint32(b[8:]) != at || n > s.size-at {
			continue
		}
		if b, ok = s.window(at, n); !ok {
			break
		}
		if fr, ok := segment.DecodeFrame(b, s.f.Salt, at); ok {
			synced = max(synced, fr.Synced)
		}
	}
	return synced, int64(last - s.next), s.err
}
