package shard

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
	"godwit/internal/coord/txn"
	"godwit/internal/partlog"
)

func commands() []*Command {
	id := base.StreamID{1}
	key := group.Key{Namespace: "default", Group: "g"}
	return []*Command{
		{Create: []base.LogID{1, 2}},
		{Append: []Appended{{1, partlog.Batch{Base: 0, Records: 3, Epoch: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, MaxTimestamp: 99}},
			{2, partlog.Batch{Base: 0, Records: 1, Epoch: 2, ProducerID: 5, ProducerEpoch: 0, FirstSequence: 7, MaxTimestamp: -1}}}},
		{Groups: []group.Command{&group.CommitOffsets{Key: key, Time: 5, Offsets: []group.CommitOffset{{Partition: group.Partition{Stream: id}, Offset: 2, Epoch: -1}}}}},
		{Trim: []Trim{{Log: 1, Start: 2, Losses: []Loss{{Group: "g", From: 1, To: 2, Count: 1, Cause: CauseRetention}}}}},
		{Expire: 4},
		{Drop: []base.LogID{2}, Forget: &id},
		{Shares: []share.Command{
			&share.SetConfig{Key: key, Values: map[string]string{"share.isolation.level": "read_committed"}},
			&share.Update{Key: key, Queues: []share.QueueChange{{Partition: share.Partition{Stream: id}, Queue: share.Queue{Status: share.Initializing, Version: 1}}}},
		}},
		{Streams: []streams.Command{
			&streams.Update{Key: key, Topology: &streams.Topology{}, Members: []streams.Member{{ID: "m", Status: streams.Stable}}},
			&streams.Update{Key: key, Removed: []string{"m"}},
		}},
		{Txns: []txn.Command{ongoing(1), &txn.Forget{Key: txn.Key{Namespace: "default", ID: "t"}}}},
	}
}

// ongoing is a transaction with one partition, of a producer with the epoch.
func ongoing(epoch int16) *txn.Update {
	return &txn.Update{Key: txn.Key{Namespace: "default", ID: "t"}, Partitions: []txn.Partition{{Stream: base.StreamID{1}}},
		Head: txn.Head{Status: txn.Ongoing, ProducerID: 7, Epoch: epoch, LastProducerID: -1, LastEpoch: -1, NextProducerID: -1,
			TimeoutMs: 60_000, Version: txn.Version2, Started: 5, Updated: 5}}
}

func TestCommandsRoundTrip(t *testing.T) {
	for i, c := range commands() {
		b := c.Encode([]byte("before"))
		if !bytes.HasPrefix(b, []byte("before")) {
			t.Fatalf("command %d was not appended", i)
		}
		back, err := Decode(b[6:])
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("command %d: %+v, %v; want %+v", i, back, err, c)
		}
		for n := range b[6:] {
			if _, err := Decode(b[6 : 6+n]); err == nil && c.Groups == nil && c.Shares == nil && c.Streams == nil && c.Txns == nil {
				t.Errorf("command %d: %d of %d bytes were accepted", i, n, len(b)-6)
			}
		}
	}
}

func apply(t *testing.T, m *Machine, time int64, c *Command) *Applied {
	t.Helper()
	a, err := m.Apply(m.Index+1, 2, time, c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestApply(t *testing.T) {
	m := New(3, nil)
	cs := commands()
	if a := apply(t, m, 10, cs[0]); !slices.Equal(a.Created, []base.LogID{1, 2}) {
		t.Fatalf("created %v", a.Created)
	}
	if a := apply(t, m, 20, cs[1]); !slices.Equal(a.Grown, []base.LogID{1, 2}) {
		t.Fatalf("grown %v", a.Grown)
	}
	apply(t, m, 15, cs[2])
	if m.Time != 20 {
		t.Fatalf("time went back to %d", m.Time)
	}
	if a := apply(t, m, 30, cs[3]); len(a.Trimmed) != 1 || len(a.Losses) != 1 || a.Losses[0].Time != 30 {
		t.Fatalf("trimmed %+v, losses %+v", a.Trimmed, a.Losses)
	}
	if a := apply(t, m, 30, cs[3]); len(a.Trimmed) != 0 || len(a.Losses) != 0 {
		t.Fatalf("the same trim again: %+v", a)
	}
	m.Doom([]base.LogID{2})
	if _, ok := m.Writable(2); ok {
		t.Fatal("a log that is being dropped can be written")
	}
	if _, ok := m.Log(2); !ok {
		t.Fatal("a log that is being dropped is gone already")
	}
	m.Abandon()
	if _, ok := m.Writable(2); !ok {
		t.Fatal("a log whose drop was abandoned cannot be written")
	}
	if a := apply(t, m, 40, cs[5]); !slices.Equal(a.Dropped, []base.LogID{2}) {
		t.Fatalf("dropped %v", a.Dropped)
	}
	if m.Offsets.Len() != 0 {
		t.Fatal("offsets of a deleted stream are still there")
	}
	apply(t, m, 50, cs[6])
	if len(m.Shares.Outstanding()) != 1 {
		t.Fatal("a share group's queue is not to be made")
	}
	apply(t, m, 50, &Command{Forget: cs[5].Forget})
	if len(m.Shares.Outstanding()) != 0 {
		t.Fatal("queues of a deleted stream are still there")
	}
}

func TestLedgerIsBounded(t *testing.T) {
	m := New(1, nil)
	kept := map[string][]byte{}
	put := func(k, v []byte) {
		if v == nil {
			delete(kept, string(k))
		} else {
			kept[string(k)] = bytes.Clone(v)
		}
	}
	for i := range MaxLosses + 500 {
		apply(t, m, int64(i), &Command{Losses: []Loss{{Group: "g", From: int64(i), To: int64(i) + 1, Count: 1}}})
		if i%997 == 0 {
			m.Checkpoint(put)
		}
	}
	m.Checkpoint(put)
	if n := len(m.Losses()); n != MaxLosses || m.Losses()[0].From != 500 {
		t.Fatalf("%d losses are kept, from %d on", n, m.Losses()[0].From)
	}
	back := restore(t, kept, m)
	if !reflect.DeepEqual(back.Losses(), m.Losses()) {
		t.Fatalf("%d losses restored, first %+v", len(back.Losses()), back.Losses()[0])
	}
}

type fataler interface {
	Helper()
	Fatal(...any)
}

func restore(t fataler, kept map[string][]byte, like *Machine) *Machine {
	t.Helper()
	r := NewRestorer(like.ID, nil)
	for _, k := range slices.Sorted(maps.Keys(kept)) {
		if err := r.Restore([]byte(k), kept[k]); err != nil {
			t.Fatal(err)
		}
	}
	m, err := r.Done(like.Index, like.Term)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCheckpointIsTheState applies random commands, checkpoints now and then, and restores a machine from what was
// checkpointed: both go on alike.
func TestCheckpointIsTheState(t *testing.T) {
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
			back, err := Decode(c.Encode(nil))
			if err == nil {
				_, err = m.Apply(m.Index+1, 1, m.Time+1, back)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		log := func(t *rapid.T) base.LogID { return base.LogID(rapid.IntRange(1, 4).Draw(t, "log")) }
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) { must(&Command{Create: []base.LogID{log(t)}}) },
			"drop":   func(t *rapid.T) { must(&Command{Drop: []base.LogID{log(t)}}) },
			"append": func(t *rapid.T) {
				id := log(t)
				if l, ok := m.Log(id); ok {
					b := partlog.Batch{Base: l.End(), Records: 2, Epoch: 1, ProducerID: rapid.Int64Range(-1, 1).Draw(t, "producer"), ProducerEpoch: -1, FirstSequence: -1}
					if b.ProducerID >= 0 {
						b.ProducerEpoch, b.FirstSequence = 0, rapid.Int32Range(0, 5).Draw(t, "sequence")
					}
					must(&Command{Append: []Appended{{id, b}}})
				}
			},
			"trim": func(t *rapid.T) {
				id := log(t)
				if l, ok := m.Log(id); ok {
					must(&Command{Trim: []Trim{{Log: id, Start: rapid.Int64Range(l.Start(), l.End()).Draw(t, "start"), Losses: []Loss{{Group: "g"}}}}})
				}
			},
			"configure": func(t *rapid.T) {
				must(&Command{Shares: []share.Command{&share.SetConfig{Values: map[string]string{"a": rapid.StringN(0, 3, 3).Draw(t, "value")}}}})
			},
			"begin": func(t *rapid.T) {
				up, forget := ongoing(rapid.Int16Range(1, 9).Draw(t, "epoch")), &txn.Forget{}
				up.Status, up.Started, up.Partitions = txn.Empty, -1, nil
				forget.Key = up.Key
				must(&Command{Txns: []txn.Command{[]txn.Command{up, forget}[rapid.IntRange(0, 1).Draw(t, "forget")]}})
			},
			"checkpoint": func(*rapid.T) { m.Checkpoint(put) },
			"": func(t *rapid.T) {
				m.Checkpoint(put)
				back := restore(t, kept, m)
				logs := func(m *Machine) (out [][]byte) {
					for id := base.LogID(1); id <= 4; id++ {
						if l, ok := m.Log(id); ok {
							l.Check()
							out = append(out, l.AppendSnapshot([]byte{byte(id)}))
						}
					}
					return out
				}
				if c := m.Shares.Config(share.Key{}); !reflect.DeepEqual(back.Shares.Config(share.Key{}), c) {
					t.Fatalf("restored configuration %v, want %v", back.Shares.Config(share.Key{}), c)
				}
				txns := func(m *Machine) txn.Description {
					return txn.NewCoordinator(txn.DefaultOptions(), m.Txns, 0).Describe(ongoing(1).Key)
				}
				if !reflect.DeepEqual(txns(back), txns(m)) {
					t.Fatalf("restored transaction %v, want %v", txns(back), txns(m))
				}
				if !reflect.DeepEqual(logs(back), logs(m)) || back.Time != m.Time || !reflect.DeepEqual(back.Losses(), m.Losses()) {
					t.Fatalf("restored %v at %d, want %v at %d", logs(back), back.Time, logs(m), m.Time)
				}
			},
		})
	})
}
