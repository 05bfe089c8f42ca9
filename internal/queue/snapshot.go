package queue

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"godwit/internal/base"
	"godwit/internal/varint"
)

// valueVersion is the format of checkpointed values; the byte stands first.
const valueVersion = 1

// The kinds of checkpointed keys, their first byte. Behind it stand, big-endian in 8 bytes each: of a chunk of runs and of an
// effect the number, of a record that waits its due time and its offset.
const (
	keyEffect = 'e'
	keyHeader = 'h' // nothing behind it
	keyLater  = 'l'
	keyRuns   = 'r'
)

func numbered(kind byte, n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, n) }

// Checkpoint hands out what changed since the last checkpoint; a nil value deletes the key. The slices are the
// receiver's. What was handed out counts as stored, for the View as well: the caller keeps it until it is.
func (q *Queue) Checkpoint(put func(key, value []byte)) {
	c, b := &q.applied, q.applied.book
	for _, id := range slices.Sorted(maps.Keys(b.dirtyEffects)) {
		var value []byte
		if i, ok := slices.BinarySearchFunc(b.effects, id, func(e Effect, id uint64) int { return cmp.Compare(e.ID, id) }); ok {
			value = b.effects[i].appendTo([]byte{valueVersion})
		}
		put(numbered(keyEffect, id), value)
	}
	clear(b.dirtyEffects)
	if b.dirty {
		put([]byte{keyHeader}, c.appendHeader([]byte{valueVersion}))
		b.dirty = false
	}
	keys := slices.SortedFunc(maps.Keys(b.later), compareLater)
	for _, k := range keys {
		if e := b.later[k]; e.gone {
			put(k.encode(), nil)
		} else {
			put(k.encode(), e.appendTo([]byte{valueVersion}))
		}
	}
	b.later = map[LaterKey]laterEntry{} // a cleared map keeps its memory
	if q.lead != nil {
		q.lead.watch.saved(c.seq)
	}
	for _, id := range c.runs.gone {
		put(numbered(keyRuns, id), nil)
	}
	c.runs.gone = c.runs.gone[:0]
	for _, k := range c.runs.chunks {
		if k.dirty {
			put(numbered(keyRuns, k.id), k.appendTo([]byte{valueVersion}))
			k.dirty = false
		}
	}
}

// Restore enters one pair that Checkpoint handed out, in any order, into a new queue. Restored comes
// after the last. What is not such a pair is a CodeCorruption error.
func (q *Queue) Restore(key, value []byte) error {
	bad := func() error {
		return base.Errorf(base.CodeCorruption, "queue state: damaged pair of %d and %d bytes", len(key), len(value))
	}
	if len(key) == 0 || len(value) == 0 || value[0] != valueVersion {
		return bad()
	}
	c, r := &q.applied, newReader(value[1:])
	switch {
	case key[0] == keyHeader && len(key) == 1:
		r.header(c)
	case key[0] == keyEffect && len(key) == 9:
		e := r.effect()
		e.ID = binary.BigEndian.Uint64(key[1:])
		c.book.effects = append(c.book.effects, e)
	case key[0] == keyRuns && len(key) == 9:
		k := &chunk{id: binary.BigEndian.Uint64(key[1:]), runs: r.runs()}
		if len(k.runs) == 0 {
			return bad()
		}
		k.touch()
		k.dirty = false
		c.runs.chunks = append(c.runs.chunks, k)
	case key[0] == keyLater:
		// The view has it. It is looked at when it is due.
		_, ok := decodeLaterKey(key)
		if _, okay := decodeLater(value); !ok || !okay {
			return bad()
		}
		return nil
	default:
		return bad()
	}
	if !r.Whole() {
		return bad()
	}
	return nil
}

// Restored says whether what was restored is whole: a CodeCorruption error if not.
func (q *Queue) Restored() error {
	c := &q.applied
	slices.SortFunc(c.runs.chunks, func(a, b *chunk) int { return cmp.Compare(a.first(), b.first()) })
	slices.SortFunc(c.book.effects, func(a, b Effect) int { return cmp.Compare(a.ID, b.ID) })
	c.count, c.runs.size, c.runs.apart = [states]int64{}, 0, 0
	for _, k := range c.runs.chunks {
		for i := range k.runs {
			k.runs[i].pieces(func(p run) { c.count[p.state] += p.len() })
		}
		c.runs.size += len(k.runs)
		c.runs.apart += k.apart
		if k.id > c.runs.nextID {
			return base.Errorf(base.CodeCorruption, "queue state: chunk %d is beyond %d", k.id, c.runs.nextID)
		}
	}
	for _, e := range c.book.effects {
		if e.ID > c.book.lastID {
			return base.Errorf(base.CodeCorruption, "queue state: effect %d is beyond %d", e.ID, c.book.lastID)
		}
	}
	if err := c.fault(); err != nil {
		return base.Errorf(base.CodeCorruption, "queue state: %v", err)
	}
	return nil
}

func (c *core) appendHeader(dst []byte) []byte {
	t := &c.book.totals
	for _, v := range []uint64{c.seq, c.epoch, c.runs.nextID, c.book.lastID} {
		dst = binary.AppendUvarint(dst, v)
	}
	for _, v := range []int64{c.time, c.start, c.end, t.Deliveries, t.Acked} {
		dst = binary.AppendVarint(dst, v)
	}
	dst = append(dst, causes)
	for _, v := range t.Archived {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}

func (r *reader) header(c *core) {
	c.seq, c.epoch, c.runs.nextID, c.book.lastID = r.Uint(), r.Uint(), r.Uint(), r.Uint()
	t := &c.book.totals
	for _, v := range []*int64{&c.time, &c.start, &c.end, &t.Deliveries, &t.Acked} {
		*v = r.Int()
	}
	for i := range r.below(causes + 1) {
		t.Archived[i] = r.Int()
	}
}

func (e *Effect) appendTo(dst []byte) []byte {
	return appendInts(appendSpan(append(dst, byte(e.Cause)), e.Span), int64(e.Deliveries), e.Time)
}

func (r *reader) effect() Effect {
	return Effect{Cause: Cause(r.below(causes)), Span: r.span(), Deliveries: r.Int32(), Time: r.Int()}
}

func (e *laterEntry) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, e.epoch)
	return appendTrait(binary.AppendVarint(dst, int64(e.count)), e.trait)
}

func decodeLater(value []byte) (e laterEntry, ok bool) {
	if len(value) == 0 || value[0] != valueVersion {
		return e, false
	}
	r := newReader(value[1:])
	e = laterEntry{epoch: r.Uint(), count: r.Int32(), trait: r.trait()}
	return e, r.Whole()
}

// runSize is the least that a stored run takes, bytes.
const runSize = 2

// appendTo writes the runs: the first offset, then of each run its length and what its state has.
func (k *chunk) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(dst, k.first())
	dst = binary.AppendUvarint(dst, uint64(len(k.runs)))
	for i := range k.runs {
		r := &k.runs[i]
		dst = append(dst, byte(r.state))
		dst = binary.AppendUvarint(dst, uint64(r.len()))
		if r.state == Acquired {
			dst = varint.AppendText(dst, r.owner)
		}
		if r.state == mixed {
			dst = r.mix.appendTo(dst, r.first, r.last)
		}
		if r.state == Acquired || r.state == Available {
			dst = appendTrait(appendInts(dst, r.until, int64(r.count)), r.trait)
		}
	}
	return dst
}

func (r *reader) runs() []run {
	at := r.Int()
	n := r.Count(runSize)
	if n > 2*chunkRuns {
		r.Fail()
		return nil
	}
	out := make([]run, 0, n)
	for range n {
		v := run{state: State(r.below(byte(mixed) + 1)), first: at}
		v.last = at + int64(r.Uint()) - 1
		if at = v.last + 1; v.first < 0 || v.last < v.first {
			r.Fail()
		}
		if v.state == Acquired {
			v.owner = r.Text()
			if n := len(out); n > 0 && out[n-1].owner == v.owner {
				v.owner = out[n-1].owner // one string for neighbours
			}
		}
		if v.state == mixed {
			v.mix = r.mix(v.first, v.len())
		}
		if v.state == Acquired || v.state == Available {
			v.until, v.count, v.trait = r.Int(), r.Int32(), r.trait()
		}
		if r.Bad {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// appendTrait writes the lasting part of a Meta; a plain record takes one byte.
func appendTrait(dst []byte, t *trait) []byte {
	if t == nil {
		return append(dst, 0)
	}
	return binary.AppendVarint(varint.AppendText(append(dst, 1, t.priority), t.lane), t.expires)
}

func (r *reader) trait() *trait {
	if r.below(2) == 0 {
		return nil
	}
	return &trait{priority: r.Byte(), lane: r.Text(), expires: r.Int()}
}
