package group

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

// twin is the dumb implementation: a list of all commits, searched through.
type twin struct {
	commits []twinCommit
	records map[Key]Record
}

// twinCommit is one committed position, in the order of the journal.
type twinCommit struct {
	key     Key
	at      Partition
	pending bool // counts once the transaction is committed
	id      int64
	txn     int16 // epoch of the producer
	position
}

// drop removes commits.
func (w *twin) drop(which func(c *twinCommit) bool) {
	w.commits = slices.DeleteFunc(w.commits, func(c twinCommit) bool { return which(&c) })
}

func (w *twin) any(which func(c *twinCommit) bool) bool {
	return slices.ContainsFunc(w.commits, func(c twinCommit) bool { return which(&c) })
}

func (w *twin) unstable(k Key, p Partition) bool {
	return w.any(func(c *twinCommit) bool { return c.key == k && c.at == p && c.pending })
}

// counted is what counts: the last commit that took effect.
func (w *twin) counted() map[Key]map[Partition]position {
	out := map[Key]map[Partition]position{}
	for _, c := range w.commits {
		if c.pending {
			continue
		}
		if out[c.key] == nil {
			out[c.key] = map[Partition]position{}
		}
		out[c.key][c.at] = c.position
	}
	return out
}

func (w *twin) apply(c Command) {
	switch c := c.(type) {
	case *CommitOffsets:
		for _, at := range c.Offsets {
			w.commits = append(w.commits, twinCommit{key: c.Key, at: at.Partition, position: position{at.Offset, at.Epoch, c.Time, c.Expires, at.Metadata}})
		}
	case *TxnCommitOffsets:
		w.applyTxn(c)
	case *EndTxnOffsets:
		of := func(e *twinCommit) bool {
			return e.pending && e.key == c.Key && e.id == c.ProducerID && (e.txn < c.Epoch || e.txn == c.Epoch && c.Version < 2)
		}
		for i := range w.commits {
			if e := &w.commits[i]; c.Commit && of(e) {
				e.pending = false
			}
		}
		w.drop(of)
	case *DeleteOffsets:
		for _, p := range c.Partitions {
			if at, ok := w.counted()[c.Key][p]; c.Before == 0 || ok && at.time < c.Before && !w.unstable(c.Key, p) {
				w.drop(func(e *twinCommit) bool { return e.key == c.Key && e.at == p })
			}
		}
	case *DeleteGroup:
		of := func(e *twinCommit) bool { return e.key == c.Key }
		if !c.IfUnused || !w.any(of) && len(w.records[c.Key].Members) == 0 {
			w.drop(of)
			delete(w.records, c.Key)
		}
	case *StreamDeleted:
		w.drop(func(e *twinCommit) bool { return e.at.Stream == c.Stream })
	case *SaveGroup:
		w.records[c.Key] = c.Record
	}
}

func (w *twin) applyTxn(c *TxnCommitOffsets) {
	mine := func(e *twinCommit) bool { return e.pending && e.key == c.Key && e.id == c.ProducerID }
	if w.any(func(e *twinCommit) bool { return mine(e) && e.txn > c.Epoch }) {
		return
	}
	w.drop(func(e *twinCommit) bool { return mine(e) && e.txn < c.Epoch })
	for _, at := range c.Offsets {
		w.drop(func(e *twinCommit) bool { return mine(e) && e.at == at.Partition })
		w.commits = append(w.commits, twinCommit{
			key: c.Key, at: at.Partition, pending: true, id: c.ProducerID, txn: c.Epoch,
			position: position{at.Offset, at.Epoch, c.Time, 0, at.Metadata},
		})
	}
}

// genKey and the like draw from few values, so that commands meet.
func genKey(t *rapid.T) Key {
	return Key{Namespace: rapid.SampledFrom([]string{"default", "tenant"}).Draw(t, "namespace"), Group: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")}
}

func genPartition(t *rapid.T) Partition {
	return Partition{Stream: base.StreamID{rapid.ByteRange(0, 2).Draw(t, "stream")}, Index: rapid.Int32Range(0, 2).Draw(t, "partition")}
}

func genCommand(t *rapid.T) Command {
	switch rapid.IntRange(0, 15).Draw(t, "kind") {
	case 0:
		return &DeleteOffsets{Key: genKey(t), Before: rapid.Int64Range(0, 100).Draw(t, "before"), Partitions: rapid.SliceOfN(rapid.Custom(genPartition), 1, 3).Draw(t, "partitions")}
	case 1:
		return &DeleteGroup{Key: genKey(t), IfUnused: rapid.Bool().Draw(t, "unused")}
	case 2:
		return &StreamDeleted{genPartition(t).Stream}
	case 3, 4:
		r := Record{Time: rapid.Int64().Draw(t, "time"), Generation: rapid.Int32().Draw(t, "generation"), ProtocolType: "consumer", Protocol: "p", Leader: "m"}
		for range rapid.IntRange(0, 2).Draw(t, "members") {
			r.Members = append(r.Members, MemberRecord{
				MemberID: "m", ClientID: "c", SessionTimeout: 10, RebalanceTimeout: 20,
				Protocols: []Protocol{{"p", []byte{1}}, {"q", nil}}, Assignment: rapid.SliceOfN(rapid.Byte(), 1, 3).Draw(t, "assignment"),
			})
		}
		return &SaveGroup{Key: genKey(t), Record: r}
	case 5, 6, 7:
		return &TxnCommitOffsets{Key: genKey(t), ProducerID: genProducer(t), Epoch: genEpoch(t), Time: rapid.Int64Range(0, 100).Draw(t, "time"), Offsets: genOffsets(t)}
	case 8, 9:
		return &EndTxnOffsets{Key: genKey(t), ProducerID: genProducer(t), Epoch: genEpoch(t), Version: rapid.Int16Range(1, 2).Draw(t, "version"), Commit: rapid.Bool().Draw(t, "commit")}
	default:
		return &CommitOffsets{Key: genKey(t), Time: rapid.Int64Range(0, 100).Draw(t, "time"), Expires: rapid.Int64Range(0, 1).Draw(t, "expires"), Offsets: genOffsets(t)}
	}
}

func genOffsets(t *rapid.T) (out []CommitOffset) {
	for range rapid.IntRange(1, 3).Draw(t, "offsets") {
		out = append(out, CommitOffset{genPartition(t), rapid.Int64().Draw(t, "offset"), rapid.Int32().Draw(t, "epoch"), rapid.SampledFrom([]string{"", "note"}).Draw(t, "metadata")})
	}
	return out
}

func genProducer(t *rapid.T) int64 { return rapid.Int64Range(1, 3).Draw(t, "producer") }

func genEpoch(t *rapid.T) int16 { return rapid.Int16Range(0, 2).Draw(t, "producer epoch") }

// TestOffsetsAgreeWithTwin applies the same commands to both, and to a copy that lives from checkpoints.
func TestOffsetsAgreeWithTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := NewOffsets()
		w := &twin{records: map[Key]Record{}}
		stored := map[string][]byte{}
		for range rapid.IntRange(1, 40).Draw(rt, "commands") {
			c := genCommand(rt)
			encoded := AppendCommand(nil, c)
			decoded, err := DecodeCommand(encoded)
			if err != nil || !bytes.Equal(AppendCommand(nil, decoded), encoded) {
				rt.Fatalf("%+v came back as %+v, %v", c, decoded, err)
			}
			o.Apply(decoded)
			w.apply(c)
			o.Check()
			if rapid.IntRange(0, 3).Draw(rt, "checkpoint") == 0 {
				store(o, stored)
				compare(rt, restored(rt, stored), w)
			}
		}
		compare(rt, o, w)
	})
}

func store(o *Offsets, stored map[string][]byte) {
	o.Checkpoint(func(k, v []byte) {
		if v == nil {
			delete(stored, string(k))
		} else {
			stored[string(k)] = v
		}
	})
}

func restored(t *rapid.T, stored map[string][]byte) *Offsets {
	o := NewOffsets()
	for k, v := range stored {
		if err := o.Restore([]byte(k), v); err != nil {
			t.Fatal(err)
		}
	}
	o.Check()
	o.Checkpoint(func(k, v []byte) { t.Fatalf("restored state is dirty at %q", k) })
	return o
}

func compare(t *rapid.T, o *Offsets, w *twin) {
	compareUnstable(t, o, w)
	lowest := map[Partition]int64{}
	n := 0
	for k, of := range w.counted() {
		all := o.Fetch(&FetchOffsetsRequest{Key: k, All: true}).Offsets
		if len(all) != len(of) {
			t.Fatalf("group %v: %d offsets, want %d", k, len(all), len(of))
		}
		for _, at := range all {
			want := of[at.Partition]
			if got := o.groups[k].offsets[at.Partition].position; got != want {
				t.Fatalf("group %v, %v: %+v, want %+v", k, at.Partition, got, want)
			}
			if low, ok := lowest[at.Partition]; !ok || at.Offset < low {
				lowest[at.Partition] = at.Offset
			}
			n++
		}
	}
	if n != o.Len() {
		t.Fatalf("%d offsets, want %d", o.Len(), n)
	}
	for p, want := range lowest {
		if _, got, ok := o.Lowest(p); !ok || got != want {
			t.Fatalf("lowest of %v: %d, %t, want %d", p, got, ok, want)
		}
	}
	for k, r := range w.records {
		got := o.record(k)
		if got == nil || !bytes.Equal(got.appendTo(nil), r.appendTo(nil)) {
			t.Fatalf("record of %v: %+v, want %+v", k, got, r)
		}
	}
}

// compareUnstable wants the same positions to be held back.
func compareUnstable(t *rapid.T, o *Offsets, w *twin) {
	req := &FetchOffsetsRequest{Stable: true}
	for s := range byte(3) {
		for p := range int32(3) {
			req.Partitions = append(req.Partitions, Partition{Stream: base.StreamID{s}, Index: p})
		}
	}
	for _, ns := range []string{"default", "tenant"} {
		for _, name := range []string{"a", "b", "c"} {
			req.Key = Key{Namespace: ns, Group: name}
			got := o.Fetch(req)
			for i, p := range req.Partitions {
				want := w.unstable(req.Key, p)
				if is := got.Errs != nil && got.Errs[i] != nil; is != want {
					t.Fatalf("group %v, %v: held back %t, want %t", req.Key, p, is, want)
				} else if is && got.Offsets[i].Offset != -1 {
					t.Fatalf("group %v, %v: offset %d though it is held back", req.Key, p, got.Offsets[i].Offset)
				}
			}
			known := w.any(func(c *twinCommit) bool { return c.key == req.Key })
			if _, record := w.records[req.Key]; o.exists(req.Key) != (known || record) {
				t.Fatalf("group %v exists: %t", req.Key, o.exists(req.Key))
			}
		}
	}
}

// TestFormats pins the bytes of the journal and the checkpoint.
func TestFormats(t *testing.T) {
	k, p := Key{Namespace: "default", Group: "g"}, Partition{Stream: base.StreamID{15: 7}, Index: 3}
	const stream = "00000000000000000000000000000007"
	record := Record{Time: 1, Generation: 2, ProtocolType: "consumer", Protocol: "range", Leader: "m", Members: []MemberRecord{{
		MemberID: "m", InstanceID: "i", ClientID: "c", ClientHost: "/h", SessionTimeout: 3, RebalanceTimeout: 4,
		Protocols: []Protocol{{"range", []byte{9}}}, Assignment: []byte{8},
	}}}
	const recordHex = "0204" + "08636f6e73756d6572" + "0572616e6765" + "016d" + "01" + "016d" + "0169" + "0163" + "022f68" + "0608" + "01" + "0572616e6765" + "0109" + "0108"
	const keyHex = "0764656661756c740167"
	for _, tc := range []struct {
		command Command
		want    string
	}{
		{&CommitOffsets{Key: k, Time: 1, Expires: 2, Offsets: []CommitOffset{{p, 5, -1, "x"}}}, "0101" + keyHex + "0204" + "01" + stream + "06" + "0a" + "01" + "0178"},
		{&DeleteOffsets{Key: k, Before: 6, Partitions: []Partition{p}}, "0102" + keyHex + "0c" + "01" + stream + "06"},
		{&DeleteGroup{Key: k, IfUnused: true}, "0103" + keyHex + "01"},
		{&StreamDeleted{p.Stream}, "0104" + stream},
		{&SaveGroup{Key: k, Record: record}, "0105" + keyHex + recordHex},
		{&TxnCommitOffsets{Key: k, ProducerID: 4, Epoch: 5, Time: 1, Offsets: []CommitOffset{{p, 5, -1, "x"}}}, "0108" + keyHex + "080a02" + "01" + stream + "06" + "0a" + "01" + "0178"},
		{&EndTxnOffsets{Key: k, ProducerID: 4, Epoch: 6, Version: 2, Commit: true}, "0109" + keyHex + "080c0401"},
	} {
		if got := fmt.Sprintf("%x", AppendCommand(nil, tc.command)); got != tc.want {
			t.Errorf("%T is written as\n%s, want\n%s", tc.command, got, tc.want)
		}
	}
	o := NewOffsets()
	o.Apply(&SaveGroup{Key: k, Record: record})
	o.Apply(&TxnCommitOffsets{Key: k, ProducerID: 4, Epoch: 5, Time: 1, Offsets: []CommitOffset{{p, 5, -1, "x"}}})
	o.Apply(&CommitOffsets{Key: k, Time: 1, Expires: 2, Offsets: []CommitOffset{{p, 5, -1, "x"}}})
	var got []string
	o.Checkpoint(func(key, value []byte) { got = append(got, fmt.Sprintf("%x=%x", key, value)) })
	want := []string{"67" + keyHex + "=01" + recordHex, "6f" + keyHex + stream + "00000003" + "=01" + "0a0102040178",
		"70" + keyHex + "0000000000000004" + stream + "00000003" + "=01" + "0a" + "0101" + "0a0102" + "0178"}
	if !slices.Equal(got, want) {
		t.Errorf("checkpoint is\n%s, want\n%s", got, want)
	}
}

func TestDamageIsReported(t *testing.T) {
	whole := AppendCommand(nil, &CommitOffsets{Key: Key{Namespace: "default", Group: "g"}, Offsets: []CommitOffset{{Metadata: "x"}}})
	for n := range whole {
		if c, err := DecodeCommand(whole[:n]); err == nil {
			t.Errorf("the first %d bytes of %d passed as %+v", n, len(whole), c)
		} else if base.CodeOf(err) != base.CodeCorruption {
			t.Errorf("the first %d bytes of %d: %v", n, len(whole), err)
		}
	}
	for _, b := range [][]byte{append(slices.Clone(whole), 0), {2, 1}, {1, 0}, {1, 10}} {
		if _, err := DecodeCommand(b); err == nil {
			t.Errorf("%x passed", b)
		}
	}
	o := NewOffsets()
	o.Apply(&CommitOffsets{Key: Key{Namespace: "default", Group: "g"}, Offsets: []CommitOffset{{Metadata: "x"}}})
	o.Apply(&SaveGroup{Key: Key{Namespace: "default", Group: "g"}})
	o.Apply(&TxnCommitOffsets{Key: Key{Namespace: "default", Group: "g"}, ProducerID: 1, Offsets: []CommitOffset{{Metadata: "x"}}})
	o.Checkpoint(func(k, v []byte) {
		for n := range k {
			if NewOffsets().Restore(k[:n], v) == nil {
				t.Errorf("the first %d bytes of key %x passed", n, k)
			}
		}
		for n := range v {
			if NewOffsets().Restore(k, v[:n]) == nil {
				t.Errorf("the first %d bytes of value %x passed", n, v)
			}
		}
	})
}

func TestLowestOfNothing(t *testing.T) {
	if _, _, ok := NewOffsets().Lowest(Partition{}); ok {
		t.Error("an empty state has a lowest position")
	}
	if at := NewCoordinator(DefaultOptions(), NewOffsets(), 0).NextDeadline(); at != math.MaxInt64 {
		t.Errorf("an idle coordinator has a deadline at %d", at)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range []Command{
		&CommitOffsets{Key: Key{Namespace: "default", Group: "g"}, Time: 1, Offsets: []CommitOffset{{Metadata: "x", Offset: 5, Epoch: -1}}},
		&DeleteOffsets{Key: Key{Namespace: "default", Group: "g"}, Partitions: []Partition{{}}},
		&DeleteGroup{Key: Key{Namespace: "default", Group: "g"}},
		&StreamDeleted{},
		&TxnCommitOffsets{Key: Key{Namespace: "default", Group: "g"}, ProducerID: 1, Epoch: 2, Time: 3, Offsets: []CommitOffset{{Metadata: "x", Offset: 5, Epoch: -1}}},
		&EndTxnOffsets{Key: Key{Namespace: "default", Group: "g"}, ProducerID: 1, Epoch: 3, Version: 2, Commit: true},
		&SaveGroup{Key: Key{Namespace: "default", Group: "g"}, Record: Record{Members: []MemberRecord{{MemberID: "m", Protocols: []Protocol{{"p", []byte{1}}}}}}},
	} {
		f.Add(AppendCommand(nil, c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCommand(b)
		if err != nil {
			if base.CodeOf(err) != base.CodeCorruption {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeCommand(AppendCommand(nil, c))
		if err != nil || !bytes.Equal(AppendCommand(nil, again), AppendCommand(nil, c)) {
			t.Fatalf("%+v came back as %+v, %v", c, again, err)
		}
		o := NewOffsets()
		o.Apply(c)
		o.Check()
	})
}

func FuzzRestore(f *testing.F) {
	o := NewOffsets()
	o.Apply(&CommitOffsets{Key: Key{Namespace: "default", Group: "g"}, Time: 1, Offsets: []CommitOffset{{Metadata: "x", Offset: 5, Epoch: -1}}})
	o.Apply(&SaveGroup{Key: Key{Namespace: "default", Group: "g"}, Record: Record{Members: []MemberRecord{{MemberID: "m"}}}})
	o.Apply(&TxnCommitOffsets{Key: Key{Namespace: "default", Group: "g"}, ProducerID: 1, Epoch: 2, Time: 3, Offsets: []CommitOffset{{Metadata: "x", Offset: 5, Epoch: -1}}})
	o.Checkpoint(func(k, v []byte) { f.Add(k, v) })
	f.Fuzz(func(t *testing.T, k, v []byte) {
		o := NewOffsets()
		if err := o.Restore(k, v); err != nil && base.CodeOf(err) != base.CodeCorruption {
			t.Fatal(err)
		}
		o.Check()
	})
}

func FuzzSubscription(f *testing.F) {
	f.Add(subscription("a", "b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if names, ok := subscribedTopics(b); ok && len(names) > len(b)/2 {
			t.Fatalf("%d names out of %d bytes", len(names), len(b))
		}
	})
}
