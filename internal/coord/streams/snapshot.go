package streams

import (
	"bytes"
	"slices"

	"godwit/internal/base"
)

// valueVersion is the format of checkpointed values; the byte stands first.
const valueVersion = 1

// The kinds of checkpointed keys, their first byte. A key goes on with namespace and group, each behind its length as an
// unsigned varint; that of a member ends with its ID.
const (
	keyGroup    = 'g'
	keyMember   = 'm'
	keyTopology = 't'
)

// Checkpoint hands out what changed since the last checkpoint, ordered by key; a nil value deletes the key. The slices are
// the receiver's. What was handed out counts as stored: the caller keeps it until it is.
func (s *State) Checkpoint(emit func(key, value []byte)) {
	type item struct{ key, value []byte }
	items := make([]item, 0, len(s.dirty))
	for d := range s.dirty {
		items = append(items, item{d.encode(), s.value(d)})
	}
	clear(s.dirty)
	slices.SortFunc(items, func(a, b item) int { return bytes.Compare(a.key, b.key) })
	for _, it := range items {
		emit(it.key, it.value)
	}
}

func (d *dirtyKey) encode() []byte { return append(appendKey([]byte{d.kind}, d.Key), d.member...) }

// value encodes what is stored under the key, nil if nothing is any more.
func (s *State) value(d dirtyKey) []byte {
	g, dst := s.groups[d.Key], []byte{valueVersion}
	if g == nil {
		return nil
	}
	switch d.kind {
	case keyGroup:
		return g.Head.appendTo(dst)
	case keyTopology:
		return g.topology.appendTo(dst)
	case keyMember:
		if m, ok := g.members[d.member]; ok {
			return m.appendTo(dst)
		}
	}
	return nil
}

// Restore enters one pair that Checkpoint handed out, in any order and before the first Apply. What is not such a pair is a
// CodeCorruption error.
func (s *State) Restore(key, value []byte) error {
	if len(key) == 0 || len(value) == 0 || value[0] != valueVersion {
		return base.Errorf(base.CodeCorruption, "streams group state: a value of %d bytes has an unknown version", len(value))
	}
	k, v := newReader(key[1:]), newReader(value[1:])
	name := k.key()
	if !k.Bad && s.restore(key[0], name, k, v) {
		return nil
	}
	return base.Errorf(base.CodeCorruption, "streams group state: damaged pair of %d and %d bytes", len(key), len(value))
}

// restore enters one pair if it is undamaged.
func (s *State) restore(kind byte, name Key, k, v *reader) bool {
	g := func() *group {
		if s.groups[name] == nil {
			s.groups[name] = &group{members: map[string]Member{}}
		}
		return s.groups[name]
	}
	switch kind {
	case keyGroup:
		if h := v.head(); k.Whole() && v.Whole() {
			g().Head = h
			return true
		}
	case keyTopology:
		if t := v.topology(); k.Whole() && v.Whole() {
			g().topology = t
			return true
		}
	case keyMember:
		id := string(k.B)
		if m := v.member(); v.Whole() && m.ID == id {
			g().members[id] = m
			return true
		}
	}
	return false
}
