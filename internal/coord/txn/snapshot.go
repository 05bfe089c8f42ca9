package txn

import (
	"bytes"
	"maps"
	"slices"

	"godwit/internal/base"
	"godwit/internal/varint"
)

// valueVersion is the format of checkpointed values; the byte stands first.
const valueVersion = 1

// Checkpoint hands out what changed since the last checkpoint, ordered by key; a nil value deletes the key. The slices are
// the receiver's. What was handed out counts as stored: the caller keeps it until it is.
//
// A key is namespace and transactional ID, each behind its length as an unsigned varint. A value goes on as an Update does behind its key.
func (s *State) Checkpoint(emit func(key, value []byte)) {
	type item struct{ key, value []byte }
	items := make([]item, 0, len(s.dirty))
	for k := range s.dirty {
		items = append(items, item{appendKey(nil, k), s.value(k)})
	}
	clear(s.dirty)
	slices.SortFunc(items, func(a, b item) int { return bytes.Compare(a.key, b.key) })
	for _, it := range items {
		emit(it.key, it.value)
	}
}

// value encodes what is stored of a transactional ID, nil if it is gone.
func (s *State) value(k Key) []byte {
	t := s.txns[k]
	if t == nil {
		return nil
	}
	dst := t.Head.appendTo([]byte{valueVersion})
	return varint.AppendTexts(appendPartitions(dst, t.partitionList()), slices.Sorted(maps.Keys(t.groups)))
}

// Restore enters one pair that Checkpoint handed out, in any order and before the first Apply. What is not such a pair is a
// CodeCorruption error.
func (s *State) Restore(key, value []byte) error {
	if len(value) == 0 || value[0] != valueVersion {
		return base.Errorf(base.CodeCorruption, "transaction state: a value of %d bytes has an unknown version", len(value))
	}
	r, v := newReader(key), newReader(value[1:])
	u := &Update{Key: r.key(), Head: v.head(), Partitions: v.partitions(), Groups: v.Texts()}
	if !r.Whole() || !v.Whole() {
		return base.Errorf(base.CodeCorruption, "transaction state: damaged pair of %d and %d bytes", len(key), len(value))
	}
	s.applyUpdate(u)
	delete(s.dirty, u.Key)
	return nil
}
