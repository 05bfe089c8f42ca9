package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/vfs"
)

// makeBatch is a v2 batch header with some body: what the store looks at.
func makeBatch(first int64, records, body int, ts int64) []byte {
	b := make([]byte, 61+body)
	binary.BigEndian.PutUint64(b, uint64(first))
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(records-1))
	binary.BigEndian.PutUint64(b[35:], uint64(ts))
	binary.BigEndian.PutUint32(b[57:], uint32(records))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], Castagnoli))
	return b
}

// twin is the store as a list.
type twin struct {
	first, last int64
	data        []byte
}

// TestStoreAgainstList adds, seals, trims, merges and reopens at random, and compares what Find returns with a plain list of
// batches.
func TestStoreAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &storeWorld{t: t, fs: vfs.NewCrashing(), next: 1}
		w.must(vfs.MkdirAll(w.fs, "/d", 0o755))
		w.store = NewStore(w.fs, "/d")
		w.roll()
		t.Repeat(map[string]func(*rapid.T){
			"add":    func(t *rapid.T) { w.add(t) },
			"roll":   func(*rapid.T) { w.seal(); w.roll() },
			"trim":   func(t *rapid.T) { w.trim(t) },
			"merge":  func(*rapid.T) { w.merge() },
			"reopen": func(*rapid.T) { w.seal(); w.reopen(); w.roll() },
			"":       func(t *rapid.T) { w.check(t) },
		})
		w.store.Close()
	})
}

type storeWorld struct {
	t     *rapid.T
	fs    *vfs.Crashing
	store *Store
	file  *File
	pos   uint32
	next  uint32
	logs  [3][]twin
	ends  [3]int64
	start [3]int64
}

func (w *storeWorld) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *storeWorld) roll() {
	f, err := Create(w.fs, "/d", Header{Kind: KindWAL, Number: w.next, Salt: w.next}, 0)
	w.must(err)
	w.must(f.Publish())
	w.store.Register(f)
	w.file, w.pos, w.next = f, DataStart, w.next+1
}

func (w *storeWorld) add(t *rapid.T) {
	log := rapid.IntRange(0, 2).Draw(t, "log")
	var payload []byte
	e := LogExtent{Log: base.LogID(log + 1), Base: w.ends[log], MaxTimestamp: -1}
	for range rapid.IntRange(1, 4).Draw(t, "batches") {
		n := rapid.IntRange(1, 5).Draw(t, "records")
		ts := int64(rapid.IntRange(0, 1000).Draw(t, "timestamp"))
		b := makeBatch(w.ends[log], n, rapid.IntRange(0, 300).Draw(t, "body"), ts)
		w.logs[log] = append(w.logs[log], twin{w.ends[log], w.ends[log] + int64(n) - 1, b})
		w.ends[log] += int64(n)
		e.MaxTimestamp = max(e.MaxTimestamp, ts)
		payload = append(payload, b...)
	}
	e.Last, e.Len = w.ends[log]-1, uint32(len(payload))
	w.must(vfs.Writev(w.file.Handle(), int64(w.pos), [][]byte{payload}))
	w.store.Add(w.file, w.pos, []LogExtent{e})
	w.pos += e.Len
}

func (w *storeWorld) seal() { w.must(w.store.Seal(w.file, w.pos)) }

func (w *storeWorld) trim(t *rapid.T) {
	log := rapid.IntRange(0, 2).Draw(t, "log")
	w.start[log] = rapid.Int64Range(w.start[log], w.ends[log]).Draw(t, "start")
	w.store.Trim(base.LogID(log+1), w.start[log])
}

// merge copies all sealed pieces of every log into one file.
func (w *storeWorld) merge() {
	m, err := w.store.NewMerged(1, 0)
	w.must(err)
	some := false
	for log := range w.logs {
		pieces := w.store.Pieces(base.LogID(log + 1))
		if len(pieces) == 0 {
			continue
		}
		some = true
		first, last := pieces[0].Base, pieces[len(pieces)-1].Last
		m.Begin(base.LogID(log+1), first, last, false)
		w.must(w.store.Batches(base.LogID(log+1), first, last+1, nil, func(ref BatchRef) bool {
			b := make([]byte, ref.Size)
			w.must(ref.File.ReadAt(b, ref.Pos))
			w.must(m.Batch(b, ref.Base, ref.Last, ref.MaxTimestamp))
			return true
		}))
	}
	if !some {
		m.Abandon()
		return
	}
	w.must(m.Finish())
	_, err = w.store.RemoveDead(w.file.Number)
	w.must(err)
}

func (w *storeWorld) reopen() {
	w.store.Close()
	w.store = NewStore(w.fs, "/d")
	unsealed, err := w.store.OpenAll()
	w.must(err)
	if len(unsealed) > 0 {
		w.t.Fatalf("%d files are not sealed", len(unsealed))
	}
	for log := range w.logs {
		w.store.Trim(base.LogID(log+1), w.start[log])
	}
}

func (w *storeWorld) check(t *rapid.T) {
	live := map[*File]int64{}
	for log, batches := range w.logs {
		id := base.LogID(log + 1)
		if missing, ok := w.store.Covers(id, w.start[log], w.ends[log]); !ok {
			t.Fatalf("log %d does not cover %d of [%d, %d)", id, missing, w.start[log], w.ends[log])
		}
		from := rapid.Int64Range(w.start[log], w.ends[log]).Draw(t, "from")
		limit := rapid.IntRange(1, 2000).Draw(t, "bytes")
		one := rapid.Bool().Draw(t, "one")
		end, below := w.end(t, log, from)
		spans, err := w.store.Find(id, from, end, limit, one)
		w.must(err)
		var got []byte
		for _, s := range spans {
			b := make([]byte, s.Len)
			w.must(s.File.ReadAt(b, s.Pos))
			got = append(got, b...)
		}
		ReleaseAll(spans)
		if why := plausible(batches[:below], from, end, limit, one, got); why != "" {
			t.Fatalf("log %d, find from %d below %d, %d bytes, one %v: %s", id, from, end, limit, one, why)
		}
		if n := len(spans); n > 0 && !slices.ContainsFunc(batches, func(b twin) bool { return b.last == spans[n-1].Last && bytes.HasSuffix(got, b.data) }) {
			t.Fatalf("log %d, find from %d below %d: the last span says it ends with offset %d", id, from, end, spans[n-1].Last)
		}
		for i := range w.store.stripe(id).logs[id].piecesOrNone() {
			p := &w.store.stripe(id).logs[id].pieces[i]
			live[p.file] += p.bytes
		}
	}
	for _, f := range w.store.Files() {
		if f.Live() != live[f] {
			t.Fatalf("%s counts %d live bytes, its pieces have %d", f.Path, f.Live(), live[f])
		}
	}
}

// end draws an offset to read up to, where a batch begins or the log ends, and says how many batches are below it.
func (w *storeWorld) end(t *rapid.T, log int, from int64) (end int64, below int) {
	batches := w.logs[log]
	for below < len(batches) && batches[below].first < from {
		below++
	}
	below = rapid.IntRange(below, len(batches)).Draw(t, "batches")
	if below == len(batches) {
		return w.ends[log], below
	}
	return max(from, batches[below].first), below
}

func (li *logIndex) piecesOrNone() []piece {
	if li == nil {
		return nil
	}
	return li.pieces
}

// plausible checks a read: whole batches in order from the one that holds the offset, within the limit, and something if there
// is something.
func plausible(batches []twin, from, end int64, limit int, one bool, got []byte) string {
	i := 0
	for i < len(batches) && batches[i].last < from {
		i++
	}
	if from == end {
		if len(got) > 0 {
			return "there is something behind the end"
		}
		return ""
	}
	n := 0
	for rest := got; len(rest) > 0; n++ {
		if i+n >= len(batches) || len(rest) < len(batches[i+n].data) || string(rest[:len(batches[i+n].data)]) != string(batches[i+n].data) {
			return fmt.Sprintf("batch %d of the answer is not the one at %d", n, batches[i].first)
		}
		rest = rest[len(batches[i+n].data):]
	}
	switch {
	case len(got) > limit && !(one && n == 1):
		return fmt.Sprintf("%d bytes", len(got))
	case n == 0 && (one || len(batches[i].data) <= limit):
		return "nothing, though there is a batch"
	}
	return ""
}
