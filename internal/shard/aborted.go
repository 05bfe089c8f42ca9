package shard

import (
	"encoding/binary"
	"sort"

	"godwit/internal/base"
	"godwit/internal/partlog"
	"godwit/internal/varint"
)

func abortedKey(id base.LogID, at int64) []byte {
	return binary.BigEndian.AppendUint64(numbered(keyAborted, uint64(id)), uint64(at))
}

// checkpointAborted writes the keys of aborted transactions that came, and deletes those of what went. A value has, in
// varints, producer ID, first offset, and the last stable offset behind the marker.
func (l *log) checkpointAborted(put func(key, value []byte)) {
	for _, at := range l.goneAborted {
		put(abortedKey(l.ID, at), nil)
	}
	l.goneAborted = nil
	all := l.Aborted()
	i := sort.Search(len(all), func(i int) bool { return all[i].Last > l.savedAborted })
	for ; i < len(all); i++ {
		a := &all[i]
		var b []byte
		for _, v := range []int64{a.ProducerID, a.First, a.LastStable} {
			b = binary.AppendVarint(b, v)
		}
		put(abortedKey(l.ID, a.Last), b)
		l.savedAborted = a.Last
	}
}

// restoreAborted takes the key of one aborted transaction, which comes before its log's own.
func (r *Restorer) restoreAborted(key, value []byte) error {
	id := base.LogID(binary.BigEndian.Uint64(key))
	v := &varint.Reader{B: value}
	a := partlog.Aborted{ProducerID: v.Int(), First: v.Int(), LastStable: v.Int(), Last: int64(binary.BigEndian.Uint64(key[8:]))}
	if !v.Whole() {
		return base.Errorf(base.CodeCorruption, "shard %d: log %d: damaged aborted transaction at %d", r.m.ID, id, a.Last)
	}
	r.aborted[id] = append(r.aborted[id], a)
	return nil
}

// restoreLog takes the key of a log.
func (r *Restorer) restoreLog(id base.LogID, value []byte) error {
	l, err := partlog.Restore(id, value)
	if err != nil {
		return err
	}
	aborted := r.aborted[id]
	delete(r.aborted, id)
	if !l.RestoreAborted(aborted) {
		return base.Errorf(base.CodeCorruption, "shard %d: the aborted transactions of log %d contradict it", r.m.ID, id)
	}
	saved := int64(-1)
	if n := len(aborted); n > 0 {
		saved = aborted[n-1].Last
	}
	r.m.logs[id] = &log{Log: l, savedAborted: saved}
	return nil
}
