package compact

import (
	"sort"

	"godwit/internal/compress"
	"godwit/internal/recordbatch"
	"godwit/internal/storage/segment"
)

// Aborted is a transaction whose records are void.
type Aborted struct {
	Producer    int64
	First, Last int64 // offsets of its first record and of its marker
}

// txns knows the transactions of a log while it is walked over from its start on.
type txns struct {
	aborted []Aborted // ascending by Last
	met     []bool    // a batch of the transaction is there
	byID    map[int64][]int
	open    map[int64]bool // producers of whose present transaction a batch is there
}

func newTxns(aborted []Aborted) *txns {
	t := &txns{aborted: aborted, met: make([]bool, len(aborted)), byID: map[int64][]int{}, open: map[int64]bool{}}
	for i := range aborted {
		t.byID[aborted[i].Producer] = append(t.byID[aborted[i].Producer], i)
	}
	return t
}

// find is the place of the aborted transaction that a batch is part of; -1 if it is of none.
func (t *txns) find(info *recordbatch.Info) int {
	if !info.IsTransactional() {
		return -1
	}
	// A producer's transactions follow one another, so its list ascends by both ends.
	mine := t.byID[info.ProducerID]
	k := sort.Search(len(mine), func(k int) bool { return t.aborted[mine[k]].Last >= info.BaseOffset })
	if k == len(mine) || t.aborted[mine[k]].First > info.BaseOffset {
		return -1
	}
	return mine[k]
}

// pass notes a batch of records, and reports whether its transaction was aborted.
func (t *txns) pass(info *recordbatch.Info) bool {
	if info.IsTransactional() {
		t.open[info.ProducerID] = true
	}
	i := t.find(info)
	if i >= 0 {
		t.met[i] = true
	}
	return i >= 0
}

// end notes a marker, and reports whether a batch of its transaction is there.
func (t *txns) end(info *recordbatch.Info) bool {
	had := t.open[info.ProducerID]
	delete(t.open, info.ProducerID)
	return had
}

// vanished lists the markers' offsets, ascending, of the aborted transactions that end below an offset up to which all was passed, and
// of which no batch is left.
func (t *txns) vanished(end int64) (out []int64) {
	for i := range t.aborted {
		if a := &t.aborted[i]; a.Last < end && !t.met[i] {
			out = append(out, a.Last)
		}
	}
	return out
}

// marker writes a transaction marker, or leaves it out: it stays as long as a batch of its transaction does, gets a delete
// horizon when it is first seen without, and goes when that is over (KIP-534). What is known of its producer is kept elsewhere, so
// unlike Kafka's cleaner this needs no marker for it; but the last batch of a run stays.
func (f *filter) marker(raw []byte, ref *segment.BatchRef, tail bool) error {
	info := f.rd.Info
	horizon, had := info.DeleteHorizon()
	switch needed := f.txns.end(&info); {
	case needed || tail || had && f.now < horizon:
		return f.out.m.Batch(raw, ref.Base, ref.Last, ref.MaxTimestamp)
	case had:
		return nil
	}
	f.b.Begin(info, compress.None, 0)
	f.b.SetDeleteHorizon(f.horizon)
	for f.rd.Next() {
		f.b.Add(&f.rd.Record)
	}
	return f.write(ref)
}
