package shard

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/partlog"
)

func txnCommands() []*Command {
	return []*Command{
		{Append: []Appended{
			{1, partlog.Batch{Base: 4, Records: 3, Epoch: 2, ProducerID: 5, ProducerEpoch: 1, FirstSequence: math.MaxInt32, MaxTimestamp: 99, Transactional: true}},
			{1, partlog.Batch{Base: 7, Records: 1, Epoch: 2, ProducerID: 6, ProducerEpoch: math.MaxInt16, FirstSequence: -1, MaxTimestamp: 98, Transactional: true, Control: partlog.Commit, CoordinatorEpoch: 3}},
			{2, partlog.Batch{Base: 0, Records: 1, Epoch: 2, ProducerID: 0, ProducerEpoch: 0, FirstSequence: -1, MaxTimestamp: -1, Transactional: true, Control: partlog.Abort, CoordinatorEpoch: -1}},
			{2, partlog.Batch{Base: 1, Records: 1, Epoch: 2, ProducerID: 7, ProducerEpoch: 0, FirstSequence: 0, MaxTimestamp: -1}},
			{3, partlog.Batch{Base: 9, Records: 2, Epoch: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}},
		}},
		{Purged: []Purged{{Log: 1, Last: []int64{5, 9}}}},
	}
}

func TestTransactionsRoundTrip(t *testing.T) {
	for i, c := range txnCommands() {
		b := c.Encode(nil)
		back, err := Decode(b)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("command %d: %+v, %v; want %+v", i, back, err, c)
		}
		for n := range b {
			if _, err := Decode(b[:n]); err == nil || base.CodeOf(err) != base.CodeCorruption {
				t.Errorf("command %d: %d of %d bytes: %v", i, n, len(b), err)
			}
		}
	}
}

// TestAppendFormats: the bytes of both formats; what the first wrote stays readable.
func TestAppendFormats(t *testing.T) {
	plain := partlog.Batch{Base: 4, Records: 3, Epoch: 2, ProducerID: 5, ProducerEpoch: 1, FirstSequence: 7, MaxTimestamp: 99}
	none := partlog.Batch{Base: 300, Records: 1, Epoch: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	marker := partlog.Batch{Base: 9, Records: 1, Epoch: 2, ProducerID: 5, ProducerEpoch: 2, FirstSequence: -1, MaxTimestamp: 1, Transactional: true, Control: partlog.Commit, CoordinatorEpoch: -1}
	for _, tc := range []struct {
		b       []byte
		want    []Appended
		written bool
	}{
		{[]byte{1, 2, 1, 4, 3, 2, 198, 1, 10, 1, 7, 1, 172, 2, 1, 2, 0, 1}, []Appended{{1, plain}, {1, none}}, false},
		{[]byte{4, 2, 1, 4, 3, 2, 198, 1, 10, 1, 0, 7, 1, 172, 2, 1, 2, 0, 1}, []Appended{{1, plain}, {1, none}}, true},
		{[]byte{4, 1, 1, 9, 1, 2, 2, 10, 2, 7, 1}, []Appended{{1, marker}}, true},
	} {
		c, err := Decode(tc.b)
		if err != nil || !reflect.DeepEqual(c.Append, tc.want) {
			t.Errorf("%v is read as %+v, %v", tc.b, c, err)
		}
		if got := (&Command{Append: tc.want}).Encode(nil); tc.written != bytes.Equal(got, tc.b) {
			t.Errorf("%+v is written as %v", tc.want, got)
		}
	}
	for _, bad := range [][]byte{
		{4, 1, 1, 9, 1, 2, 2, 10, 2, 8, 1},    // an unknown flag
		{4, 1, 1, 9, 1, 2, 2, 10, 2, 6, 1},    // a marker that is not transactional
		{4, 1, 1, 9, 1, 2, 2, 10, 2, 5, 1},    // commit without marker
		{4, 1, 1, 9, 2, 2, 2, 10, 2, 7, 1},    // a marker of two offsets
		{4, 255, 255, 255, 15, 1, 9, 1, 2, 2}, // more batches than bytes
	} {
		if _, err := Decode(bad); err == nil || base.CodeOf(err) != base.CodeCorruption {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestAbortedAreCheckpointed writes, aborts, trims, purges and drops at random; what checkpoints wrote restores the aborted transactions
// of every log, and nothing is left behind of those that went.
func TestAbortedAreCheckpointed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New(1, nil)
		kept := map[string][]byte{}
		put := func(k, v []byte) {
			if v == nil {
				delete(kept, string(k))
			} else {
				kept[string(k)] = bytes.Clone(v)
			}
		}
		must := func(c *Command) {
			if _, err := m.Apply(m.Index+1, 1, m.Time+1, c); err != nil {
				t.Fatal(err)
			}
		}
		id := func(t *rapid.T) base.LogID { return base.LogID(rapid.IntRange(1, 3).Draw(t, "log")) }
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) { must(&Command{Create: []base.LogID{id(t)}}) },
			"drop":   func(t *rapid.T) { must(&Command{Drop: []base.LogID{id(t)}}) },
			"transaction": func(t *rapid.T) {
				at, producer := id(t), rapid.Int64Range(1, 3).Draw(t, "producer")
				if l, ok := m.Log(at); ok {
					for range rapid.IntRange(1, 5).Draw(t, "transactions") {
						must(&Command{Append: []Appended{
							{at, partlog.Batch{Base: l.End(), Records: 2, ProducerID: producer, Transactional: true}},
							{at, partlog.Batch{Base: l.End() + 2, Records: 1, ProducerID: producer, FirstSequence: -1, Transactional: true, Control: partlog.Abort}}}})
					}
				}
			},
			"trim": func(t *rapid.T) {
				at := id(t)
				if l, ok := m.Log(at); ok {
					must(&Command{Trim: []Trim{{Log: at, Start: rapid.Int64Range(l.Start(), l.End()).Draw(t, "start")}}})
				}
			},
			"purge": func(t *rapid.T) {
				at := id(t)
				if l, ok := m.Log(at); ok && len(l.Aborted()) > 0 {
					a := rapid.SampledFrom(l.Aborted()).Draw(t, "aborted")
					must(&Command{Purged: []Purged{{Log: at, Last: []int64{a.Last}}}})
				}
			},
			"": func(*rapid.T) { m.Logs((*partlog.Log).Check) },
			"checkpoint": func(t *rapid.T) {
				m.Checkpoint(put)
				back := restore(t, kept, m)
				keys := 0
				for at := base.LogID(1); at <= 3; at++ {
					l, ok := m.Log(at)
					if !ok {
						continue
					}
					b, _ := back.Log(at)
					if len(l.Aborted())+len(b.Aborted()) > 0 && !reflect.DeepEqual(b.Aborted(), l.Aborted()) {
						t.Fatalf("log %d: restored %v, want %v", at, b.Aborted(), l.Aborted())
					}
					keys += len(l.Aborted())
				}
				for k := range kept {
					if k[0] == keyAborted {
						keys--
					}
				}
				if keys != 0 {
					t.Fatalf("%d keys of aborted transactions are too many", -keys)
				}
				if rapid.Bool().Draw(t, "restart") {
					m = back
				}
			},
		})
	})
}

func FuzzDecode(f *testing.F) {
	for _, c := range slices.Concat(commands(), txnCommands(), queueCommands()) {
		f.Add(c.Encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b)
		if err != nil {
			if base.CodeOf(err) != base.CodeCorruption {
				t.Fatal(err)
			}
			return
		}
		again := c.Encode(nil)
		back, err := Decode(again)
		if err != nil || !bytes.Equal(back.Encode(nil), again) {
			t.Fatalf("%+v came back as %+v, %v", c, back, err)
		}
	})
}

func FuzzRestore(f *testing.F) {
	m := New(1, nil)
	for _, c := range append([]*Command{{Create: []base.LogID{1, 2}}}, &Command{Append: []Appended{
		{1, partlog.Batch{Base: 0, Records: 2, ProducerID: 7, Transactional: true}},
		{1, partlog.Batch{Base: 2, Records: 1, ProducerID: 7, FirstSequence: -1, Transactional: true, Control: partlog.Abort}}}}) {
		if _, err := m.Apply(m.Index+1, 1, 5, c); err != nil {
			f.Fatal(err)
		}
	}
	var all [][]byte
	m.Checkpoint(func(k, v []byte) { all = append(all, bytes.Clone(k), bytes.Clone(v)) })
	f.Add(all[0], all[1], all[2], all[3])
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 []byte) {
		r := NewRestorer(1, nil)
		if r.Restore(k1, v1) != nil || r.Restore(k2, v2) != nil {
			return
		}
		if m, err := r.Done(1, 1); err == nil {
			m.Logs(func(l *partlog.Log) { l.AppendSnapshot(nil) })
		}
	})
}
